//! A NodeClaim as decisions see it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::duration::{GoDuration, NillableDuration};
use crate::pool::NodeClassRef;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::Taint;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    True,
    False,
    #[default]
    Unknown,
}

/// A condition's status and since when it has it; reasons and messages are for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionView {
    pub status: Status,
    pub since: Timestamp,
}

impl ConditionView {
    pub fn is_true(self) -> bool {
        self.status == Status::True
    }
}

/// The condition `Rebooting`: `since` is when the reboot was asked for while it is True, and when it ended once it is False
/// (V15-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootView {
    pub status: Status,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    pub name: String,
    pub uid: String,
    pub created_at: Timestamp,
    pub deleting_since: Option<Timestamp>,
    pub has_finalizer: bool,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The `karpenter.sh/nodepool` label; `None` for a standalone claim.
    pub pool: Option<String>,
    pub node_class: NodeClassRef,
    pub requirements: Requirements,
    pub requests: Resources,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub expire_after: NillableDuration,
    pub termination_grace_period: Option<GoDuration>,
    pub provider_id: Option<String>,
    pub node_name: Option<String>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub launched: ConditionView,
    pub registered: ConditionView,
    pub initialized: ConditionView,
    /// Set once the drain began; `True` when it is done.
    pub drained: Option<ConditionView>,
    /// False when the wait for volumes was given up.
    pub volumes_detached: Option<ConditionView>,
    pub instance_terminating: Option<ConditionView>,
    pub consistent: Option<ConditionView>,
    pub drifted: Option<ConditionView>,
    /// The node has been quiet for as long as its pool asks.
    pub consolidatable: bool,
    /// A reboot was asked for and has not ended.
    pub rebooting: bool,
    /// The condition `Rebooting`, also of a reboot that has ended.
    pub reboot: Option<RebootView>,
    /// Why the claim is disrupted, while it is.
    pub disruption_reason: Option<String>,
    pub last_pod_event: Option<Timestamp>,
    /// Of the pool that owns the claim.
    pub pool_uid: Option<String>,
}
