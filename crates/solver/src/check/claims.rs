//! Rules about the claims of a plan together: limits, minimums, reservations.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Operator, Requirement};
use karpenter_model::resources::{NODES, Resources};

use super::{Check, Rule};

impl Check<'_> {
    pub(super) fn claims(&mut self) {
        self.limits();
        self.min_values();
        self.reservations();
    }

    /// Whichever of its types each claim becomes, the pool stays within its limits.
    fn limits(&mut self) {
        for offer in &self.snapshot.pools {
            let mut used = offer.usage.clone();
            let own: Vec<_> = self.plan.claims.iter().filter(|claim| claim.pool.name == offer.pool.name).collect();
            for claim in &own {
                let mut largest = Resources::new();
                for name in claim.instance_types.iter() {
                    if let Some(known) = self.type_of(&claim.pool.name, name) {
                        largest.raise_to(&known.capacity);
                    }
                }
                largest.set(NODES, Quantity::units(1));
                used.add(&largest);
            }
            let over = offer.pool.limits.iter().find(|(name, limit)| used.amount(name) > *limit);
            if let Some((name, limit)) = over.filter(|_| !own.is_empty()) {
                self.report(Rule::Limits, format!("pool {} exceeds {limit} of {name}", offer.pool.name));
            }
        }
    }

    fn min_values(&mut self) {
        for claim in &self.plan.claims {
            for asked in claim.requirements.iter() {
                let Some(minimum) = asked.min_values() else { continue };
                let mut values: BTreeSet<String> = BTreeSet::new();
                for name in claim.instance_types.iter() {
                    let known = self.type_of(&claim.pool.name, name);
                    let own = known.and_then(|known| known.requirements.get(asked.key()));
                    let own = own.filter(|own| own.operator() == Operator::In);
                    values.extend(own.into_iter().flat_map(Requirement::values).map(ToOwned::to_owned));
                }
                values.retain(|value| asked.has(value));
                if values.len() < minimum as usize {
                    self.report(Rule::MinValues, format!("a claim has {} values of {asked}", values.len()));
                }
            }
        }
    }

    /// No more claims hold a reservation than there are instances left of it.
    fn reservations(&mut self) {
        let Some(key) = self.rules.reservation_key() else { return };
        let mut left: BTreeMap<&str, u32> = BTreeMap::new();
        let types = self.snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter());
        for offering in types.flat_map(|known| &known.offerings) {
            let id = offering.requirements.get(key).and_then(Requirement::single_value);
            if let (Some(id), Some(count)) = (id, offering.reservation_capacity) {
                let count = count + self.snapshot.reservation_credits.get(id).copied().unwrap_or(0);
                left.entry(id).and_modify(|known| *known = count.min(*known)).or_insert(count);
            }
        }
        for (id, count) in left {
            let holds = |asked: &Requirement| asked.operator() == Operator::In && asked.has(id);
            let holders = self.plan.claims.iter().filter(|claim| claim.requirements.get(key).is_some_and(holds));
            let holders = holders.count();
            if holders > count as usize {
                self.report(Rule::Reservations, format!("{holders} claims hold {id}, which has {count} left"));
            }
        }
    }
}
