//! Nodes of a partition placement group wait until it is known in which partition they are (AWS-149).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_platform::{BoxError, HookState, RegistrationHook};

use super::AwsProvider;
use crate::cloud::Ec2Reads;
use crate::provider_id::instance_id;

/// EC2 says it shortly after the launch.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Who can write a label of a claim.
#[async_trait]
pub trait ClaimLabels: Debug + Send + Sync {
    async fn set_label(&self, claim: &str, key: &str, value: &str) -> Result<(), BoxError>;
}

#[derive(Debug)]
struct PartitionHook {
    reads: Arc<dyn Ec2Reads>,
    claims: Arc<dyn ClaimLabels>,
}

#[async_trait]
impl RegistrationHook for PartitionHook {
    fn name(&self) -> &'static str {
        "placement-group-partition"
    }

    /// Only claims that were launched without one have an empty label.
    async fn check(&self, claim: &ClaimView) -> Result<HookState, BoxError> {
        if claim.labels.get(aws::PLACEMENT_GROUP_PARTITION).is_none_or(|partition| !partition.is_empty()) {
            return Ok(HookState::Satisfied);
        }
        let id = instance_id(claim.provider_id.as_deref().unwrap_or_default())?.to_owned();
        let found = self.reads.instances_by_id(std::slice::from_ref(&id)).await?;
        let partition = found.into_iter().find(|info| info.id == id).and_then(|info| info.partition);
        let Some(partition) = partition else { return Ok(HookState::Pending { again_after: Some(AGAIN_AFTER) }) };
        self.claims.set_label(&claim.name, aws::PLACEMENT_GROUP_PARTITION, &partition.to_string()).await?;
        Ok(HookState::Satisfied)
    }
}

impl AwsProvider {
    /// With the hook that fills in partitions, which needs somebody who writes labels of claims.
    #[must_use]
    pub fn with_claim_labels(mut self, claims: Arc<dyn ClaimLabels>) -> Self {
        self.hooks.push(Arc::new(PartitionHook { reads: self.clients.reads.clone(), claims }));
        self
    }
}
