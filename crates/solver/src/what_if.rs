//! What would become of the pods of nodes that go, asked of one compiled snapshot.

mod following;
mod packed;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodView;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

use crate::compiled::Compiled;
use crate::compiled::bits::Bits;
use crate::compiled::group::Site;
use crate::compiled::intern::{Id, id};
use crate::compiled::pass::Pass;
use crate::compiled::undo::Mark;
use crate::compiled::what_if::Parked;
use crate::options::Options;
use crate::places::PodList;
use crate::plan::{Placement, Plan, PlannedClaim};

pub use self::following::Trace;

/// A node of the snapshot, by its place in the order of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// What a question leaves out or insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asking {
    /// Pods that run are not moved to nodes where pods have just come or gone (SCH-98).
    pub leave_unsettled_alone: bool,
    /// New nodes are packed as whoever looks for cheaper plans does it, where that costs less than the specified order.
    pub packed: bool,
    /// Whoever finds no room on a node that exists has no place. Each is tried once, so who could only follow somebody after him in
    /// the queue has none either.
    pub only_existing: bool,
}

/// One snapshot, compiled once, and what it would be without some of its nodes. Every answer is what a pass over the
/// snapshot without these nodes would say, and costs as much as the pods that need a place.
pub struct WhatIf {
    compiled: Compiled,
    /// Always there between questions.
    parked: Option<Parked>,
    /// Before anybody went.
    base: Mark,
    /// By node: its pods that might move.
    residents: Vec<std::ops::Range<usize>>,
    /// By node: its place among those that pods can go to.
    slots: Vec<Option<usize>>,
    unsettled: Bits,
    /// By shape.
    ranks: Vec<usize>,
    /// Of pools that have limits: their place, and what their nodes have.
    usages: BTreeMap<String, (usize, Resources)>,
    /// New nodes of answers that were kept.
    kept_claims: usize,
    /// Some answer was kept, so it is not the cluster as it is.
    has_kept: bool,
    known: following::Known,
    market: packed::Market,
}

impl std::fmt::Debug for WhatIf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WhatIf").field("nodes", &self.slots.len()).finish_non_exhaustive()
    }
}

impl WhatIf {
    /// `moves`: whether a pod of a node would move with it, and as what. `None` where devices are at stake: what is free
    /// depends on who moves, and the answer takes a pass of its own.
    pub fn new(
        snapshot: &Snapshot,
        rules: &LabelRules,
        options: &Options,
        mut moves: impl FnMut(&ExistingNode, &Arc<PodView>) -> Option<Arc<PodView>>,
        unsettled: impl Fn(&ExistingNode) -> bool,
    ) -> Option<Self> {
        let mut nodes: Vec<&ExistingNode> = snapshot.nodes.iter().collect();
        nodes.sort_by(|a, b| a.name().cmp(b.name()));
        let mut pods: Vec<Arc<PodView>> = Vec::new();
        let mut residents = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let start = pods.len();
            let stays = |pod: &&Arc<PodView>| snapshot.pending.contains_key(&pod.id);
            pods.extend(node.pods.iter().filter(|pod| !stays(pod)).filter_map(|pod| moves(node, pod)));
            residents.push(start..pods.len());
        }
        let mut compiled = Compiled::new(rules);
        compiled.update_with(snapshot, &pods, options.workers);
        if compiled.inventory.is_some() {
            return None;
        }
        let waiting = compiled.pods.waiting;
        for range in &mut residents {
            *range = waiting + range.start..waiting + range.end;
        }
        let mut slots = vec![None; nodes.len()];
        compiled.order.iter().enumerate().for_each(|(slot, node)| slots[*node] = Some(slot));
        let mut restless = Bits::default();
        for (node, slot) in nodes.iter().zip(&slots) {
            if let Some(slot) = slot.filter(|_| unsettled(node)) {
                restless.set(slot);
            }
        }
        let (ranks, _) = compiled.pods.ranks();
        let usages = compiled.pools.iter().enumerate().filter(|(_, pool)| !pool.limits.is_empty());
        let usages = usages.filter_map(|(at, pool)| {
            let offer = snapshot.pools.iter().find(|offer| offer.pool.name == pool.view.name)?;
            Some((pool.view.name.clone(), (at, offer.usage.clone())))
        });
        let usages = usages.collect();
        let mut pass = Pass::new(&mut compiled, *options);
        // Groups that begin before anybody goes need not be told who went.
        for kind in 0..pass.compiled.pods.kinds.len() {
            pass.first_variant(id(kind));
        }
        let base = pass.mark();
        let parked = Some(pass.park());
        let known = following::Known::default();
        Some(Self {
            compiled,
            parked,
            base,
            residents,
            slots,
            unsettled: restless,
            ranks,
            usages,
            kept_claims: 0,
            has_kept: false,
            known,
            market: packed::Market::new(snapshot, rules),
        })
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.compiled.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(NodeId)
    }

    pub fn name(&self, node: NodeId) -> &str {
        &self.compiled.nodes[node.0].name
    }

    /// Its pods that would move.
    pub fn residents(&self, node: NodeId) -> &[Arc<PodView>] {
        &self.compiled.pods.all[self.residents[node.0].clone()]
    }

    /// The node has received pods in an answer that was kept.
    pub fn has_guests(&self, node: NodeId) -> bool {
        let slot = self.slots[node.0];
        self.parked.as_ref().zip(slot).is_some_and(|(parked, slot)| parked.guests(slot) > 0)
    }

    /// Some answer was kept: it is not the cluster as it is any more.
    pub fn has_kept(&self) -> bool {
        self.has_kept
    }

    /// Some pool may not grow as it likes.
    pub fn has_limits(&self) -> bool {
        !self.usages.is_empty()
    }

    /// The cluster without these nodes, for as long as somebody looks at it; `None` where one of them has guests.
    pub fn without<T>(
        &mut self,
        nodes: &[NodeId],
        asking: Asking,
        look: impl FnOnce(&mut Answer<'_, '_>) -> T,
    ) -> Option<T> {
        if nodes.iter().any(|node| self.has_guests(*node)) {
            // Who came in an answer that was kept has no place to go back to.
            return None;
        }
        let parked = self.parked.take()?;
        let mut pass = Pass::resume(&mut self.compiled, parked);
        pass.unsettled = if asking.leave_unsettled_alone { self.unsettled.clone() } else { Bits::default() };
        let mut usages: BTreeMap<&str, Resources> = BTreeMap::new();
        // Those who have a place already waited for an earlier question, and its answer was kept.
        let waiting = (0..pass.compiled.pods.waiting).filter(|pod| pass.placed[*pod].is_none());
        let mut order: Vec<Id> = waiting.map(id).collect();
        for node in nodes {
            let residents = self.residents[node.0].clone();
            order.extend(residents.clone().map(id));
            pass.leave(node.0, self.slots[node.0], residents);
            if self.usages.is_empty() {
                continue;
            }
            let source = &pass.compiled.nodes[node.0].source;
            if let Some((pool, (_, usage))) = source.pool().and_then(|pool| self.usages.get_key_value(pool)) {
                // What goes no longer counts against the limits (DIS-193).
                usages.entry(pool).or_insert_with(|| usage.clone()).subtract(&source.capacity());
            }
        }
        for (pool, usage) in usages {
            if let Some((at, _)) = self.usages.get(pool) {
                pass.set_usage(*at, &usage);
            }
        }
        pass.compiled.pods.sort(&self.ranks, &mut order);
        let left = asking.packed.then(|| pass.mark());
        if asking.only_existing {
            pass.run_on_existing(&order);
        } else {
            pass.run_some(&order, &mut || false);
        }
        let claims = self.kept_claims;
        if let Some(left) = left.filter(|_| pass.claims.len() > claims) {
            self.market.improve(&mut pass, &order, claims, &left);
        }
        let residents = &self.residents;
        let mut answer = Answer { pass: &mut pass, order: &order, residents, first_claim: claims, kept: false };
        let seen = look(&mut answer);
        if answer.kept {
            for claim in claims..pass.claims.len() {
                // Later questions have nodes of their own.
                pass.sealed.set(claim);
            }
            self.kept_claims = pass.claims.len();
            self.base = pass.mark();
            self.has_kept = true;
            for node in nodes {
                let source = &pass.compiled.nodes[node.0].source;
                if let Some((_, usage)) = source.pool().and_then(|pool| self.usages.get_mut(pool)) {
                    usage.subtract(&source.capacity());
                }
            }
        } else {
            pass.roll_back(&self.base);
        }
        for pod in order {
            pass.refused[pod as usize] = None;
        }
        self.parked = Some(pass.park());
        Some(seen)
    }
}

/// Who went where.
#[derive(Debug)]
pub struct Answer<'a, 'c> {
    pass: &'a mut Pass<'c>,
    order: &'a [Id],
    /// By node.
    residents: &'a [std::ops::Range<usize>],
    /// Those before it belong to answers that were kept.
    first_claim: usize,
    kept: bool,
}

impl Answer<'_, '_> {
    /// How many new nodes there would be.
    pub fn claims(&self) -> usize {
        self.pass.claims.len() - self.first_claim
    }

    /// From now on the cluster is as this answer says: the nodes are gone, their pods are elsewhere. Nodes that have received
    /// pods must not be asked about any more.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Pods that run and have no place on an existing node.
    pub fn overflow(&self) -> impl Iterator<Item = &Arc<PodView>> {
        let waiting = self.pass.compiled.pods.waiting;
        let moved = self.order.iter().filter(move |pod| **pod as usize >= waiting);
        moved
            .filter(|pod| !matches!(self.pass.placed[**pod as usize], Some(Site::Node(_))))
            .map(|pod| &self.pass.compiled.pods.all[*pod as usize])
    }

    /// All pods of a node that goes have places on existing nodes.
    pub fn is_taken_in(&self, node: NodeId) -> bool {
        let mut residents = self.residents[node.0].clone();
        residents.all(|pod| matches!(self.pass.placed[pod], Some(Site::Node(_))))
    }

    /// Pods that have no place, and do not just go on waiting.
    pub fn homeless(&self) -> usize {
        let pods = &self.pass.compiled.pods;
        let homeless =
            |pod: &&Id| self.pass.placed[**pod as usize].is_none() && !pods.all[**pod as usize].is_provisionable();
        self.order.iter().filter(homeless).count()
    }

    /// Existing nodes that receive pods, with the pods.
    pub fn moves(&self) -> impl Iterator<Item = (&Arc<PodView>, NodeId)> {
        self.order.iter().filter_map(|pod| match self.pass.placed[*pod as usize]? {
            Site::Node(slot) => Some((&self.pass.compiled.pods.all[*pod as usize], NodeId(self.pass.slots[slot].node))),
            Site::Claim(_) => None,
        })
    }

    /// Somebody who runs would go to a node that is not initialized.
    pub fn moves_to_starting_nodes(&self) -> bool {
        let nodes = &self.pass.compiled.nodes;
        let waiting = self.pass.compiled.pods.waiting;
        let moved = self.order.iter().filter(|pod| **pod as usize >= waiting);
        moved.into_iter().any(|pod| match self.pass.placed[*pod as usize] {
            Some(Site::Node(slot)) => !nodes[self.pass.slots[slot].node].initialized,
            _ => false,
        })
    }

    /// The only new node, without its pods; `None` where its pods would not have it after all.
    pub fn claim(&mut self) -> Option<PlannedClaim> {
        let mut plan = Plan::default();
        self.pass.finish_claims(&mut plan, &|_| PodList::default());
        plan.claims.pop().filter(|_| self.claims() == 1)
    }

    /// Who goes where; without new nodes of answers that were kept.
    pub fn plan(&mut self) -> Plan {
        let mut plan = self.pass.finish_some(self.order);
        if self.first_claim > 0 {
            // Claims that offer too few values are left out of a plan, and such answers are not kept.
            let kept = self.first_claim.min(plan.claims.len());
            plan.claims.drain(..kept);
            for place in plan.placed.values_mut() {
                if let Placement::New(at) = place {
                    *at = at.saturating_sub(kept);
                }
            }
        }
        plan
    }
}
