//! The search for devices on one instance type: depth first, in the order of claims, requests, alternatives and devices.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::devices::{
    Ask, AttributeValue, Constraint, Count, DeviceId, RequestKind, ResourceClaim, TemplatePool,
};
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;

use super::amounts::consumption;
use super::inventory::{self, Reachable};
use super::ledger::{Budget, budgets};
use super::{Candidate, DeviceRefusal, Devices, MOST_DEVICES, Taken, TypeOption};

/// What is to be done about one claim of a pod.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// It has its devices; they can be used where any of these holds, or anywhere if there are none.
    Reach(Vec<Requirements>),
    Allocate(&'a ResourceClaim),
}

pub(super) enum Outcome {
    Found {
        taken: Vec<Taken>,
        requirements: Requirements,
    },
    None,
    /// Nothing that another type would do better.
    Refused(DeviceRefusal),
}

/// A device that could be taken.
#[derive(Clone, Copy)]
struct Choice<'a> {
    at: Reachable<'a>,
    /// The pool that comes with the node; `None` for published ones.
    own: Option<&'a TemplatePool>,
}

/// What a constraint has settled on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pin {
    Value(AttributeValue),
    /// Devices bound to this one will have its value, whatever that is.
    Bound(DeviceId),
}

pub(super) struct Search<'a> {
    devices: &'a Devices,
    candidate: &'a str,
    option: TypeOption<'a>,
    items: &'a [Item<'a>],
    /// Published ones first.
    choices: Vec<Choice<'a>>,
    /// All pools that can be seen are complete and sound.
    sound: bool,
    /// Devices that come with the node are not asked for by requests for all (SCH-204).
    all_without_own: BTreeSet<PodId>,
    requirements: Requirements,
    taken: Vec<Taken>,
    /// By claim and constraint.
    pins: BTreeMap<(PodId, usize), Pin>,
    /// Which devices an ask matches; asks are told apart by where they stand.
    matches: BTreeMap<(usize, usize, usize), Vec<Result<bool, String>>>,
    refused: Option<DeviceRefusal>,
}

/// Where the search stands: item, request, alternative.
type Place = (usize, usize, usize);

impl<'a> Search<'a> {
    pub(super) fn new(
        devices: &'a Devices,
        candidate: &'a Candidate<'a>,
        option: TypeOption<'a>,
        items: &'a [Item<'a>],
        requirements: Requirements,
    ) -> Self {
        let (published, sound) = devices.inventory.reachable(candidate.node, candidate.requirements, &devices.rules);
        let own = option.devices.pools.iter().flat_map(|pool| {
            pool.devices.iter().map(move |device| Choice {
                at: Reachable { driver: &pool.driver, pool: &pool.pool, device, terms: &[], local: false },
                own: Some(pool),
            })
        });
        let choices = published.into_iter().map(|at| Choice { at, own: None }).chain(own).collect();
        let alone = Candidate { types: vec![option], ..candidate.clone() };
        let overfull =
            |claim: &&ResourceClaim| devices.inventory.least_devices(claim, &alone, &devices.rules) > MOST_DEVICES;
        let claims = items.iter().filter_map(|item| match item {
            Item::Allocate(claim) => Some(*claim),
            Item::Reach(_) => None,
        });
        Self {
            devices,
            candidate: candidate.name,
            option,
            items,
            choices,
            sound,
            all_without_own: claims.filter(overfull).map(|claim| claim.id.clone()).collect(),
            requirements,
            taken: Vec::new(),
            pins: BTreeMap::new(),
            matches: BTreeMap::new(),
            refused: None,
        }
    }

    pub(super) fn run(mut self, steps: &mut u32) -> Outcome {
        let found = self.item(0, steps);
        match self.refused {
            Some(why) => Outcome::Refused(why),
            None if found => Outcome::Found { taken: self.taken, requirements: self.requirements },
            None => Outcome::None,
        }
    }

    fn item(&mut self, at: usize, steps: &mut u32) -> bool {
        let items = self.items;
        match items.get(at) {
            None => true,
            Some(Item::Allocate(_)) => self.request((at, 0, 0), steps),
            Some(Item::Reach(terms)) if terms.is_empty() => self.item(at + 1, steps),
            // Alternatives stay alternatives (Q22).
            Some(Item::Reach(terms)) => {
                terms.iter().any(|term| self.within(term, steps, |search, steps| search.item(at + 1, steps)))
            }
        }
    }

    /// Goes on with what is left of the requirements there; comes back to what they were if that fails.
    fn within(
        &mut self,
        term: &Requirements,
        steps: &mut u32,
        go_on: impl FnOnce(&mut Self, &mut u32) -> bool,
    ) -> bool {
        if !self.requirements.is_compatible(term, self.devices.undefined()) {
            return false;
        }
        let before = self.requirements.clone();
        self.requirements.add_all(term);
        let found = go_on(self, steps);
        if !found {
            self.requirements = before;
        }
        found
    }

    fn claim(&self, place: Place) -> Option<&'a ResourceClaim> {
        match self.items.get(place.0) {
            Some(Item::Allocate(claim)) => Some(*claim),
            _ => None,
        }
    }

    fn request(&mut self, place: Place, steps: &mut u32) -> bool {
        let Some(claim) = self.claim(place) else { return false };
        let Some(request) = claim.requests.get(place.1) else { return self.item(place.0 + 1, steps) };
        match &request.kind {
            RequestKind::Exactly(ask) => self.ask(place, &request.name, ask, steps),
            RequestKind::FirstAvailable(all) => all.iter().enumerate().any(|(index, (name, ask))| {
                let name = format!("{}/{name}", request.name);
                self.ask((place.0, place.1, index), &name, ask, steps)
            }),
            RequestKind::Unknown => false,
        }
    }

    fn ask(&mut self, place: Place, name: &str, ask: &'a Ask, steps: &mut u32) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let Some(claim) = self.claim(place) else { return false };
        let so_far = self.taken.iter().filter(|one| one.claim == claim.id).count();
        match ask.count {
            Count::Exactly(count) => {
                let count = count as usize;
                so_far + count <= MOST_DEVICES && self.slots(place, name, ask, (count, 0), steps)
            }
            Count::All => self.all(place, name, ask, so_far, steps),
        }
    }

    /// Devices in ascending order, since it does not matter which of them fills which slot. `left` are still to be found,
    /// from the choice `from` on.
    fn slots(&mut self, place: Place, name: &str, ask: &'a Ask, (left, from): (usize, usize), steps: &mut u32) -> bool {
        if left == 0 {
            return self.request((place.0, place.1 + 1, 0), steps);
        }
        for index in from..self.choices.len() {
            if *steps == 0 {
                self.refused = Some(DeviceRefusal::TooHard);
            }
            if self.refused.is_some() {
                return false;
            }
            *steps -= 1;
            if self.matching(place, ask, index) != Ok(true) {
                continue;
            }
            // A shared device may have a share for the next slot too.
            let next = if self.choices[index].at.device.shared { index } else { index + 1 };
            let go_on = |search: &mut Self, steps: &mut u32| search.slots(place, name, ask, (left - 1, next), steps);
            if self.take(place, name, ask, index, steps, go_on) {
                return true;
            }
        }
        false
    }

    /// Every device that matches, or none at all (SCH-203).
    fn all(&mut self, place: Place, name: &str, ask: &'a Ask, so_far: usize, steps: &mut u32) -> bool {
        let Some(claim) = self.claim(place) else { return false };
        if !self.sound {
            return false;
        }
        let without_own = self.all_without_own.contains(&claim.id);
        let mut wanted = Vec::new();
        for index in 0..self.choices.len() {
            if without_own && self.choices[index].own.is_some() {
                continue;
            }
            match self.matching(place, ask, index) {
                Ok(true) => wanted.push(index),
                Ok(false) => {}
                Err(why) => {
                    self.refused = Some(DeviceRefusal::Unusable { claim: claim.id.clone(), why });
                    return false;
                }
            }
        }
        !wanted.is_empty() && so_far + wanted.len() <= MOST_DEVICES && self.every(place, name, ask, &wanted, steps)
    }

    fn every(&mut self, place: Place, name: &str, ask: &'a Ask, wanted: &[usize], steps: &mut u32) -> bool {
        let Some((first, rest)) = wanted.split_first() else {
            return self.request((place.0, place.1 + 1, 0), steps);
        };
        if *steps == 0 {
            self.refused = Some(DeviceRefusal::TooHard);
            return false;
        }
        *steps -= 1;
        let go_on = |search: &mut Self, steps: &mut u32| search.every(place, name, ask, rest, steps);
        self.take(place, name, ask, *first, steps, go_on)
    }

    fn matching(&mut self, place: Place, ask: &Ask, index: usize) -> Result<bool, String> {
        let (inventory, choices) = (&self.devices.inventory, &self.choices);
        let known = self.matches.entry(place).or_insert_with(|| {
            choices.iter().map(|choice| inventory.matches(ask, choice.at.driver, choice.at.device)).collect()
        });
        known.get(index).cloned().unwrap_or(Ok(false))
    }

    /// Takes the device and goes on; gives it back if that fails (SCH-207).
    fn take(
        &mut self,
        place: Place,
        name: &str,
        ask: &Ask,
        index: usize,
        steps: &mut u32,
        go_on: impl Fn(&mut Self, &mut u32) -> bool,
    ) -> bool {
        let Some(claim) = self.claim(place) else { return false };
        let choice = self.choices[index];
        let Some(mut one) = self.offer(claim, name, ask, choice) else { return false };
        let Some(pins) = self.pinned(claim, name, choice, &one.device) else { return false };
        let before: Vec<_> = pins.keys().map(|key| (key.clone(), self.pins.get(key).cloned())).collect();
        self.pins.extend(pins);
        let everywhere = [Requirements::new()];
        let terms = if choice.at.terms.is_empty() { &everywhere[..] } else { choice.at.terms };
        for term in terms {
            one.topology = term.clone();
            self.taken.push(one.clone());
            if self.within(term, steps, &go_on) {
                return true;
            }
            self.taken.pop();
        }
        for (key, pin) in before {
            match pin {
                Some(pin) => drop(self.pins.insert(key, pin)),
                None => drop(self.pins.remove(&key)),
            }
        }
        false
    }

    /// The device, if it can be had: nobody has it, and there is enough of what it takes.
    fn offer(&self, claim: &ResourceClaim, name: &str, ask: &Ask, choice: Choice<'_>) -> Option<Taken> {
        let Reachable { driver, pool, device, .. } = choice.at;
        let id = inventory::id(driver, pool, device);
        let consumed = if device.shared { consumption(device, &ask.capacity)? } else { BTreeMap::new() };
        if !device.shared && self.is_gone(&id, choice) {
            return None;
        }
        let one = Taken {
            claim: claim.id.clone(),
            request: name.to_owned(),
            device: id,
            own: choice.own.is_some(),
            local: choice.own.is_some() || choice.at.local,
            consumed,
            counters: inventory::counters(device),
            topology: Requirements::new(),
        };
        let enough = budgets(&one).into_iter().all(|(budget, amount)| amount <= self.left(&budget, choice));
        enough.then_some(one)
    }

    fn is_gone(&self, id: &DeviceId, choice: Choice<'_>) -> bool {
        let own = choice.own.is_some();
        let ledger = &self.devices.ledger;
        let given = if own {
            ledger.holds_own(id, self.candidate, self.option.name)
        } else {
            self.devices.inventory.is_given(id) || ledger.holds(id, self.candidate, self.option.name)
        };
        given || self.taken.iter().any(|one| one.own == own && one.device == *id)
    }

    /// How much is left of a counter or of a dimension of a shared device (SCH-209, SCH-210).
    fn left(&self, budget: &Budget, choice: Choice<'_>) -> Quantity {
        let (inventory, ledger) = (&self.devices.inventory, &self.devices.ledger);
        let there = match (budget, choice.own) {
            (Budget::Capacity(_, dimension), _) => {
                choice.at.device.capacity.get(dimension).map(|capacity| capacity.value).unwrap_or_default()
            }
            // A device that takes from a budget nobody declared cannot be used.
            (Budget::Counter(_, _, set, counter), Some(pool)) => {
                let declared = pool.counters.get(set).and_then(|counters| counters.get(counter));
                declared.copied().unwrap_or(Quantity::units(-1))
            }
            (Budget::Counter(driver, pool, set, counter), None) => inventory.budget(driver, pool, set, counter),
        };
        let used = match (budget, choice.own) {
            (_, Some(_)) => ledger.used_own(budget, self.candidate, self.option.name),
            (Budget::Capacity(id, dimension), None) => {
                inventory.share(id, dimension) + ledger.used(budget, self.candidate, self.option.name)
            }
            (Budget::Counter(..), None) => ledger.used(budget, self.candidate, self.option.name),
        };
        let here = self.taken.iter().filter(|one| one.own == choice.own.is_some()).flat_map(budgets);
        let here: Quantity = here.filter(|(other, _)| other == budget).map(|(_, amount)| amount).sum();
        there - used - here
    }

    /// What constraints that cover the request settle on with this device; `None` if it does not match (SCH-205).
    fn pinned(
        &self,
        claim: &ResourceClaim,
        request: &str,
        choice: Choice<'_>,
        id: &DeviceId,
    ) -> Option<BTreeMap<(PodId, usize), Pin>> {
        let mut pins = BTreeMap::new();
        for (index, constraint) in claim.constraints.iter().enumerate().filter(|(_, one)| one.covers(request)) {
            let Constraint::MatchAttribute { attribute, .. } = constraint else { continue };
            let key = (claim.id.clone(), index);
            let value = choice.at.device.attribute(choice.at.driver, attribute);
            let pin = match (value, self.pins.get(&key)) {
                (Some(value), None) => Pin::Value(value.clone()),
                (Some(value), Some(Pin::Value(pinned))) if value == pinned => Pin::Value(pinned.clone()),
                (None, None) if self.bound(attribute, id).is_some() => Pin::Bound(id.clone()),
                (None, Some(Pin::Bound(first))) if self.bound(attribute, id)?.contains(first) => {
                    Pin::Bound(first.clone())
                }
                _ => return None,
            };
            pins.insert(key, pin);
        }
        Some(pins)
    }

    /// The devices that will have the same value as this one, itself included; groups that share a device are one.
    fn bound(&self, attribute: &str, id: &DeviceId) -> Option<BTreeSet<DeviceId>> {
        let groups = self.option.devices.bindings.iter();
        let groups: Vec<_> = groups.filter(|group| group.attribute == attribute && group.devices.len() > 1).collect();
        let mut bound = BTreeSet::from([id.clone()]);
        loop {
            let before = bound.len();
            for group in &groups {
                if group.devices.iter().any(|device| bound.contains(device)) {
                    bound.extend(group.devices.iter().cloned());
                }
            }
            if bound.len() == before {
                return (before > 1).then_some(bound);
            }
        }
    }
}
