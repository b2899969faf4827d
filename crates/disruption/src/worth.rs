//! What resources are worth in a cluster, and what its pods cost at least.
//!
//! Prices of CPU and memory such that no node that could be had, or that is there, gives more than it costs. What pods ask
//! for at these prices is then a bound: whatever holds them costs at least as much.

use karpenter_model::resources::{CPU, MEMORY, Resources};

use crate::candidates::Candidate;
use crate::look::Look;

/// Per hour, for a CPU and for a byte.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Worth {
    cpu: f64,
    memory: f64,
}

/// What a node gives for its price.
struct Good {
    cpu: f64,
    memory: f64,
    price: f64,
}

/// Halvings of the range in which the better mix is looked for.
const STEPS: usize = 50;

impl Worth {
    /// Prices at which the pods of the candidates are worth most.
    pub fn of(candidates: &[Candidate<'_>], look: &Look<'_>) -> Self {
        let goods = goods(candidates, look);
        let mut asked = Resources::new();
        for pod in candidates.iter().flat_map(|candidate| &candidate.node.pods) {
            asked.add(&pod.requests);
        }
        let (cpu, memory) = (asked.amount(CPU).as_f64(), asked.amount(MEMORY).as_f64());
        // The share of a mix that CPU has, by its part of what is asked for, so that numbers are alike in size.
        let at = |share: f64| {
            let part = |total: f64, share: f64| if total > 0.0 { share / total } else { 0.0 };
            let (cpu, memory) = (part(cpu, share), part(memory, 1.0 - share));
            let scale = goods
                .iter()
                .map(|good| (good.price, cpu * good.cpu + memory * good.memory))
                .filter(|(_, worth)| *worth > 0.0)
                .map(|(price, worth)| price / worth)
                .min_by(f64::total_cmp);
            scale.map(|scale| Self { cpu: cpu * scale, memory: memory * scale })
        };
        let total = |worth: Option<Self>| worth.map_or(0.0, |worth| worth.cpu * cpu + worth.memory * memory);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if total(at(left)) < total(at(right)) { low = left } else { high = right }
        }
        at(f64::midpoint(low, high)).unwrap_or_default()
    }

    /// Per hour.
    pub fn value(&self, resources: &Resources) -> f64 {
        self.cpu * resources.amount(CPU).as_f64() + self.memory * resources.amount(MEMORY).as_f64()
    }

    /// What the node would hold if it were full of pods like those on it. Of what its pods use less of, a part is of no use then.
    pub fn full(&self, candidate: &Candidate<'_>) -> f64 {
        let (has, asked) = (candidate.node.allocatable(), &candidate.node.requested);
        let used = |name: &str| asked.amount(name).as_f64() / has.amount(name).as_f64().max(f64::MIN_POSITIVE);
        self.value(asked) / used(CPU).max(used(MEMORY)).max(f64::MIN_POSITIVE)
    }

    /// What a node costs beyond what its pods are worth.
    pub fn waste(&self, candidate: &Candidate<'_>) -> f64 {
        candidate.price.per_hour() - self.value(&candidate.node.requested)
    }
}

/// Types that could be launched, wherever they are sold, and nodes that are there.
fn goods(candidates: &[Candidate<'_>], look: &Look<'_>) -> Vec<Good> {
    let good = |resources: &Resources, price: f64| Good {
        cpu: resources.amount(CPU).as_f64(),
        memory: resources.amount(MEMORY).as_f64(),
        price,
    };
    let mut goods = Vec::new();
    for offer in &look.snapshot.pools {
        for known in offer.instance_types.iter() {
            for offering in known.launchable_offerings(&offer.pool.requirements, look.rules) {
                goods.push(good(&known.allocatable_with(&offering.overrides), offering.price.per_hour()));
            }
        }
    }
    goods.extend(candidates.iter().map(|one| good(&one.node.allocatable(), one.price.per_hour())));
    goods
}

/// The most that could be saved on the candidates, whoever plans: their price, less what their pods are worth beyond the room
/// on nodes that stay in any case.
pub fn most_savings(worth: &Worth, candidates: &[Candidate<'_>], look: &Look<'_>) -> f64 {
    let may_go: std::collections::BTreeSet<&str> = candidates.iter().map(Candidate::name).collect();
    let mut room = 0.0;
    for node in look.snapshot.nodes.iter().filter(|node| node.stays() && !may_go.contains(node.name())) {
        let mut free = node.available();
        let negative: Vec<String> =
            free.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.to_owned()).collect();
        for name in negative {
            free.set(&name, karpenter_model::quantity::Quantity::ZERO);
        }
        room += worth.value(&free);
    }
    let price: f64 = candidates.iter().map(|one| one.price.per_hour()).sum();
    let moved = |candidate: &Candidate<'_>| {
        let mut asked = Resources::new();
        candidate.reschedulable_pods().for_each(|pod| asked.add(&pod.requests));
        worth.value(&asked)
    };
    let pods: f64 = candidates.iter().map(moved).sum();
    (price - (pods - room).max(0.0)).max(0.0)
}
