//! Volumes: nodes where they can be had, and nodes that wait for them to be detached.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, label, name, node_of};

const ZONE: &str = "topology.kubernetes.io/zone";

fn volume(name: &str, class: &str, zone: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}}})
}

fn volume_claim(name: &str, class: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
}

fn uses(claim: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}})
}

/// SCH-151, SCH-152, SCH-153: a bound volume says where its pod's node must be; so does the class of one that waits for its
/// first consumer; a pod whose claim does not exist is told so.
#[tokio::test]
async fn nodes_are_where_the_volumes_are() {
    let scene = Scene::new(shared().await, "volumes").await;
    scene.create(scene.pool("", json!({}))).await;
    for (class, mode, zone) in [("bound", "Immediate", "test-zone-c"), ("waits", "WaitForFirstConsumer", "test-zone-b")]
    {
        scene
            .create(json!({"kind": "StorageClass", "metadata": {"name": class}, "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": mode, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]}))
            .await;
        scene.create(volume(class, class, zone)).await;
        scene.create(volume_claim(class, class)).await;
    }
    let is_bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    scene
        .wait("a bound volume", async || Ok(scene.get("PersistentVolumeClaim", "bound").await?.filter(is_bound)))
        .await;
    for (pod, zone) in [("bound", "test-zone-c"), ("waits", "test-zone-b")] {
        scene.create(scene.pod(pod, "1", uses(pod))).await;
        let node = scene.get("Node", node_of(&scene.runs(pod).await)).await.unwrap().unwrap();
        assert_eq!(label(&node, ZONE), zone, "{pod}");
    }
    scene.create(scene.pod("lost", "1", uses("nowhere"))).await;
    let said = scene.event("FailedScheduling", "lost").await;
    assert!(said.contains("nowhere"), "names the missing claim: {said}");
}

/// LIF-64, LIF-65, LIF-66, LC-74: a node that is drained waits for its volumes to be detached, says so, and then goes.
#[tokio::test]
async fn a_node_waits_for_its_volumes() {
    let scene = Scene::new(shared().await, "detach").await;
    scene.create(scene.pool("", json!({}))).await;
    scene.create(scene.pod("web", "1", json!({}))).await;
    let node = node_of(&scene.runs("web").await).to_owned();
    scene.create(volume("detach", "none", "test-zone-a")).await;
    scene
        .create(json!({"kind": "VolumeAttachment", "metadata": {"name": "detach"}, "spec": {
            "attacher": "example.com", "nodeName": node, "source": {"persistentVolumeName": "detach"}}}))
        .await;
    let claim = scene.claim("a ready claim", is_ready).await;
    scene.delete("NodeClaim", name(&claim)).await;
    scene
        .claim("the attachment is waited for", |claim| {
            condition(claim, "VolumesDetached") == ("Unknown", "AwaitingVolumeDetachment")
        })
        .await;
    let said = scene.event("AwaitingVolumeDetachment", &node).await;
    assert!(said.contains("detach"), "{said}");
    assert!(scene.get("Node", &node).await.unwrap().is_some(), "it waits");
    scene.delete("VolumeAttachment", "detach").await;
    scene.gone(name(&claim)).await;
}
