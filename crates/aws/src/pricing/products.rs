//! The price list (AWS-206, AWS-207).

use std::collections::BTreeMap;

use karpenter_model::instance_type::Price;
use serde::Deserialize;

/// A GetProducts request: service code, page size and filters, all of them TERM_MATCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductQuery {
    pub service_code: &'static str,
    pub page_size: i32,
    pub filters: Vec<(&'static str, String)>,
}

/// Ordinary types first, bare metal second.
pub fn on_demand_queries(region: &str) -> [ProductQuery; 2] {
    let query = |tenancy: &str, family: &str| {
        let filters = [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ];
        let filters = filters.map(|(field, value)| (field, value.to_owned())).to_vec();
        ProductQuery { service_code: "AmazonEC2", page_size: 100, filters }
    };
    [query("Shared", "Compute Instance"), query("Dedicated", "Compute Instance (bare metal)")]
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    product: Product,
    terms: Terms,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Product {
    attributes: Attributes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Terms {
    on_demand: BTreeMap<String, Term>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Dimension {
    price_per_unit: BTreeMap<String, String>,
}

/// Prices by type of a page of items, each the text of a JSON object. What cannot be read, has no type or costs nothing is
/// left out.
pub fn parse_products<'a>(region: &str, items: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Price> {
    let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
    let mut prices = BTreeMap::new();
    for item in items.into_iter().filter_map(|text| serde_json::from_str::<Item>(text).ok()) {
        let instance_type = item.product.attributes.instance_type;
        if instance_type.is_empty() {
            continue;
        }
        let dimensions = item.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
        let amounts = dimensions.filter_map(|dimension| dimension.price_per_unit.get(currency)?.parse::<f64>().ok());
        for price in amounts.filter_map(|amount| Price::new(amount).ok()).filter(|price| *price > Price::ZERO) {
            prices.insert(instance_type.clone(), price);
        }
    }
    prices
}
