//! Placement groups of classes, looked up at most once a minute (§2.8).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::AwsProvider;
use crate::class::NodeClass;
use crate::cloud::ApiError;
use crate::instance_types::PlacementGroup;
use crate::selection::placement_groups::{GroupLookup, placement_group, placement_group_query};

const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// Stands in while EC2 cannot be asked.
const LAST_GOOD: SignedDuration = SignedDuration::from_hours(24);

/// Why a class has no placement group although it asks for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    #[error("Placement group {0:?} not found")]
    NotFound(String),
    #[error("Failed to resolve placement group")]
    Failed(#[source] ApiError),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Groups(BTreeMap<String, (Option<PlacementGroup>, Timestamp)>);

impl Groups {
    fn younger_than(&self, name: &str, age: SignedDuration, now: Timestamp) -> Option<&Option<PlacementGroup>> {
        self.0.get(name).filter(|(_, at)| now.duration_since(*at) < age).map(|(group, _)| group)
    }
}

impl AwsProvider {
    /// `None` for a class that asks for none. A group that is gone is forgotten; one that cannot be asked about stays in
    /// use for a day (AWS-84, AWS-290).
    pub async fn placement_group(&self, class: &NodeClass) -> Result<Option<PlacementGroup>, GroupError> {
        let Some(selector) = &class.spec.placement_group_selector else { return Ok(None) };
        let name = selector.id.as_ref().or(selector.name.as_ref()).cloned().unwrap_or_default();
        let missing = |group: Option<PlacementGroup>| group.map(Some).ok_or_else(|| GroupError::NotFound(name.clone()));
        let known = self.facts().groups.younger_than(&name, FRESH, self.now()).cloned();
        if let Some(known) = known {
            return missing(known);
        }
        let answer = self.clients.reads.placement_groups(&placement_group_query(selector)).await;
        let now = self.now();
        let mut facts = self.facts();
        match placement_group(answer) {
            GroupLookup::Found(group) => {
                facts.groups.0.insert(name, (Some(group.clone()), now));
                Ok(Some(group))
            }
            GroupLookup::NotFound => {
                facts.groups.0.insert(name.clone(), (None, now));
                missing(None)
            }
            GroupLookup::Failed(error) => match facts.groups.younger_than(&name, LAST_GOOD, now) {
                Some(Some(group)) => Ok(Some(group.clone())),
                _ => Err(GroupError::Failed(error)),
            },
        }
    }
}
