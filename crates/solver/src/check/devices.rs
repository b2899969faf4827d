//! Devices of resource claims: every claim of a placed pod has what it asks for, of devices that exist, can be reached and are
//! given once, whichever of its types each claim becomes.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::devices::{
    Ask, Constraint, Consumer, Count, Device, DeviceFacts, DeviceId, Reach, RequestKind, ResourceClaim, Selector,
    Slice, TypeDevices,
};
use karpenter_model::labels;
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;

use super::sites::Site;
use super::{Check, Rule};
use crate::devices::Taken;

/// A site as one type that it may become, with what it would be given then.
struct Outcome<'a> {
    site: usize,
    type_name: String,
    own: Option<&'a TypeDevices>,
    taken: &'a [Taken],
}

const NOTHING: &[Taken] = &[];

impl<'a> Check<'a> {
    pub(super) fn devices(&mut self) {
        let sites = &self.sites.all;
        let placed = sites.iter().flat_map(|site| &site.new_pods).map(|(pod, _)| *pod);
        let Some(facts) = &self.snapshot.devices else {
            let unknown = placed.filter(|pod| pod.uses_devices);
            let found = unknown.map(|pod| format!("{} uses devices that nobody looks at", pod.id)).collect();
            self.report_all(Rule::Devices, found);
            return;
        };
        let outcomes = self.outcomes(sites);
        let mut found = Vec::new();
        for outcome in &outcomes {
            found.extend(self.outcome(facts, &sites[outcome.site], outcome));
        }
        found.extend(given_once(sites, &outcomes));
        found.extend(self.budgets(facts, &outcomes));
        found.extend(self.owners(facts, sites, &outcomes));
        self.report_all(Rule::Devices, found);
    }

    fn outcomes(&self, sites: &[Site<'a>]) -> Vec<Outcome<'a>> {
        let mut all = Vec::new();
        for (site, known) in sites.iter().enumerate() {
            if let Some(node) = known.node {
                let pool = known.certain(labels::NODEPOOL).zip(known.certain(labels::INSTANCE_TYPE));
                let own =
                    pool.filter(|_| !node.is_initialized()).and_then(|(pool, name)| self.market.type_of(pool, name));
                all.push(Outcome {
                    site,
                    type_name: String::new(),
                    own: own.map(|known| &known.devices),
                    taken: self.plan.devices.get(node.name()).map_or(NOTHING, Vec::as_slice),
                });
            }
            for name in known.claim.iter().flat_map(|(claim, _)| claim.instance_types.iter()) {
                let Some((claim, _)) = known.claim else { continue };
                all.push(Outcome {
                    site,
                    type_name: name.clone(),
                    own: self.market.type_of(&claim.pool.name, name).map(|known| &known.devices),
                    taken: claim.devices.get(name).map_or(NOTHING, Vec::as_slice),
                });
            }
        }
        all
    }

    /// Whether a claim keeps what the API says it has.
    fn keeps(&self, claim: &ResourceClaim) -> bool {
        let moving: BTreeSet<String> = self
            .snapshot
            .pending
            .values()
            .filter(|pod| pod.node_name.is_some())
            .map(|pod| pod.uid.to_string())
            .collect();
        claim.allocation.as_ref().is_some_and(|allocation| {
            let moves = |by: &Consumer| matches!(by, Consumer::Pod { uid } if moving.contains(uid.as_str()));
            allocation.reserved_for.is_empty() || !allocation.reserved_for.iter().all(moves)
        })
    }

    /// The claims of the site's pods as one type.
    fn outcome(&self, facts: &DeviceFacts, site: &Site<'a>, outcome: &Outcome<'a>) -> Vec<String> {
        let mut found = Vec::new();
        let at = format!("{} {}", site.name, outcome.type_name);
        for one in outcome.taken {
            match self.device(facts, site, outcome, one) {
                Err(why) => found.push(format!("{} for {at}: {why}", one.device)),
                Ok(device) if !device.shared && !one.consumed.is_empty() => {
                    found.push(format!("{} is not shared, but {at} has a part of it", one.device));
                }
                Ok(_) if !one.own && one.consumed.is_empty() && self.is_kept(facts, &one.device) => {
                    found.push(format!("{} is given to {at}, but somebody has it", one.device));
                }
                Ok(_) => {}
            }
        }
        for id in site.new_pods.iter().flat_map(|(pod, _)| crate::devices::claims_of(pod)).collect::<BTreeSet<_>>() {
            let Some(claim) = facts.claims.iter().find(|claim| claim.id == id) else {
                found.push(format!("{at} has a pod with claim {id}, which does not exist"));
                continue;
            };
            let taken: Vec<&Taken> = outcome.taken.iter().filter(|one| one.claim == id).collect();
            if self.keeps(claim) {
                let terms = claim.allocation.iter().flat_map(|allocation| &allocation.terms);
                let mut terms = terms.peekable();
                if terms.peek().is_some() && !terms.any(|term| site.is_within(term)) {
                    found.push(format!("what claim {id} has cannot be used on {at}"));
                }
                if !taken.is_empty() {
                    found.push(format!("claim {id} has its devices already, {at} gives it others"));
                }
            } else if !taken.is_empty() {
                found.extend(self.satisfied(facts, claim, site, outcome, &taken).err());
            }
        }
        found
    }

    /// A claim has the whole device and keeps it.
    fn is_kept(&self, facts: &DeviceFacts, id: &DeviceId) -> bool {
        let kept = facts.claims.iter().filter(|claim| self.keeps(claim));
        let mut given = kept.flat_map(|claim| &claim.allocation).flat_map(|allocation| &allocation.devices);
        given.any(|given| given.id == *id && given.consumed.is_empty())
    }

    /// The device, if the site can have it.
    fn device<'d>(
        &self,
        facts: &'d DeviceFacts,
        site: &Site<'a>,
        outcome: &Outcome<'d>,
        one: &Taken,
    ) -> Result<&'d Device, String> {
        if one.own {
            let pools = outcome.own.into_iter().flat_map(|own| &own.pools);
            let own = pools.filter(|pool| pool.driver == one.device.driver && pool.pool == one.device.pool);
            let found = own.flat_map(|pool| &pool.devices).find(|device| device.name == one.device.device);
            return found.ok_or_else(|| "the type does not bring it".to_owned());
        }
        let parts = self.newest(facts, &one.device);
        let counted = parts.first().is_some_and(|slice| slice.parts as usize == parts.len());
        if !counted {
            return Err("its pool is not complete".to_owned());
        }
        let listing = |slice: &&&'d Slice| slice.counters.is_empty();
        let mut listed = parts.iter().filter(listing).flat_map(|slice| slice.devices.iter().map(move |d| (slice, d)));
        let here = |slice: &Slice| match &slice.reach {
            Reach::AllNodes => true,
            Reach::Node(name) => site.node.and_then(|node| node.node.as_ref()).is_some_and(|node| node.name == *name),
            Reach::Nodes(terms) => terms.iter().any(|term| site.is_within(term)),
            Reach::Nowhere => false,
        };
        let found = listed.find(|(slice, device)| device.name == one.device.device && here(slice));
        found.map(|(_, device)| device).ok_or_else(|| "it cannot be reached from there".to_owned())
    }

    /// Slices of the newest generation that count in this pass.
    fn newest<'d>(&self, facts: &'d DeviceFacts, id: &DeviceId) -> Vec<&'d Slice> {
        let up = |name: &str| {
            let node = self.snapshot.nodes.iter().find(|node| node.name() == name);
            node.is_some_and(|node| node.is_initialized() && !node.is_going())
        };
        let same = |slice: &&Slice| {
            slice.driver == id.driver && slice.pool == id.pool && slice.owner.as_ref().is_none_or(|name| up(name))
        };
        let of_pool: Vec<&Slice> = facts.slices.iter().map(AsRef::as_ref).filter(same).collect();
        let newest = of_pool.iter().map(|slice| slice.generation).max();
        of_pool.into_iter().filter(|slice| Some(slice.generation) == newest).collect()
    }

    /// Each request has as many devices as it asks for, of the right kind, that agree where they must.
    fn satisfied(
        &self,
        facts: &DeviceFacts,
        claim: &ResourceClaim,
        site: &Site<'a>,
        outcome: &Outcome<'_>,
        taken: &[&Taken],
    ) -> Result<(), String> {
        let at = format!("claim {} on {} {}", claim.id, site.name, outcome.type_name);
        let mut counted = 0;
        for request in &claim.requests {
            let asks: Vec<(String, &Ask)> = match &request.kind {
                RequestKind::Exactly(ask) => vec![(request.name.clone(), ask)],
                RequestKind::FirstAvailable(all) => {
                    all.iter().map(|(name, ask)| (format!("{}/{name}", request.name), ask)).collect()
                }
                RequestKind::Unknown => Vec::new(),
            };
            let given = |name: &str| taken.iter().filter(|one| one.request == name).copied().collect::<Vec<_>>();
            let met = asks.iter().map(|(name, ask)| (given(name), *ask)).find(|(all, _)| !all.is_empty());
            let Some((all, ask)) = met else { return Err(format!("{at}: nothing for request {}", request.name)) };
            counted += all.len();
            if let Count::Exactly(count) = ask.count
                && all.len() != count as usize
            {
                return Err(format!("{at}: {} devices for request {}, not {count}", all.len(), request.name));
            }
            for one in all {
                let device = self.device(facts, site, outcome, one)?;
                if !is_asked_for(facts, ask, &one.device.driver, device) {
                    return Err(format!("{at}: {} is not what request {} asks for", one.device, request.name));
                }
            }
        }
        if counted != taken.len() || counted > 32 {
            return Err(format!("{at}: {} devices, {counted} of them asked for", taken.len()));
        }
        self.agree(facts, claim, site, outcome, taken).map_err(|why| format!("{at}: {why}"))
    }

    /// Devices that must have the same value of an attribute do, as far as they say what it is.
    fn agree(
        &self,
        facts: &DeviceFacts,
        claim: &ResourceClaim,
        site: &Site<'a>,
        outcome: &Outcome<'_>,
        taken: &[&Taken],
    ) -> Result<(), String> {
        for constraint in &claim.constraints {
            let Constraint::MatchAttribute { attribute, .. } = constraint else {
                return Err("a constraint that nobody understands".to_owned());
            };
            let mut values = Vec::new();
            for one in taken.iter().filter(|one| constraint.covers(&one.request)) {
                let device = self.device(facts, site, outcome, one)?;
                values.push(device.attribute(&one.device.driver, attribute).cloned());
            }
            values.dedup();
            if values.len() > 1 {
                return Err(format!("its devices differ in {attribute}"));
            }
        }
        Ok(())
    }

    /// No counter and no shared device gives more than it has, whatever each site becomes.
    fn budgets(&self, facts: &DeviceFacts, outcomes: &[Outcome<'a>]) -> Vec<String> {
        let mut used: BTreeMap<Budget, BTreeMap<usize, Quantity>> = BTreeMap::new();
        let mut found = Vec::new();
        for outcome in outcomes {
            let mut here: BTreeMap<Budget, Quantity> = BTreeMap::new();
            for one in outcome.taken {
                let Some(device) = self.any_device(facts, outcome, one) else { continue };
                add_uses(&mut here, &one.device, device, &one.consumed, one.own);
            }
            for (budget, amount) in here {
                if budget.own {
                    let limit = own_limit(outcome.own, &budget);
                    if amount > limit {
                        found.push(format!("{amount} of {limit} of {budget:?} are given"));
                    }
                } else {
                    let most = used.entry(budget).or_default().entry(outcome.site).or_default();
                    *most = amount.max(*most);
                }
            }
        }
        for (budget, by_site) in used {
            let given: Quantity = by_site.values().copied().sum();
            let (limit, kept) = self.limit(facts, &budget);
            if given + kept > limit {
                found.push(format!("{given} of {limit} of {budget:?} are given beside {kept}"));
            }
        }
        found
    }

    fn any_device<'d>(&self, facts: &'d DeviceFacts, outcome: &Outcome<'d>, one: &Taken) -> Option<&'d Device> {
        let own = outcome.own.into_iter().flat_map(|own| &own.pools);
        let own = own.filter(|pool| one.own && pool.driver == one.device.driver && pool.pool == one.device.pool);
        let published = self.newest(facts, &one.device).into_iter().filter(|_| !one.own);
        let mut all = own.flat_map(|pool| &pool.devices).chain(published.flat_map(|slice| &slice.devices));
        all.find(|device| device.name == one.device.device)
    }

    /// What there is, and what claims that stay have of it.
    fn limit(&self, facts: &DeviceFacts, budget: &Budget) -> (Quantity, Quantity) {
        let id = DeviceId {
            driver: budget.driver.clone(),
            pool: budget.pool.clone(),
            device: budget.device.clone().unwrap_or_default(),
        };
        let slices = self.newest(facts, &id);
        let devices: Vec<&Device> = slices.iter().flat_map(|slice| &slice.devices).collect();
        let limit = if let Some(name) = &budget.device {
            let device = devices.iter().find(|device| device.name == *name);
            device.and_then(|device| device.capacity.get(&budget.what)).map(|capacity| capacity.value)
        } else {
            let (set, counter) = budget.what.split_once('/').unwrap_or_default();
            slices.iter().find_map(|slice| slice.counters.get(set)?.get(counter)).copied()
        };
        let mut kept: BTreeMap<Budget, Quantity> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for claim in facts.claims.iter().filter(|claim| self.keeps(claim)) {
            for given in claim.allocation.iter().flat_map(|allocation| &allocation.devices) {
                let same = given.id.driver == id.driver && given.id.pool == id.pool;
                let Some(device) = devices.iter().find(|device| same && device.name == given.id.device) else {
                    continue;
                };
                let counters = seen.insert(given.id.clone());
                let device =
                    if counters { (*device).clone() } else { Device { consumes: Vec::new(), ..(*device).clone() } };
                add_uses(&mut kept, &given.id, &device, &given.consumed, false);
            }
        }
        (limit.unwrap_or_default(), kept.get(budget).copied().unwrap_or_default())
    }

    /// Each claim that gets its devices in this pass gets them once, and where its pods are.
    fn owners(&self, facts: &DeviceFacts, sites: &[Site<'a>], outcomes: &[Outcome<'a>]) -> Vec<String> {
        let mut found = Vec::new();
        let mut users: BTreeMap<PodId, BTreeSet<usize>> = BTreeMap::new();
        for (at, site) in sites.iter().enumerate() {
            for id in site.new_pods.iter().flat_map(|(pod, _)| crate::devices::claims_of(pod)) {
                users.entry(id).or_default().insert(at);
            }
        }
        for (id, users) in users {
            let Some(claim) = facts.claims.iter().find(|claim| claim.id == id) else { continue };
            if self.keeps(claim) || claim.requests.is_empty() {
                continue;
            }
            let mine = |outcome: &&Outcome<'a>| outcome.taken.iter().any(|one| one.claim == id);
            let givers: BTreeSet<usize> = outcomes.iter().filter(mine).map(|outcome| outcome.site).collect();
            let [giver] = givers.iter().copied().collect::<Vec<_>>()[..] else {
                found.push(format!("claim {id} is given devices {} times", givers.len()));
                continue;
            };
            if outcomes.iter().any(|outcome| outcome.site == giver && !mine(&outcome)) {
                found.push(format!("claim {id} has nothing on some type of {}", sites[giver].name));
            }
            let given: Vec<&Taken> =
                outcomes.iter().flat_map(|outcome| outcome.taken).filter(|one| one.claim == id).collect();
            let local = given.iter().any(|one| one.own);
            for user in users.into_iter().filter(|user| *user != giver) {
                let reached = given.iter().all(|one| self.reached(facts, &sites[user], one));
                if local || !reached {
                    found.push(format!("claim {id} has devices that {} does not reach", sites[user].name));
                }
            }
        }
        found
    }

    fn reached(&self, facts: &DeviceFacts, site: &Site<'a>, one: &Taken) -> bool {
        let outcome = Outcome { site: 0, type_name: String::new(), own: None, taken: NOTHING };
        self.device(facts, site, &outcome, one).is_ok()
    }
}

/// A device that is not shared is with one site only, once per type.
fn given_once(sites: &[Site<'_>], outcomes: &[Outcome<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut holders: BTreeMap<&DeviceId, BTreeSet<usize>> = BTreeMap::new();
    for outcome in outcomes {
        let mut here = BTreeSet::new();
        for one in outcome.taken.iter().filter(|one| one.consumed.is_empty()) {
            if !here.insert((one.own, &one.device)) {
                found.push(format!("{} is given twice on {}", one.device, sites[outcome.site].name));
            }
            if !one.own {
                holders.entry(&one.device).or_default().insert(outcome.site);
            }
        }
    }
    let twice = holders.into_iter().filter(|(_, sites)| sites.len() > 1);
    found.extend(twice.map(|(device, sites)| format!("{device} is given to {} nodes", sites.len())));
    found
}

/// Something of which there is a limited amount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Budget {
    own: bool,
    driver: String,
    pool: String,
    /// Of a shared device; else of a counter set.
    device: Option<String>,
    what: String,
}

fn add_uses(
    all: &mut BTreeMap<Budget, Quantity>,
    id: &DeviceId,
    device: &Device,
    consumed: &BTreeMap<String, Quantity>,
    own: bool,
) {
    let budget = |device: Option<String>, what: String| Budget {
        own,
        driver: id.driver.clone(),
        pool: id.pool.clone(),
        device,
        what,
    };
    for (dimension, amount) in consumed {
        *all.entry(budget(Some(id.device.clone()), dimension.clone())).or_default() += *amount;
    }
    for used in &device.consumes {
        for (counter, amount) in &used.counters {
            *all.entry(budget(None, format!("{}/{counter}", used.set))).or_default() += *amount;
        }
    }
}

fn own_limit(own: Option<&TypeDevices>, budget: &Budget) -> Quantity {
    let pools = own.into_iter().flat_map(|own| &own.pools);
    let mut pools = pools.filter(|pool| pool.driver == budget.driver && pool.pool == budget.pool);
    let limit = if let Some(name) = &budget.device {
        let device = pools.flat_map(|pool| &pool.devices).find(|device| device.name == *name);
        device.and_then(|device| device.capacity.get(&budget.what)).map(|capacity| capacity.value)
    } else {
        let (set, counter) = budget.what.split_once('/').unwrap_or_default();
        pools.find_map(|pool| pool.counters.get(set)?.get(counter)).copied()
    };
    limit.unwrap_or_default()
}

fn is_asked_for(facts: &DeviceFacts, ask: &Ask, driver: &str, device: &Device) -> bool {
    let Some(class) = facts.classes.iter().find(|class| class.name == ask.class) else { return false };
    class.selectors.iter().chain(&ask.selectors).all(|selector| match selector {
        Selector::Compiled(selector) => selector.matches(driver, device) == Ok(true),
        Selector::Unusable(_) => false,
    })
}
