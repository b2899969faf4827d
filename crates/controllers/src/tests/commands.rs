//! Commands that wait, cross each other and meet what others do meanwhile.

use std::time::Duration;

use karpenter_api::conditions::Conditioned as _;
use karpenter_apiserver::{Fault, Rule, Verb};
use karpenter_platform::{CallError, CreateError};
use serde_json::{Value, json};

use super::desk::{Desk, context_of, merge, says};
use super::disrupting::{LARGE, SMALL, add_node, add_pool, is_going, is_tainted, join, on, replacements};
use super::*;

/// A pool that wants another zone than its nodes are in, each with a pod that fills it.
pub(super) async fn drifting(nodes: &[&str]) -> Desk {
    let desk = Desk::start().await;
    add_drifting(&desk, "blue", nodes).await;
    desk
}

pub(super) async fn add_drifting(desk: &Desk, pool: &str, nodes: &[&str]) {
    add_pool(desk, pool, json!({ "consolidateAfter": "Never" })).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    desk.change::<NodePool>(pool, json!({ "spec": { "template": { "spec": { "requirements": zone } } } })).await;
    for name in nodes {
        add_node(desk, name, SMALL, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": pool } } })).await;
        desk.add_pod(&format!("on-{name}"), on(name, "900m")).await;
    }
}

/// DC-1, LC-138, DIS-2: whoever has not seen everything decides nothing.
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_everything_is_seen() {
    let desk = drifting(&["old"]).await;
    let blind = context_of(&desk);
    assert!(tokio::time::timeout(Duration::from_mins(1), crate::disruption::run(blind)).await.is_err());
    assert!(!is_tainted(&desk, "old").await && replacements(&desk).await.is_empty());
}

/// X1, DIS-8: a command that waits for its second look holds up nobody else.
#[tokio::test(start_paused = true)]
async fn drift_does_not_wait_for_consolidation() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    add_drifting(&desk, "red", &[]).await;
    desk.work(13).await;
    let red = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "red" } } });
    add_node(&desk, "old", SMALL, red).await;
    desk.add_pod("on-old", on("old", "900m")).await;
    desk.wait(11).await;
    assert!(is_tainted(&desk, "old").await, "decided while the other command waits or is under way");
    desk.wait(30).await;
    assert!(is_tainted(&desk, "large").await);
    assert_eq!(replacements(&desk).await.len(), 2);
}

/// X2, DIS-178, DC-173: a launch that takes long holds up no other command; each ends with its own replacement.
#[tokio::test(start_paused = true)]
async fn commands_go_their_way_by_themselves() {
    let mut desk = drifting(&["a", "b"]).await;
    let slow = || Err(CreateError::Call(CallError::new("RunInstances", "try later")));
    desk.shop.book().creates = std::iter::repeat_with(slow).take(8).collect();
    desk.work(25).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 2, "X2");
    desk.wait(3 * 60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 2, "nothing is bought twice");
    join(&desk, &new[1]).await;
    desk.wait(30).await;
    let gone = [is_going(desk.get("a").await.as_ref()), is_going(desk.get("b").await.as_ref())];
    assert_eq!(gone.iter().filter(|gone| **gone).count(), 1, "DC-173");
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert!(is_going(desk.get("a").await.as_ref()) && is_going(desk.get("b").await.as_ref()));
}

/// DIS-185, DC-190, X15, X19: a node that somebody else deletes meanwhile is nobody's doing here, and its command ends.
#[tokio::test(start_paused = true)]
async fn what_others_delete_is_not_counted() {
    let mut desk = drifting(&["old"]).await;
    desk.work(20).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    desk.delete::<NodeClaim>("old").await;
    join(&desk, &new[0]).await;
    desk.wait(60).await;
    assert!(desk.ctx.memory.commands().claims().is_empty(), "X15");
    let counted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
    assert_eq!(counted.value(["drifted", "blue", "on-demand", "", "graceful"]), None, "DC-190");
    let said = desk.all_events().await;
    assert!(said.iter().all(|(_, _, reason, _)| reason != "DisruptionTerminating"), "{said:?}");
}

/// DIS-180, X19: counted once, with its pods, and said on both objects.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_counted_once() {
    let mut desk = drifting(&["old"]).await;
    desk.work(20).await;
    let new = replacements(&desk).await;
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Delete).times(3));
    join(&desk, &new[0]).await;
    desk.wait(60).await;
    let labels = ["drifted", "blue", "on-demand", "", "graceful"];
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.nodeclaims_disrupted.value(labels), Some(1.0));
    assert_eq!(metrics.pods_disruption_initiated.value(labels), Some(1.0));
    let said = desk.all_events().await;
    for kind in ["Node", "NodeClaim"] {
        let count = said.iter().filter(|(k, n, r, _)| k == kind && n == "old" && r == "DisruptionTerminating").count();
        assert_eq!(count, 1, "{kind}");
    }
    for reason in ["DisruptionLaunching", "DisruptionWaitingReadiness"] {
        let name = new[0].name_any();
        assert!(said.iter().any(|(_, n, r, _)| *n == name && r == reason), "DIS-179: {reason}");
    }
}

/// DC-8, DIS-6: a conflict while something is undone is tried again.
#[tokio::test(start_paused = true)]
async fn undoing_goes_on_after_conflicts() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    let taint: Value = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
    desk.change::<Node>("a", json!({ "spec": { "taints": taint } })).await;
    desk.api.add_fault(Rule::new(Fault::Conflict).kind("Node").verb(Verb::Patch).name("a").times(6));
    desk.work(40).await;
    assert!(!is_tainted(&desk, "a").await);
}

/// DIS-43, DIS-47, DC-117, DC-159: with a grace period drift goes over a protected pod, and buys nothing for it; consolidation
/// does not.
#[tokio::test(start_paused = true)]
async fn a_grace_period_lets_drift_go_on() {
    let mut desk = drifting(&[]).await;
    for (name, spec) in [("bound", json!({ "terminationGracePeriod": "5m" })), ("free", json!({}))] {
        let mut claim = json!({ "spec": spec });
        merge(&mut claim, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } }));
        add_node(&desk, name, SMALL, claim).await;
        let mut pod = on(name, "900m");
        merge(&mut pod, json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } }));
        desk.add_pod(&format!("on-{name}"), pod).await;
    }
    desk.work(40).await;
    assert!(is_going(desk.get("bound").await.as_ref()));
    assert!(replacements(&desk).await.is_empty(), "DC-159");
    let free = desk.claim("free").await;
    assert_eq!((is_going(Some(&free)), says(free.conditions(), "Drifted").0), (false, "True"));
}
