//! What claims ask the cloud for once no more pods come.

use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;

use super::Compiled;
use super::algebra::ReqId;
use super::claims::Claim;
use super::group::Site;
use super::intern::{Id, Index, hash_of, id};
use super::pass::Pass;
use crate::min_values;
use crate::options::{MinValuesPolicy, Options};
use crate::plan::{Placement, Plan, PlannedClaim, Unplaced};

/// So many offers are remembered before starting anew: more than a pass of a hundred thousand pods needs.
const MAX_OFFERS: usize = 10_000;

/// What claims with the same requirements, types and reservations have in common.
#[derive(Debug)]
struct Offer {
    key: Key,
    requirements: Arc<Requirements>,
    instance_types: Arc<Vec<String>>,
    price: Price,
    /// The types that may be named offer as many values as they should.
    enough: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    catalogue: usize,
    req: ReqId,
    rows: Vec<u64>,
    held: Vec<String>,
    most: usize,
    strict: bool,
}

/// Offers of this and earlier passes.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    index: Index,
    all: Vec<Offer>,
}

impl Offers {
    fn of(&mut self, claim: &Claim, compiled: &mut Compiled, options: &Options) -> &Offer {
        if self.all.len() >= MAX_OFFERS {
            *self = Self::default();
        }
        let key = Key {
            catalogue: compiled.pools[claim.pool].catalogue,
            req: claim.req,
            rows: claim.rows.clone(),
            held: claim.held.iter().cloned().collect(),
            most: options.max_instance_types,
            strict: options.min_values == MinValuesPolicy::Strict,
        };
        let hash = hash_of(&key);
        let known = self.index.find(hash, |at| self.all[at as usize].key == key);
        let at = known.map_or(self.all.len(), |at| at as usize);
        if known.is_none() {
            self.index.insert(hash, id(at));
            self.all.push(offer(key, compiled));
        }
        &self.all[at]
    }
}

impl Pass<'_> {
    /// SCH-116, SCH-117.
    pub(crate) fn finish(self) -> Plan {
        let mut plan = Plan::default();
        let mut offers = std::mem::take(&mut self.compiled.offers);
        let mut numbers: Vec<Option<usize>> = Vec::with_capacity(self.claims.len());
        plan.claims.reserve(self.claims.len());
        for claim in &self.claims {
            let offer = offers.of(claim, self.compiled, &self.options);
            let pool = &self.compiled.pools[claim.pool].view;
            let pending = &self.compiled.pods.pending;
            let pods = claim.pods.iter().map(|pod| pending[*pod as usize].pod.id.clone());
            if !offer.enough {
                // Cut to the allowed number of types the claim no longer offers enough values.
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
                pods: pods.collect(),
                price: offer.price,
                min_values_relaxed: claim.min_values_relaxed,
            });
        }
        self.compiled.offers = offers;
        self.list_pods(&numbers, &mut plan);
        plan
    }

    /// Who has a place, who has none, and who was not tried. `numbers`: of claims in the plan.
    fn list_pods(&self, numbers: &[Option<usize>], plan: &mut Plan) {
        let pending = &self.compiled.pods.pending;
        let place = |site: &Site| match site {
            Site::Node(slot) => Some(Placement::Existing(self.compiled.nodes[self.slots[*slot].node].name.clone())),
            Site::Claim(at) => numbers[*at].map(Placement::New),
        };
        let placed = pending.iter().zip(&self.placed);
        plan.placed = placed.filter_map(|(pod, site)| Some((pod.pod.id.clone(), place(site.as_ref()?)?))).collect();
        for ((pod, refused), placed) in pending.iter().zip(&self.refused).zip(&self.placed) {
            match (refused, placed) {
                (Some(reasons), _) => {
                    plan.unplaced.push(Unplaced { pod: pod.pod.id.clone(), reasons: reasons.as_ref().clone() });
                }
                (None, None) => plan.untried.push(pod.pod.id.clone()),
                (None, Some(_)) => {}
            }
        }
        plan.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
}

fn offer(key: Key, compiled: &mut Compiled) -> Offer {
    let Compiled { algebra, catalogues, .. } = compiled;
    let catalogue = &catalogues[key.catalogue];
    let mut requirements = algebra.requirements(key.req);
    let mut req: Id = key.req;
    // A claim that holds reservations is launched from one of them (SCH-115).
    let reservation = algebra.rules().reservation_key().filter(|_| !key.held.is_empty()).map(ToOwned::to_owned);
    if let Some(reservation) = reservation {
        requirements.replace(Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]));
        requirements.add(Requirement::any_of(&reservation, key.held.iter().cloned()));
        req = algebra.intern(&requirements).req;
    }
    let priced = catalogue.priced(&key.rows, req, key.most, algebra);
    let known = priced.types.iter().map(|(_, known)| *known);
    let enough = !key.strict || !algebra.has_min_values(req) || min_values::unmet(&requirements, &known).is_empty();
    let instance_types: Vec<String> = known.map(|known| known.name.clone()).collect();
    for pretended in [labels::REGISTERED, labels::INITIALIZED] {
        requirements.remove(pretended);
    }
    requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, &instance_types));
    if !priced.capacity_types.is_empty() {
        requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, priced.capacity_types));
    }
    Offer {
        key,
        requirements: Arc::new(requirements),
        instance_types: Arc::new(instance_types),
        price: priced.types.first().map_or(Price::MAX, |(price, _)| *price),
        enough,
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
