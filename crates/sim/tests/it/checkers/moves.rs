//! What must hold when nodes are taken away on purpose, and worlds in which it does not.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::EvictParams;

use super::*;

/// A claim that a command has chosen.
fn chosen(name: &str, method: &str) -> Value {
    let mut chosen = claim(name);
    let command = json!({"id": "c1", "method": method, "nodes": 1}).to_string();
    chosen["metadata"]["annotations"] = json!({"karpenter.sh/disruption-command": command});
    chosen
}

async fn say(w: &World, claim: &str, status: Value) {
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    let patch = Patch::Merge(json!({ "status": status }));
    claims.patch_status(claim, &PatchParams::default(), &patch).await.unwrap();
}

/// Launches what is cheapest, and says so.
async fn launch(w: &World, mut claim: Value) {
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    let machine = w.cloud.create(&claim_view(&name, &format!("uid-of-{name}"))).await.unwrap();
    let bought = w.cloud.bills()[&machine.provider_id].instance_type.clone();
    claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(bought);
    w.apply(claim).await;
    say(w, &name, json!({"providerID": machine.provider_id})).await;
}

/// Somebody saves money by buying what is there already.
#[tokio::test(start_paused = true)]
async fn a_node_replaced_by_its_like() {
    for (method, sound) in [("single", false), ("drift", true)] {
        let w = quiet(13).without_autoscaler().pool(node_pool("default")).start().await;
        launch(&w, chosen("old", method)).await;
        assert_eq!(w.violations(), []);
        let mut new = claim("new");
        new["metadata"]["annotations"] = json!({"karpenter.sh/replacement-for": "c1"});
        launch(&w, new).await;
        let found = w.violations();
        assert_eq!(found.is_empty(), sound, "{method}: {found:?}");
        let same = |v: &Violation| matches!(v, Violation::SameAgain { claim, .. } if claim == "new");
        assert_eq!(found.iter().any(same), !sound, "{method}: {found:?}");
    }
}

async fn cordon(w: &World, node: &str, cordoned: bool) {
    let nodes: Api<Node> = Api::all(w.client.clone());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
    nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
}

/// The one pod there is has to go.
async fn evict(w: &World) {
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let running = w.running_pods();
    assert_eq!(running.len(), 1, "{}", w.journal.tail(30));
    pods.evict(&running[0], &EvictParams::default()).await.unwrap();
}

/// Two nodes that commands have chosen, and a pod on the first of them.
async fn two_chosen_nodes(seed: u64, method: &str) -> World {
    let w = quiet(seed).without_autoscaler().pool(node_pool("default")).start().await;
    for (name, cordoned) in [("one", false), ("two", true)] {
        w.apply(node(name, "2")).await;
        cordon(&w, name, cordoned).await;
        w.apply(chosen(name, method)).await;
        say(&w, name, json!({"nodeName": name})).await;
    }
    w.deploy("web", 1, cpu("1")).await;
    assert_eq!(found(&w, Duration::from_secs(30)).await, []);
    assert_eq!(w.running_pods().len(), 1);
    w
}

/// A node is emptied before there is room for its pod elsewhere.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_left_waiting() {
    let w = two_chosen_nodes(14, "drift").await;
    cordon(&w, "one", true).await;
    evict(&w).await;
    assert_eq!(found(&w, Duration::from_mins(2)).await, [], "a replacement may take that long");
    let late = found(&w, Duration::from_mins(1)).await;
    assert!(matches!(&late[..], [Violation::LeftWaiting { pod }] if pod.starts_with("web-")), "{late:?}");
}

/// A pod is sent to a node that goes next, in a cluster that is as it was.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_moved_again() {
    for (method, steady) in [("multi", true), ("multi", false), ("drift", true)] {
        let w = two_chosen_nodes(15, method).await;
        if steady {
            w.steady();
        }
        for (from, to) in [("one", "two"), ("two", "one")] {
            cordon(&w, from, true).await;
            cordon(&w, to, false).await;
            evict(&w).await;
            let found = found(&w, Duration::from_secs(30)).await;
            let again = matches!(&found[..], [Violation::MovedAgain { .. }]);
            assert_eq!(again, steady && method == "multi" && from == "two", "{method}: {found:?}");
            assert!(again || found.is_empty(), "{found:?}");
        }
    }
}
