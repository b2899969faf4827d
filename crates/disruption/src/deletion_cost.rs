//! Which pods a ReplicaSet should give up first: those of nodes that would go anyway (V15-92 … V15-97).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::budget::DisruptionReason;
use karpenter_model::claim::ConditionView;
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels;
use karpenter_model::pdb::PdbIndex;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::Taint;

use crate::budgets::Allowance;
use crate::candidates::{Class, PoolFacts, candidate_with};
use crate::cost;
use crate::look::Look;

/// Nodes that are written to in one cycle, those that are going left out.
pub const MOST_NODES: usize = 50;
/// What pods of a node that is going say: these first.
pub const GOING: i32 = i32::MIN;

/// What the annotation of a pod should be; `None` takes it away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub pod: PodId,
    pub uid: String,
    pub value: Option<i32>,
}

/// The writes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeWrites {
    pub node: String,
    /// For the gauge of writes that are pending.
    pub pool: String,
    pub writes: Vec<Write>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cycle {
    pub nodes: Vec<NodeWrites>,
    /// Some nodes have to wait for the next cycle: the stamp must not advance, or they would wait for a change (Z12).
    pub cut: bool,
}

enum Group {
    Going,
    Drifted,
    Normal,
    /// The annotation goes.
    Kept,
    /// Nothing is known about prices now: what was written stays (Z32).
    Unknown,
}

/// Ranks all nodes. `written` is a pod's present annotation (V15-93 … V15-96).
pub fn cycle(look: &Look<'_>, written: &dyn Fn(&PodView) -> Option<String>) -> Cycle {
    let mut nodes: Vec<&ExistingNode> = look.snapshot.nodes.iter().filter(|node| node.is_managed()).collect();
    nodes.sort_by(|a, b| cost::by_ratio((ratio(a, look), a.name()), (ratio(b, look), b.name())));
    let (mut going, mut drifted, mut normal, mut kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let budgets = PdbIndex::new(look.facts.budgets);
    let pools: Vec<&PoolFacts> = look.facts.pools.values().collect();
    for node in nodes {
        match group(node, look, &budgets, &pools) {
            Group::Going => going.push(node),
            Group::Drifted => drifted.push(node),
            Group::Normal => normal.push(node),
            Group::Kept => kept.push(node),
            Group::Unknown => {}
        }
    }
    let drifted = within(drifted, look, DisruptionReason::Drifted, &mut kept);
    let normal = within(normal, look, DisruptionReason::Underutilized, &mut kept);
    let mut cycle = Cycle::default();
    for node in going {
        cycle.nodes.extend(writes(node, Some(GOING), written));
    }
    let ranked: Vec<&ExistingNode> = drifted.into_iter().chain(normal).collect();
    let first = -i32::try_from(ranked.len()).unwrap_or(i32::MAX);
    let ranked = (first..).zip(ranked).map(|(rank, node)| (Some(rank), node));
    let mut left = MOST_NODES;
    for (value, node) in ranked.chain(kept.into_iter().map(|node| (None, node))) {
        let Some(work) = writes(node, value, written) else { continue };
        if left == 0 {
            cycle.cut = true;
            break;
        }
        left -= 1;
        cycle.nodes.push(work);
    }
    cycle
}

fn ratio(node: &ExistingNode, look: &Look<'_>) -> f64 {
    let types = node.pool().and_then(|pool| look.facts.pools.get(pool)?.instance_types.as_ref());
    let name = node.labels().get(labels::INSTANCE_TYPE);
    let known = types.zip(name).and_then(|(types, name)| types.iter().find(|known| known.name == *name));
    cost::savings_ratio(cost::price(node, known), cost::reschedule_cost(&node.pods))
}

fn group<'a>(node: &'a ExistingNode, look: &Look<'a>, budgets: &PdbIndex<'_>, pools: &[&'a PoolFacts]) -> Group {
    let tainted = || {
        let taints = node.node.iter().flat_map(|node| &node.taints);
        taints.into_iter().any(|taint| taint.is_same(&Taint::disrupted()))
    };
    if node.is_going() || tainted() {
        return Group::Going;
    }
    let found = candidate_with(node, &look.facts, Class::Graceful, (budgets, pools));
    let Ok(candidate) = found else { return Group::Kept };
    if node.pods.iter().any(|pod| is_pinning(pod)) {
        return Group::Kept;
    }
    let Some(types) = &candidate.pool.instance_types else { return Group::Unknown };
    let priceable = |name: &String| types.iter().any(|known| known.name == *name);
    if !node.labels().get(labels::INSTANCE_TYPE).is_none_or(priceable) {
        return Group::Kept;
    }
    let drifted = node.claim.as_ref().and_then(|claim| claim.drifted).is_some_and(ConditionView::is_true);
    if drifted && candidate.pool.view.replicas.is_none() {
        Group::Drifted
    } else if candidate.pool.view.consolidate_after == NillableDuration::Never {
        Group::Kept
    } else {
        Group::Normal
    }
}

/// Nobody would make the pod again, or not elsewhere, so that its node is not going to be emptied by scaling down
/// (V15-94). Pods that have ended are not on the node any more (Z32).
fn is_pinning(pod: &PodView) -> bool {
    let owned = pod.controller.as_ref().is_some_and(|owner| ["ReplicaSet", "Job", "DaemonSet"].contains(&&*owner.kind));
    pod.id.namespace != "kube-system" && !owned
}

/// The first of each pool that its budget allows; the others keep their pods (V15-95).
fn within<'a>(
    nodes: Vec<&'a ExistingNode>,
    look: &Look<'_>,
    reason: DisruptionReason,
    kept: &mut Vec<&'a ExistingNode>,
) -> Vec<&'a ExistingNode> {
    let mut allowances: BTreeMap<String, Allowance> = look.allowances(reason, &mut Vec::new());
    let mut may_go = |node: &&ExistingNode| {
        let allowance = node.pool().and_then(|pool| allowances.get_mut(pool));
        allowance.is_some_and(Allowance::take)
    };
    let (within, over): (Vec<_>, Vec<_>) = nodes.into_iter().partition(&mut may_go);
    kept.extend(over);
    within
}

/// Only pods of ReplicaSets, and only where something changes (V15-96).
fn writes(node: &ExistingNode, value: Option<i32>, written: &dyn Fn(&PodView) -> Option<String>) -> Option<NodeWrites> {
    let text = value.map(|value| value.to_string());
    let of_replica_set = |pod: &&Arc<PodView>| pod.controller.as_ref().is_some_and(|owner| owner.kind == "ReplicaSet");
    let writes: Vec<Write> = node
        .pods
        .iter()
        .filter(of_replica_set)
        .filter(|pod| written(pod) != text)
        .map(|pod| Write { pod: pod.id.clone(), uid: pod.uid.to_string(), value })
        .collect();
    let pool = node.pool().unwrap_or_default().to_owned();
    (!writes.is_empty()).then(|| NodeWrites { node: node.name().to_owned(), pool, writes })
}

/// Whether a cycle is needed at all: not while nothing changed since the last one that was carried out (V15-92).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp<T>(Option<T>);

impl<T: PartialEq + Copy> Stamp<T> {
    pub fn is_current(&self, stamp: T) -> bool {
        self.0 == Some(stamp)
    }

    /// After a cycle without errors; one that was cut, or that saw no node, has to be looked at again (Z12).
    pub fn done(&mut self, stamp: T, cycle: &Cycle, nodes: usize) {
        if nodes > 0 && !cycle.cut {
            self.0 = Some(stamp);
        }
    }
}

#[cfg(test)]
mod tests;
