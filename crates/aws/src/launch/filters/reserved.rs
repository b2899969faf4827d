//! Filters among reservations: one kind of them per launch, and of each zone the one with the most room.

use std::collections::BTreeMap;

use karpenter_api::names::aws;
use karpenter_model::instance_type::{InstanceType, Offering, Price};
use karpenter_model::labels;
use karpenter_model::requirements::Requirement;

use super::{Asked, with_offerings};

/// Kinds of reservations, in the order in which equally cheap ones are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Default,
    Block,
    Interruptible,
}

fn kind(offering: &Offering) -> Option<Kind> {
    if offering.capacity_type() != Some(labels::CAPACITY_TYPE_RESERVED) {
        return None;
    }
    let value = |key: &str| offering.requirements.get(key).and_then(Requirement::single_value);
    Some(match (value(aws::CAPACITY_RESERVATION_TYPE), value(aws::CAPACITY_RESERVATION_INTERRUPTIBLE)) {
        (Some("capacity-block"), _) => Kind::Block,
        (_, Some("true")) => Kind::Interruptible,
        _ => Kind::Default,
    })
}

fn reserved<'a>(
    types: &'a [InstanceType],
    asked: &'a Asked<'_>,
) -> impl Iterator<Item = (&'a InstanceType, &'a Offering, Kind)> {
    let offerings = types.iter().flat_map(|known| known.offerings.iter().map(move |one| (known, one)));
    offerings.filter(|(_, one)| asked.wants(one)).filter_map(|(known, one)| Some((known, one, kind(one)?)))
}

/// A fleet buys from one kind only: that of the cheapest offering.
pub(super) fn one_kind(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    if !asked.allows(labels::CAPACITY_TYPE_RESERVED) {
        return types;
    }
    let cheapest = reserved(&types, asked).map(|(_, one, kind)| (one.price, kind)).min();
    let Some((_, chosen)) = cheapest else { return types };
    let kept = with_offerings(types, |one| kind(one) == Some(chosen) && asked.wants(one));
    kept.into_iter().filter(|known| !known.offerings.is_empty()).collect()
}

/// A capacity block is asked for alone.
pub(super) fn one_block(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    let blocks = reserved(&types, asked).filter(|(.., kind)| *kind == Kind::Block);
    let key = |known: &InstanceType, one: &Offering| -> (Price, String, Option<String>, Option<String>) {
        (one.price, known.name.clone(), one.zone().map(ToOwned::to_owned), reservation(one))
    };
    let Some(cheapest) = blocks.map(|(known, one, _)| key(known, one)).min() else { return types };
    let mut kept = types;
    kept.retain(|known| known.name == cheapest.1);
    for known in &mut kept {
        let name = known.name.clone();
        known
            .offerings
            .retain(|one| (one.price, name.clone(), one.zone().map(ToOwned::to_owned), reservation(one)) == cheapest);
        known.offerings.truncate(1);
    }
    kept
}

fn reservation(offering: &Offering) -> Option<String> {
    offering.requirements.get(aws::CAPACITY_RESERVATION_ID)?.single_value().map(ToOwned::to_owned)
}

/// Of several reservations of a type in a zone the one with the most room; equal ones by id.
pub(super) fn roomiest(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    if !asked.allows(labels::CAPACITY_TYPE_RESERVED) || reserved(&types, asked).next().is_none() {
        return types;
    }
    let best = |known: &InstanceType| {
        let mut by_zone: BTreeMap<String, Offering> = BTreeMap::new();
        let own = known.offerings.iter().filter(|one| kind(one).is_some() && asked.wants(one));
        for one in own {
            let zone = one.zone().unwrap_or_default().to_owned();
            let better = |other: &Offering| {
                (one.reservation_capacity, reservation(other)) > (other.reservation_capacity, reservation(one))
            };
            if by_zone.get(&zone).is_none_or(better) {
                by_zone.insert(zone, one.clone());
            }
        }
        by_zone.into_values().collect::<Vec<_>>()
    };
    let mut kept: Vec<InstanceType> = Vec::new();
    for mut known in types {
        known.offerings = best(&known);
        if !known.offerings.is_empty() {
            kept.push(known);
        }
    }
    kept
}
