//! One odd object says what is wrong with it, and everything else goes on.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, name};

fn claim(scene: &Scene<'_>, name: &str, class: &str, instance_type: &str) -> Value {
    json!({"kind": "NodeClaim", "metadata": {"name": name, "labels": {"example.com/scene": scene.name}}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}]}})
}

/// SCH-17, SCH-20, LIF-17, LIF-19, LIF-90, LIF-91, LC-5, LC-93, LC-94, Y9: broken affinity, a pool of no class, a pool that is
/// invalid, a node with absurd amounts, claims that cannot be launched, a claim edited by hand.
#[tokio::test]
async fn odd_objects_do_not_stop_the_others() {
    let scene = Scene::new(shared().await, "odd").await;
    // A pool whose class is nowhere, and one that passes the API server but not our own checks.
    let nowhere = json!({"weight": 90, "template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    scene.create(scene.pool("nowhere", nowhere)).await;
    let unknown = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["xspot"]}]);
    let invalid = json!({"weight": 80, "template": {"spec": {"requirements": unknown}}});
    scene.create(scene.pool("invalid", invalid)).await;
    // kube-scheduler cannot read this either; the API server can.
    let broken = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "example.com/size", "operator": "Gt", "values": ["many"]}]}]}}}}});
    scene.create(scene.pod("broken", "1", broken)).await;
    // Quantities that cannot be read never get into a Node; absurd ones do.
    scene
        .create(json!({"kind": "Node", "metadata": {"name": "odd-node"}, "status": {
            "capacity": {"cpu": "1e18", "memory": "9e99", "pods": "9e18", "hugepages-2Mi": "9e99"},
            "allocatable": {"cpu": "1u", "memory": "9e99", "pods": "0"}}}))
        .await;
    scene.create(claim(&scene, "odd-class", "nowhere", "c-2x-amd64-linux")).await;
    scene.create(scene.pool("", json!({"template": {"spec": {"terminationGracePeriod": "1h"}}}))).await;

    // Everything else goes on.
    scene.create(scene.pod("web", "1", json!({}))).await;
    scene.runs("web").await;
    let ours = scene.claim("a ready claim", is_ready).await;
    assert_eq!(ours["metadata"]["labels"]["karpenter.sh/nodepool"], "odd");

    // Each one says what is wrong.
    for (pool, type_, reason) in [
        ("odd-nowhere", "NodeClassReady", "NodeClassNotFound"),
        ("odd-invalid", "ValidationSucceeded", "NodePoolValidationFailed"),
    ] {
        let said = |pool: &Value| condition(pool, type_) == ("False", reason) && condition(pool, "Ready").0 == "False";
        scene.wait(reason, async || Ok(scene.get("NodePool", pool).await?.filter(said))).await;
    }
    let said = scene.event("FailedScheduling", "broken").await;
    assert!(said.contains("matchExpressions[0]") && said.contains("many"), "{said}");
    // While a claim may still be launched nothing else is planned, so this one comes late and does not stay.
    scene.create(claim(&scene, "odd-type", "default", "no-such-type")).await;
    let failed = scene.claim("a launch that fails", |claim| condition(claim, "Launched").1 == "LaunchFailed").await;
    assert_eq!(name(&failed), "odd-type");
    assert!(failed["status"].to_string().contains("no-such-type"), "{failed}");
    scene.delete("NodeClaim", "odd-type").await;
    let said = scene.event("InsufficientCapacityError", "odd-class").await;
    assert!(said.contains("nowhere"), "{said}");
    scene.wait("it is given up", async || Ok(scene.get("NodeClaim", "odd-class").await?.is_none().then_some(()))).await;

    // Edited by hand: what the API server lets through neither stops the claim nor the node from going.
    let refused = scene.try_patch("NodeClaim", name(&ours), &json!({"spec": {"expireAfter": "1h"}})).await;
    assert!(refused.unwrap_err().to_string().contains("immutable"));
    scene
        .patch("NodeClaim", name(&ours), json!({"metadata": {
            "labels": {"karpenter.sh/nodepool": null, "karpenter.sh/capacity-type": "odd"},
            "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "soon", "karpenter.sh/nodepool-hash": "edited"}}}))
        .await;
    scene.create(scene.pod("more", "3", json!({}))).await;
    scene.runs("more").await;
    scene.delete("NodeClaim", name(&ours)).await;
    scene.wait("it goes", async || Ok(scene.get("NodeClaim", name(&ours)).await?.is_none().then_some(()))).await;
    scene.delete("Node", "odd-node").await;
}
