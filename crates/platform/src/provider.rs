//! The cloud-provider contract (API-237) and its errors.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A kind of node class that a provider reads, with what is needed to find its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassKind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
}

/// An instance as the provider knows it: the answer to create, get and list (API-238).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub provider_id: String,
    pub image_id: Option<String>,
    /// Single values for everything the launch resolved: type, zone, capacity type, architecture, system.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// Termination has begun.
    pub terminating: bool,
}

/// What the controller does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The claim cannot be launched as it is: delete it, its pods are planned again.
    DeleteClaim,
    /// Try again later with growing pauses.
    Backoff,
    /// What was to be removed is gone: success.
    AlreadyGone,
}

/// A call that failed for a reason the controller cannot act on, but may be tried again.
#[derive(Debug, thiserror::Error)]
#[error("cloud call {call} failed")]
pub struct CallError {
    pub call: &'static str,
    #[source]
    pub source: BoxError,
}

impl CallError {
    pub fn new(call: &'static str, source: impl Into<BoxError>) -> Self {
        Self { call, source: source.into() }
    }
}

/// Texts begin as API-251 says, because they end up in events.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(String),
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(String),
    /// A failure that the provider explains with a condition reason and message.
    #[error("creating nodeclaim, {message}")]
    Explained { reason: String, message: String },
    #[error(transparent)]
    Call(#[from] CallError),
}

impl CreateError {
    /// API-241.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::InsufficientCapacity(_) | Self::NodeClassNotReady(_) => Remedy::DeleteClaim,
            Self::Explained { .. } | Self::Call(_) => Remedy::Backoff,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Unknown, or terminated for good.
    #[error("nodeclaim not found, {0}")]
    NotFound(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl InstanceError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotFound(_) => Remedy::AlreadyGone,
            Self::Call(_) => Remedy::Backoff,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InstanceTypesError {
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A cloud. Every method may be called again after a crash with the same arguments.
#[async_trait]
pub trait CloudProvider: Debug + Send + Sync {
    /// The `provider` label of metrics.
    fn name(&self) -> &'static str;

    /// The first is the default.
    fn node_classes(&self) -> &[NodeClassKind];

    /// The core's label rules with this provider's additions.
    fn label_rules(&self) -> &LabelRules;

    /// Launches one instance that satisfies the claim's requirements and holds its requests. Asked again for the same
    /// claim it answers with the instance that is there.
    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError>;

    /// Starts termination. `Ok` while it is under way, [`InstanceError::NotFound`] once the instance is gone (API-242).
    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError>;

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError>;

    /// Every instance of this cluster.
    async fn list(&self) -> Result<Vec<Instance>, CallError>;

    /// All types for the pool's node class, also those without an available offering (API-246).
    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError>;

    /// Whether the provider can serve objects that name this class (API-250).
    fn supports(&self, group: &str, kind: &str) -> bool {
        self.node_classes().iter().any(|class| class.group == group && class.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-241, API-251: texts and reactions.
    #[test]
    fn create_errors_say_what_to_do() {
        for (error, text, remedy) in [
            (CreateError::InsufficientCapacity("none".into()), "insufficient capacity, none", Remedy::DeleteClaim),
            (CreateError::NodeClassNotReady("x".into()), "NodeClassRef not ready, x", Remedy::DeleteClaim),
            (
                CreateError::Explained { reason: "R".into(), message: "m".into() },
                "creating nodeclaim, m",
                Remedy::Backoff,
            ),
            (CallError::new("CreateFleet", "boom").into(), "cloud call CreateFleet failed", Remedy::Backoff),
        ] {
            assert_eq!((error.to_string().as_str(), error.remedy()), (text, remedy));
        }
        assert_eq!(InstanceError::NotFound("i-1".into()).to_string(), "nodeclaim not found, i-1");
        assert_eq!(InstanceError::NotFound("i-1".into()).remedy(), Remedy::AlreadyGone);
    }
}
