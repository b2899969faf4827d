//! Whether claims are of the right pool and cost what the plan says.

use karpenter_model::instance_type::Price;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::Requirement;
use karpenter_model::snapshot::PoolOffer;

use super::{Check, Rule};

impl Check<'_> {
    /// The price is that of the cheapest instance that could be launched, and types are listed cheapest first.
    pub(super) fn prices(&mut self) {
        for (index, claim) in self.plan.claims.iter().enumerate() {
            let mut prices: Vec<Price> = Vec::new();
            for name in claim.instance_types.iter() {
                let Some(known) = self.type_of(&claim.pool.name, name) else { continue };
                let meets = |one: &&karpenter_model::instance_type::Offering| {
                    one.is_launchable() && one.is_compatible(&claim.requirements, self.rules)
                };
                let cheapest = known.offerings.iter().filter(meets).map(|offering| offering.price).min();
                prices.push(cheapest.unwrap_or(Price::MAX));
            }
            if !prices.is_sorted() {
                self.report(Rule::Price, format!("claim {index} does not list the cheapest types first"));
            }
            let cheapest = prices.iter().min().copied().unwrap_or(Price::MAX);
            if claim.price != cheapest {
                let what = format!("claim {index} is said to cost {}, but costs {cheapest}", claim.price);
                self.report(Rule::Price, what);
            }
        }
    }

    /// Somebody on the claim must have needed it. Only where that is certain: pods without wishes and rules about other
    /// pods, heavier pools without limits and minimums.
    pub(super) fn weights(&mut self) {
        for (index, claim) in self.plan.claims.iter().enumerate() {
            let heavier = self.snapshot.pools.iter().filter(|offer| offer.pool.weight > claim.pool.weight);
            let sure: Vec<&PoolOffer> = heavier.filter(|offer| is_open(offer)).collect();
            let pods = claim.pods.iter().filter_map(|pod| self.snapshot.pending.get(pod));
            let mut pods = pods.map(AsRef::as_ref).peekable();
            let somebody = pods.peek().is_some();
            if somebody && pods.all(|pod| sure.iter().any(|offer| self.would_take(offer, pod))) {
                let what =
                    format!("claim {index} of {} holds nobody whom a heavier pool would not take", claim.pool.name);
                self.report(Rule::Weights, what);
            }
        }
    }

    fn would_take(&self, offer: &PoolOffer, pod: &PodView) -> bool {
        let wishes = &pod.scheduling;
        let plain = !pod.uses_devices
            && wishes.preferred_terms.is_empty()
            && wishes.required_terms.len() < 2
            && wishes.spread.is_empty()
            && wishes.affinity.is_empty()
            && wishes.preferred_affinity.is_empty()
            && wishes.anti_affinity.is_empty()
            && wishes.preferred_anti_affinity.is_empty()
            && wishes.host_ports.is_empty()
            && wishes.volumes.claims.is_empty()
            && wishes.volumes.alternatives.is_empty();
        // Anti-affinity of others keeps the pod away as well, even of those that have no place in the end.
        let running = self.snapshot.nodes.iter().flat_map(|node| &node.pods);
        let mut others = running.chain(self.snapshot.pending.values());
        let shunned = others.any(|other| !other.scheduling.anti_affinity.is_empty());
        let tolerated = offer.pool.taints.iter().all(|taint| pod.tolerates(taint));
        plain
            && !shunned
            && tolerated
            && offer.instance_types.iter().any(|known| {
                let mut needed = pod.requests.clone();
                self.daemons_on(&offer.pool, known).iter().for_each(|daemon| needed.add(&daemon.requests));
                let mut asked = offer.pool.requirements.clone();
                asked.add_all(&wishes.strict_requirements());
                let lenient = karpenter_model::requirements::Undefined::WellKnownAllowed(self.rules);
                offer.pool.requirements.is_compatible(&wishes.strict_requirements(), lenient)
                    && known.requirements.intersects(&asked)
                    && known.offerings.iter().any(|one| {
                        one.is_launchable()
                            && one.reservation_capacity.is_none()
                            && one.is_compatible(&asked, self.rules)
                            && needed.fits(&known.allocatable_with(&one.overrides))
                    })
            })
    }
}

/// Nothing but pods decides whether the pool can open a node.
fn is_open(offer: &PoolOffer) -> bool {
    let minimum = |asked: &Requirement| asked.min_values().is_some();
    let reserved = offer.instance_types.iter().flat_map(|known| &known.offerings);
    offer.pool.limits.is_empty()
        && !offer.pool.requirements.iter().any(minimum)
        && !reserved.into_iter().any(|one| one.reservation_capacity.is_some())
}
