//! A node being planned: which types can still hold its pods.

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::snapshot::PoolOffer;
use karpenter_model::taints::first_untolerated;

use crate::plan::{PlannedClaim, PoolRoom, Refusal};

/// The most instance types a claim names (API-73).
const MAX_INSTANCE_TYPES: usize = 600;

pub(crate) struct OpenClaim<'a> {
    offer: &'a PoolOffer,
    requirements: Requirements,
    requests: Resources,
    types: Vec<Candidate<'a>>,
    pods: Vec<PodId>,
}

#[derive(Clone)]
struct Candidate<'a> {
    instance_type: &'a InstanceType,
    allocatable: Resources,
}

impl<'a> OpenClaim<'a> {
    /// A new claim from a pool with its first pod; charges the pool's limits (SCH-79, SCH-80).
    pub(crate) fn open(room: &mut PoolRoom<'a>, pod: &PodView, rules: &LabelRules) -> Result<Self, Refusal> {
        let pool = &room.offer.pool;
        if let Some(taint) = first_untolerated(&pool.taints, &pod.tolerations) {
            return Err(Refusal::Taint(taint.clone()));
        }
        let within_limits = |instance_type: &InstanceType| {
            room.remaining.iter().all(|(name, left)| match name {
                NODES => left >= Quantity::units(1),
                _ => instance_type.capacity.amount(name) <= left,
            })
        };
        let types: Vec<Candidate<'a>> = room
            .offer
            .instance_types
            .iter()
            .filter(|instance_type| within_limits(instance_type))
            .map(|instance_type| Candidate { instance_type, allocatable: instance_type.allocatable() })
            .collect();
        if types.is_empty() && !room.offer.instance_types.is_empty() {
            return Err(Refusal::Limit);
        }
        let mut claim = Self {
            offer: room.offer,
            requirements: pool.requirements.clone(),
            requests: Resources::new(),
            types,
            pods: Vec::new(),
        };
        claim.try_add(pod, rules)?;
        room.charge(&claim.largest_capacity());
        Ok(claim)
    }

    /// Adds the pod if some type can still hold everything; leaves the claim as it was if not.
    pub(crate) fn try_add(&mut self, pod: &PodView, rules: &LabelRules) -> Result<(), Refusal> {
        if let Some(taint) = first_untolerated(&self.offer.pool.taints, &pod.tolerations) {
            return Err(Refusal::Taint(taint.clone()));
        }
        let conflicts = self.requirements.incompatibilities(&pod.requirements, Undefined::WellKnownAllowed(rules));
        if !conflicts.is_empty() {
            return Err(Refusal::Requirements(conflicts));
        }
        let mut requirements = self.requirements.clone();
        requirements.add_all(&pod.requirements);
        let mut requests = self.requests.clone();
        requests.add(&pod.requests);

        let offered: Vec<&Candidate<'a>> = self
            .types
            .iter()
            .filter(|candidate| {
                candidate.instance_type.requirements.intersects(&requirements)
                    && !candidate.instance_type.usable_offerings(&requirements, rules).is_empty()
            })
            .collect();
        let types: Vec<Candidate<'a>> =
            offered.iter().filter(|candidate| requests.fits(&candidate.allocatable)).map(|c| (*c).clone()).collect();
        if types.is_empty() {
            return Err(nearest_miss(&offered, &requests));
        }
        self.requirements = requirements;
        self.requests = requests;
        self.types = types;
        self.pods.push(pod.id.clone());
        Ok(())
    }

    /// Element-wise maximum over the types left, as the pool's limits are charged (SCH-80).
    fn largest_capacity(&self) -> Resources {
        let mut largest = Resources::new();
        for candidate in &self.types {
            largest.raise_to(&candidate.instance_type.capacity);
        }
        largest
    }

    pub(crate) fn finish(mut self, rules: &LabelRules) -> PlannedClaim {
        let requirements = &self.requirements;
        self.types.sort_by_cached_key(|candidate| {
            let instance_type = candidate.instance_type;
            (instance_type.cheapest_price(requirements, rules), instance_type.name.clone())
        });
        self.types.truncate(MAX_INSTANCE_TYPES);
        let instance_types: Vec<String> = self.types.iter().map(|c| c.instance_type.name.clone()).collect();
        let capacity_types: Vec<&str> = self
            .types
            .iter()
            .flat_map(|candidate| candidate.instance_type.launchable_offerings(requirements, rules))
            .filter_map(|offering| offering.capacity_type())
            .collect();
        let price = self.types.first().map_or(Price::MAX, |c| c.instance_type.cheapest_price(requirements, rules));
        let mut narrowed = requirements.clone();
        narrowed.add(Requirement::any_of(labels::INSTANCE_TYPE, &instance_types));
        if !capacity_types.is_empty() {
            narrowed.add(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types));
        }
        PlannedClaim {
            pool: self.offer.pool.clone(),
            requirements: narrowed,
            instance_types,
            requests: self.requests,
            pods: self.pods,
            price,
        }
    }
}

impl PoolRoom<'_> {
    fn charge(&mut self, capacity: &Resources) {
        self.remaining.subtract(&capacity.clone().with(NODES, Quantity::units(1)));
    }
}

/// Which resource is missing on the type that lacks the least of it.
fn nearest_miss(offered: &[&Candidate<'_>], requests: &Resources) -> Refusal {
    offered
        .iter()
        .filter_map(|candidate| requests.first_shortage(&candidate.allocatable))
        .min_by_key(|(_, short_by)| *short_by)
        .map_or(Refusal::NoInstanceType, |(resource, short_by)| Refusal::TooSmall {
            resource: resource.to_owned(),
            short_by,
        })
}
