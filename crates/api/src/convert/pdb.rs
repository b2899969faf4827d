//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodId;

use super::{Converted, Problems, scheduling};

pub fn pdb(budget: &PodDisruptionBudget) -> Converted<PdbView> {
    let mut problems = Problems::new("PodDisruptionBudget", &budget.metadata);
    let spec = budget.spec.as_ref();
    let selector = spec.and_then(|spec| spec.selector.as_ref());
    let view = PdbView {
        id: PodId::new(
            budget.metadata.namespace.clone().unwrap_or_default(),
            budget.metadata.name.clone().unwrap_or_default(),
        ),
        selector: scheduling::selector(&mut problems, "spec.selector", selector),
        disruptions_allowed: budget.status.as_ref().map_or(0, |status| status.disruptions_allowed),
        never_allows: spec.is_some_and(|spec| {
            spec.max_unavailable.as_ref().is_some_and(is_none) || spec.min_available.as_ref().is_some_and(is_all)
        }),
        lets_unready_go: spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow"),
    };
    Converted { view, problems: problems.found }
}

fn is_none(amount: &IntOrString) -> bool {
    match amount {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => text == "0%",
    }
}

/// A number could equal the replica count, but the count may grow: only the share is for ever (DIS-38).
fn is_all(amount: &IntOrString) -> bool {
    matches!(amount, IntOrString::String(text) if text == "100%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(spec: &serde_json::Value) -> PdbView {
        let budget = serde_json::json!({
            "metadata": { "namespace": "a", "name": "b" }, "spec": spec, "status": {
                "disruptionsAllowed": 2, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 }
        });
        pdb(&serde_json::from_value(budget).unwrap()).view
    }

    /// DIS-34, DIS-38, SCH-16.
    #[test]
    fn budgets_that_never_allow() {
        for (spec, never) in [
            (serde_json::json!({ "maxUnavailable": 0 }), true),
            (serde_json::json!({ "maxUnavailable": "0%" }), true),
            (serde_json::json!({ "minAvailable": "100%" }), true),
            (serde_json::json!({ "minAvailable": 100 }), false),
            (serde_json::json!({ "minAvailable": 0 }), false),
            (serde_json::json!({ "maxUnavailable": 1 }), false),
            (serde_json::json!({}), false),
        ] {
            let view = view(&spec);
            assert_eq!((view.never_allows, view.disruptions_allowed), (never, 2), "{spec}");
            assert_eq!(view.selector, None, "none selects nobody");
        }
        let policy = serde_json::json!({ "selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow" });
        assert!(view(&policy).lets_unready_go);
        assert!(view(&policy).selector.is_some_and(|all| all.matches(&std::collections::BTreeMap::new())));
    }
}
