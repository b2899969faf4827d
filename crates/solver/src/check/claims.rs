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
        let mut asked: BTreeMap<&str, Resources> = BTreeMap::new();
        for (claim, listing) in self.sites.all.iter().filter_map(|site| site.claim) {
            let used = asked.entry(&claim.pool.name).or_default();
            used.add(&self.market.listings[listing].largest);
            used.set(NODES, used.amount(NODES) + Quantity::units(1));
        }
        let mut found = Vec::new();
        for offer in &self.snapshot.pools {
            let Some(used) = asked.get_mut(offer.pool.name.as_str()) else { continue };
            used.add(&offer.usage);
            if let Some((name, limit)) = offer.pool.limits.iter().find(|(name, limit)| used.amount(name) > *limit) {
                found.push(format!("pool {} exceeds {limit} of {name}", offer.pool.name));
            }
        }
        self.report_all(Rule::Limits, found);
    }

    fn min_values(&mut self) {
        let mut known: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut found = Vec::new();
        for (claim, listing) in self.sites.all.iter().filter_map(|site| site.claim) {
            let all = known.entry(listing).or_insert_with(|| {
                let minimums = claim.requirements.iter().filter(|asked| asked.min_values().is_some());
                minimums.filter_map(|asked| self.too_few(listing, asked)).collect()
            });
            found.extend(all.iter().cloned());
        }
        self.report_all(Rule::MinValues, found);
    }

    fn too_few(&self, listing: usize, asked: &Requirement) -> Option<String> {
        let minimum = asked.min_values()?;
        let mut values: BTreeSet<&str> = BTreeSet::new();
        for listed in &self.market.listings[listing].types {
            let own = listed.known.requirements.get(asked.key()).filter(|own| own.operator() == Operator::In);
            values.extend(own.into_iter().flat_map(Requirement::values).filter(|value| asked.has(value)));
        }
        let few = values.len() < minimum as usize;
        few.then(|| format!("a claim has {} values of {asked}", values.len()))
    }

    /// No more claims hold a reservation than there are instances left of it.
    fn reservations(&mut self) {
        let Some(key) = self.rules.reservation_key() else { return };
        let mut left: BTreeMap<&str, u32> = BTreeMap::new();
        let types = self.snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter());
        for offering in types.flat_map(|known| &known.offerings) {
            let Some(count) = offering.reservation_capacity else { continue };
            let id = offering.requirements.get(key).and_then(Requirement::single_value);
            if let Some(id) = id {
                let count = count + self.snapshot.reservation_credits.get(id).copied().unwrap_or(0);
                left.entry(id).and_modify(|known| *known = count.min(*known)).or_insert(count);
            }
        }
        let held: Vec<&Requirement> = self.plan.claims.iter().filter_map(|claim| claim.requirements.get(key)).collect();
        for (id, count) in left {
            let holds = |asked: &&&Requirement| asked.operator() == Operator::In && asked.has(id);
            let holders = held.iter().filter(holds).count();
            if holders > count as usize {
                self.report(Rule::Reservations, format!("{holders} claims hold {id}, which has {count} left"));
            }
        }
    }
}
