//! Verdicts from pass to pass, with what they read; only those that read something that has changed are forgotten.
//!
//! Pods try nodes in order of their names, so a verdict reads the nodes that receive its pods, those before them that have room
//! for at least one of its pods, and pods that its spread and affinity terms select. Where more is at stake, such as pods that
//! wait, preferences or new nodes that others may make superfluous, a verdict has read everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::WhenUnsatisfiable;
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::Effect;

use super::{Verdict, of_reading};
use crate::candidates::Candidate;
use crate::look::{Gates, Look};
use crate::simulation::Simulator;

/// What a verdict depends on, beside its own node and what all depend on.
#[derive(Debug, Clone)]
pub(crate) enum Reads {
    Everything,
    Some {
        receivers: Vec<String>,
        /// Nodes after this one were not looked at; `None` where all were.
        last: Option<String>,
        /// No pod that moves asks for less.
        least: Resources,
        /// What its spread and affinity terms count.
        counts: Vec<Selector>,
    },
}

impl Reads {
    /// Of the pods that move to these nodes; `overflow`: some found no place on any.
    pub(super) fn of(pods: &[Arc<PodView>], receivers: Vec<String>, overflow: bool) -> Self {
        let mut counts = Vec::new();
        let mut all = overflow;
        for scheduling in pods.iter().map(|pod| &pod.scheduling) {
            let spread = scheduling.spread.iter().filter_map(|spread| spread.selector.clone());
            let terms = scheduling.affinity.iter().chain(&scheduling.anti_affinity);
            let wishes = scheduling.preferred_affinity.iter().chain(&scheduling.preferred_anti_affinity);
            counts.extend(spread);
            counts.extend(terms.filter_map(|term| term.selector.clone()));
            counts.extend(wishes.filter_map(|wish| wish.value.selector.clone()));
            // A wish is tried on all nodes before it is given up.
            all |= !scheduling.preferred_terms.is_empty()
                || !scheduling.preferred_affinity.is_empty()
                || !scheduling.preferred_anti_affinity.is_empty()
                || scheduling.spread.iter().any(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway)
                || scheduling.volumes.alternatives.len() > 1;
        }
        let last = if all { None } else { Some(receivers.iter().max().cloned().unwrap_or_default()) };
        Self::Some { receivers, last, least: least(pods), counts }
    }
}

fn least(pods: &[Arc<PodView>]) -> Resources {
    let mut pods = pods.iter();
    let Some(first) = pods.next() else { return Resources::new() };
    pods.fold(first.requests.clone(), |least, pod| {
        let both = least.iter().filter_map(|(name, amount)| Some((name, amount.min(pod.requests.get(name)?))));
        both.fold(Resources::new(), |sum, (name, amount)| sum.with(name, amount))
    })
}

/// What all verdicts depend on.
#[derive(Debug, Clone)]
struct Around {
    pools: Vec<(Arc<PoolView>, Arc<Vec<InstanceType>>, Resources)>,
    daemons: Vec<Arc<PodView>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    options: String,
    gates: Gates,
    /// A verdict may have read anything.
    entangled: bool,
}

impl Around {
    fn of(look: &Look<'_>) -> Self {
        let snapshot = look.snapshot;
        let pools = snapshot.pools.iter().map(|offer| {
            // What is used counts only against limits.
            let usage = if offer.pool.limits.is_empty() { Resources::new() } else { offer.usage.clone() };
            (offer.pool.clone(), offer.instance_types.clone(), usage)
        });
        let mut offerings =
            snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter()).flat_map(|t| &t.offerings);
        let discouraged =
            |node: &ExistingNode| node.taints().iter().any(|taint| taint.effect == Effect::PreferNoSchedule);
        Self {
            pools: pools.collect(),
            daemons: snapshot.daemons.clone(),
            namespaces: snapshot.namespaces.clone(),
            options: format!("{:?}", look.options),
            gates: look.gates,
            entangled: !snapshot.pending.is_empty()
                || !look.planned.is_empty()
                || snapshot.devices.is_some()
                || offerings.any(|offering| offering.reservation_capacity.is_some())
                || snapshot.nodes.iter().any(discouraged),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<PodView>, &Arc<PodView>)| Arc::ptr_eq(a, b);
        self.pools.len() == other.pools.len()
            && self
                .pools
                .iter()
                .zip(&other.pools)
                .all(|(a, b)| Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1) && a.2 == b.2)
            && self.daemons.len() == other.daemons.len()
            && self.daemons.iter().zip(&other.daemons).all(same)
            && self.namespaces == other.namespaces
            && self.options == other.options
            && self.gates == other.gates
    }
}

/// A node as it was looked at. What is pointed to is held, so that a pointer stands for what it was.
#[derive(Debug, Clone)]
struct Print {
    node: Option<Arc<NodeView>>,
    claim: Option<Arc<ClaimView>>,
    /// With whether they may move.
    pods: Vec<(Arc<PodView>, bool)>,
    volume_limits: BTreeMap<String, Option<u32>>,
    marked: bool,
    held_up: bool,
    unsettled: bool,
}

impl Print {
    fn of(node: &ExistingNode, simulator: &Simulator<'_>) -> Self {
        Self {
            node: node.node.clone(),
            claim: node.claim.clone(),
            pods: node.pods.iter().map(|pod| (pod.clone(), simulator.may_move(pod))).collect(),
            volume_limits: node.volume_limits.clone(),
            marked: node.marked,
            held_up: node.held_up,
            unsettled: simulator.is_unsettled(node),
        }
    }

    /// But for its pods.
    fn is_same_node(&self, other: &Self) -> bool {
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            }
        }
        same(self.node.as_ref(), other.node.as_ref())
            && same(self.claim.as_ref(), other.claim.as_ref())
            && (self.marked, self.held_up, self.unsettled) == (other.marked, other.held_up, other.unsettled)
            && self.volume_limits == other.volume_limits
    }

    fn has_same_pods(&self, other: &Self) -> bool {
        self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1)
    }

    /// Pods that only one of them has.
    fn pods_but<'p>(&'p self, other: &'p Self) -> impl Iterator<Item = &'p Arc<PodView>> {
        self.pods.iter().map(|(pod, _)| pod).filter(|pod| !other.pods.iter().any(|(have, _)| Arc::ptr_eq(have, pod)))
    }
}

/// What has happened to one node.
struct Changed<'p> {
    name: &'p str,
    /// More than its pods.
    itself: bool,
    pods: Vec<&'p Arc<PodView>>,
    /// What it has to offer now.
    free: Option<Resources>,
}

#[derive(Debug, Clone, Default)]
pub struct Cache {
    around: Option<Around>,
    prints: BTreeMap<String, Print>,
    known: BTreeMap<String, (Verdict, Reads)>,
}

impl Cache {
    /// How many verdicts are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Forgets what has read something that is not so any more. Must be called for every look before it is asked about.
    pub fn refresh(&mut self, look: &Look<'_>, simulator: &Simulator<'_>) {
        let around = Around::of(look);
        let nodes = &look.snapshot.nodes;
        let prints: BTreeMap<String, Print> =
            nodes.iter().map(|node| (node.name().to_owned(), Print::of(node, simulator))).collect();
        let same =
            self.around.as_ref().is_some_and(|before| before.is_same(&around) && before.entangled == around.entangled);
        if same {
            let changed = changed(&self.prints, &prints, nodes);
            if around.entangled && !changed.is_empty() {
                self.known.clear();
            }
            forget(&mut self.known, &changed);
        } else {
            self.known.clear();
        }
        if around.entangled && !look.snapshot.pending.is_empty() {
            // Whoever waits may be somebody else now.
            self.known.clear();
        }
        (self.around, self.prints) = (Some(around), prints);
    }

    /// The verdict on a node of the look, and whether it was known.
    pub fn of(&mut self, candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> (Verdict, bool) {
        if let Some((verdict, _)) = self.known.get(candidate.name()) {
            return (verdict.clone(), true);
        }
        let (verdict, reads) = of_reading(candidate, look, simulator);
        self.known.insert(candidate.name().to_owned(), (verdict.clone(), reads));
        (verdict, false)
    }
}

fn changed<'p>(
    before: &'p BTreeMap<String, Print>,
    now: &'p BTreeMap<String, Print>,
    nodes: &[ExistingNode],
) -> Vec<Changed<'p>> {
    let mut all = Vec::new();
    for (name, was) in before.iter().filter(|(name, _)| !now.contains_key(*name)) {
        all.push(Changed { name, itself: true, pods: was.pods.iter().map(|(pod, _)| pod).collect(), free: None });
    }
    for ((name, is), node) in now.iter().zip(in_order(nodes)) {
        let free = || node.stays().then(|| node.available());
        match before.get(name) {
            None => {
                all.push(Changed {
                    name,
                    itself: true,
                    pods: is.pods.iter().map(|(pod, _)| pod).collect(),
                    free: free(),
                });
            }
            Some(was) if was.is_same_node(is) && was.has_same_pods(is) => {}
            Some(was) => {
                let pods = was.pods_but(is).chain(is.pods_but(was)).collect();
                all.push(Changed { name, itself: !was.is_same_node(is), pods, free: free() });
            }
        }
    }
    all
}

fn in_order(nodes: &[ExistingNode]) -> impl Iterator<Item = &ExistingNode> {
    let by_name: BTreeMap<&str, &ExistingNode> = nodes.iter().map(|node| (node.name(), node)).collect();
    by_name.into_values()
}

fn forget(known: &mut BTreeMap<String, (Verdict, Reads)>, changed: &[Changed<'_>]) {
    // Who keeps others out of a whole zone changes places that nobody has looked at.
    let far = |pod: &Arc<PodView>| pod.scheduling.anti_affinity.iter().any(|term| term.key != labels::HOSTNAME);
    if changed.iter().flat_map(|one| &one.pods).any(|pod| far(pod)) {
        known.clear();
    }
    known.retain(|name, (_, reads)| match reads {
        Reads::Everything => changed.is_empty(),
        Reads::Some { receivers, last, least, counts } => !changed.iter().any(|one| {
            let looked_at = last.as_deref().is_none_or(|last| one.name <= last);
            one.name == name
                || receivers.iter().any(|receiver| receiver == one.name)
                || (looked_at && one.free.as_ref().is_some_and(|free| least.fits(free)))
                || (one.itself && !counts.is_empty())
                || counts.iter().any(|counted| one.pods.iter().any(|pod| counted.matches(&pod.labels)))
        }),
    });
}
