//! What pods ask for: daemons beside them, taints, spread, affinity, host ports.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, label, name, node_of, workload};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const TYPE: &str = "node.kubernetes.io/instance-type";

/// SCH-71, SCH-74: the pods of a DaemonSet get room on every new node before the pods that it is made for.
#[tokio::test]
async fn daemons_have_room_on_new_nodes() {
    let scene = Scene::new(shared().await, "daemons").await;
    let daemon = scene.pod("agent", "1", json!({}));
    scene.create(workload("DaemonSet", "agent", 0, daemon)).await;
    scene.create(scene.pod("web", "3", json!({}))).await;
    scene.all_wait(1).await;
    scene.create(scene.pool("", json!({}))).await;
    let pods = scene.all_run(2).await;
    assert_eq!(node_of(&pods[0]), node_of(&pods[1]));
    let nodes = scene.nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    // 3.9 of 4 CPUs can be had, which would do for the pod alone.
    assert_eq!(label(&nodes[0], TYPE), "c-8x-amd64-linux");
}

/// SCH-53, LIF-23, LC-13, LC-14, LC-25: taints keep others away; startup taints are on the node until somebody removes them,
/// and only then is it ready and takes the pod that does not tolerate them.
#[tokio::test]
async fn taints_and_startup_taints() {
    let scene = Scene::new(shared().await, "taints").await;
    let startup = json!({"key": "example.com/agent", "effect": "NoSchedule"});
    let pool = json!({"template": {"spec": {"startupTaints": [startup]}}});
    scene.create(scene.pod("intolerant", "1", json!({"spec": {"tolerations": []}}))).await;
    scene.create(scene.pod("tolerant", "1", json!({}))).await;
    scene.all_wait(2).await;
    scene.create(scene.pool("", pool)).await;

    let claim = scene
        .claim("the startup taint is waited for", |claim| {
            condition(claim, "Initialized") == ("Unknown", "StartupTaintsExist")
        })
        .await;
    assert_eq!(condition(&claim, "Registered").0, "True");
    let node = claim["status"]["nodeName"].as_str().unwrap().to_owned();
    let taints = scene.get("Node", &node).await.unwrap().unwrap()["spec"]["taints"].clone();
    for wanted in [startup, scene.taint()] {
        let has = |taint: &Value| taint["key"] == wanted["key"] && taint["effect"] == wanted["effect"];
        assert!(taints.as_array().unwrap().iter().any(has), "{wanted} in {taints}");
    }
    assert!(node_of(&scene.get("Pod", "tolerant").await.unwrap().unwrap()).is_empty());

    scene.patch("Node", &node, json!({"spec": {"taints": [scene.taint()]}})).await;
    scene.claim("the claim is ready", is_ready).await;
    assert_eq!(node_of(&scene.runs("tolerant").await), node);
    let said = scene.event("FailedScheduling", "intolerant").await;
    assert!(said.contains("example.com/scene"), "names the taint: {said}");
    assert_eq!(scene.claims().await.unwrap().len(), 1, "nobody else got a node");
}

fn spread(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}}})
}

/// How many of these pods each value of a node label has.
async fn per(scene: &Scene<'_>, key: &str, app: &str) -> BTreeMap<String, usize> {
    let nodes: BTreeMap<String, Value> =
        scene.nodes().await.unwrap().into_iter().map(|node| (name(&node).to_owned(), node)).collect();
    let mut counts = BTreeMap::new();
    for pod in scene.list("Pod").await.unwrap().iter().filter(|pod| label(pod, "app") == app) {
        *counts.entry(label(&nodes[node_of(pod)], key).to_owned()).or_default() += 1;
    }
    counts
}

/// SCH-138, SCH-139, SCH-144: pods are spread over zones and over hosts as they ask, which kube-scheduler insists on.
#[tokio::test]
async fn pods_are_spread() {
    // kube-scheduler knows only the zones of nodes that are there; with a node for each pod it has no choice.
    let one_cpu = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["1"]}]);
    let small = json!({"template": {"spec": {"requirements": one_cpu}}});
    for (name, key, pods, pool) in [("spread-zones", ZONE, 6, small), ("spread-hosts", HOST, 3, json!({}))] {
        let scene = Scene::new(shared().await, name).await;
        let pod = scene.pod("web", "500m", json!({"spec": {"topologySpreadConstraints": [spread(key, "web")]}}));
        scene.create(workload("Deployment", "web", pods, pod)).await;
        let pods = usize::try_from(pods).unwrap();
        scene.all_wait(pods).await;
        scene.create(scene.pool("", pool)).await;
        scene.all_run(pods).await;
        assert_eq!(scene.claims().await.unwrap().len(), pods, "{name}");
        if key == ZONE {
            let zones: Vec<usize> = per(&scene, ZONE, "web").await.into_values().collect();
            assert!(zones.len() == 4 && zones.iter().all(|pods| (1..=2).contains(pods)), "{zones:?}");
        }
    }
}

/// SCH-51, SCH-142, SCH-145: together on a host, apart in zones, and where a node affinity wants them.
#[tokio::test]
async fn pods_attract_and_repel() {
    let scene = Scene::new(shared().await, "affinity").await;
    let term = |key: &str, app: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {required: term(ZONE, "apart")}}}});
    scene.create(workload("Deployment", "apart", 3, scene.pod("apart", "500m", apart))).await;
    let together = json!({"spec": {"affinity": {"podAffinity": {required: term(HOST, "together")}}}});
    scene.create(workload("Deployment", "together", 3, scene.pod("together", "1", together))).await;
    let wanted = json!({"spec": {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": ["test-zone-d"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["15"]}]}]}}}}});
    scene.create(scene.pod("picky", "1", wanted)).await;
    scene.all_wait(7).await;
    scene.create(scene.pool("", json!({}))).await;
    scene.all_run(7).await;
    assert_eq!(per(&scene, ZONE, "apart").await.into_values().collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(per(&scene, HOST, "together").await.into_values().collect::<Vec<_>>(), [3]);
    let picky = scene.runs("picky").await;
    let node = scene.get("Node", node_of(&picky)).await.unwrap().unwrap();
    assert_eq!((label(&node, ZONE), label(&node, "karpenter.sh/capacity-type")), ("test-zone-d", "on-demand"));
    assert_eq!(label(&node, TYPE), "c-16x-amd64-linux");
}

/// SCH-160, SCH-162: pods with one host port need a host each; another port of the same host is free.
#[tokio::test]
async fn host_ports_need_hosts() {
    let scene = Scene::new(shared().await, "ports").await;
    let pod = |app: &str, port: u16| {
        let mut pod = scene.pod(app, "100m", json!({}));
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": port, "hostPort": port}]);
        workload("Deployment", app, 3, pod)
    };
    scene.create(pod("web", 8080)).await;
    scene.create(pod("log", 9090)).await;
    scene.all_wait(6).await;
    scene.create(scene.pool("", json!({}))).await;
    let pods = scene.all_run(6).await;
    let hosts =
        |app: &str| -> BTreeSet<&str> { pods.iter().filter(|pod| label(pod, "app") == app).map(node_of).collect() };
    assert_eq!((hosts("web").len(), hosts("log").len()), (3, 3));
    assert_eq!(scene.claims().await.unwrap().len(), 3, "both kinds share the hosts");
}
