//! How a type can be bought: per zone and capacity type, from reservations, in partitions (§3.5 … §3.7, AWS-300).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_api::kinds::ec2nodeclass::CapacityReservation;
use karpenter_api::names::aws;
use karpenter_model::instance_type::{Offering, Overrides, Price};
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};

use super::compatibility::unusable;
use super::labels::base_capacity_types;
use super::{PlacementGroup, TypeFacts};
use crate::cloud::InstanceTypeInfo;
use crate::pricing::PriceBook;
use crate::reservations::ReservationCounts;
use crate::unavailable::{Unavailable, Wanted};

/// What a reservation costs of the price on demand: nearly nothing, it is paid for already (AWS-139).
const RESERVED_DIVISOR: f64 = 10_000_000.0;

/// What is known of the market, now.
#[derive(Debug, Clone, Copy)]
pub struct Market<'a> {
    /// Every zone of the region that sells anything, local zones included (AWS-113).
    pub zones: &'a BTreeSet<String>,
    pub prices: &'a PriceBook,
    /// Prices by type that overlays give to types without one; `None` while overlays are off (AWS-135).
    pub overlay_prices: Option<&'a BTreeMap<String, Price>>,
    pub unavailable: &'a Unavailable,
    /// Ids of zones that traffic is shifted away from (AWS-227).
    pub shifted_zones: &'a BTreeSet<String>,
    /// `None` while reserved capacity is off.
    pub reservations: Option<&'a ReservationCounts>,
    pub now: Timestamp,
}

pub fn offerings_of(info: &InstanceTypeInfo, facts: &TypeFacts<'_>, market: &Market<'_>) -> Vec<Offering> {
    let usable = unusable(info, facts.class, facts.placement_group).is_none();
    let zones: BTreeSet<&str> =
        facts.usable_zones().into_iter().filter(|zone| !is_shifted(facts, market, zone)).collect();
    let partitions = match facts.placement_group.map(PlacementGroup::partition_names) {
        Some(names) if !names.is_empty() => names.into_iter().map(Some).collect(),
        _ => vec![None],
    };
    let mut offerings = Vec::new();
    for partition in &partitions {
        let in_partition = |mut offering: Offering| {
            let name =
                partition.iter().map(|name| Requirement::any_of(aws::PLACEMENT_GROUP_PARTITION, [name.as_str()]));
            name.for_each(|requirement| offering.requirements.add(requirement));
            offering
        };
        let base = base(info, facts, market, partition.as_deref());
        offerings.extend(base.into_iter().map(|mut offering| {
            offering.available &= usable && offering.zone().is_some_and(|zone| zones.contains(zone));
            in_partition(offering)
        }));
        if let Some(counts) = market.reservations {
            let reserved = facts.reservations(&info.name).map(|one| reserved(one, facts, market, counts));
            offerings.extend(reserved.map(|mut offering| {
                offering.available &= usable && offering.zone().is_some_and(|zone| zones.contains(zone));
                in_partition(offering)
            }));
        }
    }
    offerings
}

fn is_shifted(facts: &TypeFacts<'_>, market: &Market<'_>, zone: &str) -> bool {
    facts.class.zone_id(zone).is_some_and(|id| market.shifted_zones.contains(id))
}

/// One for each zone of the region and each way to buy; those without a price or just refused are not available.
fn base(info: &InstanceTypeInfo, facts: &TypeFacts<'_>, market: &Market<'_>, partition: Option<&str>) -> Vec<Offering> {
    let mut offerings = Vec::new();
    for zone in market.zones {
        let subnets: Vec<&str> = facts
            .class
            .subnets()
            .iter()
            .filter(|subnet| subnet.zone == *zone)
            .map(|subnet| subnet.id.as_str())
            .collect();
        for capacity_type in base_capacity_types(info) {
            let price = price(info, market, zone, capacity_type);
            let wanted = Wanted {
                capacity_type,
                instance_type: &info.name,
                zone,
                subnets: &subnets,
                group_id: facts.placement_group.map(|group| group.id.as_str()),
                partition,
            };
            let mut requirements = place(facts, capacity_type, zone);
            for key in RESERVATION_LABELS {
                requirements.add(Requirement::does_not_exist(key));
            }
            offerings.push(Offering {
                requirements,
                price: price.unwrap_or(Price::ZERO),
                available: price.is_some() && !market.unavailable.holds(&wanted, market.now),
                reservation_capacity: None,
                overrides: Overrides::default(),
            });
        }
    }
    offerings
}

/// The labels that only reserved offerings have.
pub const RESERVATION_LABELS: [&str; 3] =
    [aws::CAPACITY_RESERVATION_ID, aws::CAPACITY_RESERVATION_TYPE, aws::CAPACITY_RESERVATION_INTERRUPTIBLE];

fn price(info: &InstanceTypeInfo, market: &Market<'_>, zone: &str, capacity_type: &str) -> Option<Price> {
    let price = match capacity_type {
        labels::CAPACITY_TYPE_SPOT => market.prices.spot(&info.name, zone),
        _ => market.prices.on_demand(&info.name),
    };
    price.or_else(|| market.overlay_prices?.get(&info.name).copied())
}

fn place(facts: &TypeFacts<'_>, capacity_type: &str, zone: &str) -> Requirements {
    let id = facts.class.zone_id(zone).map(|id| Requirement::any_of(aws::ZONE_ID, [id]));
    [Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]), Requirement::any_of(labels::ZONE, [zone])]
        .into_iter()
        .chain(id)
        .collect()
}

/// Available whether or not the reservation is full: that is what its capacity says (AWS-300).
fn reserved(
    reservation: &CapacityReservation,
    facts: &TypeFacts<'_>,
    market: &Market<'_>,
    counts: &ReservationCounts,
) -> Offering {
    let mut requirements = place(facts, labels::CAPACITY_TYPE_RESERVED, &reservation.availability_zone);
    let interruptible = reservation.interruptible.unwrap_or_default().to_string();
    let values = [reservation.id.as_str(), &reservation.reservation_type, &interruptible];
    for (key, value) in RESERVATION_LABELS.into_iter().zip(values) {
        requirements.add(Requirement::any_of(key, [value]));
    }
    let on_demand = market.prices.on_demand(&reservation.instance_type).map_or(0.0, Price::per_hour);
    Offering {
        requirements,
        // A valid price, divided.
        price: Price::new(on_demand / RESERVED_DIVISOR).unwrap_or(Price::ZERO),
        available: reservation.state != "expiring",
        reservation_capacity: Some(counts.available(&reservation.id, market.now)),
        overrides: Overrides::default(),
    }
}

#[cfg(test)]
mod tests;
