//! Tags that an instance gets once its node is known (AWS-157).

use karpenter_model::claim::ClaimView;
use karpenter_platform::{CallError, InstanceError};

use super::AwsProvider;
use crate::provider_id::instance_id;
use crate::upkeep::missing_tags;

const TAG: &str = "CreateTags";

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tagged {
    /// The instance has all of them.
    Done,
    /// There is no such instance any more; nothing to note on the claim.
    Gone,
}

impl AwsProvider {
    /// Adds the tags that are missing to the claim's instance; existing ones stay as they are. An instance in a zone that
    /// traffic is shifted away from is left alone, with an error.
    pub async fn tag_instance(&self, claim: &ClaimView) -> Result<Tagged, CallError> {
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        let id = instance_id(provider_id).map_err(|error| CallError::new(TAG, error))?;
        let now = self.now();
        let shifted = {
            let facts = self.facts();
            facts
                .instance(id)
                .filter(|known| facts.is_shifted(&known.info.zone, now))
                .map(|known| known.info.zone.clone())
        };
        if let Some(zone) = shifted {
            return Err(CallError::new(TAG, format!("traffic is shifted away from zone {zone} of instance {id}")));
        }
        let info = match self.fresh_instance(id).await {
            Ok(info) => info,
            Err(InstanceError::NotFound(_)) => return Ok(Tagged::Gone),
            Err(InstanceError::Call(error)) => return Err(error),
        };
        let lacking = missing_tags(claim, &info, &self.settings.cluster.name);
        if lacking.is_empty() {
            return Ok(Tagged::Done);
        }
        match self.clients.writes.create_tags(id, &lacking).await {
            Ok(()) => {
                let mut tagged = info;
                tagged.tags.extend(lacking);
                self.facts().seen(&tagged);
                Ok(Tagged::Done)
            }
            Err(error) if error.is_not_found() => Ok(Tagged::Gone),
            Err(error) => Err(CallError::new(TAG, error)),
        }
    }

    /// Terminates an instance that belongs to nobody (AWS-203). One that is gone already is fine.
    pub async fn collect_instance(&self, id: &str) -> Result<(), CallError> {
        let info = match self.instance(id).await {
            Ok(info) => info,
            Err(InstanceError::NotFound(_)) => return Ok(()),
            Err(InstanceError::Call(error)) => return Err(error),
        };
        match self.ended(&info).await {
            Ok(()) | Err(InstanceError::NotFound(_)) => Ok(()),
            Err(InstanceError::Call(error)) => Err(error),
        }
    }
}
