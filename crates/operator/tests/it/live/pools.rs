//! What pools say: limits, weights, a fixed number of nodes.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, is_ready, label, name, node_of};

const POOL: &str = "karpenter.sh/nodepool";

/// API-51, SCH-78, SCH-79: a pool gives what its limits allow, says that it has no more, and goes on when it may.
#[tokio::test]
async fn a_limit_holds_until_it_is_raised() {
    let scene = Scene::new(shared().await, "limits").await;
    scene.create(scene.pool("", json!({"limits": {"cpu": "5"}}))).await;
    scene.create(scene.pod("first", "3", json!({}))).await;
    scene.runs("first").await;
    scene.create(scene.pod("second", "3", json!({}))).await;
    let said = scene.event("FailedScheduling", "second").await;
    assert!(said.contains("nodepool limits"), "names the pool and its limit: {said}");
    assert_eq!(scene.claims().await.unwrap().len(), 1);
    let usage = |pool: &Value| pool["status"]["resources"]["cpu"] == "4";
    scene.wait("the usage is shown", async || Ok(scene.get("NodePool", "limits").await?.filter(usage))).await;

    scene.patch("NodePool", "limits", json!({"spec": {"limits": {"cpu": "8"}}})).await;
    scene.all_run(2).await;
    assert_eq!(scene.claims().await.unwrap().len(), 2);
}

/// API-52, SCH-84: the heavier pool serves first, the lighter one what the heavier cannot.
#[tokio::test]
async fn the_heavier_pool_is_used_first() {
    let scene = Scene::new(shared().await, "weights").await;
    // In the order of the alphabet the other one would come first.
    scene.create(scene.pool("z-light", json!({"weight": 1}))).await;
    scene.create(scene.pool("a-heavy", json!({"weight": 50, "limits": {"nodes": "1"}}))).await;
    for pool in ["weights-z-light", "weights-a-heavy"] {
        scene.wait("the pool is ready", async || Ok(scene.get("NodePool", pool).await?.filter(is_ready))).await;
    }
    for (pod, want) in [("first", "weights-a-heavy"), ("second", "weights-z-light")] {
        // Too much for what is left on the first one's node.
        scene.create(scene.pod(pod, "3", json!({}))).await;
        let node = scene.get("Node", node_of(&scene.runs(pod).await)).await.unwrap().unwrap();
        assert_eq!(label(&node, POOL), want, "{pod}");
    }
}

/// LIF-104, LIF-105, LIF-106, LIF-108, LC-98, LC-102: a static pool has as many nodes as it says, pods or not, up to its
/// limit, and none that is not counted.
#[tokio::test]
async fn a_static_pool_has_its_number_of_nodes() {
    let scene = Scene::new(shared().await, "static").await;
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]}]);
    let pool = json!({"replicas": 2, "limits": {"nodes": "3"}, "template": {"spec": {"requirements": types}}});
    scene.create(scene.pool("", pool)).await;
    let reaches = async |count: usize| {
        scene
            .wait(&format!("{count} nodes"), async || {
                let (claims, nodes) = (scene.claims().await?, scene.nodes().await?);
                let shown = scene.get("NodePool", "static").await?.unwrap_or_default()["status"]["nodes"].clone();
                let ready = claims.iter().filter(|claim| is_ready(claim)).count();
                Ok(([claims.len(), nodes.len(), ready] == [count; 3] && shown == count).then_some(()))
            })
            .await;
    };
    reaches(2).await;
    // One node has a pod; it is not the one that goes.
    scene.create(scene.pod("web", "1", json!({}))).await;
    let kept = node_of(&scene.runs("web").await).to_owned();
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    scene.patch("NodePool", "static/scale", scale(5)).await;
    reaches(3).await;
    scene.patch("NodePool", "static/scale", scale(1)).await;
    reaches(1).await;
    assert_eq!(name(&scene.nodes().await.unwrap()[0]), kept);
    assert_eq!(scene.told("Evicted", "web").await.unwrap(), None);

    scene.delete("NodePool", "static").await;
    scene.nothing_left().await;
}
