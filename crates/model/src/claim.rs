//! A NodeClaim as decisions see it.

use jiff::{SignedDuration, Timestamp};

use crate::annotations::REBOOT_PRE_BOOT_ID;

use crate::duration::{GoDuration, NillableDuration};
use crate::pool::NodeClassRef;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::shared::{Labels, Shared};
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

/// Reason of the condition `Rebooting` once the provider accepted.
pub const REBOOT_ISSUED: &str = "RebootIssued";

/// Pods wait for a node that is to be rebooted, so that it is not replaced after all (V15-71). That takes as long as its drain, which a
/// PodDisruptionBudget can hold up for hours: by the very pods that wait. After about as long as a new node takes to come up
/// it is a place no longer, until the drain is over.
pub const LONGEST_WAIT_FOR_DRAIN: SignedDuration = SignedDuration::from_mins(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    pub name: String,
    pub uid: String,
    pub created_at: Timestamp,
    pub deleting_since: Option<Timestamp>,
    pub has_finalizer: bool,
    pub labels: Labels,
    pub annotations: Labels,
    /// The `karpenter.sh/nodepool` label; `None` for a standalone claim.
    pub pool: Option<String>,
    pub node_class: NodeClassRef,
    pub requirements: Shared<Requirements>,
    pub requests: Resources,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub expire_after: NillableDuration,
    pub termination_grace_period: Option<GoDuration>,
    pub provider_id: Option<String>,
    pub node_name: Option<String>,
    pub capacity: Shared<Resources>,
    pub allocatable: Shared<Resources>,
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

impl ClaimView {
    /// It is to be rebooted, and its pods have been leaving for so long that nobody can say when it comes back
    /// ([`LONGEST_WAIT_FOR_DRAIN`]).
    pub fn drains_for_long(&self, now: Timestamp) -> bool {
        let reboot = self.reboot.as_ref().filter(|_| self.rebooting);
        let drains = reboot
            .filter(|reboot| reboot.reason != REBOOT_ISSUED && !self.annotations.contains_key(REBOOT_PRE_BOOT_ID));
        drains.is_some_and(|reboot| now.duration_since(reboot.since) >= LONGEST_WAIT_FOR_DRAIN)
    }

    /// A claim that nothing has happened to, without a pool.
    pub fn new(name: impl Into<String>, node_class: NodeClassRef) -> Self {
        let unknown = ConditionView { status: Status::Unknown, since: Timestamp::UNIX_EPOCH };
        Self {
            name: name.into(),
            uid: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            deleting_since: None,
            has_finalizer: false,
            labels: Labels::new(),
            annotations: Labels::new(),
            pool: None,
            node_class,
            requirements: Shared::default(),
            requests: Resources::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            expire_after: NillableDuration::Never,
            termination_grace_period: None,
            provider_id: None,
            node_name: None,
            capacity: Shared::default(),
            allocatable: Shared::default(),
            launched: unknown,
            registered: unknown,
            initialized: unknown,
            drained: None,
            volumes_detached: None,
            instance_terminating: None,
            consistent: None,
            drifted: None,
            consolidatable: false,
            rebooting: false,
            reboot: None,
            disruption_reason: None,
            last_pod_event: None,
            pool_uid: None,
        }
    }
}
