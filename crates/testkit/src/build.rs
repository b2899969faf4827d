//! Small builders for the objects that tests put into a cluster. A test states what it is about; the rest is the smallest
//! thing that is valid.
//!
//! ```
//! use karpenter_testkit::build;
//!
//! let pool = build::node_pool("default").limit("cpu", "10").build();
//! let pod = build::pod("web").cpu("500m").node_selector("kubernetes.io/arch", "amd64").build();
//! assert_eq!(pool.spec.template.spec.node_class_ref.name, "default");
//! assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
//! ```

mod claims;
mod nodes;
mod pods;
mod pools;

use karpenter_api::kinds::{KWOKNodeClass, KWOKNodeClassSpec, NodeClassRef, Requirement, Taint};

pub use claims::{ClaimBuilder, node_claim};
pub use nodes::{NodeBuilder, node};
pub use pods::{PodBuilder, pod};
pub use pools::{PoolBuilder, node_pool};

/// A class of fake nodes; the API server makes it ready at once.
pub fn kwok_class(name: &str) -> KWOKNodeClass {
    KWOKNodeClass::new(name, KWOKNodeClassSpec::default())
}

/// A reference to a KWOKNodeClass.
pub fn kwok_class_ref(name: &str) -> NodeClassRef {
    NodeClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: name.into() }
}

/// A requirement as manifests write it; operators without values take an empty list.
pub fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    let values = (!values.is_empty()).then(|| values.iter().map(ToString::to_string).collect());
    Requirement { key: key.into(), operator: operator.into(), values, min_values: None }
}

/// A taint without a value.
pub fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.into(), effect: effect.into(), ..Taint::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_says_only_what_it_was_told() {
        let pool = node_pool("default").weight(3).requirement("kubernetes.io/arch", "In", &["amd64"]).build();
        assert_eq!(
            serde_json::to_value(&pool).unwrap(),
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
                "spec": {"weight": 3, "template": {"spec": {
                    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
            })
        );
    }

    #[test]
    fn a_claim_of_a_pool_carries_its_label() {
        let claim = node_claim("a").pool("default").request("cpu", "1").build();
        let json = serde_json::to_value(&claim).unwrap();
        assert_eq!(json["metadata"]["labels"], json!({"karpenter.sh/nodepool": "default"}));
        assert_eq!(json["spec"]["resources"], json!({"requests": {"cpu": "1"}}));
    }

    #[test]
    fn a_pod_has_one_container_with_the_requests() {
        let pod = pod("web").cpu("1").memory("2Gi").toleration("a").build();
        let json = serde_json::to_value(&pod).unwrap();
        assert_eq!(json["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "1", "memory": "2Gi"}}));
        assert_eq!(json["spec"]["tolerations"], json!([{"key": "a", "operator": "Exists"}]));
    }

    #[test]
    fn a_node_has_what_it_was_given() {
        let node = node("n").fake().capacity("cpu", "4").taint("a", "NoSchedule").ready().build();
        let json = serde_json::to_value(&node).unwrap();
        assert_eq!(json["metadata"]["annotations"], json!({"kwok.x-k8s.io/node": "fake"}));
        assert_eq!(json["status"]["allocatable"], json!({"cpu": "4"}));
        assert_eq!(json["spec"]["taints"], json!([{"key": "a", "effect": "NoSchedule"}]));
        assert_eq!(json["status"]["conditions"][0]["status"], "True");
    }
}
