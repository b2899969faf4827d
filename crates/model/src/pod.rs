//! A pod as decisions see it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::moment::Moment;
use crate::protection::Protection;
use crate::resources::Resources;
use crate::scheduling::PodScheduling;
use crate::shared::{Labels, Shared};
use crate::taints::Taint;
use crate::text::{Name, Text};
use crate::uid::Uid;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: Text,
    pub name: Name,
}

impl PodId {
    pub fn new(namespace: impl Into<Text>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
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

/// One of the 300,000 pods that a large cluster has: what differs from pod to pod is here, all else is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    pub id: PodId,
    pub uid: Uid,
    pub created_at: Moment,
    pub deleting_since: Option<Moment>,
    /// When the kubelet took the pod on.
    pub started_at: Option<Moment>,
    pub node_name: Option<Text>,
    pub nominated_node_name: Option<Text>,
    /// What pods of one workload have in common; read and changed as if it were here.
    pub class: Arc<PodClass>,
    pub priority: i32,
    /// What the author says moving the pod costs (V15-91).
    pub disruption_cost: i32,
    /// What the author tells ReplicaSets about it, where nothing is said to us. With the gate `PodDeletionCostManagement`
    /// on that annotation is ours, and this is nothing.
    pub deletion_cost: i32,
    pub phase: PodPhase,
    pub owner: PodOwner,
    /// The scheduler said `Unschedulable` in the `PodScheduled` condition.
    pub unschedulable: bool,
    /// The scheduler has said nothing yet: there is no `PodScheduled` condition.
    pub unjudged: bool,
    /// The `Ready` condition is False; absent or unknown is not (DIS-37).
    pub unready: bool,
    /// The `Ready` condition is True.
    pub ready: bool,
    /// `system-cluster-critical` or `system-node-critical`.
    pub critical: bool,
}

/// What pods have in common that differ in nothing but their names. Pods of a StatefulSet have labels and volumes of their own, so
/// each is a class; what it has of its workload is shared all the same, and read and changed as if it were here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodClass {
    pub labels: Labels,
    /// PersistentVolumeClaims of the pod's namespace that it uses, ephemeral ones by the name they get.
    pub volume_claims: Vec<String>,
    /// ResourceClaims of the pod's namespace that it uses, as far as they are named already (SCH-192).
    pub resource_claims: Vec<String>,
    pub template: Shared<PodTemplate>,
}

/// What all pods of one workload have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodTemplate {
    /// The DaemonSet that controls the pod.
    pub daemon_set: Option<String>,
    /// Its UID, which tells it from a set of the same name that was deleted.
    pub daemon_set_uid: Option<String>,
    /// Effective requests with `pods: 1` (SCH-60, SCH-62).
    pub requests: Resources,
    /// Where the pod may go and where it would rather go.
    pub scheduling: PodScheduling,
    pub termination_grace_seconds: Option<i64>,
    /// What its containers may take at most, added up as requests are. Nothing is decided by it.
    pub limits: Resources,
    /// The first owner as a path of the API, as metrics name it; empty without one.
    pub owner_path: Box<str>,
    /// The scheduler that looks for a node for the pod.
    pub scheduler: Box<str>,
    /// Who made the pod and would make another one.
    pub controller: Option<Controller>,
    /// What the author says about moving the pod.
    pub protection: Protection,
    /// The pod, or one of its containers, asks for devices, named or not (SCH-191).
    pub uses_devices: bool,
    /// The capacity buffer that the pod stands for; such a pod exists in memory only.
    pub buffer: Option<PodId>,
    /// Something the pod asks for could not be read, so no node can be planned for it.
    pub unplannable: Option<String>,
}

impl Deref for PodView {
    type Target = PodClass;

    fn deref(&self) -> &PodClass {
        &self.class
    }
}

/// The first change gives the pod a class of its own.
impl DerefMut for PodView {
    fn deref_mut(&mut self) -> &mut PodClass {
        Arc::make_mut(&mut self.class)
    }
}

impl Deref for PodClass {
    type Target = PodTemplate;

    fn deref(&self) -> &PodTemplate {
        &self.template
    }
}

/// The first change gives the class a template of its own.
impl DerefMut for PodClass {
    fn deref_mut(&mut self) -> &mut PodTemplate {
        &mut self.template
    }
}

/// A DaemonSet, which will put a pod on every node that accepts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonView {
    pub id: PodId,
    pub uid: Option<String>,
    /// What its pods look like, with requests filled from limits (SCH-71).
    pub template: PodView,
}

/// A deleted pod whose grace period ended this long ago is no longer waited for: its kubelet is gone.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

impl PodView {
    /// The pod with something changed.
    #[must_use]
    pub fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

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

    /// Waits for capacity as far as anybody can tell from its siblings; the scheduler has not come to it yet.
    pub fn is_presumed_waiting(&self) -> bool {
        self.unjudged && self.is_provisionable()
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.scheduling.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Neither ended nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && self.deleting_since.is_none()
    }

    /// Runs again elsewhere when its node goes (DIS-27).
    pub fn is_reschedulable(&self) -> bool {
        let comes_back = self.owner == PodOwner::StatefulSet && self.deleting_since.is_some();
        (self.is_active() || comes_back) && !matches!(self.owner, PodOwner::DaemonSet | PodOwner::Node)
    }

    /// Its author does not want it moved, now.
    pub fn is_protected(&self, now: Timestamp) -> bool {
        self.protection.holds(self.started_at, now)
    }

    /// May be moved (DIS-29).
    pub fn is_disruptable(&self, now: Timestamp) -> bool {
        !self.is_active() || !self.is_protected(now)
    }

    /// May be asked to leave (DIS-28).
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        self.is_active()
            && self.owner != PodOwner::Node
            && !self.tolerates(&Taint::disrupted())
            && !self.is_protected(now)
    }

    /// Deleted, and its grace period ended so long ago that nobody carries the deletion out any more.
    pub fn is_stuck(&self, now: Timestamp) -> bool {
        self.deleting_since.is_some_and(|since| now.duration_since(since.time()) > STUCK_AFTER)
    }

    /// A drain moves it (DIS-30).
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.is_stuck(now) && self.owner != PodOwner::Node && !self.tolerates(&Taint::disrupted())
    }

    /// The pod has to leave before its node may go (LIF-53).
    pub fn is_waiting_eviction(&self, now: Timestamp) -> bool {
        !self.is_terminal() && self.is_drainable(now)
    }

    /// What moving the pod costs, 1.0 for one that says nothing (V15-91).
    pub fn eviction_cost(&self) -> f64 {
        let cost = f64::from(self.disruption_cost.saturating_add(self.deletion_cost)) / f64::from(1 << 27);
        let priority = f64::from(self.priority) / f64::from(1 << 25);
        (1.0 + cost + priority).clamp(-10.0, 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// With the counts of its owners a pod takes 128 bytes, which is a size that allocators have; one more and it takes 160.
    #[test]
    fn a_pod_is_small() {
        assert!(size_of::<PodView>() <= 112, "{}", size_of::<PodView>());
    }

    /// DIS-27, DIS-28, DIS-29, DIS-30, LIF-53: the predicates of one pod, at second 100.
    #[test]
    fn predicates() {
        let running = PodView { phase: PodPhase::Running, ..example::pod("a") };
        let deleted = |at: i64| PodView { deleting_since: Some(time(at).into()), ..running.clone() };
        let owned = |owner| PodView { owner, ..running.clone() };
        for (name, pod, want) in [
            ("running", running.clone(), "active reschedulable evictable disruptable drainable waiting"),
            ("done", PodView { phase: PodPhase::Succeeded, ..running.clone() }, "disruptable drainable"),
            ("leaving", deleted(90), "disruptable drainable waiting"),
            ("at the bound", deleted(40), "disruptable drainable waiting"),
            ("stuck", deleted(39), "disruptable"),
            ("daemon", owned(PodOwner::DaemonSet), "active evictable disruptable drainable waiting"),
            ("mirror", owned(PodOwner::Node), "active disruptable"),
            (
                "leaving, to come back",
                PodView { owner: PodOwner::StatefulSet, ..deleted(90) },
                "reschedulable disruptable drainable waiting",
            ),
            (
                "protected",
                running.but(|pod| pod.protection = Protection::Always),
                "active reschedulable drainable waiting",
            ),
        ] {
            let now = time(100);
            let held: Vec<&str> = [
                ("active", pod.is_active()),
                ("reschedulable", pod.is_reschedulable()),
                ("evictable", pod.is_evictable(now)),
                ("disruptable", pod.is_disruptable(now)),
                ("drainable", pod.is_drainable(now)),
                ("waiting", pod.is_waiting_eviction(now)),
            ]
            .into_iter()
            .filter_map(|(name, holds)| holds.then_some(name))
            .collect();
            assert_eq!(held.join(" "), want, "{name}");
        }
    }

    /// DIS-72, V15-91.
    #[test]
    fn eviction_costs() {
        for (disruption_cost, priority, want) in
            [(0, 0, 1.0), (1 << 27, 0, 2.0), (0, 1 << 25, 2.0), (i32::MAX, i32::MAX, 10.0), (i32::MIN, i32::MIN, -10.0)]
        {
            let pod = PodView { priority, disruption_cost, ..example::pod("a") };
            assert!((pod.eviction_cost() - want).abs() < 1e-9, "{disruption_cost} {priority}");
        }
    }
}
