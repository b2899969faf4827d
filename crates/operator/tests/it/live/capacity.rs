//! Capacity that the provider does not know of, and capacity that is kept for later.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, label, node_of};

const TYPE: &str = "node.kubernetes.io/instance-type";

/// SCH-163, SCH-175, SCH-179: an overlay gives a type a resource that the provider does not know of; a pod that asks for it gets that
/// type, though others are cheaper.
#[tokio::test]
async fn an_overlay_adds_a_resource() {
    let scene = Scene::new(shared().await, "overlay").await;
    scene.create(scene.pool("", json!({}))).await;
    let mut pod = scene.pod("mount", "1", json!({}));
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"example.com/fuse": "1"});
    scene.create(pod).await;
    let said = scene.event("FailedScheduling", "mount").await;
    assert!(said.contains("example.com/fuse"), "names what nobody has: {said}");

    scene
        .create(json!({"kind": "NodeOverlay", "metadata": {"name": "overlay"}, "spec": {
            "requirements": [
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["overlay"]},
                {"key": TYPE, "operator": "In", "values": ["m-4x-amd64-linux"]}],
            "capacity": {"example.com/fuse": "4"}}}))
        .await;
    scene
        .wait("the overlay is in force", async || Ok(scene.get("NodeOverlay", "overlay").await?.filter(is_ready)))
        .await;
    let node = scene.get("Node", node_of(&scene.runs("mount").await)).await.unwrap().unwrap();
    assert_eq!(label(&node, TYPE), "m-4x-amd64-linux");
    assert_eq!(scene.claims().await.unwrap().len(), 1);
}

/// SCH-180, SCH-184, SCH-186, API-106: room is kept for pods that may come; a pod that takes it has a node at once, and the
/// room is made again.
#[tokio::test]
async fn a_buffer_keeps_room() {
    let scene = Scene::new(shared().await, "buffer").await;
    let four = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]);
    scene.create(scene.pool("", json!({"template": {"spec": {"requirements": four}}}))).await;
    let template = scene.pod("room", "3", json!({}));
    scene
        .create(json!({"kind": "PodTemplate", "metadata": {"name": "room"}, "template": {"spec": template["spec"]}}))
        .await;
    scene
        .create(json!({"kind": "CapacityBuffer", "metadata": {"name": "room"},
            "spec": {"podTemplateRef": {"name": "room"}, "replicas": 2}}))
        .await;
    let ready = async |count: usize| {
        scene
            .wait(&format!("{count} nodes"), async || {
                let claims = scene.claims().await?;
                Ok((claims.len() == count && claims.iter().all(is_ready)).then_some(()))
            })
            .await;
    };
    ready(2).await;
    let resolved =
        |buffer: &Value| condition(buffer, "ReadyForProvisioning").0 == "True" && buffer["status"]["replicas"] == 2;
    scene.wait("the buffer says so", async || Ok(scene.get("CapacityBuffer", "room").await?.filter(resolved))).await;
    assert!(scene.list("Pod").await.unwrap().is_empty(), "room, not pods");

    let before: Vec<Value> = scene.nodes().await.unwrap();
    scene.create(scene.pod("web", "3", json!({}))).await;
    let pod = scene.runs("web").await;
    assert!(before.iter().any(|node| node["metadata"]["name"] == node_of(&pod)), "it waited for nobody");
    ready(3).await;
}
