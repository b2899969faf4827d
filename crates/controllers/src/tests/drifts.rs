//! Which changes of a pool make its nodes drift.

use karpenter_api::conditions::Conditioned as _;
use serde_json::{Value, json};

use super::desk::{Desk, says};
use super::disrupting::{SMALL, add_node};
use super::*;

/// What `Drifted` says of a node after its pool was changed.
async fn after(change: &Value) -> String {
    let desk = Desk::start().await;
    let requirements = json!([
        { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a", "test-zone-b"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
    ]);
    let taints = json!([
        { "key": "example.com/x", "value": "1", "effect": "NoSchedule" },
        { "key": "example.com/y", "value": "1", "effect": "NoSchedule" },
    ]);
    let template = json!({
        "metadata": { "labels": { "example.com/l": "1" }, "annotations": { "example.com/a": "1" } },
        "spec": { "requirements": requirements, "taints": taints, "expireAfter": "720h" },
    });
    desk.add_ready_pool("blue", json!({ "spec": { "template": template } })).await;
    let rehash = async || {
        crate::nodepool_hash::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
        desk.look().await;
    };
    rehash().await;
    let pool: NodePool = desk.get("blue").await.unwrap();
    let hash = |key: &str| pool.annotations()[key].clone();
    let keys = ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"];
    let annotations: serde_json::Map<String, Value> =
        keys.map(|key| (key.to_owned(), hash(key).into())).into_iter().collect();
    let labels = json!({ "example.com/l": "1" });
    add_node(&desk, "a", SMALL, json!({ "metadata": { "annotations": annotations, "labels": labels } })).await;
    let drifted = async || {
        crate::nodeclaim_disruption::reconcile(desk.ctx.clone(), "a".to_owned()).await.unwrap();
        desk.look().await;
        says(desk.claim("a").await.conditions(), "Drifted").1.to_owned()
    };
    assert_eq!(drifted().await, "", "as it was made");
    desk.change::<NodePool>("blue", json!({ "spec": change })).await;
    rehash().await;
    drifted().await
}

/// DC-150, DIS-153: what a node is made from makes it drift when it changes, except requirements, which are compared by themselves; in
/// another order they are the same, and so are taints. What is about the pool alone does not.
#[tokio::test(start_paused = true)]
async fn dc_150_changes_of_a_pool() {
    let template = |change: Value| json!({ "template": change });
    let of_spec = |change: Value| json!({ "template": { "spec": change } });
    let taint = |key: &str, value: &str| json!({ "key": key, "value": value, "effect": "NoSchedule" });
    for change in [
        template(json!({ "metadata": { "annotations": { "example.com/a": "2" } } })),
        template(json!({ "metadata": { "labels": { "example.com/l": "2" } } })),
        of_spec(json!({ "taints": [taint("example.com/x", "2"), taint("example.com/y", "1")] })),
        of_spec(json!({ "startupTaints": [taint("example.com/s", "1")] })),
        of_spec(json!({ "nodeClassRef": { "name": "other" } })),
        of_spec(json!({ "expireAfter": "100h" })),
        of_spec(json!({ "terminationGracePeriod": "5m" })),
    ] {
        assert_eq!(after(&change).await, "NodePoolDrifted", "{change}");
    }
    let reversed = json!([
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b", "test-zone-a"] },
    ]);
    for change in [
        json!({ "weight": 7 }),
        json!({ "limits": { "cpu": "100" } }),
        json!({ "disruption": { "consolidateAfter": "5m", "budgets": [{ "nodes": "1" }] } }),
        of_spec(json!({ "requirements": reversed })),
        of_spec(json!({ "taints": [taint("example.com/y", "1"), taint("example.com/x", "1")] })),
    ] {
        assert_eq!(after(&change).await, "", "{change}");
    }
}
