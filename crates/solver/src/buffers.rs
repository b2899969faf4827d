//! What a pass says about capacity buffers, and what of it is about real pods.
//!
//! Virtual pods ([`karpenter_model::buffer`]) take part in a pass like all others. Afterwards they count for the status of
//! their buffer and for which nodes are not empty, and for nothing else: no nomination, no event, no bookkeeping.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::buffer::BufferView;
use karpenter_model::pod::PodId;
use karpenter_model::snapshot::Snapshot;

use crate::plan::{Placement, Plan};

/// The condition `Provisioning` of a buffer (SCH-188).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provisioning {
    NotReady,
    Empty,
    /// So many need new nodes, or have found none.
    RequiresNewCapacity {
        on_new_nodes: usize,
        unplaced: usize,
    },
    FitsExistingCapacity,
    /// The pass says nothing about it; the condition stays what it is.
    Unchanged,
}

impl Provisioning {
    /// Status and reason of the condition; `None`: leave it.
    pub const fn condition(&self) -> Option<(bool, &'static str)> {
        match self {
            Self::NotReady => Some((false, "NotReadyForProvisioning")),
            Self::Empty => Some((false, "BufferEmpty")),
            Self::RequiresNewCapacity { .. } => Some((false, "RequiresNewCapacity")),
            Self::FitsExistingCapacity => Some((true, "FitsExistingCapacity")),
            Self::Unchanged => None,
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::NotReady => "the buffer is not ready for provisioning".to_owned(),
            Self::Empty => "the buffer has no replicas".to_owned(),
            Self::RequiresNewCapacity { on_new_nodes, unplaced } => {
                format!("{on_new_nodes} pods need new nodes, {unplaced} could not be scheduled")
            }
            Self::FitsExistingCapacity => "all pods fit existing nodes".to_owned(),
            Self::Unchanged => String::new(),
        }
    }
}

/// What the pass over this snapshot says about a buffer.
pub fn provisioning(buffer: &BufferView, snapshot: &Snapshot, plan: &Plan) -> Provisioning {
    if !buffer.ready {
        return Provisioning::NotReady;
    }
    let Some(desired) = buffer.desired.filter(|desired| *desired > 0) else { return Provisioning::Empty };
    let own =
        |pod: &PodId| snapshot.pending.get(pod).and_then(|pod| pod.buffer.as_ref()).is_some_and(|of| *of == buffer.id);
    let placed: Vec<&Placement> = plan.placed.iter().filter(|(pod, _)| own(pod)).map(|(_, place)| place).collect();
    let on_new_nodes = placed.iter().filter(|place| matches!(place, Placement::New(_))).count();
    let unplaced = plan.unplaced.iter().filter(|unplaced| own(&unplaced.pod)).count();
    if on_new_nodes + unplaced > 0 {
        Provisioning::RequiresNewCapacity { on_new_nodes, unplaced }
    } else if placed.len() == desired as usize {
        Provisioning::FitsExistingCapacity
    } else {
        Provisioning::Unchanged
    }
}

/// Virtual pods by the existing node that they were planned onto, by its provider ID, or its name when it has none: nodes
/// that are not empty although no pod runs there (SCH-189). It replaces the table of the pass before.
pub fn pods_by_node(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (pod, placement) in &plan.placed {
        let Placement::Existing(name) = placement else { continue };
        if !is_virtual(snapshot, pod) {
            continue;
        }
        let Some(node) = snapshot.nodes.iter().find(|node| node.name() == name) else { continue };
        let claimed = node.claim.as_ref().and_then(|claim| claim.provider_id.as_deref());
        let own = node.node.as_ref().and_then(|node| node.provider_id.as_deref());
        *counts.entry(claimed.or(own).unwrap_or(name).to_owned()).or_default() += 1;
    }
    counts
}

/// Whether the pod of this pass stands for a buffer.
pub fn is_virtual(snapshot: &Snapshot, pod: &PodId) -> bool {
    snapshot.pending.get(pod).is_some_and(|pod| pod.buffer.is_some())
}

/// The plan as far as real pods are concerned: what events, decisions and nominations are about (SCH-24, SCH-187, Q20).
/// New nodes stay, whoever they are for.
#[must_use]
pub fn real_pods_only(snapshot: &Snapshot, plan: &Plan) -> Plan {
    let real = |pod: &PodId| !is_virtual(snapshot, pod);
    let mut plan = plan.clone();
    plan.placed.retain(|pod, _| real(pod));
    plan.unplaced.retain(|unplaced| real(&unplaced.pod));
    plan.untried.retain(real);
    for claim in &mut plan.claims {
        claim.pods.retain(real);
    }
    plan
}

/// Existing nodes that real pods were planned onto, by name: those that are nominated (SCH-24).
pub fn nominated<'a>(snapshot: &Snapshot, plan: &'a Plan) -> BTreeSet<&'a str> {
    let existing = plan.placed.iter().filter_map(|(pod, placement)| match placement {
        Placement::Existing(name) if !is_virtual(snapshot, pod) => Some(name.as_str()),
        _ => None,
    });
    existing.collect()
}
