//! How a deleted node goes: keep new pods off, drain, terminate the instance, let go.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodId, PodOwner, PodView};
use karpenter_model::taints::Taint;

/// A drain lasts at least this long, so that pods bound at the last moment show up (LIF-56).
pub const MINIMUM_DRAIN: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Termination {
    /// Not being deleted, or without our finalizer.
    NotOurs,
    /// The node goes, so its claim goes too.
    DeleteClaim(String),
    /// Put the disruption taint on first.
    Taint,
    /// Mark on the claim that the drain has begun.
    BeginDrain,
    Drain(Drain),
    /// Drained: terminate the instance and, when it is gone, remove the finalizer.
    TerminateInstance,
    /// There is no claim, so there is nothing to terminate (LIF-68).
    RemoveFinalizer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drain {
    /// Evict these pods, the first tier that is not empty; `waiting` counts all tiers.
    Evict {
        pods: Vec<PodId>,
        waiting: usize,
    },
    /// Nothing to evict but the drain is younger than [`MINIMUM_DRAIN`], or pods are on their way out.
    Wait {
        waiting: usize,
    },
    Done,
}

/// LIF-45 to LIF-51 without volumes, deadlines and the shortcut for vanished instances.
pub fn termination(node: &NodeView, claim: Option<&ClaimView>, pods: &[&PodView], now: Timestamp) -> Termination {
    if node.deleting_since.is_none() || !node.has_finalizer {
        return Termination::NotOurs;
    }
    if let Some(claim) = claim.filter(|claim| claim.deleting_since.is_none()) {
        return Termination::DeleteClaim(claim.name.clone());
    }
    if !node.taints.iter().any(|taint| taint.is_same(&Taint::disrupted())) {
        return Termination::Taint;
    }
    let drained = claim.and_then(|claim| claim.drained);
    if claim.is_some() && drained.is_none() {
        return Termination::BeginDrain;
    }
    if !drained.is_some_and(karpenter_model::claim::ConditionView::is_true) {
        let began = drained.map(|condition| condition.since);
        match drain(pods, began, now) {
            Drain::Done => {}
            unfinished => return Termination::Drain(unfinished),
        }
    }
    if claim.is_some() { Termination::TerminateInstance } else { Termination::RemoveFinalizer }
}

/// LIF-53 to LIF-56: non-critical pods before critical ones, workloads before DaemonSets.
pub fn drain(pods: &[&PodView], began: Option<Timestamp>, now: Timestamp) -> Drain {
    let waiting: Vec<&&PodView> = pods.iter().filter(|pod| pod.is_waiting_eviction(now)).collect();
    let tier = |pod: &PodView| (pod.critical, pod.owner == PodOwner::DaemonSet);
    let Some(first) = waiting.iter().map(|pod| tier(pod)).min() else {
        let young = began.is_some_and(|began| now.duration_since(began) < MINIMUM_DRAIN);
        return if young { Drain::Wait { waiting: 0 } } else { Drain::Done };
    };
    let evict: Vec<PodId> = waiting
        .iter()
        .filter(|pod| tier(pod) == first && pod.deleting_since.is_none())
        .map(|pod| pod.id.clone())
        .collect();
    let waiting = waiting.len();
    if evict.is_empty() { Drain::Wait { waiting } } else { Drain::Evict { pods: evict, waiting } }
}
