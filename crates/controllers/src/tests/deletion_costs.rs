//! What ReplicaSets are told about the pods of nodes that would go anyway.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use karpenter_apiserver::{Failure, Fault, Rule, Verb};
use karpenter_model::pod::PodId;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, merge};
use super::disrupting::{SMALL, add_node, add_pool, on};
use super::*;
use crate::Features;
use crate::pod_deletion_cost::reconcile;
use crate::queue::Requeue;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MARK: &str = "karpenter.sh/managed-pod-deletion-cost";

/// Two nodes, each with a pod of one ReplicaSet, in a pool that consolidates in a month.
async fn ranking() -> Desk {
    let features = Features { pod_deletion_cost: true, ..Features::default() };
    let desk = Desk::with(Setup { features, ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "720h" })).await;
    for node in ["a", "b"] {
        add_node(&desk, node, SMALL, json!({})).await;
        add_web(&desk, node, json!({})).await;
    }
    desk
}

/// A pod of the ReplicaSet `web`, named after its node.
async fn add_web(desk: &Desk, node: &str, more: Value) -> Pod {
    let sets: Api<ReplicaSet> = Api::namespaced(desk.client.clone(), "default");
    let labels = json!({ "app": "web" });
    let template = json!({
        "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    let known = sets.get_opt("web").await.unwrap();
    let set = if let Some(known) = known {
        known
    } else {
        desk.put(json!({ "metadata": { "name": "web" }, "spec": spec })).await
    };
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.uid(), "controller": true,
    });
    let mut pod = on(node, "100m");
    merge(&mut pod, json!({ "metadata": { "ownerReferences": [owner] } }));
    merge(&mut pod, more);
    desk.add_pod(node, pod).await
}

async fn pod(desk: &Desk, name: &str) -> Pod {
    Api::namespaced(desk.client.clone(), "default").get(name).await.unwrap()
}

async fn annotate(desk: &Desk, name: &str, annotations: Value) {
    let api: Api<Pod> = Api::namespaced(desk.client.clone(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    desk.look().await;
}

/// Cost and mark.
async fn said(desk: &Desk, name: &str) -> (Option<String>, Option<String>) {
    let pod = pod(desk, name).await;
    let of = |key: &str| pod.annotations().get(key).cloned();
    (of(COST), of(MARK))
}

fn both(value: &str) -> (Option<String>, Option<String>) {
    (Some(value.to_owned()), Some(value.to_owned()))
}

fn writes(desk: &Desk, result: &str) -> f64 {
    desk.ctx.report.metrics.all.pod_deletion_cost_writes.value([result]).unwrap_or_default()
}

fn is(count: f64, want: f64) -> bool {
    (count - want).abs() < 1e-9
}

/// V15-12, V15-18, V15-92, V15-96, V15-97, VC-119, VC-120, VC-128: pods are told their rank, once; what they are told is no
/// wish of anybody's; what changes is told with the next cycle.
#[tokio::test(start_paused = true)]
async fn pods_are_told_the_rank_of_their_node() {
    let mut desk = ranking().await;
    annotate(&desk, "a", json!({ COST: "7", "team": "web" })).await;
    desk.work(30).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), (both("-2"), both("-1")));
    assert_eq!(pod(&desk, "a").await.annotations().get("team").map(String::as_str), Some("web"));
    assert_eq!(desk.ctx.report.metrics.all.pod_deletion_cost_pending.value(["blue"]), Some(2.0));
    let seen = desk.ctx.state().pod(&PodId::new("default", "a")).unwrap();
    assert_eq!(seen.deletion_cost, 0, "VC-119");
    desk.wait(5 * 60).await;
    assert!(is(writes(&desk, "updated"), 2.0), "VC-128: {}", writes(&desk, "updated"));
    desk.change::<Node>("b", json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } })).await;
    desk.wait(70).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), (both("-1"), (None, None)), "VC-122");
}

/// VC-121, VC-128: the pods of a node that goes are the first; while nobody has seen all objects, nothing is ranked.
#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_goes_are_the_first() {
    let mut desk = ranking().await;
    desk.api.add_fault(Rule::new(Fault::Latency(Duration::from_secs(5))).kind("Namespace").verb(Verb::List));
    desk.work(1).await;
    assert_eq!(said(&desk, "a").await, (None, None), "VC-128, unsynced");
    // Protected, so that the node stays for a while.
    annotate(&desk, "b", json!({ "karpenter.sh/do-not-disrupt": "true" })).await;
    desk.delete::<NodeClaim>("b").await;
    desk.wait(120).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), (both("-1"), both("-2147483648")));
}

/// VC-164, Z32, VC-128: while a pool's types cannot be listed its pods keep what they were told, and it is tried again.
#[tokio::test(start_paused = true)]
async fn ranks_outlive_a_failing_list_of_types() {
    let mut desk = ranking().await;
    desk.shop.book().unlisted.insert("blue".to_owned());
    annotate(&desk, "a", json!({ COST: "-9", MARK: "-9" })).await;
    desk.work(90).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), (both("-9"), (None, None)), "Z32");
    desk.shop.book().unlisted.clear();
    desk.wait(70).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), (both("-2"), both("-1")));
}

/// VC-129, V15-97, Z33: what becomes of a write by how the API answers.
#[tokio::test(start_paused = true)]
async fn vc_129_answers() {
    let desk = ranking().await;
    let uid = pod(&desk, "a").await.uid().unwrap();
    let name = format!("default/a/{uid}");
    let ask = async |name: &str, value: Option<i32>| {
        desk.ctx.memory.deletion_costs().want(name, value);
        reconcile(desk.ctx.clone(), name.to_owned()).await
    };
    let patch = |fault: Fault| Rule::new(fault).kind("Pod").verb(Verb::Patch).name("a").times(1);
    for (case, fault, label) in [
        ("409", patch(Fault::Conflict), "skipped_conflict"),
        ("404", patch(Fault::Error(Failure::new(404, "NotFound", "gone"))), "skipped_notfound"),
    ] {
        desk.api.add_fault(fault);
        assert_eq!(ask(&name, Some(-5)).await.unwrap(), Requeue::OnChange, "{case}");
        assert!(is(writes(&desk, label), 1.0), "{case}");
        assert_eq!(reconcile(desk.ctx.clone(), name.clone()).await.unwrap(), Requeue::OnChange, "{case}, dropped");
        assert_eq!(said(&desk, "a").await, (None, None), "{case}");
    }
    desk.api.add_fault(patch(Fault::Throttled { retry_after_seconds: 1 }));
    assert!(ask(&name, Some(-5)).await.is_err(), "429");
    assert!(is(writes(&desk, "error"), 1.0));
    assert_eq!(reconcile(desk.ctx.clone(), name.clone()).await.unwrap(), Requeue::OnChange, "429, retried");
    assert_eq!(said(&desk, "a").await, both("-5"));
    ask(&name, Some(-5)).await.unwrap();
    assert!(is(writes(&desk, "skipped_unchanged"), 1.0) && is(writes(&desk, "updated"), 1.0), "already right");
    ask("default/a/another", Some(-6)).await.unwrap();
    ask("default/nobody/x", Some(-6)).await.unwrap();
    assert_eq!(said(&desk, "a").await, both("-5"), "other UID");
    let all = ["updated", "skipped_unchanged", "skipped_notfound", "skipped_conflict", "error"];
    assert!(is(all.iter().map(|result| writes(&desk, result)).sum(), 5.0), "ignored, not counted");
    assert!(desk.ctx.memory.deletion_costs().nothing_is_wanted(), "Z33");
}

/// Z13: a value that is wanted while another is being written is written after it.
#[tokio::test(start_paused = true)]
async fn the_last_value_wins() {
    let desk = ranking().await;
    let name = format!("default/a/{}", pod(&desk, "a").await.uid().unwrap());
    desk.ctx.memory.deletion_costs().want(&name, Some(-5));
    desk.api.add_fault(Rule::new(Fault::Latency(Duration::from_secs(5))).kind("Pod").verb(Verb::Patch).times(1));
    let first = tokio::spawn(reconcile(desk.ctx.clone(), name.clone()));
    desk.wait(1).await;
    desk.ctx.memory.deletion_costs().want(&name, Some(-6));
    assert_eq!(first.await.unwrap().unwrap(), Requeue::After(Duration::ZERO));
    assert_eq!(said(&desk, "a").await, both("-5"));
    assert_eq!(reconcile(desk.ctx.clone(), name).await.unwrap(), Requeue::OnChange);
    assert_eq!(said(&desk, "a").await, both("-6"));
}

/// Z11: with the gate off, what we wrote is ignored at once and taken back; what somebody wrote since is theirs.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_taken_back_without_the_gate() {
    let mut desk = ranking().await;
    annotate(&desk, "a", json!({ COST: "-2147483648", MARK: "-2147483648" })).await;
    annotate(&desk, "b", json!({ COST: "5", MARK: "-1" })).await;
    desk.features.pod_deletion_cost = false;
    desk.restart().await;
    let cost = |name: &str| {
        let id = PodId::new("default", name);
        desk.ctx.state().pod(&id).unwrap().deletion_cost
    };
    assert_eq!((cost("a"), cost("b")), (0, 5));
    desk.work(10).await;
    assert_eq!((said(&desk, "a").await, said(&desk, "b").await), ((None, None), (Some("5".to_owned()), None)));
}

/// Z11, V15-98: without the right to write to pods it is said, and not tried for ever.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_taken_back_stays() {
    let mut desk = ranking().await;
    annotate(&desk, "a", json!({ COST: "-3", MARK: "-3" })).await;
    desk.features.pod_deletion_cost = false;
    desk.api.add_fault(
        Rule::new(Fault::Error(Failure::new(403, "Forbidden", "you may not"))).kind("Pod").verb(Verb::Patch),
    );
    desk.work(10).await;
    assert_eq!(said(&desk, "a").await, both("-3"));
    assert!(desk.ctx.memory.deletion_costs().nothing_is_wanted());
}
