//! Whether an instance still is what its class asks for (§1.7).

use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_platform::{CallError, DriftReason, InstanceError};

use super::{AwsProvider, Notice};
use crate::cloud::InstanceInfo;
use crate::drift::{Drift, DriftError, DriftOfInstance, InstanceFacts, drift_of_claim, drift_of_instance};
use crate::provider_id::instance_id;

const CHECK: &str = "drift";

fn unclear(error: DriftError) -> InstanceError {
    CallError::new(CHECK, error).into()
}

fn facts(info: &InstanceInfo) -> InstanceFacts {
    InstanceFacts {
        subnet_id: info.subnet_id.clone(),
        security_groups: info.security_groups.clone(),
        reservation_id: info.reservation_id.clone(),
    }
}

impl AwsProvider {
    pub(super) async fn drift_of(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        let Some(pool) = claim.pool.as_deref() else { return Ok(None) };
        let Some((_, class)) = self.living_class(&claim.node_class.name) else {
            self.reports.notice(Notice::NoClassForPool(pool));
            return Ok(None);
        };
        let group = self.placement_group(&class).await.map_err(|error| CallError::new(CHECK, error))?;
        let types = self.listing(&class, group.as_ref()).map_err(|error| CallError::new(CHECK, error))?;
        let known = claim.labels.get(labels::INSTANCE_TYPE);
        let known = known.and_then(|name| types.iter().find(|known| known.name == *name));
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        let id = instance_id(provider_id).map_err(|error| CallError::new(CHECK, error))?;
        // What runs cannot have changed its image, so the instance is as good a witness as the claim.
        let info = self.instance(id).await?;
        let found = drift_of_claim(&class, claim, Some(&info.image_id), known, self.policy.rules());
        if let Some(drift) = found.map_err(unclear)? {
            return Ok(reason(drift));
        }
        let info = facts(&info);
        let group = group.as_ref().map(|group| group.id.as_str());
        let mut found = drift_of_instance(&class, claim, &info, None, group).map_err(unclear)?;
        if found == DriftOfInstance::AskAgain {
            let fresh = facts(&self.fresh_instance(id).await?);
            found = drift_of_instance(&class, claim, &info, Some(&fresh), group).map_err(unclear)?;
        }
        match found {
            DriftOfInstance::Drifted(drift) => Ok(reason(drift)),
            DriftOfInstance::None | DriftOfInstance::AskAgain => Ok(None),
        }
    }
}

/// All of our reasons can stand in a condition; a test reads them.
fn reason(drift: Drift) -> Option<DriftReason> {
    DriftReason::new(drift.reason()).ok()
}
