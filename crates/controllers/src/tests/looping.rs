//! What a pass of the disruption loop does besides its commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use karpenter_api::kinds::KWOKNodeClass;
use serde_json::json;

use super::desk::Desk;
use super::disrupting::{LARGE, SMALL, add_node, add_pool, is_going, is_tainted, on, replacements};
use super::*;
use crate::apart::supervised;

/// Nominations of a pod that were told.
async fn nominations(desk: &Desk, pod: &str) -> Vec<String> {
    let told = desk.all_events().await.into_iter();
    told.filter(|(kind, name, reason, _)| kind == "Pod" && name == pod && reason == "Nominated")
        .map(|(_, _, _, message)| message)
        .collect()
}

/// Two nodes of which one could take the other's pod.
async fn two_small_nodes() -> Desk {
    let desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    for (node, pod) in [("a", "one"), ("b", "two")] {
        add_node(&desk, node, SMALL, json!({})).await;
        desk.add_pod(pod, on(node, "300m")).await;
    }
    desk
}

/// DIS-175: pods hear which node that exists is to take them, and it is left alone meanwhile.
#[tokio::test(start_paused = true)]
async fn pods_that_move_hear_where_to() {
    let mut desk = two_small_nodes().await;
    desk.work(60).await;
    let (moved, to) = if is_going(desk.get("a").await.as_ref()) { ("one", "b") } else { ("two", "a") };
    let told = nominations(&desk, moved).await;
    assert_eq!(told, [format!("Pod should schedule on: nodeclaim/{to}, node/{to}")]);
}

/// DIS-175: a node is left alone from the decision on that moves pods to it, not only when the command starts. What was decided about
/// it meanwhile, here since a node with more room has come, would not stand its second look.
#[tokio::test(start_paused = true)]
async fn who_receives_pods_of_a_waiting_command_is_left_alone() {
    let mut desk = two_small_nodes().await;
    desk.work(5).await;
    assert!(!is_tainted(&desk, "a").await && !is_tainted(&desk, "b").await, "the command waits");
    add_node(&desk, "roomy", LARGE, json!({})).await;
    desk.add_pod("stays", protected(on("roomy", "10"))).await;
    desk.wait(25).await;
    let tainted = [is_tainted(&desk, "a").await, is_tainted(&desk, "b").await];
    assert_eq!(tainted.iter().filter(|tainted| **tainted).count(), 1, "{tainted:?}");
    let failed = &desk.ctx.report.metrics.all.disruption_failed_validations;
    assert_eq!((failed.value(["multi"]), failed.value(["single"])), (None, None));
}

fn protected(mut pod: serde_json::Value) -> serde_json::Value {
    pod["metadata"] = json!({ "annotations": { "karpenter.sh/do-not-disrupt": "true" } });
    pod
}

/// DIS-175: those that a replacement is made for do not, since it may never come.
#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_a_replacement_hear_nothing_yet() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    // Once it is launched, the provisioner sees a node that exists.
    desk.shop.book().down.insert("blue".to_owned());
    desk.work(60).await;
    assert_eq!(replacements(&desk).await.len(), 1);
    assert!(nominations(&desk, "web").await.is_empty());
}

/// X28, DIS-6, DIS-92: drift that can place nobody, since no pool may be used, does not keep consolidation from merging nodes.
#[tokio::test(start_paused = true)]
async fn a_method_that_gets_nowhere_does_not_stop_the_others() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    desk.change::<NodePool>("blue", json!({ "spec": { "template": { "spec": { "requirements": zone } } } })).await;
    add_node(&desk, "old", SMALL, json!({})).await;
    desk.add_pod("web", on("old", "900m")).await;
    let there = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "test-zone-b" } } });
    for (node, pod) in [("a", "one"), ("b", "two")] {
        add_node(&desk, node, SMALL, there.clone()).await;
        desk.add_pod(pod, on(node, "300m")).await;
    }
    let not_ready = json!({ "conditions": [desk.condition("Ready", "False")] });
    desk.set_status::<KWOKNodeClass>("default", not_ready).await;
    desk.work(90).await;
    let drifted = desk.claim("old").await;
    let says = super::desk::says(karpenter_api::conditions::Conditioned::conditions(&drifted), "Drifted");
    assert_eq!((says.0, is_going(Some(&drifted))), ("True", false));
    let gone = [is_going(desk.get("a").await.as_ref()), is_going(desk.get("b").await.as_ref())];
    assert_eq!(gone.iter().filter(|gone| **gone).count(), 1);
}

/// DIS-12, X2: a claim that cannot be launched holds up nobody; it has no node, and says so.
#[tokio::test(start_paused = true)]
async fn claims_without_an_instance_take_part_without_a_node() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "empty", SMALL, json!({})).await;
    desk.shop.book().down.insert("blue".to_owned());
    let blue = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } });
    desk.add_claim("late", blue).await;
    desk.work(60).await;
    assert!(is_going(desk.get("empty").await.as_ref()));
    let told = desk.all_events().await;
    let said = told.iter().any(|(kind, name, reason, message)| {
        (kind.as_str(), name.as_str(), reason.as_str()) == ("NodeClaim", "late", "DisruptionBlocked")
            && message.contains("does not have an associated node")
    });
    assert!(said, "{told:#?}");
}

/// DIS-99: a node that nobody sells any more where it is has no price: it stays, and says so.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_price_says_so() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    let nowhere = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "nowhere" } } });
    add_node(&desk, "odd", LARGE, nowhere).await;
    desk.add_pod("web", on("odd", "500m")).await;
    desk.work(60).await;
    assert!(!is_tainted(&desk, "odd").await);
    let told = desk.all_events().await;
    let said = told.iter().any(|(kind, name, reason, message)| {
        (kind.as_str(), name.as_str(), reason.as_str()) == ("Node", "odd", "Unconsolidatable")
            && message.contains("has no price")
    });
    assert!(said, "{told:#?}");
}

/// The same, both kept for pods for the next minute.
async fn kept_for_pods() -> Desk {
    let mut desk = two_small_nodes().await;
    desk.work(1).await;
    let until = desk.now() + jiff::SignedDuration::from_secs(60);
    for node in ["a", "b"] {
        desk.ctx.state().nominate(node, until);
    }
    desk
}

async fn going(desk: &Desk) -> usize {
    [desk.get("a").await, desk.get("b").await].iter().filter(|one| is_going(one.as_ref())).count()
}

/// DIS-103: nodes that are kept for pods are looked at again when that is over, although nothing else has happened.
#[tokio::test(start_paused = true)]
async fn nodes_that_were_kept_for_pods_are_looked_at_again() {
    let desk = kept_for_pods().await;
    // It has no node, and kube-scheduler has not said yet that there is none.
    desk.add_pod("late", json!({})).await;
    desk.wait(50).await;
    assert_eq!(going(&desk).await, 0, "both are kept");
    desk.wait(60).await;
    assert_eq!(going(&desk).await, 1, "the pods of one fit on the other");
}

/// DIS-15: nobody is on the way, so whoever was expected has come already, or has found another node.
#[tokio::test(start_paused = true)]
async fn nodes_are_not_kept_for_pods_that_have_a_node() {
    let desk = kept_for_pods().await;
    desk.wait(10).await;
    assert_eq!(going(&desk).await, 0, "the command has to stand a second look");
    desk.wait(30).await;
    assert_eq!(going(&desk).await, 1, "the pods of one fit on the other");
}

/// A loop that panics is counted and begins anew; nobody else ends with it.
#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_begins_anew() {
    let desk = Desk::start().await;
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let rounds = supervised(&desk.ctx, "provisioner", Duration::from_secs(1), move || {
        let round = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(round > 1, "a bug");
            std::future::pending::<()>().await;
        }
    });
    assert!(tokio::time::timeout(Duration::from_secs(10), rounds).await.is_err(), "it goes on");
    assert_eq!(begun.load(Ordering::SeqCst), 3);
    let text = desk.ctx.report.metrics.render(desk.now());
    let panics = "controller_runtime_reconcile_panics_total{controller=\"provisioner\"} 2";
    assert!(text.contains(panics), "{text}");
}
