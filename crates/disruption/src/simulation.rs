//! What would become of the pods of nodes that go (DIS-81 … DIS-92).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::labels::LabelRules;
use karpenter_model::pdb;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_solver::{Options, Placement, Plan, PlannedClaim, Reserved, Solver};

use crate::candidates::{Candidate, Facts};
use crate::consolidatable::window_end;

/// What a method asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'a> {
    /// Pods that run are not moved to nodes where pods have just come or gone (DIS-70).
    pub leave_unsettled_alone: bool,
    /// Also pods that nobody may evict now: the node is broken, they have to come back elsewhere (V15-47).
    pub everybody: bool,
    /// Reserved capacity that is full makes the pods wait instead of going elsewhere; so many instances of this
    /// reservation are given back first (V15-74, Z18).
    pub giving_back: Option<(&'a str, u32)>,
}

/// The cluster without some nodes.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub plan: Plan,
    /// Pods of the nodes that go, as far as they move.
    pub moved: BTreeSet<PodId>,
    /// Pods that run and would have no place, with what is in the way; sorted.
    pub homeless: Vec<(PodId, String)>,
}

impl Simulated {
    /// New nodes that the plan wants.
    pub fn claims(&self) -> &[PlannedClaim] {
        &self.plan.claims
    }

    /// Existing nodes that would receive a pod that exists.
    pub fn receiving(&self, pods: &BTreeMap<PodId, Arc<PodView>>) -> BTreeSet<String> {
        let real = |id: &PodId| pods.get(id).is_none_or(|pod| pod.buffer.is_none());
        let placed = self.plan.placed.iter().filter(|(id, _)| real(id));
        placed
            .filter_map(|(_, place)| match place {
                Placement::Existing(node) => Some(node.clone()),
                Placement::New(_) => None,
            })
            .collect()
    }

    /// At most five pods with their reasons (DIS-87).
    pub fn homeless_text(&self) -> String {
        const NAMED: usize = 5;
        let mut texts: Vec<String> =
            self.homeless.iter().take(NAMED).map(|(pod, why)| format!("pod {pod}: {why}")).collect();
        if self.homeless.len() > NAMED {
            texts.push(format!("and {} others", self.homeless.len() - NAMED));
        }
        texts.join("; ")
    }
}

/// Asks what-ifs of one look at the cluster.
#[derive(Debug)]
pub struct Simulator<'a> {
    /// Pods that wait, and pods of nodes that are going, are in it as pending.
    snapshot: &'a Snapshot,
    solver: Solver,
    options: Options,
    /// Pods that bring their place along in a pass: with default spread constraints, where these differ from what is written.
    planned: &'a BTreeMap<PodId, Arc<PodView>>,
    unsettled: BTreeSet<String>,
    budgets: &'a [Arc<pdb::PdbView>],
    now: Timestamp,
}

impl<'a> Simulator<'a> {
    pub fn new(
        snapshot: &'a Snapshot,
        facts: &Facts<'a>,
        planned: &'a BTreeMap<PodId, Arc<PodView>>,
        rules: &LabelRules,
        options: Options,
    ) -> Self {
        let unsettled = snapshot.nodes.iter().filter(|node| is_unsettled(node, facts));
        Self {
            snapshot,
            solver: Solver::new(rules),
            options,
            planned,
            unsettled: unsettled.map(|node| node.name().to_owned()).collect(),
            budgets: facts.budgets,
            now: facts.now,
        }
    }

    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The cluster without the candidates.
    pub fn without(&mut self, candidates: &[&Candidate<'_>], question: Question<'_>) -> Simulated {
        let going: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.name()).collect();
        let mut world = self.snapshot.clone();
        for node in &mut world.nodes {
            node.leaving = going.contains(node.name());
            // Nobody moves pods onto a node that is about to restart (Z29).
            let rebooting = node.claim.as_ref().is_some_and(|claim| claim.rebooting);
            node.unsettled = rebooting || (question.leave_unsettled_alone && self.unsettled.contains(node.name()));
        }
        for candidate in candidates {
            let offer = world.pools.iter_mut().find(|offer| offer.pool.name == candidate.pool_name());
            if let Some(offer) = offer {
                // What goes no longer counts against the limits (DIS-193).
                offer.usage.subtract(&candidate.node.capacity());
            }
        }
        let mut moved = BTreeSet::new();
        for pod in candidates.iter().flat_map(|candidate| candidate.reschedulable_pods()) {
            if question.everybody || self.may_move(pod) {
                moved.insert(pod.id.clone());
                world.pending.insert(pod.id.clone(), self.planned.get(&pod.id).unwrap_or(pod).clone());
            }
        }
        let mut options = self.options;
        options.reserved = match (options.reserved, question.giving_back) {
            (Reserved::Untracked, _) => Reserved::Untracked,
            (_, None) => Reserved::Fallback,
            (_, Some((reservation, freed))) => {
                world.reservation_credits.insert(reservation.to_owned(), freed);
                Reserved::Strict
            }
        };
        let plan = self.solver.plan(&world, &options);
        let homeless = homeless(&plan, &world, &moved);
        Simulated { plan, moved, homeless }
    }

    /// DIS-32.
    fn may_move(&self, pod: &PodView) -> bool {
        pod.is_disruptable(self.now) && !pdb::is_fully_blocked(pod, self.budgets, self.now)
    }
}

/// Pods came or went within the window of the node's pool (DIS-70, SCH-98).
fn is_unsettled(node: &ExistingNode, facts: &Facts<'_>) -> bool {
    let Some(claim) = node.claim.as_ref().filter(|claim| claim.initialized.is_true()) else { return false };
    let pool = node.pool().and_then(|pool| facts.pools.get(pool)).map(|pool| &pool.view);
    let Some(pool) = pool.filter(|pool| pool.is_schedulable()) else { return false };
    window_end(claim, pool.consolidate_after)
        .is_some_and(|end| facts.now < end && pool.consolidate_after.duration().is_some_and(|after| !after.is_zero()))
}

/// Pods that run and would not any more (DIS-85, DIS-87).
fn homeless(plan: &Plan, world: &Snapshot, moved: &BTreeSet<PodId>) -> Vec<(PodId, String)> {
    let waits = |id: &PodId| world.pending.get(id).is_none_or(|pod| pod.is_provisionable());
    let mut all: BTreeMap<PodId, String> = BTreeMap::new();
    for unplaced in plan.unplaced.iter().filter(|unplaced| !waits(&unplaced.pod)) {
        let reasons: Vec<String> =
            unplaced.reasons.iter().map(|refused| format!("{}: {}", refused.pool, refused.why)).collect();
        let why = if reasons.is_empty() { "no pool is ready".to_owned() } else { reasons.join(", ") };
        all.insert(unplaced.pod.clone(), why);
    }
    for pod in plan.untried.iter().filter(|pod| !waits(pod)) {
        all.insert(pod.clone(), "the simulation was stopped".to_owned());
    }
    let starting: BTreeMap<&str, &ExistingNode> =
        world.nodes.iter().filter(|node| !node.is_initialized()).map(|node| (node.name(), node)).collect();
    for (pod, place) in plan.placed.iter().filter(|(pod, _)| moved.contains(*pod)) {
        let Placement::Existing(name) = place else { continue };
        if let Some(node) = starting.get(name.as_str()) {
            let claim = node.claim.as_ref().map_or("", |claim| claim.name.as_str());
            all.insert(pod.clone(), format!("would go to node {name} (NodeClaim {claim}), which is not initialized"));
        }
    }
    all.into_iter().collect()
}
