//! Verdicts from pass to pass; only those that a change may have something to do with are found anew.
//!
//! Where more nodes have room for each pod of a node than it has pods, they find a place whatever happens, and the verdict
//! needs no memory ([`WhatIf::has_room_for`]). The others are kept with where their pods went. Pods try nodes in order, so such a
//! verdict is void where a node that received one of them has changed, or one before it might take the pod now, or who is counted
//! for its spread and affinity terms has ([`WhatIf::stands`]). Where more is at stake, such as wishes that were given up or
//! new nodes that others may make superfluous, any change voids a verdict.
//!
//! [`WhatIf::has_room_for`]: karpenter_solver::WhatIf::has_room_for
//! [`WhatIf::stands`]: karpenter_solver::WhatIf::stands

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;
use karpenter_solver::{NodeId, Trace};

use super::{Verdict, of_reading};
use crate::candidates::Candidate;
use crate::look::{Gates, Look};
use crate::simulation::{Kept, Simulator};

/// What a verdict depends on, beside its own node and what all depend on.
#[derive(Debug, Clone)]
pub(crate) enum Reads {
    Everything,
    /// There is more than enough room.
    Room,
    Traced(Trace),
}

/// What all verdicts depend on.
#[derive(Debug, Clone)]
struct Around {
    pools: Vec<(Arc<PoolView>, Arc<Vec<InstanceType>>, Resources)>,
    daemons: Vec<Arc<PodView>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    options: String,
    rules: LabelRules,
    gates: Gates,
    /// Who moves has to do with who waits, or cannot be followed from look to look.
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
        Self {
            pools: pools.collect(),
            daemons: snapshot.daemons.clone(),
            namespaces: snapshot.namespaces.clone(),
            options: format!("{:?}", look.options),
            rules: look.rules.clone(),
            gates: look.gates,
            entangled: !snapshot.pending.is_empty() || !look.planned.is_empty() || snapshot.devices.is_some(),
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
            && self.rules == other.rules
            && self.gates == other.gates
    }
}

/// A verdict that took a simulation.
#[derive(Debug)]
struct Found {
    verdict: Verdict,
    price: Price,
    /// `None`: it has read everything.
    trace: Option<Trace>,
}

#[derive(Debug, Default)]
pub struct Cache {
    around: Option<Around>,
    kept: Option<Kept>,
    found: BTreeMap<NodeId, Found>,
}

impl Cache {
    /// How many verdicts are known that took a simulation.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Forgets what is not so any more; the simulator goes on with what an earlier one has compiled, where it can. Must be called
    /// for every look before it is asked about.
    pub fn refresh(&mut self, look: &Look<'_>, simulator: &mut Simulator<'_>) {
        let around = Around::of(look);
        let same = self.around.as_ref().is_some_and(|before| before.is_same(&around)) && !around.entangled;
        let kept = self.kept.take().filter(|_| same);
        let followed = kept.is_some_and(|kept| simulator.recall(kept, look.facts.budgets));
        self.around = Some(around);
        if !followed {
            self.found.clear();
        }
        if self.found.is_empty() {
            return;
        }
        let restless = simulator.has_unsettled();
        let Some(known) = simulator.compiled() else { return };
        self.found.retain(|node, found| match (&found.trace, &found.verdict) {
            // A new node might be superfluous as soon as others have come to rest.
            (_, Verdict::Replace { .. }) if restless => !known.has_changed(),
            (Some(trace), _) => known.stands(*node, trace),
            (None, _) => !known.has_changed(),
        });
    }

    /// The verdict on a node of the look, and whether that took a simulation.
    pub fn of(&mut self, candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> (Verdict, bool) {
        let node = simulator.node_of(candidate);
        let known = node.and_then(|node| self.found.get(&node)).filter(|found| found.price == candidate.price);
        if let Some(found) = known {
            return (found.verdict.clone(), false);
        }
        let (verdict, reads) = of_reading(candidate, look, simulator);
        let trace = match reads {
            Reads::Room => return (verdict, false),
            Reads::Everything => None,
            Reads::Traced(trace) => Some(trace),
        };
        if let Some(node) = node {
            self.found.insert(node, Found { verdict: verdict.clone(), price: candidate.price, trace });
        }
        (verdict, true)
    }

    /// What the simulator has compiled is taken along to the next look.
    pub fn keep(&mut self, look: &Look<'_>, simulator: &mut Simulator<'_>) {
        self.kept = simulator.part_with(look.facts.budgets);
    }
}
