//! What is on offer at a moment: prices of the day, without what is sold out.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Offering, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::Requirement;

use super::prices::{self, Sold};
use super::state::OfferingKey;
use super::{Cloud, RESERVATION_ID, Reservation, Stock};
use crate::chance::Chance;

/// A reserved machine is paid for already; this keeps types in the order of their prices.
const RESERVED_SHARE: f64 = 1e-6;

pub(super) fn add_reservations(types: &mut [InstanceType], reservations: &[Reservation]) {
    for reservation in reservations {
        let Some(instance_type) = types.iter_mut().find(|t| t.name == reservation.instance_type) else { continue };
        let full = instance_type.running_price(&reservation.zone, labels::CAPACITY_TYPE_ON_DEMAND);
        let price = full.map_or(0.0, Price::per_hour) * RESERVED_SHARE;
        let mut capacity_types: Vec<String> = instance_type
            .requirements
            .get(labels::CAPACITY_TYPE)
            .map(|requirement| requirement.values().map(ToOwned::to_owned).collect())
            .unwrap_or_default();
        capacity_types.push(labels::CAPACITY_TYPE_RESERVED.to_owned());
        instance_type.requirements.replace(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types));
        instance_type.offerings.push(Offering {
            requirements: [
                Requirement::any_of(labels::ZONE, [reservation.zone.as_str()]),
                Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]),
                Requirement::any_of(RESERVATION_ID, [reservation.id.as_str()]),
            ]
            .into_iter()
            .collect(),
            price: Price::new(price).unwrap_or(Price::ZERO),
            available: true,
            reservation_capacity: Some(reservation.count),
            overrides: Overrides::default(),
        });
    }
    // Every other offering says that it is from no reservation (API-269), once there are any.
    if !reservations.is_empty() {
        for offering in types.iter_mut().flat_map(|t| &mut t.offerings) {
            if offering.reservation_capacity.is_none() {
                offering.requirements.replace(Requirement::does_not_exist(RESERVATION_ID));
            }
        }
    }
}

impl Cloud {
    /// What each running machine costs an hour at the prices of now, by provider id.
    pub fn worth(&self) -> BTreeMap<String, f64> {
        let now = self.clock.now();
        let bills = self.bills();
        let price = |bill: &super::Bill| {
            let kind = self.types.iter().find(|known| known.name == bill.instance_type)?;
            let rest = kind.running_price(&bill.zone, &bill.capacity_type)?;
            let sold =
                Sold { instance_type: &bill.instance_type, zone: &bill.zone, capacity_type: &bill.capacity_type };
            Some(prices::price(self.seed, self.settings.swing, now, &sold, rest).per_hour())
        };
        bills.into_iter().map(|(id, bill)| (id, price(&bill).unwrap_or(bill.usd_per_hour))).collect()
    }

    /// By what share prices may move while a machine is ordered: two lists may change meanwhile, and a spot price crosses
    /// its range in 36 of them.
    pub fn swing(&self) -> f64 {
        self.settings.swing.spot / 4.0
    }

    /// The least that an hour of one CPU costs anywhere, now: no cluster can be had for less.
    pub fn cheapest_cpu(&self) -> f64 {
        let types = self.on_offer();
        let per_cpu = types.iter().flat_map(|known| {
            #[expect(clippy::cast_precision_loss, reason = "thousandths of some hundred CPUs")]
            let cpus = known.capacity.amount("cpu").milli_value() as f64 / 1000.0;
            known.offerings.iter().filter(|offering| offering.available).map(move |o| o.price.per_hour() / cpus)
        });
        per_cpu.fold(f64::MAX, f64::min)
    }

    /// Every type as it is sold now (API-246): also those of which nothing can be had.
    pub(super) fn on_offer(&self) -> Arc<Vec<InstanceType>> {
        let now = self.clock.now();
        let mut state = self.lock();
        let version = (prices::period(self.settings.swing, now), state.changes, state.shortages(now));
        if let Some((known, types)) = &state.offers
            && *known == version
        {
            return types.clone();
        }
        let mut types = self.types.clone();
        for instance_type in &mut types {
            for offering in &mut instance_type.offerings {
                let key = OfferingKey::of(&instance_type.name, offering);
                let sold =
                    Sold { instance_type: &key.instance_type, zone: &key.zone, capacity_type: &key.capacity_type };
                offering.price = prices::price(self.seed, self.settings.swing, now, &sold, offering.price);
                if let Some(count) = offering.reservation_capacity {
                    // Full, but healthy: still on offer, with nothing left (V15-82).
                    offering.reservation_capacity = Some(count.saturating_sub(state.used(&key)));
                } else {
                    offering.available &= !state.is_sold_out(&key, now);
                }
            }
        }
        let types = Arc::new(types);
        state.offers = Some((version, types.clone()));
        types
    }

    /// How many machines of an offering there are in all; `None` is without end.
    pub(super) fn stock(&self, key: &OfferingKey, offering: &Offering) -> Option<u32> {
        if offering.reservation_capacity.is_some() {
            let reservations = self.settings.reservations.iter();
            return reservations.filter(|r| Some(&r.id) == key.reservation.as_ref()).map(|r| r.count).next();
        }
        match self.settings.stock {
            Stock::Endless => None,
            Stock::Drawn { spot, on_demand } => {
                let (least, most) = if key.capacity_type == labels::CAPACITY_TYPE_SPOT { spot } else { on_demand };
                let name = ["stock", &key.instance_type, &key.zone, &key.capacity_type];
                let span = u64::from(most.saturating_sub(least)) + 1;
                let drawn = Chance::about(self.seed, &name).below(span);
                Some(least + u32::try_from(drawn).unwrap_or(0))
            }
        }
    }
}

/// What of this could be launched for a claim, cheapest first.
pub(super) fn choices<'a>(
    types: &'a [InstanceType],
    claim: &ClaimView,
    rules: &LabelRules,
) -> Vec<(&'a InstanceType, &'a Offering)> {
    let named = claim.requirements.get(labels::INSTANCE_TYPE);
    let mut choices: Vec<(&InstanceType, &Offering)> = Vec::new();
    for instance_type in types {
        if named.is_some_and(|named| !named.has(&instance_type.name))
            || !instance_type.requirements.intersects(&claim.requirements)
        {
            continue;
        }
        let launchable = instance_type.launchable_offerings(&claim.requirements, rules).into_iter();
        // What a type says nothing about was laid over it, and its machines get it.
        let asked = claim.requests.named_in(&instance_type.capacity);
        let fits = |o: &&Offering| asked.fits(&instance_type.allocatable_with(&o.overrides));
        choices.extend(launchable.filter(fits).map(|offering| (instance_type, offering)));
    }
    choices.sort_by(|(a, x), (b, y)| (x.price, &a.name, x.zone()).cmp(&(y.price, &b.name, y.zone())));
    choices
}

/// What a launch resolved: every requirement of claim, type and offering that has just one value.
pub(super) fn resolved_labels(
    claim: &ClaimView,
    instance_type: &InstanceType,
    offering: &Offering,
) -> BTreeMap<String, String> {
    let all = [&*claim.requirements, &instance_type.requirements, &offering.requirements];
    let single = all.into_iter().flat_map(karpenter_model::requirements::Requirements::iter);
    single.filter_map(|r| Some((r.key().to_owned(), r.single_value()?.to_owned()))).collect()
}
