//! How a deleted node goes: keep new pods off, drain, wait for volumes, terminate the instance, let go.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use karpenter_model::taints::Taint;

use crate::deadline::deadline;
use crate::drain::{Drain, drain};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Termination {
    /// Not being deleted, or without our finalizer.
    NotOurs,
    /// The node goes, so its claim goes too.
    DeleteClaim(String),
    /// The node does not answer: ask the provider whether there still is an instance.
    AskForInstance,
    /// The provider knows no such instance; ask again before pods are given up (Y13).
    AskAgain {
        at: Timestamp,
    },
    /// Nothing is left to drain or to terminate.
    LetGo,
    /// Put the disruption taint and the label for load balancers on.
    Taint,
    /// Mark on the claim that the drain has begun.
    BeginDrain,
    Drain(Drain),
    /// Nothing is left to move; say so on the claim.
    EndDrain,
    /// See which volumes are still attached: [`crate::detachment`].
    Volumes,
    /// Terminate the instance and, when it is gone, remove the finalizer.
    TerminateInstance,
}

/// What is known of the instance of a node that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceFinding {
    NotAsked,
    Exists,
    /// The provider did not know it, for the first time at that moment.
    Missing {
        since: Timestamp,
    },
}

/// One answer can come from a lagging listing; two so far apart hardly.
pub const CONFIRM_MISSING: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    pub node: &'a NodeView,
    /// The one claim of the node; none when there are several (LIF-46).
    pub claim: Option<&'a ClaimView>,
    pub pods: &'a [&'a PodView],
    pub instance: InstanceFinding,
}

/// LIF-45 to LIF-51. Instances are terminated by the node's provider ID also where there is no claim (Y8).
pub fn termination(facts: NodeFacts<'_>, now: Timestamp) -> Termination {
    let NodeFacts { node, claim, pods, instance } = facts;
    if node.deleting_since.is_none() || !node.has_finalizer {
        return Termination::NotOurs;
    }
    if let Some(claim) = claim.filter(|claim| claim.deleting_since.is_none()) {
        return Termination::DeleteClaim(claim.name.clone());
    }
    let volumes_done = claim.and_then(|claim| claim.volumes_detached).is_some_and(|condition| {
        // False is the verdict that was reached when the deadline had passed; Unknown is still waiting.
        condition.status != Status::Unknown
    });
    // Past this point the instance is on its way out by our own doing, and a silent node is what is to be expected.
    if volumes_done {
        return Termination::TerminateInstance;
    }
    if let Some(step) = vanished(node, instance, now) {
        return step;
    }
    if !node.is_kept_off() {
        return Termination::Taint;
    }
    let drained = claim.and_then(|claim| claim.drained);
    if claim.is_some() && drained.is_none() {
        return Termination::BeginDrain;
    }
    if !drained.is_some_and(ConditionView::is_true) {
        match drain(pods, claim.and_then(deadline), drained.map(|condition| condition.since), now) {
            Some(unfinished) => return Termination::Drain(unfinished),
            None if claim.is_some() => return Termination::EndDrain,
            None => {}
        }
    }
    match (claim, &node.provider_id) {
        (Some(_), _) => Termination::Volumes,
        (None, Some(_)) => Termination::TerminateInstance,
        (None, None) => Termination::LetGo,
    }
}

/// LIF-47: pods of a machine that is gone cannot be drained. A node that answers is always drained.
fn vanished(node: &NodeView, instance: InstanceFinding, now: Timestamp) -> Option<Termination> {
    if node.ready || node.provider_id.is_none() {
        return None;
    }
    match instance {
        InstanceFinding::NotAsked => Some(Termination::AskForInstance),
        InstanceFinding::Exists => None,
        InstanceFinding::Missing { since } => {
            let at = since.saturating_add(CONFIRM_MISSING).unwrap_or(Timestamp::MAX);
            Some(if now >= at { Termination::LetGo } else { Termination::AskAgain { at } })
        }
    }
}

trait KeptOff {
    fn is_kept_off(&self) -> bool;
}

/// Tells load balancers to leave the node out (LIF-49).
const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

impl KeptOff for NodeView {
    fn is_kept_off(&self) -> bool {
        self.taints.iter().any(|taint| taint.is_same(&Taint::disrupted()))
            && self.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS)
    }
}
