//! Every check can fail: for each of them a world that is not as it must be.

mod moves;

use std::time::Duration;

use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_platform::CloudProvider as _;
use karpenter_platform::contract::claim_view;
use karpenter_sim::workloads::Patience;
use karpenter_sim::world::{Builder, Violation, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::crash::{delete_claim, until};

/// A world in which what is found is no failure yet.
fn quiet(seed: u64) -> Builder {
    World::seeded(seed).without_checks()
}

/// Everything that is found within this time.
async fn found(w: &World, time: Duration) -> Vec<Violation> {
    let mut found = Vec::new();
    for _ in 0..time.as_secs().div_ceil(5) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        found.extend(w.violations());
    }
    found
}

fn pod(name: &str, node: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [
            {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}},
        ]},
    })
}

fn node(name: &str, cpus: &str) -> Value {
    let amounts = json!({"cpu": cpus, "memory": "8Gi", "pods": "10"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

#[tokio::test(start_paused = true)]
async fn an_overfull_node() {
    let w = quiet(1).without_autoscaler().start().await;
    w.apply(node("small", "2")).await;
    w.apply(pod("a", "small", "1")).await;
    w.apply(pod("b", "small", "1")).await;
    assert_eq!(w.violations(), []);
    w.apply(pod("c", "small", "1m")).await;
    let found = w.violations();
    assert!(
        matches!(&found[..], [Violation::NodeOverfull { node, resource, .. }] if node == "small" && resource == "cpu")
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod() {
    // Nobody collects it.
    let patience = Patience { orphan: Duration::from_hours(9), ..Patience::default() };
    let w = quiet(2).without_autoscaler().patience(patience).start().await;
    w.apply(pod("a", "gone", "1")).await;
    assert_eq!(found(&w, Duration::from_mins(5)).await, []);
    let found = found(&w, Duration::from_mins(1)).await;
    assert!(matches!(&found[..], [Violation::PodLost { pod, .. }, ..] if pod == "a"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim() {
    let w = quiet(3).without_autoscaler().start().await;
    w.cloud.create(&claim_view("nobody", "uid-of-nobody")).await.unwrap();
    assert_eq!(found(&w, Duration::from_mins(10)).await, []);
    let found = found(&w, Duration::from_mins(1)).await;
    assert!(
        matches!(&found[..], [Violation::MachineWithoutClaim { claim_uid, .. }, ..] if claim_uid == "uid-of-nobody")
    );
}

/// LC-131: a cloud that does not know what it launched before.
#[tokio::test(start_paused = true)]
async fn a_second_machine_for_a_claim() {
    let w = quiet(4).without_autoscaler().start().await;
    let claim = claim_view("twice", "uid-of-twice");
    let first = w.cloud.create(&claim).await.unwrap();
    assert_eq!(w.cloud.create(&claim).await.unwrap().provider_id, first.provider_id);
    assert_eq!(w.violations(), []);
    w.cloud.forget_launches();
    w.cloud.create(&claim).await.unwrap();
    let found = w.violations();
    assert!(matches!(&found[..], [Violation::SecondMachine { machines, .. }] if machines.len() == 2), "{found:?}");
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_end() {
    let w = quiet(5).without_autoscaler().start().await;
    w.apply(claim("forgotten")).await;
    assert_eq!(found(&w, Duration::from_hours(1)).await, []);
    let found = found(&w, Duration::from_mins(1)).await;
    assert!(matches!(&found[..], [Violation::ClaimWithoutEnd { claim }, ..] if claim == "forgotten"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broken_limit() {
    let w = quiet(6).without_autoscaler().pool(node_pool("default").limit("cpu", "4")).start().await;
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    for (name, sound) in [("first", true), ("second", false)] {
        w.apply(claim(name)).await;
        let status = Patch::Merge(json!({"status": {"capacity": {"cpu": "3"}}}));
        claims.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        let found = w.violations();
        assert_eq!(found.is_empty(), sound, "{found:?}");
        assert!(sound || matches!(&found[..], [Violation::LimitBroken { used: 6000, limit: 4000, .. }]), "{found:?}");
    }
}

/// SCH-78, SCH-239: what leaves is not charged, so its replacement may come while it is still there. (Seeds 150, 200 and 250
/// once found this, with a check that charged for both.)
#[tokio::test(start_paused = true)]
async fn what_leaves_makes_room_for_its_replacement() {
    let w = World::seeded(6).pool(node_pool("default").limit("cpu", "2")).start().await;
    w.apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": {"sim.karpenter.sh/stops-after": "90s"}},
            "spec": {"terminationGracePeriodSeconds": 120, "containers": [
                {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1500m"}}},
            ]},
        }},
    }))
    .await;
    w.settle().await;
    delete_claim(&w, &w.claims().await[0].name_any()).await;
    let both = async || w.claims().await.len() == 2 && w.cloud.running().len() == 2;
    until(&w, "the old node and its replacement are there", both).await;
    w.settle().await;
    assert_eq!((w.claims().await.len(), w.running_pods().len()), (1, 1));
}

/// A machine that died looks well for a while: that is no rest. (Seed 120 once had a claim replaced in calm weather, because
/// the storm had taken its machine back and nobody had missed it yet.)
#[tokio::test(start_paused = true)]
async fn a_world_rests_only_when_every_machine_is_there() {
    let w = World::seeded(12).pool(node_pool("default")).start().await;
    w.deploy("web", 1, cpu("1")).await;
    for taken_back in [false, true] {
        w.settle().await;
        let before = w.claims().await[0].name_any();
        let id = w.cloud.running().keys().next().unwrap().clone();
        if taken_back {
            w.excuse();
            w.cloud.interrupt(&id);
        } else {
            w.lose(&id);
        }
        w.advance(Duration::from_secs(1)).await;
        assert!(w.unrest().is_some_and(|why| why.contains(&id)), "{:?}", w.unrest());
        w.settle().await;
        assert_ne!(w.claims().await[0].name_any(), before);
        assert_eq!((w.running_pods().len(), w.cloud.running().len()), (1, 1));
    }
}

/// Machines are launched and ended all the time, for nobody.
#[tokio::test(start_paused = true)]
async fn churn() {
    let w = quiet(7).without_autoscaler().start().await;
    let mut all = Vec::new();
    for number in 0..11 {
        assert!(!all.iter().any(|found| matches!(found, Violation::Churn { .. })), "{all:?}");
        let mut claim = claim_view("again", &format!("uid-{number}"));
        claim.provider_id = Some(w.cloud.create(&claim).await.unwrap().provider_id);
        all.extend(found(&w, Duration::from_mins(1)).await);
        w.cloud.delete(&claim).await.unwrap();
        all.extend(found(&w, Duration::from_mins(1)).await);
    }
    assert!(all.contains(&Violation::Churn { launches: 11, pods: 0 }), "{all:?}");
}

/// Pods of a budget go without being asked.
#[tokio::test(start_paused = true)]
async fn a_broken_budget() {
    let w = quiet(8).without_autoscaler().start().await;
    w.apply(node("one", "8")).await;
    w.apply(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }))
    .await;
    w.deploy("web", 3, cpu("1")).await;
    assert_eq!(found(&w, Duration::from_mins(1)).await, []);
    assert_eq!(w.running_pods().len(), 3);
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(w.client.clone(), "default");
    for name in &w.running_pods()[..2] {
        pods.delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    }
    // Before the replacements are ready.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let found = w.violations();
    let broken = |v: &Violation| matches!(v, Violation::BudgetBroken { healthy: 1, desired: 2, .. });
    assert!(found.iter().any(broken), "{found:?}");
}

/// Somebody takes away what the autoscaler writes, as often as it is written.
#[tokio::test(start_paused = true)]
async fn a_hot_loop() {
    let w = quiet(9).pool(node_pool("default")).start().await;
    assert_eq!(found(&w, Duration::from_mins(2)).await, []);
    let pools: Api<NodePool> = Api::all(w.client.clone());
    let mut all = Vec::new();
    for _ in 0..600 {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash": null}}}));
        pools.patch("default", &PatchParams::default(), &patch).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        all.extend(w.violations());
    }
    let looped = |v: &Violation| matches!(v, Violation::HotLoop { what, .. } if what.contains("/nodepools/default"));
    assert!(all.iter().any(looped), "{all:?}");
}

/// LIF-128: the lease is somebody else's from one moment to the next, which nobody can know who holds it in good faith.
#[tokio::test(start_paused = true)]
async fn two_leaders() {
    let w = quiet(10).two_replicas().pool(node_pool("default")).start().await;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(w.client.clone(), "kube-system");
    w.deploy("web", 0, cpu("3")).await;
    let mut all = found(&w, Duration::from_secs(30)).await;
    assert_eq!(all, []);
    for round in 1..=20 {
        w.scale("web", round).await;
        // The claim is there: what follows for it comes within seconds.
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if w.claims().await.iter().any(|claim| claim.finalizers().is_empty()) || round > 10 {
                break;
            }
        }
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
        leases.patch("karpenter-leader-election", &PatchParams::default(), &patch).await.unwrap();
        all.extend(found(&w, Duration::from_secs(40)).await);
    }
    let acts = |v: &Violation| matches!(v, Violation::ActsWithoutLease { holder, .. } if holder == "somebody");
    assert!(all.iter().any(acts), "{all:?}");
}
