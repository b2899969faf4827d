//! The autoscaler ends at a bad moment, and another one takes over (LIF-130's table, D7).

use std::time::Duration;

use karpenter_api::kinds::NodeClaim;
use karpenter_sim::cloud::Trouble;
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// Lets time pass in small steps until something is so. An hour is more than anything here takes.
pub(crate) async fn until(w: &World, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..36_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        w.check();
    }
    panic!("not within an hour: {what}\n{}", w.journal.tail(40));
}

pub(crate) fn status(claim: &NodeClaim, condition: &str) -> Option<(String, jiff::Timestamp)> {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.into_iter().find(|known| known.type_ == condition)?;
    Some((found.status.to_string(), found.last_transition_time.0))
}

pub(crate) async fn delete_claim(w: &World, name: &str) {
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    claims.delete(name, &DeleteParams::default()).await.unwrap();
}

/// A launch that the cloud carried out, but whose answer never arrived; then the autoscaler ends.
async fn lost_launch(seed: u64) -> World {
    let w = World::seeded(seed).pool(node_pool("default")).start().await;
    w.cloud.trouble(Trouble { answer_lost: 1.0, ..Trouble::default() });
    w.deploy("web", 1, cpu("1")).await;
    until(&w, "a machine runs", async || !w.cloud.running().is_empty()).await;
    w.stop_autoscaler();
    w.cloud.trouble(Trouble::default());
    let claims = w.claims().await;
    assert!(claims.iter().all(|claim| claim.status.as_ref().and_then(|s| s.provider_id.as_ref()).is_none()));
    w
}

/// LC-131, LIF-130, Y1: asked again, the cloud answers with the machine that is there.
#[tokio::test(start_paused = true)]
async fn a_lost_launch_is_found_again() {
    let w = lost_launch(21).await;
    w.start_autoscaler();
    w.settle().await;
    assert_eq!((w.cloud.running().len(), w.claims().await.len(), w.running_pods().len()), (1, 1, 1));
}

/// LC-132, LIF-43, Y1: a claim that never learned of its machine does not leave it behind.
#[tokio::test(start_paused = true)]
async fn a_lost_launch_ends_with_its_claim() {
    let w = lost_launch(22).await;
    w.remove("web").await;
    delete_claim(&w, &w.claims().await[0].name_any()).await;
    w.start_autoscaler();
    until(&w, "nothing is left", async || w.cloud.running().is_empty() && w.claims().await.is_empty()).await;
}

/// LIF-130: launched, joined, half registered: whatever was reached is the start of the next.
#[tokio::test(start_paused = true)]
async fn every_step_of_a_young_claim_is_carried_on() {
    for step in ["Launched", "Registered", "Initialized"] {
        let w = World::seeded(23).pool(node_pool("default")).start().await;
        w.deploy("web", 1, cpu("1")).await;
        let reached = async || w.claims().await.iter().any(|claim| status(claim, step).is_some_and(|s| s.0 == "True"));
        until(&w, step, reached).await;
        w.stop_autoscaler();
        w.advance(Duration::from_secs(30)).await;
        w.start_autoscaler();
        w.settle().await;
        assert_eq!((w.cloud.running().len(), w.running_pods().len()), (1, 1), "{step}");
        let claims = w.claims().await;
        assert!(status(&claims[0], "Ready").is_some_and(|ready| ready.0 == "True"), "{step}");
    }
}

/// LC-57, LC-63, LC-135, LIF-52, Y10: a drain goes on where it was, and ends soon after its budget does.
#[tokio::test(start_paused = true)]
async fn a_drain_is_carried_on() {
    let w = World::seeded(24).pool(node_pool("default")).start().await;
    let never = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    });
    w.apply(never).await;
    w.deploy("web", 1, cpu("1")).await;
    w.settle().await;
    let name = w.claims().await[0].name_any();
    delete_claim(&w, &name).await;
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    let drained = async || status(&claims.get(&name).await.unwrap(), "Drained");
    until(&w, "the drain begins", async || drained().await.is_some()).await;
    let began = drained().await;
    w.stop_autoscaler();
    w.advance(Duration::from_secs(20)).await;
    w.start_autoscaler();
    w.advance(Duration::from_mins(1)).await;
    assert_eq!(drained().await, began, "neither begun anew nor given up");
    assert_eq!(w.running_pods().len(), 1, "its budget is kept");

    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = Api::namespaced(w.client.clone(), "default");
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    until(&w, "the claim is gone", async || claims.get_opt(&name).await.unwrap().is_none()).await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 1);
}

/// LC-136, LIF-130: the machine is gone, the finalizers are not.
#[tokio::test(start_paused = true)]
async fn finalizers_go_after_a_crash() {
    let w = World::seeded(25).pool(node_pool("default")).start().await;
    w.deploy("web", 1, cpu("1")).await;
    w.settle().await;
    w.remove("web").await;
    let name = w.claims().await[0].name_any();
    delete_claim(&w, &name).await;
    until(&w, "the machine is gone", async || w.cloud.running().is_empty()).await;
    w.stop_autoscaler();
    w.advance(Duration::from_mins(1)).await;
    w.start_autoscaler();
    until(&w, "nothing is left", async || w.claims().await.is_empty() && w.nodes().await.is_empty()).await;
}

fn static_pool(replicas: u32, expire_after: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "static"},
        "spec": {"replicas": replicas, "template": {"spec": {
            "expireAfter": expire_after,
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "Exists"},
            ],
        }}},
    })
}

/// LC-102, LC-105, LC-137, LIF-105: whoever comes after counts what is there before it adds to it.
#[tokio::test(start_paused = true)]
async fn a_static_pool_ends_at_its_size() {
    let w = World::seeded(26).start().await;
    w.apply(static_pool(5, "Never")).await;
    until(&w, "some are there", async || !w.claims().await.is_empty()).await;
    for _ in 0..3 {
        w.stop_autoscaler();
        w.start_autoscaler();
        w.advance(Duration::from_secs(2)).await;
    }
    until(&w, "five nodes", async || w.nodes().await.len() >= 5).await;
    w.advance(Duration::from_mins(5)).await;
    assert_eq!((w.claims().await.len(), w.cloud.running().len()), (5, 5));
}

/// LC-149, LIF-75, Y29: who expires together goes together.
#[tokio::test(start_paused = true)]
async fn many_expire_at_once() {
    let w = World::seeded(27).start().await;
    w.apply(static_pool(30, "10m")).await;
    until(&w, "thirty nodes", async || w.nodes().await.len() >= 30).await;
    let first: Vec<String> = w.claims().await.iter().map(ResourceExt::name_any).collect();
    let born = w.claims().await.iter().filter_map(ResourceExt::creation_timestamp).map(|time| time.0).max().unwrap();
    let due = born + Duration::from_mins(10);
    tokio::time::sleep(due.duration_since(w.clock.now()).try_into().unwrap()).await;
    w.advance(Duration::from_secs(5)).await;
    let living = w.claims().await;
    let left =
        living.iter().filter(|claim| first.contains(&claim.name_any()) && claim.metadata.deletion_timestamp.is_none());
    assert_eq!(left.count(), 0);
}
