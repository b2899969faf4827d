//! What instances cost: built-in tables, the price list, the history of spot (§5).

mod overlays;
mod products;
mod spot;

use std::collections::BTreeMap;

use karpenter_api::instance_types::ec2;
use karpenter_model::instance_type::Price;

pub use overlays::overlay_prices;
pub use products::{ProductQuery, on_demand_queries, parse_products};
pub use spot::{SPOT_PRODUCTS, SpotPrice, parse_spot_prices};

/// The region whose table stands in where there is none of its own (AWS-204).
const FALLBACK_REGION: usize = 0;

/// Where the price list of a region can be asked for (AWS-205).
pub fn pricing_endpoint_region(region: &str) -> &'static str {
    match region.split_once('-').map_or("", |(part, _)| part) {
        "ap" => "ap-south-1",
        "cn" => "cn-northwest-1",
        "eu" => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Why the price list is not asked for (AWS-209).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSkipped {
    IsolatedVpc,
    GovernmentRegion,
}

pub fn on_demand_skipped(region: &str, isolated_vpc: bool) -> Option<ListSkipped> {
    if isolated_vpc {
        Some(ListSkipped::IsolatedVpc)
    } else {
        region.starts_with("us-gov").then_some(ListSkipped::GovernmentRegion)
    }
}

/// An answer that cannot be right; what was known before stays (AWS-208, AWS-210).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("the price list has no {0} instances")]
    NoProducts(&'static str),
    #[error("the history of spot prices is empty")]
    NoSpotPrices,
}

/// The prices in force. Answers are merged into it, so that what they leave out keeps its last price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceBook {
    on_demand: BTreeMap<String, Price>,
    /// By type and zone; `None` until the first answer, when every type costs in every zone what it does on demand.
    spot: Option<BTreeMap<String, BTreeMap<String, Price>>>,
    /// What spot is taken to cost until then.
    built_in: BTreeMap<String, Price>,
}

impl PriceBook {
    pub fn built_in(region: &str) -> Self {
        let column = ec2::REGIONS.iter().position(|(name, _)| *name == region).unwrap_or(FALLBACK_REGION);
        // A broken table must not end the process; a test reads all of it.
        let rows = ec2::types().unwrap_or_default();
        let prices: BTreeMap<String, Price> =
            rows.into_iter().filter_map(|row| Some((row.name.to_owned(), row.on_demand[column]?))).collect();
        Self { on_demand: prices.clone(), spot: None, built_in: prices }
    }

    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.on_demand.get(instance_type).copied()
    }

    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Price> {
        match &self.spot {
            Some(spot) => spot.get(instance_type)?.get(zone).copied(),
            None => self.built_in.get(instance_type).copied(),
        }
    }

    /// What both queries answered: ordinary types and bare metal.
    pub fn merge_on_demand(
        &mut self,
        shared: BTreeMap<String, Price>,
        metal: BTreeMap<String, Price>,
    ) -> Result<(), PriceError> {
        if shared.is_empty() {
            return Err(PriceError::NoProducts("shared"));
        }
        if metal.is_empty() {
            return Err(PriceError::NoProducts("bare metal"));
        }
        self.on_demand.extend(shared);
        self.on_demand.extend(metal);
        Ok(())
    }

    pub fn merge_spot(&mut self, prices: Vec<(String, String, Price)>) -> Result<(), PriceError> {
        if prices.is_empty() {
            return Err(PriceError::NoSpotPrices);
        }
        let spot = self.spot.get_or_insert_default();
        for (instance_type, zone, price) in prices {
            spot.entry(instance_type).or_default().insert(zone, price);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
