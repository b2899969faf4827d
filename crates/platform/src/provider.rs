//! The cloud-provider contract (API-237) and its errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;

use crate::{RegistrationHook, RepairPolicy};

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
    /// Do without this pool for now; it is looked at again on the next pass by itself.
    SkipPool,
    /// Trying again cannot help.
    GiveUp,
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
    /// The overlays of the pool have not been looked at yet. Quiet while provisioning (API-253).
    #[error("nodepool {0:?} is awaiting evaluation")]
    UnevaluatedNodePool(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl InstanceTypesError {
    /// API-246, API-253.
    pub fn remedy(&self) -> Remedy {
        Remedy::SkipPool
    }

    /// Whether a pass for pending pods says nothing about it.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::UnevaluatedNodePool(_))
    }
}

/// Why an instance could not be restarted (V15-72).
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    #[error("reboot not implemented")]
    NotImplemented,
    #[error("reboot failed, {0}")]
    Failed(String),
    #[error("nodeclaim not found, {0}")]
    NotFound(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl RebootError {
    /// V15-63.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotImplemented | Self::Failed(_) | Self::NotFound(_) => Remedy::GiveUp,
            Self::Call(_) => Remedy::Backoff,
        }
    }
}

/// Why an instance is no longer what its class asks for: a text that may stand as the reason of a condition (API-247).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftReason(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the reason of a condition")]
pub struct DriftReasonError(String);

impl DriftReason {
    pub fn new(text: &str) -> Result<Self, DriftReasonError> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
        let outer = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let bytes = text.as_bytes();
        let valid = bytes.len() <= 1024
            && bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.last().copied().is_some_and(outer)
            && bytes.iter().copied().all(inner);
        if valid { Ok(Self(text.to_owned())) } else { Err(DriftReasonError(text.to_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The label keys by which reserved offerings are told apart (API-269).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationLabels {
    /// Names one reservation.
    pub id: String,
    /// Every label that only reserved offerings define, the id included.
    pub all: Vec<String>,
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

    /// The instance that was launched for a claim which does not know it, because whoever launched it ended before writing
    /// it down. A provider that cannot tell leaves it to garbage collection.
    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        let _ = claim;
        Ok(None)
    }

    /// Every instance of this cluster.
    async fn list(&self) -> Result<Vec<Instance>, CallError>;

    /// Provider IDs of those whose termination has not begun. A provider that can find these without holding all that is known
    /// of ten thousand instances at once does so.
    async fn running(&self) -> Result<BTreeSet<String>, CallError> {
        let running = self.list().await?.into_iter().filter(|instance| !instance.terminating);
        Ok(running.map(|instance| instance.provider_id).collect())
    }

    /// All types for the pool's node class, also those without an available offering (API-246).
    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError>;

    /// Why the instance of this claim has drifted from its class; `None` when it has not. A provider that never finds out
    /// need not say so.
    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        let _ = claim;
        Ok(None)
    }

    /// What to do about sick nodes. The same for the life of the process; see [`crate::RepairPolicies`].
    fn repair_policies(&self) -> Vec<RepairPolicy> {
        Vec::new()
    }

    /// Restarts the instance in place and returns when the cloud has accepted that. One operation id restarts once,
    /// however often it is asked (V15-72).
    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        let _ = (claim, operation_id);
        Err(RebootError::NotImplemented)
    }

    /// Answers as long as nothing inside of the provider is stuck, such as a lock that is never given back; asks nobody
    /// outside. A process whose provider does not answer is ended and started anew (AWS-235).
    async fn live(&self) {}

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &[]
    }

    /// `None` when the provider knows no reservations.
    fn reservation_labels(&self) -> Option<&ReservationLabels> {
        None
    }

    /// Whether the provider can serve objects that name this class (API-250).
    fn supports(&self, group: &str, kind: &str) -> bool {
        self.node_classes().iter().any(|class| class.group == group && class.kind == kind)
    }
}

/// What a provider that wraps another in the field `$inner` says of itself: the same. A method that a wrapper forgets falls
/// back to its default without a word, so wrappers do not write these one by one.
#[macro_export]
macro_rules! same_facts_as {
    ($inner:ident) => {
        fn name(&self) -> &'static str {
            self.$inner.name()
        }

        fn node_classes(&self) -> &[$crate::NodeClassKind] {
            self.$inner.node_classes()
        }

        fn label_rules(&self) -> &::karpenter_model::labels::LabelRules {
            self.$inner.label_rules()
        }

        fn repair_policies(&self) -> Vec<$crate::RepairPolicy> {
            self.$inner.repair_policies()
        }

        fn registration_hooks(&self) -> &[::std::sync::Arc<dyn $crate::RegistrationHook>] {
            self.$inner.registration_hooks()
        }

        fn reservation_labels(&self) -> Option<&$crate::ReservationLabels> {
            self.$inner.reservation_labels()
        }

        fn supports(&self, group: &str, kind: &str) -> bool {
            self.$inner.supports(group, kind)
        }
    };
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

    /// API-246, API-251, API-253: a pool without types is done without; one that waits for its overlays, quietly.
    #[test]
    fn instance_type_errors_say_what_to_do() {
        for (error, text, quiet) in [
            (InstanceTypesError::UnevaluatedNodePool("blue".into()), "nodepool \"blue\" is awaiting evaluation", true),
            (InstanceTypesError::NodeClassNotReady("x".into()), "NodeClassRef not ready, x", false),
            (CallError::new("DescribeInstanceTypes", "boom").into(), "cloud call DescribeInstanceTypes failed", false),
        ] {
            assert_eq!((&*error.to_string(), error.remedy(), error.is_quiet()), (text, Remedy::SkipPool, quiet));
        }
    }

    /// V15-63, V15-72: only a plain failure is tried again.
    #[test]
    fn reboot_errors_say_what_to_do() {
        for (error, text, remedy) in [
            (RebootError::NotImplemented, "reboot not implemented", Remedy::GiveUp),
            (RebootError::Failed("no".into()), "reboot failed, no", Remedy::GiveUp),
            (RebootError::NotFound("i-1".into()), "nodeclaim not found, i-1", Remedy::GiveUp),
            (CallError::new("RebootInstances", "x").into(), "cloud call RebootInstances failed", Remedy::Backoff),
        ] {
            assert_eq!((&*error.to_string(), error.remedy()), (text, remedy));
        }
    }

    /// API-247: P-CREAS.
    #[test]
    fn drift_reasons_are_reasons_of_conditions() {
        for (text, valid) in [
            ("AMIDrift", true),
            ("a", true),
            ("A_b,c:d_", true),
            ("", false),
            ("1a", false),
            ("has space", false),
            ("ends:", false),
            ("ends,", false),
            ("Ünicode", false),
            (&"a".repeat(1025), false),
        ] {
            assert_eq!(DriftReason::new(text).is_ok(), valid, "{text}");
        }
    }
}
