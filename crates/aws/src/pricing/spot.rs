//! The history of spot prices (AWS-210).

use jiff::Timestamp;
use karpenter_model::instance_type::Price;

/// The product descriptions that are asked for.
pub const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// An entry of DescribeSpotPriceHistory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpotPrice {
    pub instance_type: String,
    pub zone: String,
    pub price: String,
    pub timestamp: Option<Timestamp>,
}

/// Type, zone and price. Entries without a time or with a price that is none are left out.
pub fn parse_spot_prices(entries: impl IntoIterator<Item = SpotPrice>) -> Vec<(String, String, Price)> {
    let read = |entry: SpotPrice| {
        entry.timestamp?;
        let price = Price::new(entry.price.parse().ok()?).ok()?;
        Some((entry.instance_type, entry.zone, price))
    };
    entries.into_iter().filter_map(read).collect()
}
