//! The values that a topology key can have, in order.

use std::collections::BTreeMap;

use karpenter_model::requirements::Requirement;

use super::algebra::{Algebra, KeyId, SetId};
use super::bits::Bits;
use super::intern::NONE;
use super::nodes::TaintsId;

#[derive(Debug)]
pub(crate) struct Universe {
    pub(crate) key: KeyId,
    pub(crate) name: String,
    /// Sorted: the order of domains is that of their names.
    values: Vec<String>,
    /// Domains that pools could open, by the taints of those pools (SCH-126).
    pub(crate) pools: Vec<(TaintsId, Bits)>,
    /// The domain of each node, [`NONE`] where it has none.
    pub(crate) of_node: Vec<u32>,
    only: Vec<SetId>,
    /// Domains that a set allows, and the only one if it is one.
    allowed: Vec<Option<(Bits, Option<usize>)>>,
    sets: BTreeMap<Bits, SetId>,
}

impl Universe {
    pub(crate) fn new(key: KeyId, name: &str, mut values: Vec<String>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self {
            key,
            name: name.to_owned(),
            only: vec![NONE; values.len()],
            values,
            pools: Vec::new(),
            of_node: Vec::new(),
            allowed: Vec::new(),
            sets: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn name_of(&self, domain: usize) -> &str {
        &self.values[domain]
    }

    pub(crate) fn position(&self, value: &str) -> Option<usize> {
        self.values.binary_search_by(|known| known.as_str().cmp(value)).ok()
    }

    pub(crate) fn add_pool(&mut self, taints: TaintsId, values: impl Iterator<Item = usize>) {
        let known = self.pools.iter().position(|(known, _)| *known == taints);
        let at = known.unwrap_or(self.pools.len());
        if known.is_none() {
            self.pools.push((taints, Bits::new(self.values.len())));
        }
        values.for_each(|value| self.pools[at].1.set(value));
    }

    /// Works out which domains the set allows.
    pub(crate) fn know(&mut self, set: SetId, algebra: &Algebra) {
        let at = set as usize;
        if self.allowed.len() <= at {
            self.allowed.resize_with(at + 1, || None);
        }
        if self.allowed[at].is_none() {
            let asked = algebra.requirement(set);
            let mut allowed = Bits::new(self.values.len());
            let listed = self.values.iter().enumerate().filter(|(_, value)| asked.has(value));
            listed.for_each(|(at, _)| allowed.set(at));
            let single = (allowed.iter().count() == 1).then(|| allowed.iter().next()).flatten();
            self.allowed[at] = Some((allowed, single));
        }
    }

    /// Of a set that is known; `None` allows all.
    pub(crate) fn allowed(&self, set: Option<SetId>) -> Option<&Bits> {
        self.allowed.get(set? as usize)?.as_ref().map(|(allowed, _)| allowed)
    }

    /// The only domain that a known set allows, if it allows one.
    pub(crate) fn single(&self, set: SetId) -> Option<usize> {
        self.allowed.get(set as usize)?.as_ref()?.1
    }

    /// The one domain alone.
    pub(crate) fn only(&mut self, domain: usize, algebra: &mut Algebra) -> SetId {
        if self.only[domain] == NONE {
            let set = algebra.set(&Requirement::any_of(&self.name, [self.values[domain].as_str()]));
            self.only[domain] = set;
        }
        self.only[domain]
    }

    pub(crate) fn any_of(&mut self, domains: &Bits, algebra: &mut Algebra) -> SetId {
        if let Some(known) = self.sets.get(domains) {
            return *known;
        }
        let values = domains.iter().map(|domain| self.values[domain].as_str());
        let set = algebra.set(&Requirement::any_of(&self.name, values));
        self.sets.insert(domains.clone(), set);
        set
    }
}
