//! Whether claims are of the right pool and cost what the plan says.

use karpenter_model::instance_type::Price;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::Requirement;
use karpenter_model::snapshot::PoolOffer;

use super::{Check, Rule};

impl Check<'_> {
    /// The price is that of the cheapest instance that could be launched, and types are listed cheapest first.
    pub(super) fn prices(&mut self) {
        let listed = |listing: &super::market::Listing<'_>| {
            let prices: Vec<Price> = listing.types.iter().map(|listed| listed.facts.cheapest).collect();
            (prices.is_sorted(), prices.into_iter().min().unwrap_or(Price::MAX))
        };
        let known: Vec<(bool, Price)> = self.market.listings.iter().map(listed).collect();
        let claims = self.sites.all.iter().filter_map(|site| site.claim);
        let mut found = Vec::new();
        for (index, (claim, listing)) in claims.enumerate() {
            let (in_order, cheapest) = known[listing];
            if !in_order {
                found.push(format!("claim {index} does not list the cheapest types first"));
            }
            if claim.price != cheapest {
                found.push(format!("claim {index} is said to cost {}, but costs {cheapest}", claim.price));
            }
        }
        self.report_all(Rule::Price, found);
    }

    /// Somebody on the claim must have needed it. Only where that is certain: pods without wishes and rules about other
    /// pods, heavier pools without limits and minimums.
    pub(super) fn weights(&mut self) {
        // Anti-affinity of others keeps pods away as well, even of those that have no place in the end.
        let running = self.snapshot.nodes.iter().flat_map(|node| &node.pods);
        if running.chain(self.snapshot.pending.values()).any(|other| !other.scheduling.anti_affinity.is_empty()) {
            return;
        }
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
        let tolerated = offer.pool.taints.iter().all(|taint| pod.tolerates(taint));
        plain
            && tolerated
            && offer.instance_types.iter().any(|known| {
                let mut needed = pod.requests.clone();
                self.market.daemons_on(&offer.pool, known).iter().for_each(|daemon| needed.add(&daemon.requests));
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
