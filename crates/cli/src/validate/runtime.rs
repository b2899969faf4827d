//! What the controller itself refuses or questions about an object that the API server accepts. It says so in the condition
//! `ValidationSucceeded`; here it is a warning.

use karpenter_api::crd::Crd;
use karpenter_api::kinds::{NodeClaim, NodeOverlay, NodePool};
use karpenter_api::names::LabelPolicy;
use karpenter_api::validation::{self, Validation};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Field and text of each problem.
pub(super) fn problems(crd: &Crd, object: &Value) -> Vec<(String, String)> {
    let judged = match (crd.group, crd.kind) {
        ("karpenter.sh", "NodePool") => judge(object, |pool: NodePool| {
            validation::node_pool(&pool.spec, &policy_of_class(&object["spec"]["template"]["spec"]))
        }),
        ("karpenter.sh", "NodeClaim") => {
            judge(object, |claim: NodeClaim| validation::node_claim(&claim.spec, &policy_of_class(&object["spec"])))
        }
        ("karpenter.sh", "NodeOverlay") => judge(object, |overlay: NodeOverlay| {
            validation::node_overlay(&overlay.spec, &policy_of_keys(&object["spec"]["requirements"]))
        }),
        _ => return Vec::new(),
    };
    match judged {
        Ok(found) => {
            let all = found.errors.into_iter().chain(found.warnings);
            all.map(|problem| (problem.field, problem.issue.to_string())).collect()
        }
        Err(error) => vec![(String::new(), format!("the controller cannot read this object: {error}"))],
    }
}

fn judge<T: DeserializeOwned>(
    object: &Value,
    rules: impl FnOnce(T) -> Validation,
) -> Result<Validation, serde_json::Error> {
    serde_json::from_value(object.clone()).map(rules)
}

/// The label rules of the provider that the node class belongs to.
fn policy_of_class(spec: &Value) -> LabelPolicy {
    match spec["nodeClassRef"]["group"].as_str() {
        Some("karpenter.k8s.aws") => LabelPolicy::aws(),
        // The instance types are not known here; labels of their own that offerings add do not matter for validity.
        Some("karpenter.kwok.sh") => LabelPolicy::kwok([]),
        _ => LabelPolicy::core(),
    }
}

/// An overlay has no node class; the keys that it selects by tell the provider.
fn policy_of_keys(requirements: &Value) -> LabelPolicy {
    let keys: Vec<&str> = requirements.as_array().into_iter().flatten().filter_map(|r| r["key"].as_str()).collect();
    let any = |domain: &str| keys.iter().any(|key| key.split('/').next().is_some_and(|d| d.ends_with(domain)));
    if any("karpenter.k8s.aws") {
        LabelPolicy::aws()
    } else if any("karpenter.kwok.sh") {
        LabelPolicy::kwok([])
    } else {
        LabelPolicy::core()
    }
}
