//! Pods as classes: equal in everything that scheduling can see.
//!
//! A pod is a shape (what it requests), a kind (what it asks of its place) and a badge (its namespace and those of its
//! labels that some selector reads). Each of the three is kept once, a class is a combination that occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::pod::{PodClass, PodId, PodPhase, PodView};
use karpenter_model::resources::{CPU, MEMORY, Resources};
use karpenter_model::scheduling::AffinityTerm;
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

use super::amounts::{Amounts, Names};
use super::crowd::CROWD;
use super::intern::{Id, Index, Mix, NONE, id};
use crate::places::AllPods;

pub(crate) type ShapeId = Id;
pub(crate) type KindId = Id;
pub(crate) type BadgeId = Id;
pub(crate) type ClassId = Id;

#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) amounts: Amounts,
    /// A pod that requests this.
    pub(crate) example: Arc<PodView>,
}

#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) example: Arc<PodView>,
    /// The pod needs a place anyway: it waits for one, or its node is going (SCH-98).
    pub(crate) moves_freely: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Badge {
    pub(crate) namespace: String,
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) shape: ShapeId,
    pub(crate) kind: KindId,
    pub(crate) badge: BadgeId,
}

#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(crate) shapes: Vec<Shape>,
    shape_index: Index,
    pub(crate) kinds: Vec<Kind>,
    kind_index: Index,
    pub(crate) badges: Vec<Badge>,
    badge_index: Index,
    pub(crate) classes: Vec<Class>,
    class_index: Index,
    /// Labels that selectors read.
    read: BTreeSet<String>,
    /// Pending pods, by namespace and name.
    pub(crate) all: AllPods,
    /// What each of them is.
    pub(crate) pending: Vec<Pending>,
    /// So many of them wait. Those after them run, and are asked about one node at a time.
    pub(crate) waiting: usize,
    /// How many pods were looked at, ever.
    pub(crate) compiled: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(super) shape: ShapeId,
    pub(super) kind: KindId,
    pub(crate) class: ClassId,
    /// As the last new pod before it, but for what differs from pod to pod.
    pub(super) like_last: bool,
    /// It runs on a node, and is to move.
    pub(super) bound: bool,
    /// What decides the order of the queue after size; here, so that no pod has to be looked at twice.
    pub(super) created_at: Timestamp,
    pub(super) start_of_uid: u64,
}

/// What the pod before this one was: pods of one workload come one after the other, and share what is the same.
#[derive(Debug, Default)]
pub(super) struct Last {
    pod: Option<Arc<PodView>>,
    shape: ShapeId,
    kind: KindId,
}

impl Last {
    /// They differ in nothing but what is different from pod to pod.
    fn is_like(&self, pod: &PodView) -> bool {
        self.pod
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(&last.class, &pod.class) && last.id.namespace == pod.id.namespace)
    }
}

impl Pods {
    /// Takes over the pending pods. One that is the same object as before keeps its class, unless selectors read other
    /// labels now.
    ///
    /// `residents`: pods that run and might move; they come after all that wait, in this order.
    pub(crate) fn update(
        &mut self,
        snapshot: &Snapshot,
        residents: &[Arc<PodView>],
        names: &mut Names,
        workers: usize,
    ) {
        let going: BTreeSet<&str> =
            snapshot.nodes.iter().filter(|node| node.is_going()).map(ExistingNode::name).collect();
        let before = std::mem::take(&mut self.all);
        let old = &before[..self.waiting];
        let known = std::mem::take(&mut self.pending);
        self.waiting = snapshot.pending.len();
        let mut at = 0;
        let mut all = Vec::with_capacity(snapshot.pending.len());
        let mut pending = Vec::with_capacity(snapshot.pending.len());
        let reads = self.read.len();
        if old.is_empty() && workers > 1 && snapshot.pending.len() >= CROWD {
            all.extend(snapshot.pending.values().cloned());
            pending = self.look_at_all(&all, &going, names, workers);
        } else {
            let mut last = Last::default();
            for (name, pod) in &snapshot.pending {
                let is_known = |at: usize| old.get(at).is_some_and(|known| Arc::ptr_eq(known, pod));
                while !is_known(at) && old.get(at).is_some_and(|known| known.id < *name) {
                    at += 1;
                }
                let moves_freely = moves_freely(pod, &going);
                let same = is_known(at).then(|| known[at]);
                let same = same.filter(|known| self.kinds[known.kind as usize].moves_freely == moves_freely);
                all.push(pod.clone());
                pending.push(same.unwrap_or_else(|| self.look_at(pod, moves_freely, &mut last, names)));
            }
        }
        all.extend(residents.iter().cloned());
        self.look_at_residents(residents, &going, names, &mut pending);
        self.read_selectors_of_bound(snapshot);
        // Only now it is known which labels matter.
        let everybody = self.read.len() != reads;
        let mut of_last = NONE;
        for (pod, one) in all.iter().zip(&mut pending).filter(|(_, one)| everybody || one.class == NONE) {
            let badge = match one.class {
                NONE if one.like_last => of_last,
                NONE => {
                    of_last = self.badge(pod);
                    of_last
                }
                _ => self.badge(pod),
            };
            one.class = self.class(Class { shape: one.shape, kind: one.kind, badge });
        }
        self.all = Arc::new(all);
        self.pending = pending;
    }

    pub(super) fn look_at(
        &mut self,
        pod: &Arc<PodView>,
        moves_freely: bool,
        last: &mut Last,
        names: &mut Names,
    ) -> Pending {
        self.compiled += 1;
        let like_last = last.is_like(pod);
        if !like_last {
            let (shape, kind) = (self.shape(pod, names), self.kind(pod, moves_freely));
            *last = Last { pod: Some(pod.clone()), shape, kind };
        } else if self.kinds[last.kind as usize].moves_freely != moves_freely {
            last.kind = self.kind(pod, moves_freely);
        }
        Pending {
            shape: last.shape,
            kind: last.kind,
            class: NONE,
            like_last,
            bound: pod.node_name.is_some(),
            created_at: pod.created_at.time(),
            start_of_uid: pod.uid.start(),
        }
    }

    /// Pods that stand one after the other here share little, those of one workload share what they are.
    fn look_at_residents(
        &mut self,
        residents: &[Arc<PodView>],
        going: &BTreeSet<&str>,
        names: &mut Names,
        pending: &mut Vec<Pending>,
    ) {
        let mut known: BTreeMap<(*const PodClass, bool), Last> = BTreeMap::new();
        for pod in residents {
            let moves_freely = moves_freely(pod, going);
            let last = known.entry((Arc::as_ptr(&pod.class), moves_freely)).or_default();
            let one = self.look_at(pod, moves_freely, last, names);
            pending.push(Pending { like_last: false, ..one });
        }
    }

    /// The pods of a node that run and might move, after all others; their places in the list. `before`: those of the node until
    /// now, of which most are the same.
    pub(crate) fn add_residents(
        &mut self,
        residents: &[Arc<PodView>],
        before: Range<usize>,
        going: &BTreeSet<&str>,
        names: &mut Names,
    ) -> Range<usize> {
        let mut pending = Vec::with_capacity(residents.len());
        for pod in residents {
            // A pod of a node that stays is what it was as long as it is the same object.
            if let Some(known) = before.clone().find(|at| Arc::ptr_eq(&self.all[*at], pod)) {
                pending.push(self.pending[known]);
                continue;
            }
            let mut one = self.look_at(pod, moves_freely(pod, going), &mut Last::default(), names);
            let badge = self.badge(pod);
            one.class = self.class(Class { shape: one.shape, kind: one.kind, badge });
            pending.push(Pending { like_last: false, ..one });
        }
        let start = self.pending.len();
        self.pending.extend(pending);
        Arc::make_mut(&mut self.all).extend(residents.iter().cloned());
        start..self.pending.len()
    }

    /// Pods that run and are to move, by the node they run on: they are not counted there.
    pub(crate) fn moving(&self) -> BTreeMap<&str, Vec<&PodId>> {
        let mut moving: BTreeMap<&str, Vec<&PodId>> = BTreeMap::new();
        let waiting = self.all.iter().zip(&self.pending).take(self.waiting);
        for (pod, _) in waiting.filter(|(_, one)| one.bound) {
            moving.entry(pod.node_name.as_deref().unwrap_or_default()).or_default().push(&pod.id);
        }
        moving
    }

    /// How much is kept about pods.
    pub(crate) fn kept(&self) -> usize {
        self.classes.len() + self.kinds.len() + self.shapes.len() + self.badges.len()
    }

    /// How many labels selectors read.
    pub(crate) fn labels_read(&self) -> usize {
        self.read.len()
    }

    pub(super) fn shape(&mut self, pod: &Arc<PodView>, names: &mut Names) -> ShapeId {
        let mut mix = Mix::default();
        // Names seldom differ where amounts do not.
        pod.requests.iter().for_each(|(_, amount)| amount.hash(&mut mix));
        let hash = mix.finish();
        if let Some(known) =
            self.shape_index.find(hash, |at| same_amounts(&self.shapes[at as usize].example.requests, &pod.requests))
        {
            return known;
        }
        let at = id(self.shapes.len());
        self.shapes.push(Shape { amounts: names.amounts(&pod.requests), example: pod.clone() });
        self.shape_index.insert(hash, at);
        at
    }

    pub(super) fn kind(&mut self, pod: &Arc<PodView>, moves_freely: bool) -> KindId {
        let mut mix = Mix::default();
        pod.scheduling.hash(&mut mix);
        pod.id.namespace.hash(&mut mix);
        let hash = mix.finish();
        let same = |known: &Kind| {
            known.moves_freely == moves_freely
                && known.example.id.namespace == pod.id.namespace
                && known.example.unplannable == pod.unplannable
                && known.example.uses_devices == pod.uses_devices
                && known.example.resource_claims == pod.resource_claims
                && known.example.scheduling == pod.scheduling
        };
        if let Some(known) = self.kind_index.find(hash, |at| same(&self.kinds[at as usize])) {
            return known;
        }
        let at = id(self.kinds.len());
        self.kinds.push(Kind { example: pod.clone(), moves_freely });
        self.kind_index.insert(hash, at);
        let scheduling = &pod.scheduling;
        let terms = scheduling.affinity.iter().chain(&scheduling.anti_affinity);
        let wished = scheduling.preferred_affinity.iter().chain(&scheduling.preferred_anti_affinity);
        self.read_terms(terms.chain(wished.map(|preferred| &preferred.value)));
        scheduling.spread.iter().for_each(|constraint| self.read_selector(constraint.selector.as_ref()));
        at
    }

    pub(crate) fn read_terms<'a>(&mut self, terms: impl Iterator<Item = &'a AffinityTerm>) {
        terms.for_each(|term| self.read_selector(term.selector.as_ref()));
    }

    fn read_selector(&mut self, selector: Option<&Selector>) {
        for expression in selector.into_iter().flat_map(Selector::expressions) {
            if !self.read.contains(&expression.key) {
                self.read.insert(expression.key.clone());
            }
        }
    }

    fn read_selectors_of_bound(&mut self, snapshot: &Snapshot) {
        for pod in snapshot.nodes.iter().flat_map(|node| &node.pods) {
            self.read_terms(pod.scheduling.anti_affinity.iter());
        }
    }

    pub(crate) fn badge(&mut self, pod: &PodView) -> BadgeId {
        let read = &self.read;
        let labels: Vec<(&String, &String)> = match read.len() {
            0 => Vec::new(),
            _ => pod.labels.iter().filter(|(name, _)| read.contains(*name)).collect(),
        };
        let mut mix = Mix::default();
        pod.id.namespace.hash(&mut mix);
        labels.hash(&mut mix);
        let hash = mix.finish();
        let same = |known: &Badge| {
            known.namespace == pod.id.namespace
                && known.labels.len() == labels.len()
                && known.labels.iter().eq(labels.iter().copied())
        };
        if let Some(known) = self.badge_index.find(hash, |at| same(&self.badges[at as usize])) {
            return known;
        }
        let badge = Badge {
            namespace: pod.id.namespace.to_string(),
            labels: labels.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        };
        let at = id(self.badges.len());
        self.badges.push(badge);
        self.badge_index.insert(hash, at);
        at
    }

    fn class(&mut self, class: Class) -> ClassId {
        let hash = super::intern::hash_of(&(class.shape, class.kind, class.badge));
        if let Some(known) = self.class_index.find(hash, |at| self.classes[at as usize] == class) {
            return known;
        }
        let at = id(self.classes.len());
        self.classes.push(class);
        self.class_index.insert(hash, at);
        at
    }

    /// By shape: the larger ones first, the same for those of one size.
    pub(crate) fn ranks(&self) -> (Vec<usize>, usize) {
        let size = |at: usize| {
            let requests = &self.shapes[at].example.requests;
            (requests.amount(CPU), requests.amount(MEMORY))
        };
        let sizes: Vec<_> = (0..self.shapes.len()).map(size).collect();
        let mut distinct = sizes.clone();
        distinct.sort_unstable_by(|a, b| b.cmp(a));
        distinct.dedup();
        let rank = |size| distinct.partition_point(|larger| *larger > size);
        (sizes.into_iter().map(rank).collect(), distinct.len())
    }

    /// Positions in `pending`, largest pods first (SCH-89).
    pub(crate) fn in_order(&self, workers: usize) -> Vec<Id> {
        let (ranks, distinct) = self.ranks();
        let mut ends = vec![0; distinct];
        let waiting = &self.pending[..self.waiting];
        for one in waiting {
            ends[ranks[one.shape as usize]] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            // For now where the pods of this size begin.
            end += std::mem::replace(count, end);
        }
        let mut order = vec![(Timestamp::UNIX_EPOCH, 0, 0); self.waiting];
        for (at, one) in waiting.iter().enumerate() {
            let next = &mut ends[ranks[one.shape as usize]];
            order[*next] = (one.created_at, one.start_of_uid, id(at));
            *next += 1;
        }
        self.sort_each(&mut order, &ends, workers);
        order.into_iter().map(|(_, _, at)| at).collect()
    }
}

impl Pods {
    /// Sorts some pods, wherever they are in the list, as [`Pods::in_order`] does.
    pub(crate) fn sort(&self, ranks: &[usize], pods: &mut [Id]) {
        let key = |at: Id| {
            let one = &self.pending[at as usize];
            (ranks[one.shape as usize], one.created_at, one.start_of_uid)
        };
        pods.sort_unstable_by(|a, b| {
            key(*a).cmp(&key(*b)).then_with(|| {
                let (a, b) = (&self.all[*a as usize], &self.all[*b as usize]);
                (&a.uid, &a.id).cmp(&(&b.uid, &b.id))
            })
        });
    }
}

/// SCH-89, for two pods.
pub(crate) fn by_size(a: &PodView, b: &PodView) -> std::cmp::Ordering {
    let size = |pod: &PodView| (pod.requests.amount(CPU), pod.requests.amount(MEMORY));
    size(b).cmp(&size(a)).then_with(|| (a.created_at, &a.uid, &a.id).cmp(&(b.created_at, &b.uid, &b.id)))
}

pub(super) fn moves_freely(pod: &PodView, going: &BTreeSet<&str>) -> bool {
    pod.phase == PodPhase::Pending || pod.node_name.as_ref().is_some_and(|name| going.contains(name.as_str()))
}

/// Also written alike: sums keep the form of their first part.
fn same_amounts(a: &Resources, b: &Resources) -> bool {
    let (mut left, mut right) = (a.iter(), b.iter());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some((name, amount)), Some((other, same))) => {
                if amount != same || amount.format() != same.format() || name != other {
                    return false;
                }
            }
            _ => return false,
        }
    }
}
