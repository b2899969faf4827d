//! What the nodes of each pool cost (LIF-120).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;

use crate::ClusterState;

/// What was on offer to each pool when somebody last asked.
#[derive(Debug, Default)]
pub struct Prices(BTreeMap<String, Arc<Vec<InstanceType>>>);

impl Prices {
    pub fn note(&mut self, pool: &str, offered: Arc<Vec<InstanceType>>) {
        self.0.insert(pool.to_owned(), offered);
    }

    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.0.retain(|pool, _| exists(pool));
    }

    /// Whether somebody has asked for this pool.
    pub fn knows(&self, pool: &str) -> bool {
        self.0.contains_key(pool)
    }

    /// What cannot be found costs nothing.
    fn per_hour(&self, kind: Kind<'_>) -> f64 {
        let mut types = self.0.get(kind.pool).into_iter().flat_map(|types| types.iter());
        let found = types.find(|known| known.name == kind.instance_type);
        found.and_then(|known| known.running_price(kind.zone, kind.capacity_type)).map_or(0.0, Price::per_hour)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'a> {
    pool: &'a str,
    instance_type: &'a str,
    zone: &'a str,
    capacity_type: &'a str,
}

impl<'a> Kind<'a> {
    /// `None` before the labels of the launch are there.
    fn of(claim: &'a ClaimView) -> Option<Self> {
        let label = |key: &str| claim.labels.get(key).map(String::as_str);
        Some(Self {
            pool: label(labels::NODEPOOL)?,
            instance_type: label(labels::INSTANCE_TYPE)?,
            zone: label(labels::ZONE)?,
            capacity_type: label(labels::CAPACITY_TYPE)?,
        })
    }
}

impl ClusterState {
    /// Dollars per hour by pool, by what the labels of the claims say now: a reservation that ended is no longer paid as one
    /// (Y22). Pools that are gone cost nothing.
    pub fn costs(&self, prices: &Prices) -> BTreeMap<String, f64> {
        let mut counts: BTreeMap<Kind<'_>, u32> = BTreeMap::new();
        for kind in self.claims.values().filter_map(|claim| Kind::of(claim)) {
            *counts.entry(kind).or_default() += 1;
        }
        let mut costs = BTreeMap::new();
        for (kind, count) in counts.into_iter().filter(|(kind, _)| self.pools.contains_key(kind.pool)) {
            *costs.entry(kind.pool.to_owned()).or_insert(0.0) += f64::from(count) * prices.per_hour(kind);
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::devices::TypeDevices;
    use karpenter_model::example;
    use karpenter_model::instance_type::{Offering, Overhead, Overrides};
    use karpenter_model::requirements::{Requirement, Requirements};
    use karpenter_model::resources::Resources;

    use super::*;
    use crate::Change;

    fn offering(capacity_type: &str, per_hour: f64) -> Offering {
        Offering {
            requirements: Requirements::from_iter([
                Requirement::any_of(labels::ZONE, ["z1"]),
                Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
            ]),
            price: Price::new(per_hour).unwrap(),
            available: true,
            reservation_capacity: None,
            overrides: Overrides::default(),
        }
    }

    fn offered(on_demand: f64) -> Arc<Vec<InstanceType>> {
        Arc::new(vec![InstanceType {
            name: "std".into(),
            requirements: Requirements::new(),
            offerings: vec![offering("on-demand", on_demand), offering("reserved", 0.0)],
            capacity: Resources::new(),
            overhead: Overhead::default(),
            attachment_limits: BTreeMap::new(),
            devices: TypeDevices::default(),
        }])
    }

    fn claim(name: &str, capacity_type: &str) -> ClaimView {
        let mut claim = example::claim(name);
        for (key, value) in [
            (labels::NODEPOOL, "blue"),
            (labels::INSTANCE_TYPE, "std"),
            (labels::ZONE, "z1"),
            (labels::CAPACITY_TYPE, capacity_type),
        ] {
            claim.labels.insert(key.into(), value.into());
        }
        claim
    }

    /// LIF-120, API-193, LC-124, Y22: sums follow claims, labels and prices.
    #[test]
    fn pools_cost_what_their_claims_cost() {
        let mut prices = Prices::default();
        prices.note("blue", offered(2.0));
        let mut state = ClusterState::default();
        state.apply(Change::Pool(Arc::new(example::pool("blue"))));
        let cost = |state: &ClusterState, prices: &Prices| state.costs(prices).get("blue").copied();
        assert_eq!(cost(&state, &prices), None, "no claim, no entry");
        state.apply(Change::Claim(Arc::new(claim("a", "on-demand"))));
        state.apply(Change::Claim(Arc::new(claim("b", "on-demand"))));
        assert_eq!(cost(&state, &prices), Some(4.0), "twice its price");
        state.apply(Change::ClaimGone("a".into()));
        assert_eq!(cost(&state, &prices), Some(2.0));
        let mut unlaunched = claim("c", "on-demand");
        unlaunched.labels.remove(labels::ZONE);
        state.apply(Change::Claim(Arc::new(unlaunched)));
        assert_eq!(cost(&state, &prices), Some(2.0), "a label is missing");
        prices.note("blue", offered(3.0));
        assert_eq!(cost(&state, &prices), Some(3.0), "prices are refreshed");
        state.apply(Change::Claim(Arc::new(claim("b", "reserved"))));
        assert_eq!(cost(&state, &prices), Some(0.0), "Y22: its labels changed");
        state.apply(Change::Claim(Arc::new(claim("b", "unheard-of"))));
        assert_eq!(cost(&state, &prices), Some(0.0), "unknown");
        state.apply(Change::PoolGone("blue".into()));
        assert_eq!(cost(&state, &prices), None, "the pool drops its entries");
        prices.retain(|pool| pool != "blue");
        assert!(!prices.knows("blue"));
    }
}
