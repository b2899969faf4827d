//! Requirements as numbers.
//!
//! The algebra itself is that of `model`; here every requirement and every set of them is kept once, and what two of
//! them have in common is worked out once. The host name is left out: candidates have exactly one each, so it is
//! compared where it is asked for, and claims that differ in nothing else share their set.

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::{Operator, Requirement, Requirements};

use super::intern::{Id, Index, NONE, PairMemo, hash_of, id};

/// A label key.
pub(crate) type KeyId = Id;
/// The values that one key may have.
pub(crate) type SetId = Id;
/// Sets of several keys.
pub(crate) type ReqId = Id;

/// Nothing is asked for.
pub(crate) const ANYTHING: ReqId = 0;

#[derive(Debug)]
struct Key {
    name: String,
    well_known: bool,
}

#[derive(Debug)]
struct Set {
    requirement: Requirement,
    key: KeyId,
    operator: Operator,
}

impl Set {
    fn may_be_absent(&self) -> bool {
        matches!(self.operator, Operator::NotIn | Operator::DoesNotExist)
    }
}

#[derive(Debug)]
pub(crate) struct Algebra {
    rules: LabelRules,
    keys: Vec<Key>,
    key_index: Index,
    sets: Vec<Set>,
    set_index: Index,
    /// By key.
    reqs: Vec<Box<[(KeyId, SetId)]>>,
    /// By set of sets: whether a minimum of values is asked for.
    has_min_values: Vec<bool>,
    req_index: Index,
    /// By set: the set of sets that has no other.
    alone: Vec<ReqId>,
    met: PairMemo,
    lenient: PairMemo,
    strict: PairMemo,
}

/// Requirements without the host name, and what they say about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) req: ReqId,
    pub(crate) host: Option<Box<Requirement>>,
}

impl Asked {
    pub(crate) fn allows_host(&self, name: &str) -> bool {
        self.host.as_ref().is_none_or(|asked| asked.has(name))
    }
}

impl Algebra {
    pub(crate) fn new(rules: &LabelRules) -> Self {
        let mut algebra = Self {
            rules: rules.clone(),
            keys: Vec::new(),
            key_index: Index::default(),
            sets: Vec::new(),
            set_index: Index::default(),
            reqs: Vec::new(),
            has_min_values: Vec::new(),
            req_index: Index::default(),
            alone: Vec::new(),
            met: PairMemo::default(),
            lenient: PairMemo::default(),
            strict: PairMemo::default(),
        };
        algebra.req(Vec::new());
        algebra
    }

    pub(crate) fn rules(&self) -> &LabelRules {
        &self.rules
    }

    /// How many sets there are: masks by set are kept in lists of this length.
    pub(crate) fn req_count(&self) -> usize {
        self.reqs.len()
    }

    pub(crate) fn key(&mut self, name: &str) -> KeyId {
        let hash = hash_of(name);
        if let Some(known) = self.key_index.find(hash, |at| self.keys[at as usize].name == name) {
            return known;
        }
        let at = id(self.keys.len());
        self.keys.push(Key { name: name.to_owned(), well_known: self.rules.is_well_known(name) });
        self.key_index.insert(hash, at);
        at
    }

    pub(crate) fn key_name(&self, key: KeyId) -> &str {
        &self.keys[key as usize].name
    }

    pub(crate) fn set(&mut self, requirement: &Requirement) -> SetId {
        let hash = hash_of(requirement);
        if let Some(known) = self.set_index.find(hash, |at| self.sets[at as usize].requirement == *requirement) {
            return known;
        }
        let at = id(self.sets.len());
        let key = self.key(requirement.key());
        self.sets.push(Set { key, operator: requirement.operator(), requirement: requirement.clone() });
        self.set_index.insert(hash, at);
        at
    }

    pub(crate) fn requirement(&self, set: SetId) -> &Requirement {
        &self.sets[set as usize].requirement
    }

    pub(crate) fn is_in(&self, set: SetId) -> bool {
        self.sets[set as usize].operator == Operator::In
    }

    fn req(&mut self, mut pairs: Vec<(KeyId, SetId)>) -> ReqId {
        pairs.sort_unstable();
        let hash = hash_of(&pairs);
        if let Some(known) = self.req_index.find(hash, |at| *self.reqs[at as usize] == *pairs) {
            return known;
        }
        let at = id(self.reqs.len());
        self.has_min_values.push(pairs.iter().any(|(_, set)| self.requirement(*set).min_values().is_some()));
        self.reqs.push(pairs.into_boxed_slice());
        self.req_index.insert(hash, at);
        at
    }

    pub(crate) fn intern(&mut self, requirements: &Requirements) -> Asked {
        let mut asked = Asked::default();
        if requirements.is_empty() {
            return asked;
        }
        let mut pairs = Vec::new();
        for requirement in requirements.iter() {
            if requirement.key() == labels::HOSTNAME {
                asked.host = Some(Box::new(requirement.clone()));
            } else {
                let set = self.set(requirement);
                pairs.push((self.sets[set as usize].key, set));
            }
        }
        asked.req = self.req(pairs);
        asked
    }

    /// The one set alone.
    pub(crate) fn only(&mut self, set: SetId) -> ReqId {
        let at = set as usize;
        if self.alone.len() <= at {
            self.alone.resize(self.sets.len(), NONE);
        }
        if self.alone[at] == NONE {
            self.alone[at] = self.of_sets(std::iter::once(set));
        }
        self.alone[at]
    }

    pub(crate) fn of_sets(&mut self, sets: impl Iterator<Item = SetId>) -> ReqId {
        let pairs = sets.map(|set| (self.sets[set as usize].key, set)).collect();
        self.req(pairs)
    }

    pub(crate) fn pairs(&self, req: ReqId) -> &[(KeyId, SetId)] {
        &self.reqs[req as usize]
    }

    pub(crate) fn get(&self, req: ReqId, key: KeyId) -> Option<SetId> {
        self.pairs(req).iter().find(|(known, _)| *known == key).map(|(_, set)| *set)
    }

    pub(crate) fn requirements(&self, req: ReqId) -> Requirements {
        self.pairs(req).iter().map(|(_, set)| self.requirement(*set).clone()).collect()
    }

    pub(crate) fn has_min_values(&self, req: ReqId) -> bool {
        self.has_min_values[req as usize]
    }

    pub(crate) fn intersects(&self, a: SetId, b: SetId) -> bool {
        a == b && self.is_in(a) || self.requirement(a).intersects(self.requirement(b))
    }

    /// What both allow.
    pub(crate) fn meet_sets(&mut self, a: SetId, b: SetId) -> SetId {
        if a == b && self.is_in(a) {
            return a;
        }
        if let Some(known) = self.met.get(a, b) {
            return known;
        }
        let both = self.requirement(a).intersection(self.requirement(b));
        let met = self.set(&both);
        self.met.insert(a, b, met);
        met
    }

    /// `a` narrowed by `b`, however little they have in common.
    pub(crate) fn narrowed(&mut self, a: ReqId, b: ReqId) -> ReqId {
        let mut pairs = self.reqs[a as usize].to_vec();
        let more = self.reqs[b as usize].clone();
        for (key, set) in more {
            match pairs.iter().position(|(known, _)| *known == key) {
                Some(at) => pairs[at].1 = self.meet_sets(pairs[at].1, set),
                None => pairs.push((key, set)),
            }
        }
        self.req(pairs)
    }

    fn compatible(&self, node: ReqId, incoming: ReqId, well_known_may_miss: bool) -> bool {
        self.pairs(incoming).iter().all(|(key, asked)| {
            if let Some(found) = self.get(node, *key) {
                return self.intersects(found, *asked);
            }
            let may_miss = well_known_may_miss && self.keys[*key as usize].well_known;
            may_miss || self.sets[*asked as usize].may_be_absent()
        })
    }

    /// Whether what is asked of a claim can be had from an offering (API-267).
    pub(crate) fn offers(&self, asked: ReqId, offering: ReqId) -> bool {
        self.compatible(asked, offering, true)
    }

    /// `node` narrowed by `incoming`, if they are compatible where well-known labels may be missing (SCH-42, SCH-43).
    pub(crate) fn lenient(&mut self, node: ReqId, incoming: ReqId) -> Option<ReqId> {
        if incoming == ANYTHING {
            return Some(node);
        }
        if let Some(known) = self.lenient.get(node, incoming) {
            return Some(known).filter(|met| *met != NONE);
        }
        let met = if self.compatible(node, incoming, true) { self.narrowed(node, incoming) } else { NONE };
        self.lenient.insert(node, incoming, met);
        Some(met).filter(|met| *met != NONE)
    }

    /// The same where nothing may be missing.
    pub(crate) fn strict(&mut self, node: ReqId, incoming: ReqId) -> Option<ReqId> {
        if incoming == ANYTHING {
            return Some(node);
        }
        if let Some(known) = self.strict.get(node, incoming) {
            return Some(known).filter(|met| *met != NONE);
        }
        let met = if self.compatible(node, incoming, false) { self.narrowed(node, incoming) } else { NONE };
        self.strict.insert(node, incoming, met);
        Some(met).filter(|met| *met != NONE)
    }

    /// Whether `after`, which `before` was narrowed to, may let something in that `before` kept out: a key that was
    /// missing is there now, or a label may be absent (Q9, Q10).
    pub(crate) fn loosened(&self, before: ReqId, after: ReqId) -> bool {
        before != after
            && self.pairs(after).iter().any(|(key, set)| match self.get(before, *key) {
                Some(same) if same == *set => false,
                Some(_) => self.sets[*set as usize].may_be_absent(),
                None => self.sets[*set as usize].may_be_absent() || !self.keys[*key as usize].well_known,
            })
    }
}
