//! Commands of several parts, of which some fail or come late.

use karpenter_api::conditions::Conditioned as _;
use karpenter_apiserver::{Fault, Rule, Verb};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, says};
use super::disrupting::{
    LARGE, SMALL, add_node, add_pool, assert_ready, decisions, is_going, is_tainted, join, on, replacements,
};
use super::repairing::{set_conditions, ward};
use super::*;
use crate::disruption::record::COMMAND;

/// A large node of a pool that wants small ones, with two pods that do not fit on one of these.
async fn two_for_one() -> Desk {
    let desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    let small = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SMALL] }]);
    desk.change::<NodePool>("blue", json!({ "spec": { "template": { "spec": { "requirements": small } } } })).await;
    add_node(&desk, "old", LARGE, json!({})).await;
    for name in ["one", "two"] {
        desk.add_pod(name, on("old", "700m")).await;
    }
    desk
}

/// DC-172, DC-176, DIS-160, DIS-183: a node waits for both of its replacements. Meanwhile the one that is ready takes a pod that comes
/// along. Then the node goes with its taint, and the command is forgotten.
#[tokio::test(start_paused = true)]
async fn a_node_waits_for_all_its_replacements() {
    let mut desk = two_for_one().await;
    desk.work(30).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 2);
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert_ready(&desk, &new[0]).await;
    assert!(!is_going(desk.get("old").await.as_ref()), "DC-172");
    let mut pod = on("", "500m");
    pod["spec"]["nodeName"] = Value::Null;
    desk.add_pending("late", pod).await;
    desk.wait(60).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 3, "DC-176");
    join(&desk, &new[1]).await;
    for _ in 0..60 {
        if is_going(desk.get("old").await.as_ref()) {
            break;
        }
        desk.wait(1).await;
    }
    let old = desk.claim("old").await;
    assert!(is_going(Some(&old)), "DC-172");
    desk.wait(1).await;
    assert!(desk.ctx.memory.commands().claims().is_empty(), "DIS-183: nobody drives it any more");
    assert!(is_tainted(&desk, "old").await, "DIS-183: and nobody takes it back");
    desk.wait(15).await;
    assert!(desk.get::<Node>("old").await.is_none() || is_tainted(&desk, "old").await);
    assert_eq!(replacements(&desk).await.len(), 2);
}

/// DIS-167, DIS-177, DC-177, DC-196, X17, X28: of two commands of one pass one cannot start. The other does; of the first nothing is
/// left, neither on the node nor of its place under the limit; and it starts when it can.
#[tokio::test(start_paused = true)]
async fn one_of_two_commands_starts() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, ..Setup::default() }).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    let spec = json!({ "spec": {
        "replicas": 2, "limits": { "nodes": "4" }, "disruption": { "budgets": [{ "nodes": "2" }] },
        "template": { "spec": { "requirements": zone } },
    } });
    desk.add_ready_pool("blue", spec).await;
    for name in ["a", "b"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    desk.api.add_fault(Rule::new(Fault::Conflict).kind("Node").verb(Verb::Patch).name("a").times(1000));
    desk.work(1).await;
    for _ in 0..60 {
        if is_tainted(&desk, "b").await {
            break;
        }
        desk.wait(1).await;
    }
    // Between two passes.
    desk.wait(4).await;
    assert_eq!(replacements(&desk).await.len(), 1, "DC-196");
    assert!(is_tainted(&desk, "b").await && !is_tainted(&desk, "a").await);
    let a = desk.claim("a").await;
    assert_eq!((says(a.conditions(), "DisruptionReason"), a.annotations().get(COMMAND)), (("", ""), None), "DIS-177");
    assert_eq!(desk.ctx.state().counts("blue").reserved, 0, "DIS-167");
    desk.api.clear_faults();
    desk.wait(30).await;
    assert_eq!(replacements(&desk).await.len(), 2);
    assert!((decisions(&desk, ["replace", "drifted", ""]) - 2.0).abs() < 1e-9);
}

/// VC-154, Z34: the repair of a node that never was ready is taken back as a whole, with its condition.
#[tokio::test(start_paused = true)]
async fn a_repair_of_a_young_node_is_taken_back() {
    let mut desk = ward().await;
    desk.change::<Node>("a", json!({ "metadata": { "labels": { "karpenter.sh/initialized": null } } })).await;
    let conditions = ["Launched", "Registered"].map(|type_| desk.condition(type_, "True"));
    desk.set_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
    set_conditions(&desk, "a", "False", "True", "1").await;
    desk.work(11 * 60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    assert_eq!(says(desk.claim("a").await.conditions(), "DisruptionReason"), ("True", "Unhealthy"));
    // Nothing to buy any more, so that the next attempt does not begin at once.
    desk.shop.book().types = std::sync::Arc::new(Vec::new());
    desk.delete::<NodeClaim>(&new[0].name_any()).await;
    desk.wait(20).await;
    let claim = desk.claim("a").await;
    assert!(!is_tainted(&desk, "a").await && !is_going(Some(&claim)));
    assert_eq!(says(claim.conditions(), "DisruptionReason"), ("", ""), "Z34");
    assert_ne!(says(claim.conditions(), "Initialized").0, "True", "it never was ready");
}

/// VC-16, V15-34: what is wrong with a node stays known while its claim changes and its kubelet goes on talking, and ends with it.
#[tokio::test(start_paused = true)]
async fn faults_are_known_for_as_long_as_their_node() {
    let desk = ward().await;
    let closed = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } });
    desk.change::<NodePool>("blue", closed).await;
    let since = desk.now();
    let say = async |desk: &Desk| {
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "r", "message": "m",
                "lastTransitionTime": since, "lastHeartbeatTime": desk.now(),
            })
        };
        let conditions = [condition("Ready", "False"), condition("KernelReady", "True")];
        desk.set_status::<Node>("a", json!({ "conditions": conditions })).await;
    };
    let sick = async |desk: &Desk| {
        let looking = crate::disruption::run(desk.ctx.clone());
        assert!(tokio::time::timeout(std::time::Duration::from_secs(5), looking).await.is_err());
        desk.ctx.report.metrics.all.disruption_eligible_nodes.value(["unhealthy"])
    };
    say(&desk).await;
    desk.wait(9 * 60).await;
    assert_eq!(sick(&desk).await, Some(0.0), "it may get well by itself");
    desk.change::<NodeClaim>("a", json!({ "metadata": { "annotations": { "example.com/x": "y" } } })).await;
    say(&desk).await;
    desk.wait(60).await;
    assert_eq!(sick(&desk).await, Some(1.0), "still sick, for as long as before");
    desk.change::<Node>("a", json!({ "metadata": { "finalizers": null } })).await;
    desk.delete::<Node>("a").await;
    assert!(!is_going(desk.get("a").await.as_ref()), "its claim is left");
    assert_eq!(sick(&desk).await, Some(0.0));
}
