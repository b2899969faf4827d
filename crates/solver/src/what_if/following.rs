//! One compiled snapshot from look to look, and which answers still hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::pod::PodView;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

use super::{Answer, NodeId, WhatIf};
use crate::compiled::bits::Bits;
use crate::compiled::group::Site;
use crate::compiled::intern::{Id, NONE, id};
use crate::compiled::pass::Pass;
use crate::compiled::pods::{ClassId, Pending};
use crate::compiled::refresh::{has, same_views};
use crate::compiled::room::{Changes, Memo, Room};

/// What is known about room on nodes before anybody goes.
#[derive(Debug, Default)]
pub(super) struct Known {
    room: Option<Room>,
    /// It was looked for, whether or not there is anything to say.
    looked: Looked,
    memo: Memo,
    /// By pod, as far as somebody has asked: what it is, without all else that is known about it.
    classes: Vec<ClassId>,
    /// By the last look that was followed.
    changes: Changes,
    /// The same as a number.
    changed: usize,
}

/// How closely somebody has looked for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Looked {
    #[default]
    NotYet,
    /// How much there is.
    Much,
    /// And where it is new.
    New,
}

/// Where the pods of an answer went: with what each of them asks for, which nodes they looked at.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Class, and place in the order of nodes; [`NONE`] for those who looked at all of them.
    pods: Vec<(Id, Id)>,
}

impl WhatIf {
    /// Goes on with another look at the same cluster, as if compiled for it; how many nodes have changed. `None` where more has
    /// changed than what runs on nodes: then it is of no use any more.
    ///
    /// `moves` and `unsettled` as when it was made. `doubtful`: pods of any node may move that could not before, or the other
    /// way round, though nothing has happened to them.
    pub fn follow(
        &mut self,
        snapshot: &Snapshot,
        mut moves: impl FnMut(&ExistingNode, &Arc<PodView>) -> Option<Arc<PodView>>,
        unsettled: &BTreeSet<String>,
        doubtful: bool,
    ) -> Option<usize> {
        if self.has_kept || !self.compiled.is_about(snapshot) || !self.has_same_usages(snapshot) {
            return None;
        }
        if snapshot.nodes.len() != self.compiled.nodes.len() {
            return None;
        }
        self.known.changes = Changes::default();
        self.known.looked = Looked::NotYet;
        let mut going: Option<BTreeSet<&str>> = None;
        let mut changed = 0;
        for (at, source, same) in self.differences(snapshot, doubtful)? {
            let residents = self.residents_now(at, source, doubtful, &mut moves);
            let known = self.residents(NodeId(at));
            if same && known.len() == residents.len() && known.iter().zip(&residents).all(|(a, b)| Arc::ptr_eq(a, b)) {
                continue;
            }
            let going = going.get_or_insert_with(|| {
                snapshot.nodes.iter().filter(|node| node.is_going()).map(ExistingNode::name).collect()
            });
            self.exchange(at, source, &residents, going, snapshot)?;
            changed += 1;
        }
        self.settle_nodes(unsettled, &mut changed);
        self.known.changed = changed;
        if self.compiled.is_stale(self.residents.iter().map(std::ops::Range::len).sum()) {
            return None;
        }
        if changed > 0 {
            let parked = self.parked.take()?;
            let mut pass = Pass::resume(&mut self.compiled, parked);
            pass.make_room();
            self.base = pass.mark();
            self.parked = Some(pass.park());
            if self.ranks.len() != self.compiled.pods.shapes.len() {
                self.ranks = self.compiled.pods.ranks().0;
            }
        }
        Some(changed)
    }

    /// The pods of the node that might move. Of those that were there before this is known, unless there are doubts.
    fn residents_now(
        &self,
        at: usize,
        source: &ExistingNode,
        doubtful: bool,
        mut moves: impl FnMut(&ExistingNode, &Arc<PodView>) -> Option<Arc<PodView>>,
    ) -> Vec<Arc<PodView>> {
        let (before, known) = (&self.compiled.nodes[at].source, self.residents(NodeId(at)));
        let alike = !doubtful && same_views(before, source) && before.marked == source.marked;
        let now = |pod: &Arc<PodView>| {
            if alike && has(&before.pods, pod) { has(known, pod).then(|| pod.clone()) } else { moves(source, pod) }
        };
        source.pods.iter().filter_map(now).collect()
    }

    /// Nodes of the snapshot that are not what they were, by their place in the order of names, and all others where `all` are
    /// wanted; with whether they are the same. `None` where nodes have come or gone.
    fn differences<'s>(&self, snapshot: &'s Snapshot, all: bool) -> Option<Vec<(usize, &'s ExistingNode, bool)>> {
        self.different(snapshot.nodes.iter(), all).or_else(|| {
            // Seldom has one to look at their names.
            let mut sources: Vec<&ExistingNode> = snapshot.nodes.iter().collect();
            sources.sort_by(|a, b| a.name().cmp(b.name()));
            self.different(sources.into_iter(), all)
        })
    }

    fn different<'s>(
        &self,
        sources: impl Iterator<Item = &'s ExistingNode>,
        all: bool,
    ) -> Option<Vec<(usize, &'s ExistingNode, bool)>> {
        let mut different = Vec::new();
        for (at, (known, source)) in self.compiled.nodes.iter().zip(sources).enumerate() {
            let same = is_same(&known.source, source);
            if !same && known.name != source.name() {
                return None;
            }
            if !same || all {
                different.push((at, source, same));
            }
        }
        Some(different)
    }

    /// The node that is listed at this place of the snapshot, where nodes are listed by name.
    pub fn node_at(&self, at: usize, source: &ExistingNode) -> Option<NodeId> {
        let known = self.compiled.nodes.get(at).is_some_and(|node| same_views(&node.source, source));
        if known { Some(NodeId(at)) } else { self.node(source.name()) }
    }

    fn has_same_usages(&self, snapshot: &Snapshot) -> bool {
        let usages: BTreeMap<_, _> =
            snapshot.pools.iter().map(|offer| (offer.pool.name.as_str(), &offer.usage)).collect();
        self.usages.iter().all(|(pool, (_, usage))| usages.get(pool.as_str()).is_some_and(|now| *now == usage))
    }

    fn exchange(
        &mut self,
        at: usize,
        source: &ExistingNode,
        residents: &[Arc<PodView>],
        going: &BTreeSet<&str>,
        snapshot: &Snapshot,
    ) -> Option<()> {
        let (node, range) =
            self.compiled.reread(at, source, (residents, self.residents[at].clone()), going, snapshot)?;
        self.residents[at] = range;
        let slot = self.slots[at];
        let mut pass = Pass::resume(&mut self.compiled, self.parked.take()?);
        pass.exchange(at, slot, node, &mut self.known.changes.touched)?;
        self.parked = Some(pass.park());
        self.known.changes.nodes.set(at);
        if let Some(slot) = slot {
            self.known.changes.slots.set(slot);
        }
        Some(())
    }

    /// Takes over where pods have just come or gone.
    fn settle_nodes(&mut self, unsettled: &BTreeSet<String>, changed: &mut usize) {
        let mut restless = Bits::default();
        let nodes = unsettled.iter().filter_map(|name| self.node(name));
        nodes.filter_map(|node| self.slots[node.0]).for_each(|slot| restless.set(slot));
        let before = std::mem::replace(&mut self.unsettled, restless);
        for (at, slot) in self.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            if before.has(slot) != self.unsettled.has(slot) && !self.known.changes.nodes.has(at) {
                self.known.changes.nodes.set(at);
                self.known.changes.slots.set(slot);
                *changed += 1;
            }
        }
    }

    /// What is known about room, as of the last look.
    fn room(&mut self, wanted: Looked) -> Option<&Room> {
        if self.known.looked < wanted {
            // Nobody asks for more than one node for each pod of a node, and two.
            let most = self.residents.iter().map(std::ops::Range::len).max().unwrap_or(0) + 2;
            let enough = if wanted == Looked::New { u32::MAX } else { id(most) };
            let parked = self.parked.take()?;
            let mut pass = Pass::resume(&mut self.compiled, parked);
            self.known.room = pass.room(&self.unsettled, &self.known.changes, enough, &mut self.known.memo);
            self.parked = Some(pass.park());
            self.known.looked = wanted;
        }
        self.known.room.as_ref()
    }

    /// The pods of the node certainly find a place on nodes that are there and initialized, where pods have not just come or
    /// gone: with no need to ask where. `false` says nothing.
    pub fn has_room_for(&mut self, node: NodeId) -> bool {
        if self.has_kept || self.compiled.pods.waiting > 0 {
            return false;
        }
        if self.room(Looked::Much).is_none() {
            return false;
        }
        let Known { room, classes, .. } = &mut self.known;
        let Some(room) = room else { return false };
        let (pending, residents) = (&self.compiled.pods.pending, self.residents[node.0].clone());
        if classes.len() < residents.end {
            // Pods of a compiled snapshot are added to, and stay what they are.
            classes.extend(pending[classes.len()..].iter().map(|pod| pod.class));
        }
        // One node more than pods that come before, since the node may be one of those that have room itself.
        let needed = |before: usize| id(before) + 2;
        if classes[residents.clone()].iter().all(|class| room.least[*class as usize] >= needed(residents.len())) {
            return true;
        }
        let residents = &pending[residents];
        // The largest come first, and need room when nobody else has taken any yet.
        let rank = |pod: &Pending| self.ranks[self.compiled.pods.classes[pod.class as usize].shape as usize];
        let mut queue: Vec<(usize, u32)> =
            residents.iter().map(|pod| (rank(pod), room.least[pod.class as usize])).collect();
        queue.sort_unstable();
        queue
            .chunk_by(|a, b| a.0 == b.0)
            .scan(0, |before, alike| {
                *before += alike.len();
                Some((*before - 1, alike))
            })
            .all(|(before, alike)| alike.iter().all(|(_, least)| *least >= needed(before)))
    }

    /// Some node has changed by the last look.
    pub fn has_changed(&self) -> bool {
        self.known.changed > 0
    }

    /// An answer about the node by itself, from before the last look, would be the same now.
    pub fn stands(&mut self, node: NodeId, trace: &Trace) -> bool {
        if self.known.changed == 0 {
            return true;
        }
        if self.known.changes.nodes.has(node.0) || self.room(Looked::New).is_none() {
            return false;
        }
        let Some(room) = &self.known.room else { return false };
        let slots = &self.known.changes.slots;
        trace.pods.iter().all(|(class, slot)| {
            let class = *class as usize;
            // What is put on a node leaves less room there, so who is not let in by a node as it is is not let in at all; and
            // where nobody was let in who came before, nobody is now.
            room.firm.has(class)
                && !room.touched.has(class)
                && (room.newly[class] == NONE || room.newly[class] > *slot && *slot != NONE)
                && (*slot == NONE || !slots.has(*slot as usize))
        })
    }
}

impl Answer<'_, '_> {
    /// What the answer depends on, beside its nodes.
    pub fn trace(&self) -> Trace {
        let place = |pod: &Id| match self.pass.placed[*pod as usize] {
            Some(Site::Node(slot)) => id(slot),
            Some(Site::Claim(_)) | None => NONE,
        };
        let class = |pod: &Id| self.pass.compiled.pods.pending[*pod as usize].class;
        Trace { pods: self.order.iter().map(|pod| (class(pod), place(pod))).collect() }
    }
}

/// Nothing has happened to the node or its pods.
fn is_same(known: &ExistingNode, now: &ExistingNode) -> bool {
    same_views(known, now)
        && (known.marked, known.leaving, known.held_up, known.unsettled)
            == (now.marked, now.leaving, now.held_up, now.unsettled)
        && known.pods.has_same(&now.pods)
        && known.requested == now.requested
        && known.volume_limits == now.volume_limits
}
