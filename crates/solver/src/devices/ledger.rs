//! What a pass has given so far, and the way back.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::devices::DeviceId;
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;

use super::Taken;

/// Something of which there is a limited amount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Budget {
    /// Driver, pool, set and counter.
    Counter(String, String, String, String),
    /// A dimension of a shared device.
    Capacity(DeviceId, String),
}

type TypeName = String;
type CandidateName = String;

/// Only one of the types of a candidate will come, so devices may be given to several of them at once, and what counts of
/// an amount is the most that any of them uses (SCH-208, SCH-211).
#[derive(Debug, Default)]
pub(super) struct Ledger {
    given: BTreeMap<CandidateName, BTreeMap<TypeName, Vec<Taken>>>,
    /// Candidates and types that have a published device.
    holders: BTreeMap<DeviceId, BTreeMap<CandidateName, BTreeSet<TypeName>>>,
    used: BTreeMap<Budget, BTreeMap<CandidateName, BTreeMap<TypeName, Quantity>>>,
    /// Sum over candidates of the most that one of their types uses.
    totals: BTreeMap<Budget, Quantity>,
    owners: BTreeMap<PodId, CandidateName>,
    log: Vec<Entry>,
}

#[derive(Debug)]
enum Entry {
    Inserted(CandidateName, TypeName, usize),
    Removed(CandidateName, TypeName, Vec<Taken>),
    Owned(PodId),
}

impl Ledger {
    pub(super) fn insert(&mut self, candidate: &str, option: &str, taken: Vec<Taken>) {
        let count = taken.len();
        for one in taken {
            if !self.owners.contains_key(&one.claim) {
                self.owners.insert(one.claim.clone(), candidate.to_owned());
                self.log.push(Entry::Owned(one.claim.clone()));
            }
            self.add(candidate, option, one);
        }
        self.log.push(Entry::Inserted(candidate.to_owned(), option.to_owned(), count));
    }

    pub(super) fn keep(&mut self, candidate: &str, kept: &BTreeSet<&str>) {
        let types: Vec<TypeName> =
            self.given.get(candidate).into_iter().flatten().map(|(name, _)| name.clone()).collect();
        for option in types.into_iter().filter(|name| !kept.contains(name.as_str())) {
            let taken = self.given.get_mut(candidate).and_then(|types| types.remove(&option)).unwrap_or_default();
            for one in &taken {
                self.count(candidate, &option, one, Sign::Minus);
            }
            self.log.push(Entry::Removed(candidate.to_owned(), option, taken));
        }
    }

    fn add(&mut self, candidate: &str, option: &str, one: Taken) {
        self.count(candidate, option, &one, Sign::Plus);
        self.given.entry(candidate.to_owned()).or_default().entry(option.to_owned()).or_default().push(one);
    }

    /// Keeps the indexes in step with what is given.
    fn count(&mut self, candidate: &str, option: &str, one: &Taken, sign: Sign) {
        if one.own {
            return;
        }
        let held = self.holders.entry(one.device.clone()).or_default().entry(candidate.to_owned()).or_default();
        match sign {
            Sign::Plus => drop(held.insert(option.to_owned())),
            Sign::Minus => drop(held.remove(option)),
        }
        if held.is_empty()
            && let Some(candidates) = self.holders.get_mut(&one.device)
        {
            candidates.remove(candidate);
        }
        for (budget, amount) in budgets(one) {
            self.change(budget, candidate, option, if sign == Sign::Plus { amount } else { -amount });
        }
    }

    fn change(&mut self, budget: Budget, candidate: &str, option: &str, by: Quantity) {
        let types = self.used.entry(budget.clone()).or_default().entry(candidate.to_owned()).or_default();
        let most = |types: &BTreeMap<TypeName, Quantity>| types.values().copied().max().unwrap_or_default();
        let before = most(types);
        *types.entry(option.to_owned()).or_default() += by;
        let after = most(types);
        *self.totals.entry(budget).or_default() += after - before;
    }

    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Entry::Inserted(candidate, option, count)) => {
                    for _ in 0..count {
                        let types = self.given.get_mut(&candidate);
                        let one = types.and_then(|types| types.get_mut(&option)).and_then(Vec::pop);
                        if let Some(one) = one {
                            self.count(&candidate, &option, &one, Sign::Minus);
                        }
                    }
                    self.forget_empty(&candidate, &option);
                }
                Some(Entry::Removed(candidate, option, taken)) => {
                    for one in taken {
                        self.add(&candidate, &option, one);
                    }
                }
                Some(Entry::Owned(claim)) => drop(self.owners.remove(&claim)),
                None => return,
            }
        }
    }

    fn forget_empty(&mut self, candidate: &str, option: &str) {
        let Some(types) = self.given.get_mut(candidate) else { return };
        if types.get(option).is_some_and(Vec::is_empty) {
            types.remove(option);
        }
        if types.is_empty() {
            self.given.remove(candidate);
        }
    }

    /// Who got the claim in this pass.
    pub(super) fn owner(&self, claim: &PodId) -> Option<&str> {
        self.owners.get(claim).map(String::as_str)
    }

    fn of_claim<'a>(&'a self, claim: &'a PodId) -> impl Iterator<Item = &'a Taken> {
        let types = self.owners.get(claim).and_then(|candidate| self.given.get(candidate));
        types.into_iter().flatten().flat_map(|(_, taken)| taken).filter(move |one| one.claim == *claim)
    }

    /// Some type satisfies the claim with devices that come with the node itself, or that only this node reaches.
    pub(super) fn is_local(&self, claim: &PodId) -> bool {
        self.of_claim(claim).any(|one| one.local)
    }

    /// From where all devices of the claim can be used, on whatever type it ends (SCH-213).
    pub(super) fn topology(&self, claim: &PodId) -> Requirements {
        let mut all = Requirements::new();
        self.of_claim(claim).for_each(|one| all.add_all(&one.topology));
        all
    }

    pub(super) fn given(&self, candidate: &str) -> Option<&BTreeMap<TypeName, Vec<Taken>>> {
        self.given.get(candidate)
    }

    pub(super) fn drivers(&self, candidate: &str) -> BTreeSet<&str> {
        let taken = self.given.get(candidate).into_iter().flatten().flat_map(|(_, taken)| taken);
        taken.map(|one| one.device.driver.as_str()).collect()
    }

    /// Somebody else has the device, or this candidate for this type (SCH-208).
    pub(super) fn holds(&self, device: &DeviceId, candidate: &str, option: &str) -> bool {
        self.holders.get(device).is_some_and(|candidates| {
            candidates.iter().any(|(name, types)| name != candidate || types.contains(option))
        })
    }

    /// The candidate has the device that would come with this type.
    pub(super) fn holds_own(&self, device: &DeviceId, candidate: &str, option: &str) -> bool {
        self.own(candidate, option).any(|one| one.device == *device)
    }

    fn own<'a>(&'a self, candidate: &str, option: &str) -> impl Iterator<Item = &'a Taken> {
        let taken = self.given.get(candidate).and_then(|types| types.get(option));
        taken.into_iter().flatten().filter(|one| one.own)
    }

    /// How much of it is gone when this candidate becomes this type.
    pub(super) fn used(&self, budget: &Budget, candidate: &str, option: &str) -> Quantity {
        let types = self.used.get(budget).and_then(|candidates| candidates.get(candidate));
        let most = types.and_then(|types| types.values().copied().max()).unwrap_or_default();
        let here = types.and_then(|types| types.get(option)).copied().unwrap_or_default();
        self.totals.get(budget).copied().unwrap_or_default() - most + here
    }

    /// The same for what comes with the node itself.
    pub(super) fn used_own(&self, budget: &Budget, candidate: &str, option: &str) -> Quantity {
        let all = self.own(candidate, option).flat_map(budgets);
        all.filter(|(other, _)| other == budget).map(|(_, amount)| amount).sum()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

/// What a device uses up, and how much of it.
pub(super) fn budgets(one: &Taken) -> Vec<(Budget, Quantity)> {
    let DeviceId { driver, pool, .. } = &one.device;
    let counters = one.counters.iter().map(|((set, counter), amount)| {
        (Budget::Counter(driver.clone(), pool.clone(), set.clone(), counter.clone()), *amount)
    });
    let capacity = one
        .consumed
        .iter()
        .map(|(dimension, amount)| (Budget::Capacity(one.device.clone(), dimension.clone()), *amount));
    counters.chain(capacity).collect()
}
