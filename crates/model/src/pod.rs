//! A pod as decisions see it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::resources::Resources;
use crate::scheduling::PodScheduling;
use crate::taints::Taint;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Who owns a pod, as far as it matters for where the pod may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodOwner {
    DaemonSet,
    /// A mirror of a static pod of the kubelet.
    Node,
    StatefulSet,
    #[default]
    Other,
}

/// The owner that controls a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    pub id: PodId,
    pub uid: String,
    pub created_at: Timestamp,
    pub deleting_since: Option<Timestamp>,
    pub phase: PodPhase,
    pub owner: PodOwner,
    /// The DaemonSet that controls the pod.
    pub daemon_set: Option<String>,
    pub node_name: Option<String>,
    pub nominated_node_name: Option<String>,
    /// The scheduler said `Unschedulable` in the `PodScheduled` condition.
    pub unschedulable: bool,
    /// Effective requests with `pods: 1` (SCH-60, SCH-62).
    pub requests: Resources,
    pub labels: BTreeMap<String, String>,
    /// Where the pod may go and where it would rather go.
    pub scheduling: PodScheduling,
    /// `system-cluster-critical` or `system-node-critical`.
    pub critical: bool,
    pub termination_grace_seconds: Option<i64>,
    /// PersistentVolumeClaims of the pod's namespace that it uses, ephemeral ones by the name they get.
    pub volume_claims: Vec<String>,
    /// Who made the pod and would make another one.
    pub controller: Option<Controller>,
    /// Something the pod asks for could not be read, so no node can be planned for it.
    pub unplannable: Option<String>,
}

/// A DaemonSet, which will put a pod on every node that accepts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonView {
    pub id: PodId,
    /// What its pods look like, with requests filled from limits (SCH-71).
    pub template: PodView,
}

/// A deleted pod whose grace period ended this long ago is no longer waited for: its kubelet is gone.
const STUCK_AFTER_SECONDS: i64 = 60;

impl PodView {
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Waits for capacity that we could provide (SCH-12).
    pub fn is_provisionable(&self) -> bool {
        self.unschedulable
            && self.node_name.is_none()
            && self.nominated_node_name.is_none()
            && !matches!(self.owner, PodOwner::DaemonSet | PodOwner::Node)
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.scheduling.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// The pod has to leave before its node may go (LIF-53).
    pub fn is_waiting_eviction(&self, now: Timestamp) -> bool {
        let stuck = self.deleting_since.is_some_and(|since| now.as_second() - since.as_second() > STUCK_AFTER_SECONDS);
        !self.is_terminal() && !stuck && self.owner != PodOwner::Node && !self.tolerates(&Taint::disrupted())
    }
}
