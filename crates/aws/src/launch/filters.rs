//! Which of the types that a claim names are worth asking for, in the specified order (AWS-151, AWS-152, AWS-301).

mod reserved;

use std::collections::BTreeSet;

use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Offering, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::{Requirement, Requirements, Undefined};

use super::choice::allows;
use crate::instance_types::TypeName;

/// How many types a request names at most.
const MOST: usize = 60;

/// Resources of which a type with any is not taken for pods that would fit elsewhere.
const EXOTIC: [&str; 5] =
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"];

/// What is left, and what each filter took away: all but the first are worth a line in the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filtered {
    pub types: Vec<InstanceType>,
    pub rejected: Vec<(&'static str, Vec<String>)>,
}

/// Nothing can be launched: the claim is given up and its pods are planned again (AWS-292).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NothingLeft {
    #[error("all requested instance types were unavailable during launch")]
    Filter(&'static str),
    #[error("all requested instance types were unavailable during launch: minValues of {0} cannot be kept")]
    MinValues(String),
}

type Filter = fn(Vec<InstanceType>, &Asked<'_>) -> Vec<InstanceType>;

const FILTERS: [(&str, Filter); 6] = [
    ("compatible-available", compatible_available),
    ("capacity-reservation-type", reserved::one_kind),
    ("capacity-block", reserved::one_block),
    ("reserved-offering", reserved::roomiest),
    ("exotic", exotic),
    ("spot-offering", spot_offering),
];

/// What a filter looks at.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    claim: &'a ClaimView,
    rules: &'a LabelRules,
}

impl Asked<'_> {
    fn requirements(&self) -> &Requirements {
        &self.claim.requirements
    }

    /// An instance of it could be had now, and the claim would take it.
    fn wants(&self, offering: &Offering) -> bool {
        offering.is_launchable() && offering.is_compatible(self.requirements(), self.rules)
    }

    fn has_min_values(&self) -> bool {
        self.requirements().iter().any(|requirement| requirement.min_values().is_some())
    }

    fn allows(&self, capacity_type: &str) -> bool {
        allows(self.requirements(), labels::CAPACITY_TYPE, capacity_type)
    }
}

pub fn filtered(types: Vec<InstanceType>, claim: &ClaimView, rules: &LabelRules) -> Result<Filtered, NothingLeft> {
    let asked = Asked { claim, rules };
    let mut left = Filtered { types, rejected: Vec::new() };
    for (name, filter) in FILTERS {
        let before: Vec<String> = left.types.iter().map(|known| known.name.clone()).collect();
        left.types = filter(left.types, &asked);
        let kept: BTreeSet<&str> = left.types.iter().map(|known| known.name.as_str()).collect();
        let gone: Vec<String> = before.into_iter().filter(|name| !kept.contains(name.as_str())).collect();
        if left.types.is_empty() {
            return Err(NothingLeft::Filter(name));
        }
        if !gone.is_empty() {
            left.rejected.push((name, gone));
        }
    }
    left.types = truncated(left.types, &asked)?;
    Ok(left)
}

fn compatible_available(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    let suits = |known: &InstanceType| {
        asked.requirements().is_compatible(&known.requirements, Undefined::WellKnownAllowed(asked.rules))
            && known.allocatable_groups().iter().any(|group| {
                asked.claim.requests.fits(&group.allocatable) && group.offerings.iter().any(|one| asked.wants(one))
            })
    };
    types.into_iter().filter(suits).collect()
}

/// Bare metal and accelerators, unless there is nothing else or the user counts on variety.
fn exotic(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    let is_exotic = |known: &InstanceType| {
        TypeName(&known.name).is_metal() || EXOTIC.iter().any(|name| !known.capacity.amount(name).is_zero())
    };
    if asked.has_min_values() || types.iter().all(is_exotic) {
        return types;
    }
    types.into_iter().filter(|known| !is_exotic(known)).collect()
}

/// Spot that costs more than the cheapest on-demand instance would be a poor deal.
fn spot_offering(types: Vec<InstanceType>, asked: &Asked<'_>) -> Vec<InstanceType> {
    let (spot, on_demand) = (labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND);
    if asked.has_min_values() || !asked.allows(spot) || !asked.allows(on_demand) {
        return types;
    }
    let prices = |capacity_type: &str| -> Vec<Price> {
        let offerings = types.iter().flat_map(|known| &known.offerings);
        let wanted = offerings.filter(|one| one.capacity_type() == Some(capacity_type) && asked.wants(one));
        wanted.map(|one| one.price).collect()
    };
    let (Some(cheapest), false) = (prices(on_demand).into_iter().min(), prices(spot).is_empty()) else {
        return types;
    };
    let keep = |one: &Offering| one.capacity_type() != Some(spot) || one.price <= cheapest;
    with_offerings(types, keep).into_iter().filter(|known| known.offerings.iter().any(|one| asked.wants(one))).collect()
}

fn with_offerings(mut types: Vec<InstanceType>, keep: impl Fn(&Offering) -> bool) -> Vec<InstanceType> {
    for known in &mut types {
        known.offerings.retain(&keep);
    }
    types
}

/// The cheapest ones, as many as a request takes, if they keep the variety that the claim asks for.
fn truncated(mut types: Vec<InstanceType>, asked: &Asked<'_>) -> Result<Vec<InstanceType>, NothingLeft> {
    types.sort_by_cached_key(|known| (known.cheapest_price(asked.requirements(), asked.rules), known.name.clone()));
    types.truncate(MOST);
    for requirement in asked.requirements().iter() {
        let Some(least) = requirement.min_values() else { continue };
        let offered = types.iter().filter_map(|known| known.requirements.get(requirement.key()));
        let values: BTreeSet<&str> =
            offered.flat_map(Requirement::values).filter(|value| requirement.has(value)).collect();
        if values.len() < usize::try_from(least).unwrap_or(usize::MAX) {
            return Err(NothingLeft::MinValues(requirement.key().to_owned()));
        }
    }
    Ok(types)
}

#[cfg(test)]
mod tests;
