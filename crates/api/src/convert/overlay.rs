//! Node overlays.

use karpenter_model::overlay::{OverlayView, PriceChange};

use super::{Converted, Entry, Problems, quantities, requirements};
use crate::kinds::NodeOverlay;
use crate::names::LabelPolicy;
use crate::validation;

/// An overlay that fails the checks at run time, or that cannot be read, says so in `invalid` and is applied nowhere.
pub fn overlay(overlay: &NodeOverlay, policy: &LabelPolicy) -> Converted<OverlayView> {
    let mut problems = Problems::new("NodeOverlay", &overlay.metadata);
    let spec = &overlay.spec;
    let checked = validation::node_overlay(spec, policy);
    let entries = spec.requirements.iter().map(|entry| Entry {
        key: &entry.key,
        operator: &entry.operator,
        values: entry.values.as_deref().unwrap_or_default(),
        min_values: None,
    });
    let selected = requirements(&mut problems, "spec.requirements", policy.rules(), entries);
    let (field, text) = match (&spec.price, &spec.price_adjustment) {
        (Some(price), _) => ("spec.price", price.as_str()),
        (None, adjustment) => ("spec.priceAdjustment", adjustment.as_deref().unwrap_or_default()),
    };
    let price = problems.check(field, PriceChange::parse(text)).flatten();
    let capacity = quantities(&mut problems, "spec.capacity", spec.capacity.as_ref());
    let unreadable = problems.found.first().map(|problem| format!("{}: {}", problem.field, problem.message));
    let view = OverlayView {
        name: overlay.metadata.name.clone().unwrap_or_default(),
        weight: spec.weight.unwrap_or(0),
        requirements: selected,
        price,
        capacity,
        invalid: (!checked.is_ok()).then(|| checked.message()).or(unreadable),
    };
    Converted { view, problems: problems.found }
}

#[cfg(test)]
mod tests {
    use karpenter_model::instance_type::Price;
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> OverlayView {
        let object = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": "o"}, "spec": spec});
        overlay(&serde_json::from_value(object).unwrap(), &LabelPolicy::core()).view
    }

    /// SCH-164.
    #[test]
    fn overlays_are_understood() {
        let all = read(&json!({
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["p"]}],
            "priceAdjustment": "-10%", "capacity": {"smarter-devices/fuse": "5"}, "weight": 10,
        }));
        assert_eq!((all.weight, all.price, all.invalid), (10, Some(PriceChange::Percent(-10.0)), None));
        assert_eq!(all.requirements.to_string(), "karpenter.sh/nodepool In [p]");
        assert_eq!(all.capacity.to_string(), "smarter-devices/fuse: 5");
        let plain = read(&json!({"requirements": [], "price": "1.5"}));
        assert_eq!((plain.weight, plain.price), (0, Some(PriceChange::Set(Price::new(1.5).unwrap()))));
        assert_eq!(read(&json!({"requirements": []})).price, None);
    }

    /// SC-274, SCH-168, API-88: what the schema would have caught, smuggled past it.
    #[test]
    fn overlays_are_checked() {
        let long = "k".repeat(64);
        for (name, spec) in [
            ("long key", json!({"requirements": [{"key": long, "operator": "Exists"}]})),
            ("restricted key", json!({"requirements": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]})),
            ("unknown operator", json!({"requirements": [{"key": "k", "operator": "Near"}]})),
            ("no values", json!({"requirements": [{"key": "k", "operator": "NotIn"}]})),
            ("well-known resource", json!({"requirements": [], "capacity": {"cpu": "1"}})),
            ("a price that is none", json!({"requirements": [], "price": "cheap"})),
            ("an amount that is none", json!({"requirements": [], "capacity": {"x": "many"}})),
        ] {
            assert!(read(&spec).invalid.is_some(), "{name}");
        }
    }
}
