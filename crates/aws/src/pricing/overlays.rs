//! Types that no list has a price for may get one from an overlay (AWS-135).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use karpenter_api::kinds::NodeOverlay;
use karpenter_api::names::{conditions, labels};
use karpenter_model::instance_type::Price;

/// Prices by type of those that were found valid, stay, and ask for nothing but types. The heavier overlay decides, then the
/// one that comes first by name.
pub fn overlay_prices(overlays: &[NodeOverlay]) -> BTreeMap<String, Price> {
    let mut usable: Vec<&NodeOverlay> = overlays.iter().filter(|overlay| is_valid(overlay)).collect();
    usable.sort_by_key(|overlay| (Reverse(overlay.spec.weight.unwrap_or_default()), overlay.metadata.name.clone()));
    let mut prices = BTreeMap::new();
    for overlay in usable {
        let price = overlay.spec.price.as_deref().and_then(|text| Price::new(text.parse().ok()?).ok());
        if let Some(price) = price {
            for name in types(overlay) {
                prices.entry(name.clone()).or_insert(price);
            }
        }
    }
    prices
}

fn is_valid(overlay: &NodeOverlay) -> bool {
    let all = overlay.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let judged = all.into_iter().find(|condition| condition.type_ == conditions::VALIDATION_SUCCEEDED);
    overlay.metadata.deletion_timestamp.is_none() && judged.is_some_and(|condition| condition.status.as_str() == "True")
}

/// Empty for an overlay that asks for anything else.
fn types(overlay: &NodeOverlay) -> &[String] {
    match overlay.spec.requirements.as_slice() {
        [only] if only.key == labels::INSTANCE_TYPE && only.operator == "In" => {
            only.values.as_deref().unwrap_or_default()
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn overlay(name: &str, valid: &str, spec: &Value) -> NodeOverlay {
        let condition = json!({"type": "ValidationSucceeded", "status": valid, "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let object = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
            "spec": spec, "status": {"conditions": [condition]}});
        serde_json::from_value(object).unwrap()
    }

    /// AWS-135.
    #[test]
    fn only_of_valid_overlays_about_nothing_but_types() {
        let types = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m99.large"]});
        let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]});
        let other = json!({"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["m99.large"]});
        for (name, valid, spec, want) in [
            ("valid", "True", json!({"requirements": [types], "price": "4.2"}), Some(4.2)),
            ("invalid", "False", json!({"requirements": [types], "price": "4.2"}), None),
            ("of a zone", "True", json!({"requirements": [types, zone], "price": "4.2"}), None),
            ("of all others", "True", json!({"requirements": [other], "price": "4.2"}), None),
            ("a change of price", "True", json!({"requirements": [types], "priceAdjustment": "+1"}), None),
            ("no price at all", "True", json!({"requirements": [types], "price": "cheap"}), None),
        ] {
            let found = overlay_prices(&[overlay("a", valid, &spec)]).get("m99.large").map(|price| price.per_hour());
            assert_eq!(found, want, "{name}");
        }
        let light = overlay("a", "True", &json!({"requirements": [types], "price": "1"}));
        let heavy = overlay("b", "True", &json!({"requirements": [types], "price": "2", "weight": 5}));
        assert_eq!(overlay_prices(&[light, heavy])["m99.large"], Price::new(2.0).unwrap());
    }
}
