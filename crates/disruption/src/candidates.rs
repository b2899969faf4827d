//! Which nodes may go at all, and what keeps the others (DIS-10 … DIS-26, V15-35 … V15-37).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::annotations::DO_NOT_DISRUPT;
use karpenter_model::claim::ConditionView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;
use karpenter_model::pdb::{Held, PdbIndex, PdbView, held_by};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::snapshot::ExistingNode;

use crate::budgets::Counted;
use crate::cost;
use crate::methods::consolidation;

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
    /// No pod would have to find another place.
    pub(crate) is_empty: bool,
    pub(crate) consolidation: Eligibility,
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
    let pools: Vec<&PoolFacts> = facts.pools.values().collect();
    candidate_with(node, facts, class, (&PdbIndex::new(facts.budgets), &pools))
}

/// The same, where many nodes are looked at; the pools in their order.
pub(crate) fn candidate_with<'a>(
    node: &'a ExistingNode,
    facts: &Facts<'a>,
    class: Class,
    (budgets, pools): (&PdbIndex<'_>, &[&'a PoolFacts]),
) -> Result<Candidate<'a>, Blocked> {
    Findings::of(node, facts, budgets, None).candidate(node, facts, class, pools)
}

/// What a node and its pods say about whether it may go, whoever asks: all that takes long to find out, and stays so while the node,
/// its claim, its pods, their budgets and the pools do, and until a moment.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    /// Nothing can be said about it.
    unfit: Option<Blocked>,
    /// By itself, whether or not a command has chosen it.
    going: bool,
    young: Option<Blocked>,
    protected: bool,
    /// Its place among the pools.
    pool: Result<usize, Blocked>,
    pods: Result<(), Blocked>,
    /// Some pod is protected for a time, and `pods` is another from then on.
    pub(crate) until: Option<Timestamp>,
    /// Places of the budgets that may have to do with `pods`, by number.
    pub(crate) budgets: Box<[u32]>,
    /// Its place among the types of its pool.
    instance_type: Option<usize>,
    price: Price,
    pub(crate) reschedule_cost: f64,
    is_empty: bool,
    consolidation: Eligibility,
    /// What it is to the budgets of its pool, by itself; `None` for a node that is not managed.
    pub(crate) counted: Option<Counted>,
}

/// Whether consolidation may act on a node, as far as its pool and its type are concerned (DIS-97, DIS-99).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Eligibility {
    Yes,
    No,
    /// What its author should know.
    Because(Arc<str>),
}

impl Findings {
    /// `before`: what was found about the node with these pods, where only its pods are others now.
    pub(crate) fn of(
        node: &ExistingNode,
        facts: &Facts<'_>,
        budgets: &PdbIndex<'_>,
        before: Option<(&[Arc<PodView>], &Self)>,
    ) -> Self {
        let (pool, known) = match node.pool() {
            None => (Err(Blocked::NoPoolLabel), None),
            Some(name) => match facts.pools.get_key_value(name) {
                None => (Err(Blocked::NoPool(name.to_owned())), None),
                Some((name, known)) => (Ok(facts.pools.range::<String, _>(..name).count()), Some(known)),
            },
        };
        let asked = node.labels().get(labels::INSTANCE_TYPE);
        let types = known.and_then(|pool| pool.instance_types.as_ref());
        let instance_type = asked.and_then(|name| types?.iter().position(|known| known.name == *name));
        let type_known = instance_type.and_then(|at| types?.get(at));
        let unfit = match (&node.claim, &node.node) {
            (None, _) => Some(Blocked::Unmanaged),
            (_, None) => Some(Blocked::NoNode),
            (Some(claim), _) => claim.rebooting.then_some(Blocked::Rebooting),
        };
        let (mut until, mut near) = (None, BTreeSet::new());
        // Pods of which nobody objected do not begin to.
        let before = before.filter(|(pods, before)| before.is_open_to_others(pods.len()));
        near.extend(before.iter().flat_map(|(_, before)| before.budgets.iter().copied()));
        let fine = before.map_or(&[][..], |(pods, _)| pods);
        let pods = match unfit {
            Some(_) => Ok(()),
            None => pod_check(node, fine, facts, budgets, (&mut until, &mut near)),
        };
        let view = node.node.as_ref();
        let young = view
            .filter(|view| !view.is_initialized())
            .map(|view| if view.is_registered() { Blocked::NotInitialized } else { Blocked::NotRegistered });
        // Only the exact word: durations are for pods (DIS-16).
        let annotations = match (view, &node.claim) {
            (Some(view), Some(claim)) => {
                Some(if view.is_registered() { &view.annotations } else { &claim.annotations })
            }
            _ => None,
        };
        Self {
            unfit,
            going: is_going_unmarked(node),
            young,
            protected: annotations.is_some_and(|all| all.get(DO_NOT_DISRUPT).is_some_and(|value| value == "true")),
            pool,
            pods,
            until,
            budgets: near.into_iter().collect(),
            instance_type,
            price: cost::price(node, type_known),
            reschedule_cost: cost::reschedule_cost(&node.pods),
            is_empty: cost::is_empty(&node.pods),
            consolidation: known
                .map_or(Eligibility::No, |pool| consolidation::eligibility(node, &pool.view, type_known)),
            counted: counted_by_itself(node),
        }
    }

    /// Nobody of so many pods objects, whatever the time; and not too many budgets are listed that had to do with pods which are gone.
    fn is_open_to_others(&self, pods: usize) -> bool {
        self.unfit.is_none() && self.pods.is_ok() && self.until.is_none() && self.budgets.len() <= 4 * pods + 16
    }

    /// Its place among the pools.
    pub(crate) fn pool(&self) -> Option<usize> {
        self.pool.as_ref().ok().copied()
    }

    /// What a method of the class may do with the node; `node` is the one that was looked at, except for what commands and nominations
    /// have made of it since, and `pools` are the same.
    pub(crate) fn candidate<'a>(
        &self,
        node: &'a ExistingNode,
        facts: &Facts<'a>,
        class: Class,
        pools: &[&'a PoolFacts],
    ) -> Result<Candidate<'a>, Blocked> {
        let name = node.claim.as_ref().map(|claim| claim.name.as_str());
        if !facts.queued.is_empty() && name.is_some_and(|name| facts.queued.contains(name)) {
            return Err(Blocked::Queued);
        }
        if class == Class::Repair && node.claim.is_some() && self.pool == Err(Blocked::NoPoolLabel) {
            return Err(Blocked::RepairNeedsPool);
        }
        match self.node_check(node, facts) {
            // A sick node is of no use to the pod that waits for it (Z6).
            Err(Blocked::NotInitialized | Blocked::Nominated | Blocked::DoNotDisrupt) if class == Class::Repair => {}
            other => other?,
        }
        let pool = pools[self.pool.clone()?];
        let may_force = match class {
            Class::Graceful => false,
            Class::Eventual => node.claim.as_ref().is_some_and(|claim| claim.termination_grace_period.is_some()),
            Class::Repair => true,
        };
        let has_blockers = match &self.pods {
            Err(why) if why.is_by_pods() && may_force => true,
            Err(why) => return Err(why.clone()),
            Ok(()) => false,
        };
        let types = pool.instance_types.as_ref();
        Ok(Candidate {
            node,
            pool,
            instance_type: self.instance_type.and_then(|at| types?.get(at)),
            price: self.price,
            reschedule_cost: self.reschedule_cost,
            has_blockers,
            is_empty: self.is_empty,
            consolidation: self.consolidation.clone(),
        })
    }

    /// DIS-11 … DIS-17 in the order of V15-35; whether the pool label is there comes last.
    fn node_check(&self, node: &ExistingNode, facts: &Facts<'_>) -> Result<(), Blocked> {
        if let Some(why) = &self.unfit {
            return Err(why.clone());
        }
        if node.marked || self.going {
            return Err(Blocked::Deleting);
        }
        if let Some(why) = &self.young {
            return Err(why.clone());
        }
        if node.nominated_until.is_some_and(|until| facts.now < until) {
            return Err(Blocked::Nominated);
        }
        if self.protected { Err(Blocked::DoNotDisrupt) } else { Ok(()) }
    }
}

/// What a managed node is to the budgets of its pool, without what a command has made of it.
pub(crate) fn counted_by_itself(node: &ExistingNode) -> Option<Counted> {
    let (claim, view) = (node.claim.as_ref()?, node.node.as_ref());
    Some(Counted {
        initialized: view.is_some_and(|node| node.is_initialized()),
        rebooting: claim.rebooting,
        instance_terminating: claim.instance_terminating.is_some_and(ConditionView::is_true),
        marked_for_deletion: is_going_unmarked(node),
        ready: view.is_some_and(|node| node.ready),
    })
}

/// It goes whether or not a command has chosen it.
fn is_going_unmarked(node: &ExistingNode) -> bool {
    let by_itself = || ExistingNode { node: node.node.clone(), claim: node.claim.clone(), ..ExistingNode::default() };
    if node.marked { by_itself().is_going() } else { node.is_going() }
}

/// DIS-19, DIS-20: pods by name, protected ones before those that budgets hold; those who are `fine` are not asked. With the moment at which that changes by itself, and
/// the budgets that it depends on.
fn pod_check(
    node: &ExistingNode,
    fine: &[Arc<PodView>],
    facts: &Facts<'_>,
    budgets: &PdbIndex<'_>,
    (until, near): (&mut Option<Timestamp>, &mut BTreeSet<u32>),
) -> Result<(), Blocked> {
    let doubtful: Vec<&Arc<PodView>> =
        node.pods.iter().filter(|pod| !fine.iter().any(|known| Arc::ptr_eq(known, pod))).collect();
    for pod in &doubtful {
        if let Some(end) = pod.protection.until(pod.started_at).filter(|end| facts.now < *end) {
            *until = Some(until.map_or(end, |known| known.min(end)));
        }
    }
    if let Some(pod) = doubtful.iter().find(|pod| !pod.is_disruptable(facts.now)) {
        return Err(Blocked::ProtectedPod(pod.id.clone()));
    }
    for pod in doubtful {
        let listed = budgets.listed(pod);
        near.extend(listed.iter().map(|(at, _)| u32::try_from(*at).unwrap_or(u32::MAX)));
        match held_by(pod, listed.into_iter().map(|(_, budget)| budget), facts.now) {
            None => {}
            Some(Held::By(budget)) => return Err(Blocked::Budget { pod: pod.id.clone(), budget }),
            Some(Held::ByMany(budgets)) => return Err(Blocked::ManyBudgets { pod: pod.id.clone(), budgets }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
