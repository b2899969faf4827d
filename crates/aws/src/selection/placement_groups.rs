//! The placement group of a class (§2.8).

use karpenter_api::kinds::ec2nodeclass::PlacementGroupSelector;

use crate::cloud::{ApiError, Filter, PlacementGroupInfo};
use crate::instance_types::PlacementGroup;

/// By name or id, only one that can be used.
pub fn placement_group_query(selector: &PlacementGroupSelector) -> Vec<Filter> {
    let name = selector.name.as_deref().map(|name| Filter::new("group-name", [name]));
    let id = selector.id.as_deref().map(|id| Filter::new("group-id", [id]));
    [Some(Filter::new("state", ["available"])), name, id].into_iter().flatten().collect()
}

/// What the condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupLookup {
    Found(PlacementGroup),
    /// The last good value is forgotten, too (AWS-290).
    NotFound,
    /// The last good value stays in use.
    Failed(ApiError),
}

pub fn placement_group(answer: Result<Vec<PlacementGroupInfo>, ApiError>) -> GroupLookup {
    match answer {
        Err(error) if error.code == "InvalidPlacementGroup.Unknown" => GroupLookup::NotFound,
        Err(error) => GroupLookup::Failed(error),
        Ok(groups) => match groups.into_iter().next() {
            None => GroupLookup::NotFound,
            Some(PlacementGroupInfo { id, name, strategy, partitions }) => {
                GroupLookup::Found(PlacementGroup { id, name, strategy, partitions: partitions.unwrap_or_default() })
            }
        },
    }
}
