//! The cluster without some of its nodes, asked again and again of one pass.
//!
//! A pass that has placed nobody is the cluster as it is. A question takes nodes out of it, places their pods among all
//! others that need a place, and takes everything back. So an answer costs what its pods cost, not what the cluster does.

use std::ops::Range;
use std::sync::Arc;

use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;

use super::Compiled;
use super::bits::Bits;
use super::claims::Claim;
use super::group::Site;
use super::groups::{GroupRef, Groups, Touched, World};
use super::intern::{Id, NONE, PairMemo, id};
use super::nodes::Node;
use super::pass::{Choices, Demand, NodeSign, Pass, PoolState, Sign, Slot, Trial, Variant};
use super::undo::Change;
use crate::devices::Devices;
use crate::options::Options;
use crate::places::{AllPods, Placed, PodList};
use crate::plan::{Placement, Plan, RefusedBy};
use crate::reservations::Reservations;

/// A pass without the snapshot that it is about, so that both can be kept.
#[derive(Debug)]
pub(crate) struct Parked {
    options: Options,
    groups: Groups,
    pools: Vec<PoolState>,
    slots: Vec<Slot>,
    unsettled: Bits,
    closed: Bits,
    claims: Vec<Claim>,
    by_count: Vec<Bits>,
    sealed: Bits,
    signs: Vec<Sign>,
    sign_index: PairMemo,
    node_signs: Vec<NodeSign>,
    node_sign_index: PairMemo,
    variants: Vec<Variant>,
    first: Vec<Id>,
    inverse: Vec<Vec<GroupRef>>,
    inverse_of_terms: Vec<Option<Vec<GroupRef>>>,
    demand_index: PairMemo,
    demands: Vec<Demand>,
    too_small: Vec<Bits>,
    reservations: Reservations,
    devices: Option<Devices>,
    placed: Vec<Option<Site>>,
    refused: Vec<Option<Arc<Vec<RefusedBy>>>>,
    epoch: usize,
    failed: Vec<Option<(usize, Arc<Vec<RefusedBy>>)>>,
    rewound: usize,
    changes: Option<Vec<Change>>,
    choices: Choices,
    rows: Vec<u64>,
    sets: Vec<super::algebra::SetId>,
}

/// Moves the same members from one into the other.
macro_rules! moved {
    ($from:expr, $to:ident { $($own:ident)? }) => {
        $to {
            $($own,)?
            options: $from.options,
            groups: $from.groups,
            pools: $from.pools,
            slots: $from.slots,
            unsettled: $from.unsettled,
            closed: $from.closed,
            claims: $from.claims,
            by_count: $from.by_count,
            sealed: $from.sealed,
            signs: $from.signs,
            sign_index: $from.sign_index,
            node_signs: $from.node_signs,
            node_sign_index: $from.node_sign_index,
            variants: $from.variants,
            first: $from.first,
            inverse: $from.inverse,
            inverse_of_terms: $from.inverse_of_terms,
            demand_index: $from.demand_index,
            demands: $from.demands,
            too_small: $from.too_small,
            reservations: $from.reservations,
            devices: $from.devices,
            placed: $from.placed,
            refused: $from.refused,
            epoch: $from.epoch,
            failed: $from.failed,
            rewound: $from.rewound,
            changes: $from.changes,
            choices: $from.choices,
            rows: $from.rows,
            sets: $from.sets,
        }
    };
}

impl Parked {
    /// How many pods were put on the node.
    pub(crate) fn guests(&self, slot: usize) -> u32 {
        self.slots[slot].guests
    }
}

impl<'c> Pass<'c> {
    pub(crate) fn park(self) -> Parked {
        moved!(self, Parked {})
    }

    /// `compiled` must be what the pass was about before.
    pub(crate) fn resume(compiled: &'c mut Compiled, parked: Parked) -> Self {
        moved!(parked, Self { compiled })
    }

    /// The node goes, and those of its pods that are listed are to move.
    pub(crate) fn leave(&mut self, node: usize, slot: Option<usize>, residents: Range<usize>) {
        if let Some(slot) = slot {
            self.closed.set(slot);
            self.note(|_| Change::Closed { slot });
        }
        let Compiled { algebra, nodes, hosts, pods, taints, namespaces, .. } = &mut *self.compiled;
        let world = World { nodes, hosts, badges: &pods.badges, taints, namespaces };
        self.groups.leave(node, world, algebra);
        for at in residents {
            let class = pods.classes[pods.pending[at].class as usize];
            let kind = class.kind as usize;
            let pod = &pods.all[at];
            if self.inverse_of_terms[kind].is_none() {
                self.inverse_of_terms[kind] = Some(self.groups.inverse_of_terms(&pod.scheduling, world, algebra));
            }
            // One that is on its way out already counts nowhere, but still keeps others away (SCH-136).
            let badge = pod.deleting_since.is_none().then_some(class.badge);
            let terms = self.inverse_of_terms[kind].as_deref().unwrap_or_default();
            self.groups.leave_pod(node, badge, terms, world, algebra);
        }
    }

    /// Another node of the same name and place, before anybody has gone anywhere; `None` where it asks about something new.
    pub(crate) fn exchange(&mut self, at: usize, slot: Option<usize>, node: Node, touched: &mut Touched) -> Option<()> {
        let Compiled { algebra, nodes, hosts, pods, taints, namespaces, .. } = &mut *self.compiled;
        let world = World { nodes, hosts, badges: &pods.badges, taints, namespaces };
        self.groups.recount(at, &node, touched, world, algebra)?;
        if let Some(slot) = slot {
            self.slots[slot].available.clone_from(&node.available);
            for shape in 0..self.too_small.len() {
                if self.fits(id(shape), &node.available) {
                    self.too_small[shape].clear(slot);
                } else {
                    self.too_small[shape].set(slot);
                }
            }
        }
        self.compiled.nodes[at] = node;
        Some(())
    }

    /// There may be more pods, kinds, shapes and classes than when the pass began.
    pub(crate) fn make_room(&mut self) {
        let Compiled { pods, .. } = &*self.compiled;
        let (kinds, shapes) = (pods.kinds.len(), pods.shapes.len());
        self.groups.know_badges(&pods.badges);
        self.placed.resize(pods.pending.len(), None);
        self.refused.resize(pods.pending.len(), None);
        self.failed.resize(pods.classes.len(), None);
        self.first.resize(kinds, NONE);
        self.inverse.resize(kinds, Vec::new());
        self.inverse_of_terms.resize(kinds, None);
        self.too_small.resize(shapes, Bits::default());
        for kind in 0..kinds {
            self.first_variant(id(kind));
        }
        // What failed before might not fail now.
        self.epoch += 1;
    }

    /// So much of the limits of a pool is used now.
    pub(crate) fn set_usage(&mut self, at: usize, usage: &Resources) {
        let known = &self.compiled.pools[at];
        let mut left = known.view.limits.clone();
        left.subtract(usage);
        let left: Vec<Quantity> = left.iter().map(|(_, left)| left).collect();
        let mut rows = known.rows.clone();
        known.limits.iter().zip(&left).for_each(|(limit, left)| limit.keep(*left, &mut rows));
        self.note(|pass| Change::Pool { at, before: pass.pools[at].clone() });
        self.pools[at] = PoolState { left, rows };
    }

    /// Places these pods, sorted, and nobody else.
    pub(crate) fn run_some(&mut self, order: &[Id], should_stop: &mut dyn FnMut() -> bool) {
        for pod in order {
            let class = self.compiled.pods.pending[*pod as usize].class;
            let kind = self.compiled.pods.classes[class as usize].kind;
            self.first_variant(kind);
            self.refused[*pod as usize] = None;
        }
        self.run_queue(order.to_vec(), should_stop);
    }

    /// Places those of the pods, sorted, that find room on a node that exists, and nobody else.
    pub(crate) fn run_on_existing(&mut self, order: &[Id]) {
        for pod in order {
            let at = *pod as usize;
            let class = self.compiled.pods.classes[self.compiled.pods.pending[at].class as usize];
            let variant = self.first_variant(class.kind);
            let trial = Trial { pod: at, shape: class.shape, kind: class.kind, badge: class.badge, variant };
            if self.next_variant(trial).is_some() {
                // He would rather have a new node than give up a wish.
                self.run_queue(vec![*pod], &mut || false);
            } else if self.unplannable(class.kind).is_none() {
                self.new_turn();
                let placed = self.host_rules(trial).and_then(|rules| self.place_on_node(trial, &rules));
                self.epoch += usize::from(placed.is_some());
            }
        }
    }

    /// The plan for these pods; the pass can go on, or back.
    pub(crate) fn finish_some(&mut self, pods: &[Id]) -> Plan {
        let mut plan = Plan::default();
        let all = &self.compiled.pods.all;
        let mut sorted = pods.to_vec();
        sorted.sort_unstable_by(|a, b| all[*a as usize].id.cmp(&all[*b as usize].id));
        let views: AllPods = Arc::new(sorted.iter().map(|at| all[*at as usize].clone()).collect());
        let mut local: Vec<(Id, Id)> = sorted.iter().enumerate().map(|(at, pod)| (*pod, id(at))).collect();
        local.sort_unstable();
        let find = |pod: &Id| local.binary_search_by_key(pod, |(pod, _)| *pod).ok().map(|at| local[at].1);
        let listed = |pods: &[Id]| PodList::new(&views, pods.iter().filter_map(find).collect());
        let numbers = self.finish_claims(&mut plan, &listed);
        let mut places = Vec::with_capacity(sorted.len());
        for (at, pod) in sorted.iter().enumerate() {
            let place = self.placed[*pod as usize].and_then(|site| match site {
                Site::Node(slot) => Some(Placement::Existing(self.compiled.nodes[self.slots[slot].node].name.clone())),
                Site::Claim(claim) => numbers[claim].map(Placement::New),
            });
            places.extend(place.map(|place| (id(at), place)));
            self.list_failed(*pod as usize, &mut plan);
        }
        plan.placed = Placed::new(&views, places);
        plan.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
        plan
    }
}
