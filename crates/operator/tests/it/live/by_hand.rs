//! What users do with their own hands.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, is_running, label, name, node_of, workload};

/// API-72, LIF-1, LC-1, LC-2, LC-12, LC-21: a NodeClaim without a pool gets a node that takes pods, and both go with it.
#[tokio::test]
async fn a_claim_made_by_hand_gets_a_node() {
    let scene = Scene::new(shared().await, "by-hand").await;
    scene
        .create(json!({"kind": "NodeClaim", "metadata": {"name": "by-hand", "labels": {"example.com/scene": scene.name},
            "annotations": {"example.com/note": "kept"}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "taints": [scene.taint()],
            "resources": {"requests": {"cpu": "2"}},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m-4x-arm64-linux", "s-4x-arm64-linux"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"]}]}}))
        .await;
    let claim = scene.claim("the claim is ready", is_ready).await;
    assert_eq!(claim["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(claim["metadata"].get("ownerReferences"), None);
    let node = scene.get("Node", claim["status"]["nodeName"].as_str().unwrap()).await.unwrap().unwrap();
    assert_eq!(label(&node, "node.kubernetes.io/instance-type"), "s-4x-arm64-linux", "the cheaper one");
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), "test-zone-b");
    assert_eq!(node["metadata"]["annotations"]["example.com/note"], "kept");
    assert_eq!(label(&node, "karpenter.sh/nodepool"), "");

    scene.create(scene.pod("web", "2", json!({}))).await;
    assert_eq!(node_of(&scene.runs("web").await), name(&node));
    assert_eq!(scene.claims().await.unwrap().len(), 1, "the pod needs no other");
    scene.delete("NodeClaim", "by-hand").await;
    scene.nothing_left().await;
}

/// LIF-45, LIF-46, LC-49: a deleted Node is drained first, its claim goes with it, and its pods get another node.
#[tokio::test]
async fn a_node_deleted_by_hand_is_drained_and_replaced() {
    let scene = Scene::new(shared().await, "node-deleted").await;
    let eight = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["8"]}]);
    scene.create(scene.pool("", json!({"template": {"spec": {"requirements": eight}}}))).await;
    let pod = scene.pod("web", "1", json!({}));
    scene.create(workload("Deployment", "web", 3, pod)).await;
    let pods = scene.all_run(3).await;
    let old = node_of(&pods[0]).to_owned();
    let claim = scene.claim("a ready claim", is_ready).await;
    scene.delete("Node", &old).await;
    scene
        .wait("node and claim are gone", async || {
            let gone =
                scene.get("Node", &old).await?.is_none() && scene.get("NodeClaim", name(&claim)).await?.is_none();
            Ok(gone.then_some(()))
        })
        .await;
    scene.event("Evicted", name(&pods[0])).await;
    let pods = scene
        .wait("three pods run elsewhere", async || {
            let pods = scene.list("Pod").await?;
            let well = pods.iter().filter(|pod| is_running(pod) && node_of(pod) != old).count();
            Ok((well == 3 && pods.len() == 3).then_some(pods))
        })
        .await;
    assert!(pods.iter().all(|pod| node_of(pod) == node_of(&pods[0])));
    assert_eq!(scene.claims().await.unwrap().len(), 1);
}

/// API-282, API-283, LC-15: a node that comes late is waited for, and registers when it comes. That it never comes is
/// shown in virtual time (`karpenter-sim`, and LC-34 in `karpenter-lifecycle`).
#[tokio::test]
async fn a_late_node_is_waited_for() {
    let scene = Scene::new(shared().await, "late").await;
    scene
        .create(json!({"kind": "KWOKNodeClass", "metadata": {"name": "late"}, "spec": {"nodeRegistrationDelay": "6s"}}))
        .await;
    let pool = json!({"template": {"spec": {"nodeClassRef": {"name": "late"}}}});
    scene.create(scene.pool("", pool)).await;
    scene.create(scene.pod("web", "1", json!({}))).await;
    let waits = |claim: &Value| {
        condition(claim, "Launched").0 == "True" && condition(claim, "Registered") == ("Unknown", "NodeNotFound")
    };
    let claim = scene.claim("the node is waited for", waits).await;
    scene.runs("web").await;
    assert_eq!(scene.claims().await.unwrap().len(), 1, "{}", name(&claim));
}
