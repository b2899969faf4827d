//! Nodes that are drained, and the pods on them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::conditions::Conditioned as _;
use karpenter_apiserver::{Fault, Rule, Verb};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::desk::{Desk, says};
use super::*;
use crate::queue::{ReconcileError, Requeue};

fn on(node: &str) -> Value {
    json!({ "spec": { "nodeName": node } })
}

/// A node that is being deleted, with its claim, up to where its pods are asked to leave.
async fn draining(claim: Value, pods: &[(&str, Value)]) -> Desk {
    let desk = Desk::start().await;
    desk.add_launched("a", true, claim).await;
    for (name, pod) in pods {
        let mut pod = pod.clone();
        super::desk::merge(&mut pod, on("a"));
        desk.add_pod(name, pod).await;
    }
    desk.delete::<Node>("a").await;
    for _ in 0..5 {
        desk.terminate("a").await.unwrap();
        if says(desk.claim("a").await.conditions(), "Drained").1 == "Draining" {
            break;
        }
        desk.lifecycle("a").await.unwrap();
    }
    desk
}

async fn evict(desk: &Desk) -> Vec<Result<Requeue, ReconcileError>> {
    let mut outcomes = Vec::new();
    for name in desk.ctx.queues.evictions.take_due() {
        outcomes.push(crate::eviction::reconcile(desk.ctx.clone(), name).await);
    }
    desk.look().await;
    outcomes
}

fn pods(desk: &Desk) -> Api<Pod> {
    Api::namespaced(desk.client.clone(), "default")
}

/// The kubelet lets a pod go.
async fn end(desk: &Desk, name: &str) {
    pods(desk).delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    desk.look().await;
}

/// LC-51, LIF-1, API-250: a node without the label of a class is somebody else's.
#[tokio::test(start_paused = true)]
async fn other_nodes_are_left_alone() {
    let desk = Desk::start().await;
    desk.add_node("theirs", "other://1").await;
    desk.change::<Node>("theirs", json!({ "metadata": { "labels": { "karpenter.kwok.sh/kwoknodeclass": null } } }))
        .await;
    desk.delete::<Node>("theirs").await;
    let before = desk.get::<Node>("theirs").await;
    assert_eq!(desk.terminate("theirs").await.unwrap(), Requeue::OnChange);
    assert_eq!(desk.get::<Node>("theirs").await, before);
}

/// LIF-49, LC-53, API-148: the taint takes the place of another effect of its key, with the label for load balancers.
#[tokio::test(start_paused = true)]
async fn new_pods_are_kept_off() {
    let desk = Desk::start().await;
    desk.add_launched("a", true, json!({})).await;
    let other =
        json!([{ "key": "karpenter.sh/disrupted", "effect": "NoExecute" }, { "key": "mine", "effect": "NoSchedule" }]);
    desk.change::<Node>("a", json!({ "spec": { "taints": other } })).await;
    desk.delete::<Node>("a").await;
    desk.terminate("a").await.unwrap();
    desk.terminate("a").await.unwrap();
    let node = desk.get::<Node>("a").await.unwrap();
    let taints: Vec<String> =
        node.spec.as_ref().unwrap().taints.iter().flatten().map(|t| format!("{}:{}", t.key, t.effect)).collect();
    assert_eq!(taints, ["mine:NoSchedule", "karpenter.sh/disrupted:NoSchedule"]);
    assert_eq!(node.labels()["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
}

/// LIF-52, LIF-60, LC-57, LC-70, LC-150, Y10, Y12, Y32: a budget holds the node; that and the generic waiting are both
/// told; when the budget allows it, nobody waits for the end of a pause.
#[tokio::test(start_paused = true)]
async fn a_budget_holds_the_drain() {
    let desk = draining(json!({}), &[("web", json!({}))]).await;
    // A pod that does not run is not protected by its budget.
    let ready = json!({ "type": "Ready", "status": "True" });
    let runs = kube::api::Patch::Merge(json!({ "status": { "phase": "Running", "conditions": [ready] } }));
    pods(&desk).patch_status("web", &kube::api::PatchParams::default(), &runs).await.unwrap();
    desk.put::<PodDisruptionBudget>(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    }))
    .await;
    desk.look().await;
    desk.events();
    desk.terminate("a").await.unwrap();
    assert_eq!(evict(&desk).await[0].as_ref().unwrap(), &Requeue::Backoff);
    let told: Vec<String> =
        desk.events().into_iter().filter(|(reason, _)| reason == "FailedDraining").map(|(_, m)| m).collect();
    assert_eq!(
        told,
        [
            "Failed to drain node, 1 pods are waiting to be evicted",
            "Failed to drain node, evicting pod violates a PDB (Pod=default/web)"
        ]
    );
    let requests = &desk.ctx.report.metrics.all.pods_eviction_requests;
    assert_eq!(requests.value(["429"]), Some(1.0));
    let api: Api<PodDisruptionBudget> = Api::namespaced(desk.client.clone(), "default");
    let allowed = kube::api::Patch::Merge(
        json!({ "status": { "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 } }),
    );
    desk.put::<PodDisruptionBudget>(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "others" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    }))
    .await;
    api.patch_status("others", &kube::api::PatchParams::default(), &allowed).await.unwrap();
    desk.look().await;
    assert!(desk.ctx.queues.evictions.take_due().is_empty(), "that budget is about others");
    api.patch_status("web", &kube::api::PatchParams::default(), &allowed).await.unwrap();
    desk.look().await;
    assert_eq!(desk.ctx.queues.evictions.take_due().len(), 1, "Y10: asked again at once");
}

/// V15-114, Z14: a refusal of an eviction that nobody waits for any more is no failure, and the pod is forgotten.
#[tokio::test(start_paused = true)]
async fn pods_of_nodes_that_are_gone_are_not_asked_again() {
    let desk = draining(json!({}), &[("web", json!({}))]).await;
    desk.terminate("a").await.unwrap();
    assert_eq!(desk.ctx.memory.asked_in("default").len(), 1);
    desk.change::<Node>("a", json!({ "metadata": { "finalizers": null } })).await;
    assert!(desk.get::<Node>("a").await.is_none());
    desk.api.add_fault(Rule::new(Fault::Throttled { retry_after_seconds: 1 }).subresource("eviction"));
    assert_eq!(evict(&desk).await[0].as_ref().unwrap(), &Requeue::OnChange);
    assert!(desk.ctx.memory.asked_in("default").is_empty());
    assert!(pods(&desk).get("web").await.unwrap().metadata.deletion_timestamp.is_none());
}

/// LIF-60, LIF-63, LC-71, LC-72, V15-20, Z25: evictions are counted under the reason that the claim gives, in its own letters.
#[tokio::test(start_paused = true)]
async fn evictions_have_a_reason() {
    for (reason, want) in [
        (None, "Forceful Termination"),
        (Some("SpotInterruption"), "SpotInterruption"),
        (Some("Unhealthy"), "Unhealthy"),
    ] {
        let desk = draining(json!({}), &[("web", json!({}))]).await;
        if let Some(reason) = reason {
            let mut conditions = serde_json::to_value(desk.claim("a").await.conditions()).unwrap();
            let mut why = desk.condition("DisruptionReason", "True");
            why["reason"] = json!(reason);
            conditions.as_array_mut().unwrap().push(why);
            desk.set_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
        }
        desk.terminate("a").await.unwrap();
        evict(&desk).await;
        let metrics = &desk.ctx.report.metrics.all;
        assert_eq!(
            (metrics.pods_drained.value([want]), metrics.pods_eviction_requests.value(["200"])),
            (Some(1.0), Some(1.0))
        );
        assert!(desk.reasons().contains(&"Evicted".to_owned()));
        assert!(pods(&desk).get("web").await.unwrap().metadata.deletion_timestamp.is_some());
    }
}

/// LC-50, LC-71, LIF-46, LIF-63: a node without a claim is drained too; its pods leave for no reason that we know.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim() {
    let desk = Desk::start().await;
    desk.add_node("a", "shop://a").await;
    desk.shop.book().machines.insert("shop://a".into(), super::desk::instance("shop://a"));
    desk.add_pod("web", on("a")).await;
    desk.delete::<Node>("a").await;
    desk.terminate("a").await.unwrap();
    desk.terminate("a").await.unwrap();
    evict(&desk).await;
    assert_eq!(desk.ctx.report.metrics.all.pods_drained.value([""]), Some(1.0));
    end(&desk, "web").await;
    desk.terminate("a").await.unwrap();
    desk.terminate("a").await.unwrap();
    assert!(desk.get::<Node>("a").await.is_none());
    assert_eq!(desk.shop.book().deleted.first().map(String::as_str), Some("shop://a"), "Y8: its instance goes with it");
}

/// Y11, LIF-52: a pod that goes wakes the drain, which else looks every ten seconds only; a pod that was asked is not asked
/// again at every look.
#[tokio::test(start_paused = true)]
async fn drains_wait_for_news() {
    let desk = draining(json!({}), &[("web", json!({}))]).await;
    let Requeue::After(pause) = desk.terminate("a").await.unwrap() else { panic!("it looks again") };
    assert!(pause >= Duration::from_secs(5), "{pause:?}");
    evict(&desk).await;
    desk.ctx.queues.nodes.take_due();
    desk.terminate("a").await.unwrap();
    assert!(desk.ctx.queues.evictions.take_due().is_empty(), "the pod is on its way");
    assert!(desk.ctx.queues.nodes.take_due().is_empty());
    end(&desk, "web").await;
    assert_eq!(desk.ctx.queues.nodes.take_due(), ["a"]);
}

/// Y31, LC-73, LIF-60: whoever is gone before it was asked is forgotten, and so is whoever was replaced.
#[tokio::test(start_paused = true)]
async fn nobody_is_remembered_for_ever() {
    let desk = draining(json!({}), &[("gone", json!({})), ("replaced", json!({}))]).await;
    desk.terminate("a").await.unwrap();
    assert_eq!(desk.ctx.memory.evictions_under_way(), 2);
    end(&desk, "gone").await;
    assert_eq!(desk.ctx.memory.evictions_under_way(), 1);
    end(&desk, "replaced").await;
    let new = desk.add_pod("replaced", on("a")).await;
    assert_eq!(desk.ctx.memory.evictions_under_way(), 0);
    evict(&desk).await;
    let same = pods(&desk).get("replaced").await.unwrap();
    assert_eq!((same.metadata.uid, same.metadata.deletion_timestamp), (new.metadata.uid, None), "LC-61");
}

/// LC-146, LIF-62: a pod that was replaced while it was being deleted stays, and the old one is forgotten in the end.
#[tokio::test(start_paused = true)]
async fn a_replaced_pod_is_not_deleted() {
    let protected = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } }, "spec": { "terminationGracePeriodSeconds": 30 } });
    let desk = draining(json!({ "spec": { "terminationGracePeriod": "1s" } }), &[("web", protected)]).await;
    desk.lifecycle("a").await.unwrap();
    desk.wait(2).await;
    desk.terminate("a").await.unwrap();
    desk.api.add_fault(Rule::new(Fault::Conflict).kind("Pod").verb(Verb::Delete).times(1));
    let outcomes = evict(&desk).await;
    assert!(outcomes[0].is_err(), "{outcomes:?}");
    assert_eq!(desk.ctx.memory.evictions_under_way(), 1);
    end(&desk, "web").await;
    assert_eq!(desk.ctx.memory.evictions_under_way(), 0);
}

/// LIF-59, LIF-61, LC-64, LC-68: out of time, a protected pod is deleted with a grace period that is never zero.
#[tokio::test(start_paused = true)]
async fn out_of_time() {
    let protected = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } }, "spec": { "terminationGracePeriodSeconds": 300 } });
    let desk = draining(json!({ "spec": { "terminationGracePeriod": "300s" } }), &[("web", protected)]).await;
    desk.lifecycle("a").await.unwrap();
    desk.wait(1).await;
    desk.terminate("a").await.unwrap();
    evict(&desk).await;
    let pod = pods(&desk).get("web").await.unwrap();
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap();
    assert!((1..=300).contains(&grace), "{grace}");
    assert!(desk.reasons().contains(&"Disrupted".to_owned()));
    assert_eq!(desk.ctx.memory.evictions_under_way(), 0);
}

/// Y19, LIF-50, LC-63, API-124: a drain is counted once, when it is stored that it is over.
#[tokio::test(start_paused = true)]
async fn a_drain_is_counted_once() {
    let desk = draining(json!({}), &[]).await;
    desk.wait(6).await;
    desk.conflict("NodeClaim", "status", 1);
    assert!(desk.terminate("a").await.is_err());
    let drained = &desk.ctx.report.metrics.all.nodes_drained;
    assert_eq!(drained.value([""]), None);
    desk.terminate("a").await.unwrap();
    assert_eq!(drained.value([""]), Some(1.0));
    assert_eq!(says(desk.claim("a").await.conditions(), "Drained").0, "True");
    for _ in 0..3 {
        desk.terminate("a").await.unwrap();
    }
    assert_eq!(drained.value([""]), Some(1.0));
}

/// LC-135, LIF-56, LIF-130: killed in the middle of a drain, the next process goes on where it was.
#[tokio::test(start_paused = true)]
async fn a_drain_survives_a_crash() {
    let mut desk = draining(json!({}), &[("web", json!({}))]).await;
    let since = |claim: &NodeClaim| claim.condition("Drained").unwrap().last_transition_time.clone();
    let began = since(&desk.claim("a").await);
    desk.terminate("a").await.unwrap();
    evict(&desk).await;
    desk.wait(3).await;
    desk.restart().await;
    desk.terminate("a").await.unwrap();
    assert!(evict(&desk).await.iter().all(Result::is_ok));
    assert_eq!(desk.ctx.report.metrics.all.pods_drained.value(["Forceful Termination"]), None, "it is leaving already");
    end(&desk, "web").await;
    assert_eq!(since(&desk.claim("a").await), began);
    desk.wait(3).await;
    desk.terminate("a").await.unwrap();
    assert_eq!(says(desk.claim("a").await.conditions(), "Drained").0, "True");
}

/// Y12, LIF-57: a pod that may not be moved holds the node without a deadline; who it is, since when and what helps is told.
#[tokio::test(start_paused = true)]
async fn a_protected_pod_that_holds_a_node_is_named() {
    let protected = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } });
    let desk = draining(json!({}), &[("web", protected)]).await;
    desk.terminate("a").await.unwrap();
    desk.events();
    desk.wait(11 * 60).await;
    desk.terminate("a").await.unwrap();
    let told = desk.events();
    let held = told.iter().find(|(_, message)| message.contains("do-not-disrupt")).unwrap();
    assert_eq!(held.0, "FailedDraining");
    for part in ["default/web", "2026-01-01", "terminationGracePeriod"] {
        assert!(held.1.contains(part), "{part}: {}", held.1);
    }
    assert!(pods(&desk).get("web").await.unwrap().metadata.deletion_timestamp.is_none());
}
