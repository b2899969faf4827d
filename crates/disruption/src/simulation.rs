//! What would become of the pods of nodes that go (DIS-81 … DIS-92).

mod following;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::duration::GoDuration;
use karpenter_model::labels::LabelRules;
use karpenter_model::pdb::{self, PdbIndex, PdbView};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_solver::{Asking, NodeId, Options, Placement, Plan, PlannedClaim, Planner, Reserved, Solver, WhatIf};

use crate::candidates::{Candidate, Facts};
use crate::consolidatable::window_end;

pub(crate) use self::following::Kept;

/// What a method asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'a> {
    /// Pods that run are not moved to nodes where pods have just come or gone (DIS-70).
    pub leave_unsettled_alone: bool,
    /// New nodes are packed as cheaply as may be, instead of filled in the specified order; several may take the place of one.
    pub packed: bool,
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
    pub fn receiving(&self, pods: &BTreeMap<PodId, Arc<PodView>>) -> Receiving {
        let real = |id: &PodId| pods.get(id).is_none_or(|pod| pod.buffer.is_none());
        let placed = self.plan.placed.iter().filter(|(id, _)| real(id));
        placed
            .filter_map(|(id, place)| match place {
                Placement::Existing(node) => Some((node.clone(), id.clone())),
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

/// Existing nodes that receive pods, and which.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receiving(BTreeMap<String, BTreeSet<PodId>>);

impl Receiving {
    /// How many nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Each node with its pods.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &BTreeSet<PodId>)> {
        self.0.iter().map(|(node, pods)| (node.as_str(), pods))
    }
}

impl Extend<(String, PodId)> for Receiving {
    fn extend<I: IntoIterator<Item = (String, PodId)>>(&mut self, places: I) {
        for (node, pod) in places {
            self.0.entry(node).or_default().insert(pod);
        }
    }
}

impl FromIterator<(String, PodId)> for Receiving {
    fn from_iter<I: IntoIterator<Item = (String, PodId)>>(places: I) -> Self {
        let mut receiving = Self::default();
        receiving.extend(places);
        receiving
    }
}

impl IntoIterator for Receiving {
    type Item = (String, PodId);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    /// Node and pod.
    fn into_iter(self) -> Self::IntoIter {
        let places = self.0.into_iter().flat_map(|(node, pods)| pods.into_iter().map(move |pod| (node.clone(), pod)));
        places.collect::<Vec<_>>().into_iter()
    }
}

/// Asks what-ifs of one look at the cluster.
#[derive(Debug)]
pub struct Simulator<'a> {
    /// Pods that wait, and pods of nodes that are going, are in it as pending.
    snapshot: &'a Snapshot,
    rules: LabelRules,
    solver: Solver,
    known: Known,
    options: Options,
    /// Pods that bring their place along in a pass: with default spread constraints, where these differ from what is written.
    planned: &'a BTreeMap<PodId, Arc<PodView>>,
    unsettled: BTreeSet<String>,
    /// Nodes that are not initialized, with their claims.
    starting: OnceCell<BTreeMap<&'a str, &'a str>>,
    budgets: &'a [Arc<PdbView>],
    index: OnceCell<PdbIndex<'a>>,
    /// Some node is about to restart, and receives nobody whoever asks (Z29).
    some_reboot: bool,
    now: Timestamp,
    /// Somebody has asked something.
    asked: bool,
    /// The first moment at which a pod that may not move now may, though nothing happens to it.
    until: Option<Timestamp>,
}

/// The snapshot, compiled for questions.
#[derive(Debug)]
enum Known {
    /// Nobody has asked yet.
    NotYet,
    Compiled(Box<WhatIf>),
    /// Somebody is at it.
    Changed,
    /// Each question takes a pass of its own.
    Never,
}

/// The nodes of the candidates, and the pods that move with them.
fn going(known: &WhatIf, candidates: &[&Candidate<'_>]) -> Option<(Vec<NodeId>, BTreeSet<PodId>)> {
    let nodes: Vec<NodeId> = candidates.iter().map(|candidate| known.node(candidate.name())).collect::<Option<_>>()?;
    let moved = nodes.iter().flat_map(|node| known.residents(*node)).map(|pod| pod.id.clone()).collect();
    Some((nodes, moved))
}

impl<'a> Simulator<'a> {
    pub fn new(
        snapshot: &'a Snapshot,
        facts: &Facts<'a>,
        planned: &'a BTreeMap<PodId, Arc<PodView>>,
        rules: &LabelRules,
        options: Options,
    ) -> Self {
        let windows = facts.pools.values().filter_map(|pool| pool.view.consolidate_after.duration());
        let longest = windows.map(GoDuration::as_signed).max().unwrap_or_default();
        let (mut unsettled, mut some_reboot) = (BTreeSet::new(), false);
        for node in &snapshot.nodes {
            let rebooting = is_rebooting(node);
            some_reboot |= rebooting;
            if rebooting || (is_recent(node, longest, facts.now) && is_unsettled(node, facts)) {
                unsettled.insert(node.name().to_owned());
            }
        }
        Self {
            snapshot,
            rules: rules.clone(),
            solver: Solver::new(rules),
            known: Known::NotYet,
            options,
            planned,
            unsettled,
            starting: OnceCell::new(),
            budgets: facts.budgets,
            index: OnceCell::new(),
            some_reboot,
            now: facts.now,
            asked: false,
            until: None,
        }
    }

    /// Somebody has asked something, so that it took time.
    pub fn was_asked(&self) -> bool {
        self.asked
    }

    /// Every question takes a pass of its own over the whole cluster: slow and plain, to compare with.
    #[must_use]
    pub fn uncompiled(self) -> Self {
        Self { known: Known::Never, ..self }
    }

    /// Some node is left alone because pods have just come or gone.
    pub(crate) fn has_unsettled(&self) -> bool {
        // Where some restart, each answer would take a pass of its own.
        !self.unsettled.is_empty() && !self.some_reboot
    }

    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The cluster without the candidates.
    pub fn without(&mut self, candidates: &[&Candidate<'_>], question: Question<'_>) -> Simulated {
        self.asked = true;
        self.without_compiled(candidates, question).unwrap_or_else(|| self.without_from_scratch(candidates, question))
    }

    /// Asked of the compiled snapshot; `None` where that does not say.
    fn without_compiled(&mut self, candidates: &[&Candidate<'_>], question: Question<'_>) -> Option<Simulated> {
        let only_reboots_matter = self.some_reboot && !question.leave_unsettled_alone;
        if question.everybody || question.giving_back.is_some() || only_reboots_matter {
            return None;
        }
        let options = self.options_for(question);
        let (leave_unsettled_alone, packed) = (question.leave_unsettled_alone, question.packed);
        let asking = Asking { leave_unsettled_alone, packed, ..Asking::default() };
        let known = self.compiled()?;
        let (nodes, moved) = going(known, candidates)?;
        let plan = known.without(&nodes, asking, |answer| {
            // Somebody who plans better than the reference has something to say only where new nodes are wanted.
            (options.planner == Planner::Reference || answer.claims() == 0).then(|| answer.plan())
        })??;
        let homeless = self.homeless(&plan, &moved);
        Some(Simulated { plan, moved, homeless })
    }

    /// The cluster without the candidates; where `approve` finds something in it, it stays like that for the questions that
    /// follow. `None` also where questions cannot be asked of a compiled snapshot.
    pub(crate) fn settle<T>(
        &mut self,
        candidates: &[&Candidate<'_>],
        packed: bool,
        approve: impl FnOnce(Simulated) -> Option<T>,
    ) -> Option<T> {
        let mut known = match std::mem::replace(&mut self.known, Known::Changed) {
            Known::Compiled(known) => known,
            other => {
                self.known = other;
                return None;
            }
        };
        let found = going(&known, candidates).and_then(|(nodes, moved)| {
            known.without(&nodes, Asking { leave_unsettled_alone: true, packed, ..Asking::default() }, |answer| {
                let plan = answer.plan();
                let homeless = self.homeless(&plan, &moved);
                let found = approve(Simulated { plan, moved, homeless });
                if found.is_some() {
                    answer.keep();
                }
                found
            })
        });
        self.known = Known::Compiled(known);
        found.flatten()
    }

    /// What was settled is forgotten: the cluster is as it is.
    pub(crate) fn forget(&mut self) {
        match &self.known {
            // Nothing was settled, so there is nothing to forget.
            Known::Compiled(known) if !known.has_kept() => {}
            Known::Compiled(_) | Known::Changed => self.known = Known::NotYet,
            Known::NotYet | Known::Never => {}
        }
    }

    /// The compiled snapshot, where there is one.
    pub(crate) fn compiled(&mut self) -> Option<&mut WhatIf> {
        self.asked = true;
        if matches!(self.known, Known::NotYet) {
            let options = Options { planner: Planner::Reference, ..self.options_for(Question::default()) };
            let mut until = None;
            let moves = |node: &ExistingNode, pod: &Arc<PodView>| self.moves(node, pod, &mut until);
            let unsettled = |node: &ExistingNode| self.unsettled.contains(node.name());
            let known = WhatIf::new(self.snapshot, &self.rules, &options, moves, unsettled);
            self.until = until;
            self.known = known.map_or(Known::Never, |known| Known::Compiled(Box::new(known)));
        }
        match &mut self.known {
            Known::Compiled(known) => Some(known),
            Known::NotYet | Known::Changed | Known::Never => None,
        }
    }

    /// The candidate in the compiled snapshot.
    pub(crate) fn node_of(&mut self, candidate: &Candidate<'_>) -> Option<NodeId> {
        let at = self.snapshot.nodes.element_offset(candidate.node);
        let known = self.compiled()?;
        at.map_or_else(|| known.node(candidate.name()), |at| known.node_at(at, candidate.node))
    }

    /// Somebody who finds cheaper nodes than the specified order does plans.
    pub(crate) fn plans_better(&self) -> bool {
        self.options.planner != Planner::Reference
    }

    fn options_for(&self, question: Question<'_>) -> Options {
        let reserved = match (self.options.reserved, question.giving_back) {
            (Reserved::Untracked, _) => Reserved::Untracked,
            (_, None) => Reserved::Fallback,
            (_, Some(_)) => Reserved::Strict,
        };
        Options { reserved, ..self.options }
    }

    /// The same by a pass of its own over the whole cluster: what every answer is measured by.
    pub fn without_from_scratch(&mut self, candidates: &[&Candidate<'_>], question: Question<'_>) -> Simulated {
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
        let options = self.options_for(question);
        if let Some((reservation, freed)) = question.giving_back.filter(|_| options.reserved == Reserved::Strict) {
            world.reservation_credits.insert(reservation.to_owned(), freed);
        }
        let plan = self.solver.plan(&world, &options);
        let homeless = self.homeless(&plan, &moved);
        Simulated { plan, moved, homeless }
    }

    /// Made when somebody asks: most looks have to do with few pods.
    fn index(&self) -> &PdbIndex<'a> {
        self.index.get_or_init(|| PdbIndex::new(self.budgets))
    }

    /// DIS-32.
    pub(crate) fn may_move(&self, pod: &PodView) -> bool {
        pod.is_disruptable(self.now) && !pdb::is_fully_blocked(pod, self.index().near(pod), self.now)
    }

    /// Pods that run and would not any more (DIS-85, DIS-87).
    fn homeless(&self, plan: &Plan, moved: &BTreeSet<PodId>) -> Vec<(PodId, String)> {
        let pending = &self.snapshot.pending;
        let waits = |id: &PodId| !moved.contains(id) && pending.get(id).is_none_or(|pod| pod.is_provisionable());
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
        let claim = |node: &'a ExistingNode| node.claim.as_ref().map_or("", |claim| claim.name.as_str());
        let starting = self.starting.get_or_init(|| {
            let starting = self.snapshot.nodes.iter().filter(|node| !node.is_initialized());
            starting.map(|node| (node.name(), claim(node))).collect()
        });
        if starting.is_empty() {
            return all.into_iter().collect();
        }
        for (pod, place) in plan.placed.iter().filter(|(pod, _)| moved.contains(*pod)) {
            let Placement::Existing(name) = place else { continue };
            if let Some(claim) = starting.get(name.as_str()) {
                all.insert(
                    pod.clone(),
                    format!("would go to node {name} (NodeClaim {claim}), which is not initialized"),
                );
            }
        }
        all.into_iter().collect()
    }
}

fn is_rebooting(node: &ExistingNode) -> bool {
    node.claim.as_ref().is_some_and(|claim| claim.rebooting)
}

/// Pods came or went within the longest window of any pool. Which one the node's is takes longer to find out.
fn is_recent(node: &ExistingNode, longest: SignedDuration, now: Timestamp) -> bool {
    node.claim.as_ref().is_some_and(|claim| {
        let quiet_since = claim.last_pod_event.unwrap_or(claim.initialized.since);
        !longest.is_zero() && now < quiet_since.saturating_add(longest).unwrap_or(Timestamp::MAX)
    })
}

/// Pods came or went within the window of the node's pool (DIS-70, SCH-98).
fn is_unsettled(node: &ExistingNode, facts: &Facts<'_>) -> bool {
    let Some(claim) = node.claim.as_ref().filter(|claim| claim.initialized.is_true()) else { return false };
    let pool = node.pool().and_then(|pool| facts.pools.get(pool)).map(|pool| &pool.view);
    let Some(pool) = pool.filter(|pool| pool.is_schedulable()) else { return false };
    window_end(claim, pool.consolidate_after)
        .is_some_and(|end| facts.now < end && pool.consolidate_after.duration().is_some_and(|after| !after.is_zero()))
}
