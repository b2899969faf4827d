//! One pass over the pending pods, in the specified order.

use std::collections::VecDeque;
use std::sync::Arc;

use karpenter_model::quantity::Quantity;

use super::Compiled;
use super::algebra::{ANYTHING, Asked, ReqId, SetId};
use super::amounts::{self, Amounts};
use super::bits::Bits;
use super::claims::Claim;
use super::group::Site;
use super::groups::{GroupRef, Groups, MAX_COMBINATIONS, Place, World};
use super::intern::{Id, NONE, PairMemo, id};
use super::nodes::TaintsId;
use super::pods::{BadgeId, ClassId, KindId, ShapeId};
use super::queues::Queue;
use super::undo::Change;
use super::wishes::Wishes;
use crate::attachments::Attached;
use crate::devices::Devices;
use crate::options::Options;
use crate::plan::{Plan, RefusedBy};
use crate::reservations::Reservations;

/// The names a pass borrows from the compiled snapshot to look at groups.
macro_rules! world {
    ($compiled:expr) => {{
        let Compiled { algebra, nodes, hosts, pods, taints, namespaces, .. } = &mut *$compiled;
        (World { nodes, hosts, badges: &pods.badges, taints, namespaces }, algebra)
    }};
}

/// Everything that changes while pods are placed.
#[derive(Debug)]
pub(crate) struct Pass<'c> {
    pub(crate) compiled: &'c mut Compiled,
    pub(crate) options: Options,
    pub(crate) groups: Groups,
    pub(crate) pools: Vec<PoolState>,
    pub(crate) slots: Vec<Slot>,
    /// Nodes that pods which run elsewhere are not moved to (SCH-98).
    pub(crate) unsettled: Bits,
    /// Nodes that are gone for as long as a question is asked.
    pub(crate) closed: Bits,
    pub(crate) claims: Vec<Claim>,
    /// Claims by how many pods they have.
    pub(crate) by_count: Vec<Bits>,
    /// Claims that take no more pods.
    pub(crate) sealed: Bits,
    /// Pool and requirements that claims share.
    pub(crate) signs: Vec<Sign>,
    pub(crate) sign_index: PairMemo,
    /// The same of nodes: taints and requirements.
    pub(crate) node_signs: Vec<NodeSign>,
    pub(crate) node_sign_index: PairMemo,
    pub(crate) variants: Vec<Variant>,
    /// By kind: the pod with all its wishes.
    pub(super) first: Vec<Id>,
    /// By kind: inverse groups that count its pods.
    pub(crate) inverse: Vec<Vec<GroupRef>>,
    /// By kind: the same with one for each term, for pods that run; `None` until somebody asks.
    pub(super) inverse_of_terms: Vec<Option<Vec<GroupRef>>>,
    /// A shape with what a variant requires.
    pub(super) demand_index: PairMemo,
    pub(crate) demands: Vec<Demand>,
    /// Nodes that have too little for a shape.
    pub(crate) too_small: Vec<Bits>,
    pub(crate) reservations: Reservations,
    /// Devices of claims, if anybody asks.
    pub(crate) devices: Option<Devices>,
    pub(crate) placed: Vec<Option<Site>>,
    pub(crate) refused: Vec<Option<Arc<Vec<RefusedBy>>>>,
    /// Counts placements: what failed fails again until somebody is placed.
    pub(crate) epoch: usize,
    pub(super) failed: Vec<Option<(usize, Arc<Vec<RefusedBy>>)>>,
    /// How often changes were taken back.
    pub(crate) rewound: usize,
    /// Remembered from the first mark on.
    pub(crate) changes: Option<Vec<Change>>,
    /// Work space.
    pub(crate) choices: Choices,
    pub(crate) rows: Vec<u64>,
    pub(super) sets: Vec<SetId>,
}

#[derive(Debug, Clone)]
pub(crate) struct PoolState {
    pub(crate) left: Vec<Quantity>,
    /// Rows that limits allow.
    pub(crate) rows: Bits,
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) node: usize,
    pub(crate) sign: Id,
    pub(crate) available: Amounts,
    pub(crate) volumes: Option<Attached>,
    /// Beside those that were there.
    pub(crate) ports: Vec<Id>,
    /// How many pods were put here.
    pub(crate) guests: u32,
}

#[derive(Debug)]
pub(crate) struct Sign {
    pub(crate) pool: usize,
    pub(crate) req: ReqId,
    pub(crate) claims: Bits,
}

#[derive(Debug)]
pub(crate) struct NodeSign {
    pub(crate) taints: TaintsId,
    pub(crate) req: ReqId,
    pub(crate) nodes: Bits,
}

/// Claims that can never take a pod of this shape with these requirements again: they only get fuller.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    pub(crate) dead: Bits,
    /// Requirements had to do with it, so it may change when those of the claim do.
    pub(crate) conditional: bool,
    pub(crate) queue: Queue,
}

/// A kind of pods with some of its preferences given up.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) wishes: Wishes,
    pub(crate) asked: Asked,
    pub(crate) strict: Asked,
    pub(crate) volumes: Vec<Asked>,
    /// Groups of hosts, and of other keys by key name.
    pub(crate) owned: [Vec<GroupRef>; 2],
    tolerates: Vec<Option<bool>>,
    /// It asks nothing of its place but to be tolerated.
    plain: bool,
    next: Next,
}

/// What is left of a variant after one more step of relaxing.
#[derive(Debug, Clone, Copy)]
enum Next {
    Unknown,
    Nothing,
    Variant(usize),
}

/// What candidates that share a sign can become, worked out once per try.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    /// The volume alternative, and the requirements then; [`NONE`] where the combination fails.
    pub(crate) all: Vec<(usize, ReqId)>,
    /// By sign: the try it is about, and its part of `all`.
    pub(crate) of_claims: Vec<(usize, usize, usize)>,
    pub(crate) of_nodes: Vec<(usize, usize, usize)>,
    pub(crate) turn: usize,
}

/// How an attempt to place a pod ends.
enum Attempt {
    Placed,
    Failed(Arc<Vec<RefusedBy>>),
    Stopped,
}

/// A pod being tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    /// Its position among the pending pods.
    pub(crate) pod: usize,
    pub(crate) shape: ShapeId,
    pub(crate) kind: KindId,
    pub(crate) badge: BadgeId,
    pub(crate) variant: usize,
}

impl<'c> Pass<'c> {
    pub(crate) fn new(compiled: &'c mut Compiled, options: Options) -> Self {
        let universes = compiled.universes();
        let (world, algebra) = world!(compiled);
        let groups = Groups::new(universes, world, algebra);
        let pools = compiled.pools.iter().map(|pool| {
            let left: Vec<Quantity> = pool.limits.iter().map(|limit| limit.left).collect();
            let mut rows = pool.rows.clone();
            pool.limits.iter().zip(&left).for_each(|(limit, left)| limit.keep(*left, &mut rows));
            PoolState { left, rows }
        });
        let pools = pools.collect();
        let kinds = compiled.pods.kinds.len();
        let classes = compiled.pods.classes.len();
        let pending = compiled.pods.pending.len();
        let mut pass = Self {
            reservations: compiled.reservations.clone(),
            devices: compiled.inventory.clone().map(|inventory| Devices::new(inventory, compiled.algebra.rules())),
            options,
            groups,
            pools,
            slots: Vec::new(),
            unsettled: Bits::default(),
            closed: Bits::default(),
            claims: Vec::new(),
            by_count: Vec::new(),
            sealed: Bits::default(),
            signs: Vec::new(),
            sign_index: PairMemo::default(),
            node_signs: Vec::new(),
            node_sign_index: PairMemo::default(),
            variants: Vec::new(),
            first: vec![NONE; kinds],
            inverse: vec![Vec::new(); kinds],
            inverse_of_terms: vec![None; kinds],
            demand_index: PairMemo::default(),
            demands: Vec::new(),
            too_small: vec![Bits::default(); compiled.pods.shapes.len()],
            placed: vec![None; pending],
            refused: vec![None; pending],
            epoch: 0,
            failed: vec![None; classes],
            rewound: 0,
            changes: None,
            choices: Choices::default(),
            rows: Vec::new(),
            sets: Vec::new(),
            compiled,
        };
        pass.add_slots();
        pass
    }

    /// Places everybody and says who went where.
    pub(crate) fn run(mut self, should_stop: &mut dyn FnMut() -> bool) -> Plan {
        self.run_rest(should_stop);
        self.finish()
    }

    /// Makes the groups of all pods known, in the order of the queue.
    pub(crate) fn register_all(&mut self) -> Vec<Id> {
        let order = self.compiled.pods.in_order(self.options.workers);
        for pod in &order {
            let class = self.compiled.pods.pending[*pod as usize].class;
            let kind = self.compiled.pods.classes[class as usize].kind;
            self.first_variant(kind);
        }
        order
    }

    /// SCH-90, for pods that have no place yet: one that fails goes to the end, until a full round has placed nobody.
    pub(crate) fn run_rest(&mut self, should_stop: &mut dyn FnMut() -> bool) {
        let mut order = self.register_all();
        order.retain(|pod| self.placed[*pod as usize].is_none());
        self.run_queue(order, should_stop);
    }

    /// SCH-90, for these pods in this order.
    pub(crate) fn run_queue(&mut self, order: Vec<Id>, should_stop: &mut dyn FnMut() -> bool) {
        // With how many others were in the queue when the pod was tried last.
        let mut queue: VecDeque<(Id, Id)> = order.into_iter().map(|pod| (pod, NONE)).collect();
        while let Some((pod, tried_at)) = queue.pop_front() {
            if tried_at == id(queue.len()) {
                break;
            }
            match self.attempt(pod as usize, should_stop) {
                Attempt::Placed => {
                    self.refused[pod as usize] = None;
                }
                Attempt::Failed(reasons) => {
                    self.refused[pod as usize] = Some(reasons);
                    queue.push_back((pod, id(queue.len())));
                }
                Attempt::Stopped => break,
            }
        }
    }

    /// SCH-92: try, relax one step, try again.
    fn attempt(&mut self, pod: usize, should_stop: &mut dyn FnMut() -> bool) -> Attempt {
        let class_id = self.compiled.pods.pending[pod].class;
        let class = self.compiled.pods.classes[class_id as usize];
        if let Some(why) = self.unplannable(class.kind) {
            let refused = |pool: &super::pools::Pool| RefusedBy { pool: pool.view.name.clone(), why: why.clone() };
            return Attempt::Failed(Arc::new(self.compiled.pools.iter().map(refused).collect()));
        }
        let variant = self.first_variant(class.kind);
        let mut trial = Trial { pod, shape: class.shape, kind: class.kind, badge: class.badge, variant };
        loop {
            if should_stop() {
                return Attempt::Stopped;
            }
            if let Some((_, reasons)) = self.known_failure(class_id) {
                return Attempt::Failed(reasons.clone());
            }
            let deferred = match self.place(trial) {
                Ok(()) => return Attempt::Placed,
                Err(deferred) => deferred,
            };
            // Waiting for a reservation is not a reason to give up wishes (SCH-92, SCH-114).
            let next = if deferred { None } else { self.next_variant(trial) };
            let Some(next) = next else {
                let reasons = Arc::new(self.explain(trial));
                self.failed[class_id as usize] = Some((self.epoch, reasons.clone()));
                return Attempt::Failed(reasons);
            };
            trial.variant = next;
        }
    }

    fn known_failure(&self, class: ClassId) -> Option<&(usize, Arc<Vec<RefusedBy>>)> {
        self.failed[class as usize].as_ref().filter(|(epoch, _)| *epoch == self.epoch)
    }

    /// SCH-96: existing nodes, then claims with the fewest pods, then new ones by pool; whether the pod waits for a
    /// reservation otherwise.
    fn place(&mut self, trial: Trial) -> Result<(), bool> {
        self.new_turn();
        let rules = self.host_rules(trial).ok_or(false)?;
        if self.place_on_node(trial, &rules).is_none() && self.place_on_claim(trial, &rules).is_none() {
            self.open(trial, &rules)?;
        }
        self.epoch += 1;
        Ok(())
    }

    /// What was worked out for the last try does not hold for the next.
    pub(crate) fn new_turn(&mut self) {
        self.choices.turn += 1;
        self.choices.all.clear();
    }

    pub(crate) fn tolerates(&mut self, variant: usize, taints: TaintsId) -> bool {
        let at = taints as usize;
        let known = &mut self.variants[variant];
        if known.tolerates.len() <= at {
            known.tolerates.resize(at + 1, None);
        }
        if let Some(answer) = known.tolerates[at] {
            return answer;
        }
        let answer = self.compiled.taints.tolerated(taints, &known.wishes.all.tolerations);
        known.tolerates[at] = Some(answer);
        answer
    }

    pub(crate) fn first_variant(&mut self, kind: KindId) -> usize {
        let known = self.first[kind as usize];
        if known != NONE {
            return known as usize;
        }
        let example = self.compiled.pods.kinds[kind as usize].example.clone();
        let wishes = Wishes::new(&example.scheduling, self.options.preferences);
        let at = self.add_variant(&example.id.namespace, wishes);
        let (world, algebra) = world!(self.compiled);
        self.inverse[kind as usize] = self.groups.inverse_of(&example.scheduling, world, algebra);
        self.first[kind as usize] = id(at);
        at
    }

    pub(crate) fn next_variant(&mut self, trial: Trial) -> Option<usize> {
        match self.variants[trial.variant].next {
            Next::Variant(known) => return Some(known),
            Next::Nothing => return None,
            Next::Unknown => {}
        }
        let prefers = self.compiled.pools.iter().any(|pool| pool.prefers_no_schedule);
        let relaxed = self.variants[trial.variant].wishes.relaxed(prefers);
        let namespace = self.compiled.pods.kinds[trial.kind as usize].example.id.namespace.clone();
        let next = relaxed.map(|wishes| self.add_variant(&namespace, wishes));
        self.variants[trial.variant].next = next.map_or(Next::Nothing, Next::Variant);
        next
    }

    fn add_variant(&mut self, namespace: &str, wishes: Wishes) -> usize {
        let (world, algebra) = world!(self.compiled);
        let all = self.groups.of_wishes(namespace, &wishes.all, world, algebra);
        let (hosts, mut keyed): (Vec<GroupRef>, Vec<GroupRef>) =
            all.into_iter().partition(|group| self.groups.is_host(*group));
        keyed.sort_by(|a, b| self.groups.key(*a).cmp(self.groups.key(*b)));
        let volumes = match &wishes.all.volumes.alternatives[..] {
            // No restriction is one alternative that asks for nothing.
            [] => vec![Asked::default()],
            some => some.iter().map(|asked| algebra.intern(asked)).collect(),
        };
        let asked = algebra.intern(&wishes.requirements());
        let asks_nothing = |asked: &Asked| asked.req == ANYTHING && asked.host.is_none();
        self.variants.push(Variant {
            plain: asks_nothing(&asked) && keyed.is_empty() && matches!(&volumes[..], [one] if asks_nothing(one)),
            asked,
            strict: algebra.intern(&wishes.strict()),
            volumes,
            owned: [hosts, keyed],
            tolerates: Vec::new(),
            next: Next::Unknown,
            wishes,
        });
        self.variants.len() - 1
    }

    pub(crate) fn demand(&mut self, trial: Trial) -> usize {
        let req = self.variants[trial.variant].asked.req;
        if let Some(known) = self.demand_index.get(trial.shape, req) {
            return known as usize;
        }
        let at = self.demands.len();
        self.demands.push(Demand { conditional: req != ANYTHING, ..Demand::default() });
        self.demand_index.insert(trial.shape, req, id(at));
        at
    }

    /// What a candidate with these requirements can become: appended to the choices, as their part.
    pub(crate) fn choose(&mut self, trial: Trial, req: ReqId, lenient: bool) -> (usize, usize) {
        let start = self.choices.all.len();
        let Compiled { algebra, .. } = &mut *self.compiled;
        let variant = &self.variants[trial.variant];
        if variant.plain && self.groups.against(trial.badge)[1].is_empty() {
            self.choices.all.push((0, req));
            return (start, start + 1);
        }
        let meet = |algebra: &mut super::algebra::Algebra, node, incoming| {
            if lenient { algebra.lenient(node, incoming) } else { algebra.strict(node, incoming) }
        };
        let Some(met) = meet(algebra, req, variant.asked.req) else { return (start, start) };
        let against = &self.groups.against(trial.badge)[1];
        let merged;
        let groups = if against.is_empty() {
            &variant.owned[1]
        } else {
            let mut all: Vec<GroupRef> = variant.owned[1].iter().chain(against).copied().collect();
            all.sort_by(|a, b| self.groups.key(*a).cmp(self.groups.key(*b)));
            merged = all;
            &merged
        };
        for (at, volumes) in variant.volumes.iter().enumerate() {
            let Some(with_volumes) = meet(algebra, met, volumes.req) else {
                self.choices.all.push((at, NONE));
                continue;
            };
            if groups.is_empty() {
                self.choices.all.push((at, with_volumes));
                continue;
            }
            if let [one] = groups[..] {
                // The common case needs no combinations.
                let asked = (variant.strict.req, with_volumes);
                self.sets.clear();
                let restricts = self.groups.options(one, trial.badge, asked, algebra, &mut self.sets).is_some();
                if !restricts {
                    self.choices.all.push((at, with_volumes));
                } else if self.sets.is_empty() {
                    self.choices.all.push((at, NONE));
                }
                for set in self.sets.iter().take(MAX_COMBINATIONS) {
                    let narrowed = algebra.only(*set);
                    self.choices.all.push((at, meet(algebra, with_volumes, narrowed).unwrap_or(NONE)));
                }
                continue;
            }
            let narrowed = self.groups.choices(groups, trial.badge, variant.strict.req, with_volumes, algebra);
            if narrowed.is_empty() {
                self.choices.all.push((at, NONE));
            }
            for sets in narrowed {
                let narrowed = algebra.of_sets(sets.into_iter());
                let all = meet(algebra, with_volumes, narrowed);
                self.choices.all.push((at, all.unwrap_or(NONE)));
            }
        }
        (start, self.choices.all.len())
    }

    /// The pod has a place now: counts it.
    pub(crate) fn record(&mut self, trial: Trial, place: Place) {
        self.placed[trial.pod] = Some(place.site);
        self.note(|_| Change::Placed { pod: trial.pod });
        let (world, algebra) = world!(self.compiled);
        self.groups.record(trial.badge, &self.inverse[trial.kind as usize], place, world, algebra);
    }

    fn add_slots(&mut self) {
        for node in self.compiled.order.clone() {
            let known = &self.compiled.nodes[node];
            let (taints, req, available) = (known.taints, known.req, known.available.clone());
            let at = self.slots.len();
            if known.source.unsettled {
                self.unsettled.set(at);
            }
            let sign = self.node_sign(taints, req);
            self.node_signs[sign as usize].nodes.set(at);
            self.slots.push(Slot { node, sign, available, volumes: None, ports: Vec::new(), guests: 0 });
        }
    }

    pub(crate) fn node_sign(&mut self, taints: TaintsId, req: ReqId) -> Id {
        if let Some(known) = self.node_sign_index.get(taints, req) {
            return known;
        }
        let at = id(self.node_signs.len());
        self.node_signs.push(NodeSign { taints, req, nodes: Bits::default() });
        self.node_sign_index.insert(taints, req, at);
        at
    }

    pub(crate) fn amounts(&self, shape: ShapeId) -> &Amounts {
        &self.compiled.pods.shapes[shape as usize].amounts
    }

    pub(crate) fn fits(&self, shape: ShapeId, available: &Amounts) -> bool {
        amounts::fits(self.amounts(shape), available)
    }
}
