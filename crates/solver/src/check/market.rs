//! Pools and instance types by name, and what is true of all claims that list the same types for the same demands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::{PoolOffer, Snapshot};

use super::kinds::digest;
use super::sites::is_soft;
use crate::plan::PlannedClaim;

pub(super) type ListingId = usize;

/// A DaemonSet with what it asks for, a set for each way.
type Daemon<'a> = (&'a PodView, Vec<Requirements>);

pub(super) struct Market<'a> {
    snapshot: &'a Snapshot,
    rules: &'a LabelRules,
    offers: BTreeMap<&'a str, usize>,
    /// Types by name, for each list that pools share.
    names: BTreeMap<usize, BTreeMap<&'a str, usize>>,
    /// By pool: DaemonSets that might run on its nodes.
    daemons: RefCell<BTreeMap<usize, Rc<Vec<Daemon<'a>>>>>,
    pub(super) listings: Vec<Listing<'a>>,
    /// By the addresses of the lists that claims share.
    known: BTreeMap<(usize, usize, &'a str), ListingId>,
    /// What claims ask for but types, by number; those that share a number in a row.
    demands: BTreeMap<u64, Vec<(usize, Requirements)>>,
    facts: BTreeMap<(usize, usize, usize), Rc<Facts>>,
}

/// What the claims of a plan with the same demands and types have in common.
pub(super) struct Listing<'a> {
    pub(super) types: Vec<Listed<'a>>,
    /// Names that the pool does not know.
    pub(super) unknown: Vec<&'a str>,
    /// Pods that need no more than this fit on every type; `None` where nothing is so simple.
    pub(super) least: Option<Resources>,
    /// Of each resource what the largest type has.
    pub(super) largest: Resources,
}

pub(super) struct Listed<'a> {
    pub(super) known: &'a InstanceType,
    pub(super) daemons: Vec<&'a PodView>,
    pub(super) facts: Rc<Facts>,
    /// It is among those that the claim asks for.
    pub(super) is_asked_for: bool,
}

/// A type for somebody who asks for something.
pub(super) struct Facts {
    /// What instances that the claim could become have for pods and DaemonSets.
    pub(super) rooms: Vec<Resources>,
    pub(super) any_compatible: bool,
    pub(super) meets: bool,
    pub(super) cheapest: Price,
}

fn address<T>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of).addr()
}

impl<'a> Market<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, rules: &'a LabelRules) -> Self {
        let offers = snapshot.pools.iter().enumerate();
        let mut names: BTreeMap<usize, BTreeMap<&str, usize>> = BTreeMap::new();
        for offer in &snapshot.pools {
            let list = names.entry(address(&offer.instance_types)).or_default();
            if list.is_empty() {
                // Of equal names the first counts.
                let types = offer.instance_types.iter().enumerate().rev();
                list.extend(types.map(|(at, known)| (known.name.as_str(), at)));
            }
        }
        Self {
            snapshot,
            rules,
            offers: offers.rev().map(|(at, offer)| (offer.pool.name.as_str(), at)).collect(),
            names,
            daemons: RefCell::default(),
            listings: Vec::new(),
            known: BTreeMap::new(),
            demands: BTreeMap::new(),
            facts: BTreeMap::new(),
        }
    }

    pub(super) fn offer(&self, pool: &str) -> Option<&'a PoolOffer> {
        self.offers.get(pool).map(|at| &self.snapshot.pools[*at])
    }

    pub(super) fn type_of(&self, pool: &str, name: &str) -> Option<&'a InstanceType> {
        let offer = self.offer(pool)?;
        let at = self.names.get(&address(&offer.instance_types))?.get(name)?;
        offer.instance_types.get(*at)
    }

    /// The DaemonSets that will run on such a node.
    pub(super) fn daemons_on(&self, pool: &PoolView, known: &InstanceType) -> Vec<&'a PodView> {
        if self.snapshot.daemons.is_empty() {
            return Vec::new();
        }
        let possible = match self.offers.get(pool.name.as_str()) {
            Some(at) => self.daemons.borrow_mut().entry(*at).or_insert_with(|| Rc::new(self.daemons_of(pool))).clone(),
            None => Rc::new(self.daemons_of(pool)),
        };
        let runs = |(_, terms): &&Daemon<'a>| terms.iter().any(|term| known.requirements.intersects(term));
        possible.iter().filter(runs).map(|(daemon, _)| *daemon).collect()
    }

    fn daemons_of(&self, pool: &PoolView) -> Vec<Daemon<'a>> {
        let mut template = pool.requirements.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            template.replace(Requirement::any_of(key, ["true"]));
        }
        let lenient = Undefined::WellKnownAllowed(self.rules);
        let possible = |daemon: &'a PodView| {
            let wishes = &daemon.scheduling;
            let mut terms: Vec<Requirements> = wishes.required_terms.clone();
            if terms.is_empty() {
                terms.push(Requirements::new());
            }
            for term in &mut terms {
                term.add_all(&wishes.node_selector);
            }
            terms.retain(|term| template.is_compatible(term, lenient));
            let tolerated = pool.taints.iter().all(|taint| is_soft(taint) || daemon.tolerates(taint));
            tolerated.then_some((daemon, terms))
        };
        self.snapshot.daemons.iter().filter_map(|daemon| possible(daemon)).collect()
    }

    /// What is true of the claim and all that are like it.
    pub(super) fn listing(&mut self, claim: &'a PlannedClaim) -> ListingId {
        let (asked, listed): (&Requirements, &Vec<String>) = (&claim.requirements, &claim.instance_types);
        let key = (std::ptr::from_ref(asked).addr(), std::ptr::from_ref(listed).addr(), claim.pool.name.as_str());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let demand = self.demand(claim);
        let asked = claim.requirements.get(labels::INSTANCE_TYPE);
        let (mut types, mut unknown) = (Vec::new(), Vec::new());
        for name in claim.instance_types.iter() {
            let Some(found) = self.type_of(&claim.pool.name, name) else {
                unknown.push(name.as_str());
                continue;
            };
            types.push(Listed {
                known: found,
                daemons: self.daemons_on(&claim.pool, found),
                facts: self.facts(demand, claim, found),
                is_asked_for: asked.is_none_or(|asked| asked.has(name)),
            });
        }
        let mut largest = Resources::new();
        for listed in &types {
            largest.raise_to(&listed.known.capacity);
        }
        self.listings.push(Listing { least: least(&types), types, unknown, largest });
        self.known.insert(key, self.listings.len() - 1);
        self.listings.len() - 1
    }

    /// What the claim asks for, apart from types.
    fn demand(&mut self, claim: &PlannedClaim) -> usize {
        let mut asked = Requirements::clone(&claim.requirements);
        asked.remove(labels::INSTANCE_TYPE);
        let next = self.demands.values().map(Vec::len).sum();
        let known = self.demands.entry(digest(&asked)).or_default();
        if let Some((at, _)) = known.iter().find(|(_, other)| *other == asked) {
            return *at;
        }
        known.push((next, asked));
        next
    }

    fn facts(&mut self, demand: usize, claim: &PlannedClaim, known: &'a InstanceType) -> Rc<Facts> {
        let list = self.offer(&claim.pool.name).map_or(0, |offer| address(&offer.instance_types));
        let key = (demand, list, std::ptr::from_ref(known).addr());
        if let Some(facts) = self.facts.get(&key) {
            return facts.clone();
        }
        let mut asked = Requirements::clone(&claim.requirements);
        // Offerings say nothing of the type's name, so that it need not be looked at again for every list of names.
        asked.remove(labels::INSTANCE_TYPE);
        let lenient = Undefined::WellKnownAllowed(self.rules);
        let compatible: Vec<_> =
            known.offerings.iter().filter(|one| asked.is_compatible(&one.requirements, lenient)).collect();
        let mut rooms: Vec<Resources> = Vec::new();
        for offering in compatible.iter().filter(|offering| offering.available) {
            let room = known.allocatable_with(&offering.overrides);
            if !rooms.contains(&room) {
                rooms.push(room);
            }
        }
        let launchable = compatible.iter().filter(|offering| offering.is_launchable());
        let facts = Rc::new(Facts {
            rooms,
            any_compatible: !compatible.is_empty(),
            meets: known.requirements.intersects(&asked),
            cheapest: launchable.map(|offering| offering.price).min().unwrap_or(Price::MAX),
        });
        self.facts.insert(key, facts.clone());
        facts
    }
}

/// Of each resource what the type has that has least of it left beside DaemonSets.
fn least(types: &[Listed<'_>]) -> Option<Resources> {
    let mut least: Option<Resources> = None;
    for listed in types {
        let room = listed.facts.rooms.first()?;
        let mut needed = Resources::new();
        listed.daemons.iter().for_each(|daemon| needed.add(&daemon.requests));
        if !needed.fits(room) {
            return None;
        }
        let mut left = room.clone();
        left.subtract(&needed);
        let Some(known) = &mut least else {
            least = Some(left);
            continue;
        };
        let names: Vec<String> = known.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let less: Quantity = known.amount(&name).min(left.amount(&name));
            known.set(name, less);
        }
    }
    least
}
