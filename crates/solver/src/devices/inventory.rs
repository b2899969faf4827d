//! What there is when a pass begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::devices::{
    Ask, Constraint, Count, Device, DeviceClass, DeviceFacts, DeviceId, Reach, RequestKind, ResourceClaim, Selector,
    Slice,
};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::snapshot::Snapshot;

use super::{Candidate, MOST_DEVICES, only_moving};

/// Everything that is known about devices.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub known: Arc<DeviceFacts>,
    /// UIDs of pods that leave their nodes.
    pub moving: BTreeSet<String>,
    /// Nodes of the pass that are initialized: what others published is not looked at (SCH-193).
    pub nodes: BTreeSet<String>,
}

impl Facts {
    /// `None` when nobody asks about devices.
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let known = snapshot.devices.clone()?;
        let moving = snapshot.pending.values().filter(|pod| pod.node_name.is_some());
        // What a node that goes has published goes with it (DIS-90).
        let up = snapshot.nodes.iter().filter(|node| node.is_initialized() && node.stays());
        Some(Self {
            known,
            moving: moving.map(|pod| pod.uid.to_string()).collect(),
            nodes: up.map(|node| node.name().to_owned()).collect(),
        })
    }
}

#[derive(Debug, Default)]
pub struct Inventory {
    pools: BTreeMap<(String, String), Published>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    claims: BTreeMap<PodId, Arc<ResourceClaim>>,
    moving: BTreeSet<String>,
    /// Devices that are given as a whole.
    given: BTreeSet<DeviceId>,
    /// What is given of shared ones.
    shares: BTreeMap<DeviceId, BTreeMap<String, Quantity>>,
}

/// A pool of devices, as far as its newest generation is published.
#[derive(Debug)]
pub(super) struct Published {
    /// By name.
    slices: Vec<Arc<Slice>>,
    complete: bool,
    /// Counters are not declared as they should be.
    faulty: bool,
    /// Set and counter: what is left after devices that are given already.
    budget: BTreeMap<(String, String), Quantity>,
}

/// A device that a candidate can reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reachable<'a> {
    pub(super) driver: &'a str,
    pub(super) pool: &'a str,
    pub(super) device: &'a Device,
    /// From where; any of these, or from everywhere when there are none.
    pub(super) terms: &'a [Requirements],
    /// From the node that is asked about, and no other.
    pub(super) local: bool,
}

impl Inventory {
    pub fn new(facts: Facts) -> Self {
        let known = &facts.known;
        let mut inventory = Self {
            classes: known.classes.iter().map(|class| (class.name.clone(), class.clone())).collect(),
            claims: known.claims.iter().map(|claim| (claim.id.clone(), claim.clone())).collect(),
            moving: facts.moving,
            ..Self::default()
        };
        for claim in &known.claims {
            inventory.seed(claim);
        }
        let published = known.slices.iter().filter(|slice| match &slice.owner {
            Some(node) => facts.nodes.contains(node),
            None => true,
        });
        let mut by_pool: BTreeMap<(String, String), Vec<Arc<Slice>>> = BTreeMap::new();
        for slice in published {
            by_pool.entry((slice.driver.clone(), slice.pool.clone())).or_default().push(slice.clone());
        }
        for (key, slices) in by_pool {
            let pool = inventory.published(slices);
            inventory.pools.insert(key, pool);
        }
        inventory
    }

    /// What the claim holds is not free, unless all who have it are moving (SCH-194, SCH-195, Q38).
    fn seed(&mut self, claim: &ResourceClaim) {
        let Some(allocation) = &claim.allocation else { return };
        if only_moving(&allocation.reserved_for, &self.moving) {
            return;
        }
        for device in &allocation.devices {
            if device.consumed.is_empty() {
                self.given.insert(device.id.clone());
            }
            for (dimension, amount) in &device.consumed {
                *self.shares.entry(device.id.clone()).or_default().entry(dimension.clone()).or_default() += *amount;
            }
        }
    }

    fn published(&self, mut slices: Vec<Arc<Slice>>) -> Published {
        let newest = slices.iter().map(|slice| slice.generation).max().unwrap_or_default();
        slices.retain(|slice| slice.generation == newest);
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        let mut faulty = false;
        let mut budget: BTreeMap<(String, String), Quantity> = BTreeMap::new();
        let mut sets = BTreeSet::new();
        for (set, counters) in slices.iter().flat_map(|slice| &slice.counters) {
            faulty |= !sets.insert(set.clone());
            budget.extend(counters.iter().map(|(counter, amount)| ((set.clone(), counter.clone()), *amount)));
        }
        for slice in &slices {
            for device in devices(slice) {
                let uses = counters(device);
                faulty |= uses.keys().any(|key| !budget.contains_key(key));
                let id = id(&slice.driver, &slice.pool, device);
                if self.given.contains(&id) || self.shares.contains_key(&id) {
                    for (key, amount) in uses {
                        *budget.entry(key).or_default() -= amount;
                    }
                }
            }
        }
        // The number of parts is the same in all of them; a pool whose parts disagree is not complete either.
        let complete = slices.iter().all(|slice| slice.parts as usize == slices.len());
        Published { slices, complete, faulty, budget }
    }

    pub(super) fn claim(&self, id: &PodId) -> Option<&ResourceClaim> {
        self.claims.get(id).map(AsRef::as_ref)
    }

    /// What the claim has is given up by all who use it, so it is allocated anew (SCH-196).
    pub(super) fn moves(&self, claim: &ResourceClaim) -> bool {
        claim.allocation.as_ref().is_some_and(|allocation| only_moving(&allocation.reserved_for, &self.moving))
    }

    pub(super) fn is_given(&self, device: &DeviceId) -> bool {
        self.given.contains(device)
    }

    pub(super) fn share(&self, device: &DeviceId, dimension: &str) -> Quantity {
        self.shares.get(device).and_then(|all| all.get(dimension)).copied().unwrap_or_default()
    }

    /// What the counters of a published pool have to give.
    pub(super) fn budget(&self, driver: &str, pool: &str, set: &str, counter: &str) -> Quantity {
        let pool = self.pools.get(&(driver.to_owned(), pool.to_owned()));
        let left = pool.and_then(|pool| pool.budget.get(&(set.to_owned(), counter.to_owned())));
        left.copied().unwrap_or_default()
    }

    /// Devices of pools that are complete and sound, in order of driver, pool, slice and place in it; and whether all
    /// pools that can be seen are so (SCH-198, SCH-199).
    pub(super) fn reachable(
        &self,
        node: Option<&str>,
        requirements: &Requirements,
        rules: &LabelRules,
    ) -> (Vec<Reachable<'_>>, bool) {
        let mut all = Vec::new();
        let mut sound = true;
        for pool in self.pools.values() {
            let slices = pool.slices.iter().map(AsRef::as_ref);
            let seen: Vec<&Slice> = slices.filter(|slice| is_accessible(slice, node, requirements, rules)).collect();
            if seen.is_empty() {
                continue;
            }
            let mut names = BTreeSet::new();
            let unique = seen.iter().flat_map(|slice| devices(slice)).all(|device| names.insert(&device.name));
            if !pool.complete || pool.faulty || !unique {
                sound = false;
                continue;
            }
            all.extend(seen.into_iter().flat_map(|slice| {
                let terms: &[Requirements] = match &slice.reach {
                    Reach::Nodes(terms) => terms,
                    _ => &[],
                };
                let local = matches!(slice.reach, Reach::Node(_));
                let (driver, pool) = (slice.driver.as_str(), slice.pool.as_str());
                devices(slice).map(move |device| Reachable { driver, pool, device, terms, local })
            }));
        }
        (all, sound)
    }

    /// Everything that the claim asks for is understood (SCH-202).
    pub(super) fn usable(&self, claim: &ResourceClaim) -> Result<(), String> {
        for request in &claim.requests {
            let asks: Vec<&Ask> = match &request.kind {
                RequestKind::Exactly(ask) => vec![ask],
                RequestKind::FirstAvailable(all) => all.iter().map(|(_, ask)| ask).collect(),
                RequestKind::Unknown => return Err(format!("request {} is of no known kind", request.name)),
            };
            for ask in asks {
                let class =
                    self.classes.get(&ask.class).ok_or_else(|| format!("device class {} not found", ask.class))?;
                for selector in class.selectors.iter().chain(&ask.selectors) {
                    if let Selector::Unusable(why) = selector {
                        return Err(format!("selector of request {}: {why}", request.name));
                    }
                }
            }
        }
        let unknown = claim.constraints.iter().find_map(|constraint| match constraint {
            Constraint::Unknown(what) => Some(format!("constraint {what} is not supported")),
            Constraint::MatchAttribute { .. } => None,
        });
        unknown.map_or(Ok(()), Err)
    }

    /// Whether the device is one that is asked for; an error is one of the expression.
    pub(super) fn matches(&self, ask: &Ask, driver: &str, device: &Device) -> Result<bool, String> {
        let class = self.classes.get(&ask.class).map(|class| class.selectors.as_slice()).unwrap_or_default();
        for selector in class.iter().chain(&ask.selectors) {
            match selector {
                Selector::Compiled(selector) if selector.matches(driver, device)? => {}
                Selector::Compiled(_) => return Ok(false),
                Selector::Unusable(why) => return Err(why.clone()),
            }
        }
        Ok(true)
    }

    /// The fewest devices that satisfy the claim (SCH-204): published ones, and on every type more than allowed only if
    /// that is so on each of them.
    pub(super) fn least_devices(&self, claim: &ResourceClaim, candidate: &Candidate<'_>, rules: &LabelRules) -> usize {
        let (published, _) = self.reachable(candidate.node, candidate.requirements, rules);
        let matching = |ask: &Ask, own: &[(&str, &Device)]| {
            let published = published.iter().map(|one| (one.driver, one.device));
            published
                .chain(own.iter().copied())
                .filter(|(driver, device)| self.matches(ask, driver, device) == Ok(true))
                .count()
        };
        let least = |own: &[(&str, &Device)]| {
            let of_ask = |ask: &Ask| match ask.count {
                Count::Exactly(count) => count as usize,
                Count::All => matching(ask, own),
            };
            let of_request = |kind: &RequestKind| match kind {
                RequestKind::Exactly(ask) => of_ask(ask),
                RequestKind::FirstAvailable(all) => all.iter().map(|(_, ask)| of_ask(ask)).min().unwrap_or(0),
                RequestKind::Unknown => 0,
            };
            claim.requests.iter().map(|request| of_request(&request.kind)).sum::<usize>()
        };
        let without = least(&[]);
        let by_type = candidate.types.iter().map(|option| {
            let own = option
                .devices
                .pools
                .iter()
                .flat_map(|pool| pool.devices.iter().map(|device| (pool.driver.as_str(), device)));
            least(&own.collect::<Vec<_>>())
        });
        by_type.min().filter(|least| *least > MOST_DEVICES).unwrap_or(without).max(without)
    }
}

/// Devices beside shared counters are ignored.
fn devices(slice: &Slice) -> impl Iterator<Item = &Device> {
    slice.devices.iter().filter(|_| slice.counters.is_empty())
}

pub(super) fn id(driver: &str, pool: &str, device: &Device) -> DeviceId {
    DeviceId { driver: driver.to_owned(), pool: pool.to_owned(), device: device.name.clone() }
}

/// What using the device takes, by set and counter.
pub(super) fn counters(device: &Device) -> BTreeMap<(String, String), Quantity> {
    let mut all: BTreeMap<(String, String), Quantity> = BTreeMap::new();
    for used in &device.consumes {
        for (counter, amount) in &used.counters {
            *all.entry((used.set.clone(), counter.clone())).or_default() += *amount;
        }
    }
    all
}

fn is_accessible(slice: &Slice, node: Option<&str>, requirements: &Requirements, rules: &LabelRules) -> bool {
    if !slice.counters.is_empty() {
        return true;
    }
    match &slice.reach {
        Reach::AllNodes => true,
        Reach::Node(name) => node == Some(name.as_str()),
        Reach::Nodes(terms) => {
            terms.iter().any(|term| requirements.is_compatible(term, Undefined::WellKnownAllowed(rules)))
        }
        Reach::Nowhere => false,
    }
}
