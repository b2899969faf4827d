//! What claims ask the cloud for once no more pods come.

use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;

use super::Compiled;
use super::algebra::{Algebra, ReqId};
use super::claims::Claim;
use super::group::Site;
use super::intern::{Index, hash_of, id};
use super::pass::Pass;
use crate::late::Late;
use crate::min_values;
use crate::options::{MinValuesPolicy, Options};
use crate::places::{Placed, PodList};
use crate::plan::{Placement, Plan, PlannedClaim, Unplaced};

/// So many offers are remembered before starting anew: more than a pass of a hundred thousand pods needs.
const MAX_OFFERS: usize = 10_000;

/// What claims with the same requirements, types and reservations have in common.
#[derive(Debug)]
struct Offer {
    key: Key,
    requirements: Late<Requirements>,
    instance_types: Late<Vec<String>>,
    price: Price,
    /// The types that may be named offer as many values as they should.
    enough: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    catalogue: usize,
    req: ReqId,
    rows: Arc<[u64]>,
    held: Vec<String>,
    most: usize,
    strict: bool,
}

/// Offers of this and earlier passes.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    index: Index,
    all: Vec<Offer>,
    /// By set of requirements: the same written out, without what only a pass pretends.
    written: Vec<Option<Arc<Requirements>>>,
}

impl Offers {
    fn of(&mut self, claim: &Claim, compiled: &mut Compiled, options: &Options) -> &Offer {
        if self.all.len() >= MAX_OFFERS {
            *self = Self::default();
        }
        let key = Key {
            catalogue: compiled.pools[claim.pool].catalogue,
            req: claim.req,
            rows: claim.rows.as_slice().into(),
            held: claim.held.iter().cloned().collect(),
            most: options.max_instance_types,
            strict: options.min_values == MinValuesPolicy::Strict,
        };
        let hash = hash_of(&key);
        let known = self.index.find(hash, |at| self.all[at as usize].key == key);
        let at = known.map_or(self.all.len(), |at| at as usize);
        if known.is_none() {
            self.index.insert(hash, id(at));
            let offer = self.offer(key, compiled);
            self.all.push(offer);
        }
        &self.all[at]
    }

    fn offer(&mut self, key: Key, compiled: &mut Compiled) -> Offer {
        let Compiled { algebra, catalogues, .. } = compiled;
        let reservation = algebra.rules().reservation_key().filter(|_| !key.held.is_empty()).map(ToOwned::to_owned);
        let (req, written) = match reservation {
            None => (key.req, self.written(key.req, algebra)),
            Some(reservation) => {
                // A claim that holds reservations is launched from one of them (SCH-115).
                let mut requirements = algebra.requirements(key.req);
                requirements.replace(Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]));
                requirements.add(Requirement::any_of(&reservation, key.held.iter().cloned()));
                (algebra.intern(&requirements).req, Arc::new(real(requirements)))
            }
        };
        let order = catalogues[key.catalogue].order(req, algebra).clone();
        let most = key.most;
        let enough = !key.strict || !algebra.has_min_values(req) || {
            let types = order.types(&key.rows, most);
            min_values::unmet(&algebra.requirements(req), &types.iter().map(|(_, known)| *known)).is_empty()
        };
        let price = order.cheapest(&key.rows);
        let (named, rows) = (order.clone(), key.rows.clone());
        let instance_types = Late::new(move || named.named(&rows, most).0);
        let rows = key.rows.clone();
        let requirements = Late::new(move || {
            let mut requirements = Requirements::clone(&written);
            let (instance_types, capacity_types) = order.named(&rows, most);
            requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, instance_types));
            if !capacity_types.is_empty() {
                requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types));
            }
            requirements
        });
        Offer { key, requirements, instance_types, price, enough }
    }

    fn written(&mut self, req: ReqId, algebra: &Algebra) -> Arc<Requirements> {
        let at = req as usize;
        if self.written.len() <= at {
            self.written.resize(at + 1, None);
        }
        self.written[at].get_or_insert_with(|| Arc::new(real(algebra.requirements(req)))).clone()
    }
}

/// Without what only a pass pretends.
fn real(mut requirements: Requirements) -> Requirements {
    for pretended in [labels::REGISTERED, labels::INITIALIZED] {
        requirements.remove(pretended);
    }
    requirements
}

impl Pass<'_> {
    /// SCH-116, SCH-117.
    pub(crate) fn finish(mut self) -> Plan {
        let mut plan = Plan::default();
        let all = self.compiled.pods.all.clone();
        let numbers = self.finish_claims(&mut plan, &|pods| PodList::new(&all, pods.to_vec()));
        self.list_pods(&numbers, &mut plan);
        plan.devices = self.devices_of_nodes();
        plan
    }

    /// What claims from this number on cost per hour; `None` where one of them would not be had.
    pub(crate) fn cost_of_claims(&mut self, first: usize) -> Option<f64> {
        let mut offers = std::mem::take(&mut self.compiled.offers);
        let mut cost = Some(0.0);
        for claim in self.claims.iter().skip(first) {
            let offer = offers.of(claim, self.compiled, &self.options);
            let price = (offer.enough && offer.price != Price::MAX).then(|| offer.price.per_hour());
            cost = cost.zip(price).map(|(cost, price)| cost + price);
        }
        self.compiled.offers = offers;
        cost
    }

    /// Adds the claims to the plan; their numbers there.
    pub(crate) fn finish_claims(
        &mut self,
        plan: &mut Plan,
        listed: &dyn Fn(&[super::intern::Id]) -> PodList,
    ) -> Vec<Option<usize>> {
        let mut offers = std::mem::take(&mut self.compiled.offers);
        let mut numbers: Vec<Option<usize>> = Vec::with_capacity(self.claims.len());
        plan.claims.reserve(self.claims.len());
        for (at, claim) in self.claims.iter().enumerate() {
            let offer = offers.of(claim, self.compiled, &self.options);
            let pool = &self.compiled.pools[claim.pool].view;
            if !offer.enough {
                // Cut to the allowed number of types the claim no longer offers enough values.
                let all = &self.compiled.pods.all;
                let pods = claim.pods.iter().map(|pod| all[*pod as usize].id.clone());
                plan.unplaced.extend(pods.map(|pod| Unplaced::truncated(pod, &pool.name)));
                numbers.push(None);
                continue;
            }
            let mut requests = self.compiled.names.resources(&claim.requests);
            requests.add(&least_overhead(claim, self.compiled));
            numbers.push(Some(plan.claims.len()));
            plan.claims.push(PlannedClaim {
                pool: pool.clone(),
                requirements: offer.requirements.clone(),
                instance_types: offer.instance_types.clone(),
                requests,
                pods: listed(&claim.pods),
                price: offer.price,
                min_values_relaxed: claim.min_values_relaxed,
                // Types are named late, and few plans have devices.
                devices: if self.devices.is_some() {
                    self.devices_of_claim(at, &offer.instance_types)
                } else {
                    std::collections::BTreeMap::new()
                },
            });
        }
        self.compiled.offers = offers;
        numbers
    }

    /// Who has a place, who has none, and who was not tried. `numbers`: of claims in the plan.
    fn list_pods(&self, numbers: &[Option<usize>], plan: &mut Plan) {
        let all = &self.compiled.pods.all;
        let place = |site: &Site| match site {
            Site::Node(slot) => Some(Placement::Existing(self.compiled.nodes[self.slots[*slot].node].name.clone())),
            Site::Claim(at) => numbers[*at].map(Placement::New),
        };
        let placed = self.placed.iter().enumerate();
        let placed = placed.filter_map(|(at, site)| Some((id(at), place(site.as_ref()?)?))).collect();
        plan.placed = Placed::new(all, placed);
        for at in 0..all.len() {
            self.list_failed(at, plan);
        }
        plan.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
}

impl Pass<'_> {
    pub(super) fn list_failed(&self, at: usize, plan: &mut Plan) {
        let pod = &self.compiled.pods.all[at].id;
        match (&self.refused[at], &self.placed[at]) {
            (Some(reasons), _) => {
                plan.unplaced.push(Unplaced { pod: pod.clone(), reasons: reasons.as_ref().clone() });
            }
            (None, None) => plan.untried.push(pod.clone()),
            (None, Some(_)) => {}
        }
    }
}

/// What DaemonSets take on every type that is left: the smallest amount of what all parts name (SCH-75, Q30).
fn least_overhead(claim: &Claim, compiled: &Compiled) -> Resources {
    let left = |words: &[u64]| words.iter().zip(&claim.rows).any(|(part, row)| part & row != 0);
    let parts = &compiled.pools[claim.pool].parts;
    let mut parts = parts.iter().filter(|part| left(part.rows.words())).map(|part| &part.overhead);
    let Some(first) = parts.next() else { return Resources::new() };
    parts.fold(first.clone(), |least, overhead| {
        let common = least.iter().filter_map(|(name, amount)| Some((name, amount.min(overhead.get(name)?))));
        common.map(|(name, amount)| (name.to_owned(), amount)).collect()
    })
}
