//! Which nodes may go at all, and what keeps the others (DIS-10 … DIS-26, V15-35 … V15-37).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::annotations::DO_NOT_DISRUPT;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;
use karpenter_model::pdb::{Held, PdbIndex, PdbView, held_by};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::snapshot::ExistingNode;

use crate::cost;

/// How much a method may ask of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Waits for every pod: emptiness and consolidation.
    Graceful,
    /// A termination grace period lets it go on over pods that object: drift.
    Eventual,
    /// The node is broken already.
    Repair,
}

/// A pool with what its cloud offers it.
#[derive(Debug, Clone)]
pub struct PoolFacts {
    pub view: Arc<PoolView>,
    /// `None` while the provider cannot say: prices are unknown then, but nodes may still go (X11).
    pub instance_types: Option<Arc<Vec<InstanceType>>>,
}

/// What is known about all nodes. One `now` for a whole look, so that the order of nodes does not matter (V15-26).
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    pub pools: &'a BTreeMap<String, PoolFacts>,
    pub budgets: &'a [Arc<PdbView>],
    /// Names of claims that a command under way holds.
    pub queued: &'a BTreeSet<String>,
    pub now: Timestamp,
}

/// A node that may go.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub node: &'a ExistingNode,
    pub pool: &'a PoolFacts,
    pub instance_type: Option<&'a InstanceType>,
    pub price: Price,
    pub reschedule_cost: f64,
    /// Pods object, but the class of the method goes over them.
    pub has_blockers: bool,
}

impl<'a> Candidate<'a> {
    pub fn name(&self) -> &'a str {
        self.node.name()
    }

    pub fn pool_name(&self) -> &'a str {
        &self.pool.view.name
    }

    pub fn savings_ratio(&self) -> f64 {
        cost::savings_ratio(self.price, self.reschedule_cost)
    }

    /// What emptying it costs its pods, less where they would soon have to move anyway (DIS-77, X23).
    pub fn cost_by_age(&self, now: Timestamp) -> f64 {
        let left = self.node.claim.as_ref().map_or(1.0, |claim| cost::lifetime_remaining(claim, now));
        cost::PER_NODE + (self.reschedule_cost - cost::PER_NODE) * left
    }

    pub fn reschedulable_pods(&self) -> impl Iterator<Item = &'a Arc<PodView>> {
        self.node.pods.iter().filter(|pod| pod.is_reschedulable())
    }

    /// Whether anybody knows what the node costs: its type is sold where it is, as what it is (DIS-75).
    pub fn is_priced(&self) -> bool {
        let place = self.label(labels::ZONE).zip(self.label(labels::CAPACITY_TYPE));
        let price = self.instance_type.zip(place).and_then(|(known, (zone, kind))| known.running_price(zone, kind));
        price.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.node.labels().get(key).map(String::as_str)
    }
}

/// What keeps a node (V15-24, V15-35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    Queued,
    Unmanaged,
    NoNode,
    Rebooting,
    Deleting,
    NotInitialized,
    NotRegistered,
    Nominated,
    DoNotDisrupt,
    NoPoolLabel,
    /// Repair has to build and budget a replacement.
    RepairNeedsPool,
    NoPool(String),
    ProtectedPod(PodId),
    Budget {
        pod: PodId,
        budget: PodId,
    },
    ManyBudgets {
        pod: PodId,
        budgets: Vec<PodId>,
    },
}

impl Blocked {
    /// Pods object; some methods may go over them (DIS-21).
    fn is_by_pods(&self) -> bool {
        matches!(self, Self::ProtectedPod(_) | Self::Budget { .. } | Self::ManyBudgets { .. })
    }

    /// Nobody needs to hear that a node is busy already, or not ours.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Queued | Self::Unmanaged)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("Node is being disrupted already"),
            Self::Unmanaged => f.write_str("Node is not managed by a NodeClaim"),
            Self::NoNode => f.write_str("Nodeclaim does not have an associated node"),
            Self::Rebooting => f.write_str("Node is rebooting"),
            Self::Deleting => f.write_str("Node is deleting or marked for deletion"),
            Self::NotInitialized => f.write_str("Node isn't initialized"),
            Self::NotRegistered => f.write_str("Node isn't initialized nor registered"),
            Self::Nominated => f.write_str("Node is nominated for a pending pod"),
            Self::DoNotDisrupt => write!(f, "Disruption is blocked through the {DO_NOT_DISRUPT:?} annotation"),
            Self::NoPoolLabel => write!(f, "Node doesn't have the label {:?}", labels::NODEPOOL),
            Self::RepairNeedsPool => {
                f.write_str("repair requires a NodePool to construct and budget a safe replacement")
            }
            Self::NoPool(name) => write!(f, "NodePool not found (NodePool={name})"),
            Self::ProtectedPod(pod) => write!(f, "Pod has {DO_NOT_DISRUPT:?} annotation (Pod={pod})"),
            Self::Budget { budget, .. } => {
                write!(f, "Pdb prevents pod evictions (PodDisruptionBudget=[{budget}])")
            }
            Self::ManyBudgets { budgets, .. } => {
                let names: Vec<String> = budgets.iter().map(ToString::to_string).collect();
                write!(f, "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])", names.join(" "))
            }
        }
    }
}

/// The first check that fails keeps the node (V15-35, V15-36).
pub fn candidate<'a>(node: &'a ExistingNode, facts: &Facts<'a>, class: Class) -> Result<Candidate<'a>, Blocked> {
    candidate_with(node, facts, class, &PdbIndex::new(facts.budgets))
}

/// The same, where many nodes are looked at.
pub(crate) fn candidate_with<'a>(
    node: &'a ExistingNode,
    facts: &Facts<'a>,
    class: Class,
    budgets: &PdbIndex<'_>,
) -> Result<Candidate<'a>, Blocked> {
    let name = node.claim.as_ref().map(|claim| claim.name.as_str());
    if name.is_some_and(|name| facts.queued.contains(name)) {
        return Err(Blocked::Queued);
    }
    if class == Class::Repair && node.claim.is_some() && node.pool().is_none() {
        return Err(Blocked::RepairNeedsPool);
    }
    match node_check(node, facts) {
        // A sick node is of no use to the pod that waits for it (Z6).
        Err(Blocked::NotInitialized | Blocked::Nominated | Blocked::DoNotDisrupt) if class == Class::Repair => {}
        other => other?,
    }
    let Some(pool) = node.pool() else { return Err(Blocked::NoPoolLabel) };
    let Some(pool) = facts.pools.get(pool) else { return Err(Blocked::NoPool(pool.to_owned())) };
    let may_force = match class {
        Class::Graceful => false,
        Class::Eventual => node.claim.as_ref().is_some_and(|claim| claim.termination_grace_period.is_some()),
        Class::Repair => true,
    };
    let has_blockers = match pod_check(node, facts, budgets) {
        Err(why) if why.is_by_pods() && may_force => true,
        other => {
            other?;
            false
        }
    };
    let asked = node.labels().get(labels::INSTANCE_TYPE);
    let instance_type = asked.and_then(|name| pool.instance_types.as_ref()?.iter().find(|known| known.name == *name));
    Ok(Candidate {
        node,
        pool,
        instance_type,
        price: cost::price(node, instance_type),
        reschedule_cost: cost::reschedule_cost(&node.pods),
        has_blockers,
    })
}

/// DIS-11 … DIS-17 in the order of V15-35; whether the pool label is there comes last.
fn node_check(node: &ExistingNode, facts: &Facts<'_>) -> Result<(), Blocked> {
    let Some(claim) = &node.claim else { return Err(Blocked::Unmanaged) };
    let Some(view) = &node.node else { return Err(Blocked::NoNode) };
    if claim.rebooting {
        return Err(Blocked::Rebooting);
    }
    if node.is_going() {
        return Err(Blocked::Deleting);
    }
    if !view.is_initialized() {
        return Err(if view.is_registered() { Blocked::NotInitialized } else { Blocked::NotRegistered });
    }
    if node.nominated_until.is_some_and(|until| facts.now < until) {
        return Err(Blocked::Nominated);
    }
    // Only the exact word: durations are for pods (DIS-16).
    let annotations = if view.is_registered() { &view.annotations } else { &claim.annotations };
    if annotations.get(DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
        return Err(Blocked::DoNotDisrupt);
    }
    Ok(())
}

/// DIS-19, DIS-20: pods by name, protected ones before those that budgets hold.
fn pod_check(node: &ExistingNode, facts: &Facts<'_>, budgets: &PdbIndex<'_>) -> Result<(), Blocked> {
    if let Some(pod) = node.pods.iter().find(|pod| !pod.is_disruptable(facts.now)) {
        return Err(Blocked::ProtectedPod(pod.id.clone()));
    }
    for pod in &node.pods {
        match held_by(pod, budgets.near(pod), facts.now) {
            None => {}
            Some(Held::By(budget)) => return Err(Blocked::Budget { pod: pod.id.clone(), budget }),
            Some(Held::ByMany(budgets)) => return Err(Blocked::ManyBudgets { pod: pod.id.clone(), budgets }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
