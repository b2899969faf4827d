//! Repairs and reboots from their beginning to their end, and what gets in between.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::conditions::Conditioned as _;
use karpenter_apiserver::{Fault, Rule, Verb};
use karpenter_model::claim::Status;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, merge, says};
use super::disrupting::{SMALL, add_node, add_pool, is_going, is_tainted, join, on, replacements};
use super::repairing::{policies, set_conditions, ward};
use super::*;

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const GRACE: &str = "karpenter.sh/reboot-termination-grace-period";

async fn boot(desk: &Desk, node: &str, id: &str) {
    desk.set_status::<Node>(node, json!({ "nodeInfo": { "bootID": id } })).await;
}

fn rebooted(desk: &Desk, result: &str) -> Option<f64> {
    desk.ctx.report.metrics.all.nodes_reboots.value([result])
}

/// A claim that somebody has asked a reboot for.
async fn ask_for_reboot(desk: &Desk, name: &str, grace: &str) {
    desk.change::<NodeClaim>(name, json!({ "metadata": { "annotations": { GRACE: grace } } })).await;
    let mut conditions = serde_json::to_value(desk.claim(name).await.conditions()).unwrap();
    let mut asked = desk.condition("Rebooting", "True");
    asked["reason"] = "RebootRequested".into();
    conditions.as_array_mut().unwrap().push(asked);
    desk.set_status::<NodeClaim>(name, json!({ "conditions": conditions })).await;
}

/// VC-146, V15-44, V15-70: what two reboots do not cure is replaced.
#[tokio::test(start_paused = true)]
async fn two_reboots_are_enough() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    for (round, id) in [(1, "2"), (2, "3")] {
        assert_eq!(desk.shop.book().reboots.len(), round, "VC-146");
        assert!(replacements(&desk).await.is_empty());
        boot(&desk, "a", id).await;
        desk.wait(30).await;
        assert_eq!(says(desk.claim("a").await.conditions(), "Rebooting"), ("False", "RebootSucceeded"));
        desk.wait(90).await;
    }
    assert_eq!(desk.shop.book().reboots.len(), 2, "VC-146");
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1, "VC-146");
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert!(is_going(desk.get("a").await.as_ref()));
}

/// VC-148, V15-42, V15-43: within a budget of one, two nodes are rebooted one after the other, and no node is bought.
#[tokio::test(start_paused = true)]
async fn reboots_keep_to_the_budget() {
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never", "budgets": [{ "nodes": "1" }] })).await;
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    for name in &names {
        add_node(&desk, name, SMALL, json!({})).await;
        desk.add_pod(&format!("on-{name}"), on(name, "900m")).await;
    }
    for name in &names[..2] {
        set_conditions(&desk, name, "True", "False", "1").await;
    }
    desk.work(60).await;
    let mut healed = 0;
    for _ in 0..60 {
        desk.wait(5).await;
        let claims = desk.all::<NodeClaim>().await;
        assert_eq!(claims.len(), 10, "VC-148");
        let under_way: Vec<_> =
            claims.iter().filter(|claim| says(claim.conditions(), "Rebooting").0 == "True").collect();
        assert!(under_way.len() <= 1, "VC-148: {}", under_way.len());
        for claim in under_way.iter().filter(|claim| says(claim.conditions(), "Rebooting").1 == "RebootIssued") {
            set_conditions(&desk, &claim.name_any(), "True", "True", "2").await;
        }
        healed = claims.iter().filter(|one| says(one.conditions(), "Rebooting").1 == "RebootSucceeded").count();
    }
    assert_eq!((healed, rebooted(&desk, "succeeded")), (2, Some(2.0)), "VC-148");
}

/// VC-144, V15-33: a node that is not ready, or that nobody hears of, is replaced whatever runs on it, and its pods with it.
#[tokio::test(start_paused = true)]
async fn dead_nodes_are_replaced_with_their_pods() {
    for (ready, status) in [("False", Status::False), ("Unknown", Status::Unknown)] {
        let mut all = policies();
        all[0].termination_grace_period = Some(Duration::ZERO);
        let mut other = all[1].clone();
        (other.condition_type, other.condition_status) = ("Ready".to_owned(), Status::Unknown);
        (other.action, other.toleration) = (all[0].action, all[0].toleration);
        all.push(other);
        assert_eq!(all[0].condition_status, Status::False);
        let features = crate::Features { repair: true, ..crate::Features::default() };
        let mut desk = Desk::with(Setup { features, policies: all, ..Setup::default() }).await;
        add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
        for name in ["a", "b", "c", "d", "e"] {
            add_node(&desk, name, SMALL, json!({})).await;
            let mut pod = on(name, "900m");
            merge(&mut pod, json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } }));
            desk.add_pod(&format!("on-{name}"), pod).await;
        }
        desk.wait(31 * 3600).await;
        set_conditions(&desk, "a", ready, "True", "1").await;
        desk.work(11 * 60).await;
        let new = replacements(&desk).await;
        assert_eq!(new.len(), 1, "{status:?}");
        join(&desk, &new[0]).await;
        desk.wait(60).await;
        assert!(is_going(desk.get("a").await.as_ref()), "{status:?}");
        let pods: Api<Pod> = Api::namespaced(desk.client.clone(), "default");
        let left = pods.get_opt("on-a").await.unwrap();
        assert!(left.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()), "VC-144: {status:?}");
    }
}

/// VC-161, V15-55: the reason is on the claim until the node is in use again, not only until the reboot is over.
#[tokio::test(start_paused = true)]
async fn a_rebooted_node_is_disrupted_until_it_is_initialized() {
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    let agent = json!([{ "key": "example.com/agent", "effect": "NoSchedule" }]);
    add_node(&desk, "a", SMALL, json!({ "spec": { "startupTaints": agent } })).await;
    desk.add_pod("on-a", on("a", "900m")).await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Rebooting"), ("True", "RebootIssued"));
    let mut taints = desk.get::<Node>("a").await.unwrap().spec.unwrap().taints.unwrap_or_default();
    taints.push(serde_json::from_value(agent[0].clone()).unwrap());
    desk.change::<Node>("a", json!({ "spec": { "taints": taints } })).await;
    set_conditions(&desk, "a", "True", "True", "2").await;
    desk.wait(60).await;
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Rebooting"), ("False", "RebootSucceeded"));
    assert_ne!(says(claim.conditions(), "Initialized").0, "True");
    assert_eq!(says(claim.conditions(), "DisruptionReason"), ("True", "Unhealthy"), "VC-161");
    desk.change::<Node>("a", json!({ "spec": { "taints": null } })).await;
    desk.wait(30).await;
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Initialized").0, "True");
    assert_eq!(says(claim.conditions(), "DisruptionReason"), ("", ""), "VC-161");
}

/// VC-54, VC-55, V15-53, V15-54: a reboot is written down once, with its bound; nothing is queued, tainted as disrupted or deleted.
#[tokio::test(start_paused = true)]
async fn a_reboot_is_committed_once() {
    let mut all = policies();
    all[1].termination_grace_period = Some(Duration::from_mins(5));
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: all, ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    let mut pod = on("a", "900m");
    merge(&mut pod, json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } }));
    desk.add_pod("on-a", pod).await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    for _ in 0..3 {
        let claim = desk.claim("a").await;
        assert_eq!(says(claim.conditions(), "Rebooting"), ("True", "RebootRequested"), "VC-54");
        assert_eq!(says(claim.conditions(), "DisruptionReason"), ("True", "Unhealthy"), "VC-54");
        assert_eq!(claim.annotations()[GRACE], "5m0s", "VC-54");
        assert!(!is_going(Some(&claim)) && !is_tainted(&desk, "a").await, "VC-54");
        assert!(desk.ctx.memory.commands().claims().is_empty(), "VC-54");
        let decided = &desk.ctx.report.metrics.all.disruption_decisions;
        assert_eq!(decided.value(["reboot", "unhealthy", ""]), Some(1.0), "VC-54");
        desk.wait(30).await;
    }
}

/// V15-56, V15-60, VC-60: a reboot that was asked for is carried through also where nobody repairs any more.
#[tokio::test(start_paused = true)]
async fn reboots_end_with_repair_turned_off() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    set_conditions(&desk, "a", "True", "True", "1").await;
    ask_for_reboot(&desk, "a", "0s").await;
    desk.work(20).await;
    let claim = desk.claim("a").await;
    assert_eq!(desk.shop.book().reboots.len(), 1);
    assert_eq!(says(claim.conditions(), "Rebooting"), ("True", "RebootIssued"), "VC-60");
    assert_eq!(says(claim.conditions(), "Initialized"), ("Unknown", "Rebooting"), "VC-60");
    assert_eq!(claim.annotations()["karpenter.sh/reboot-pre-boot-id"], "1", "VC-60");
    assert!(!desk.get::<Node>("a").await.unwrap().labels().contains_key("karpenter.sh/initialized"), "VC-60");
    boot(&desk, "a", "2").await;
    desk.wait(30).await;
    assert_eq!(rebooted(&desk, "succeeded"), Some(1.0));
}

/// VC-73, V15-66, Z9: writes that meet somebody else's are made again; a success counts once, and nobody's taint is lost.
#[tokio::test(start_paused = true)]
async fn conflicts_do_not_count_twice() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.api.add_fault(Rule::new(Fault::Conflict).kind("Node").verb(Verb::Patch).name("a").times(2));
    desk.work(120).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Rebooting"), ("True", "RebootIssued"));
    let mut taints = desk.get::<Node>("a").await.unwrap().spec.unwrap().taints.unwrap_or_default();
    assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/rebooting"), "Z9");
    taints.push(serde_json::from_value(json!({ "key": "example.com/theirs", "effect": "NoSchedule" })).unwrap());
    desk.change::<Node>("a", json!({ "spec": { "taints": taints } })).await;
    desk.conflict("NodeClaim", "status", 3);
    set_conditions(&desk, "a", "True", "True", "2").await;
    desk.wait(120).await;
    assert_eq!(rebooted(&desk, "succeeded"), Some(1.0), "VC-73");
    let taints = desk.get::<Node>("a").await.unwrap().spec.unwrap().taints.unwrap_or_default();
    assert_eq!(taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["example.com/theirs"], "Z9");
}

/// VC-74, V15-59, V15-68, Z20: a node that does not come back is handed over to be replaced, told and counted once that is written.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_comes_back_is_replaced() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    desk.wait(19 * 60).await;
    assert_eq!(rebooted(&desk, "recovery_timeout"), None);
    let failed = async |desk: &Desk| desk.all_events().await.iter().any(|(_, _, reason, _)| reason == "RebootFailed");
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Patch).name("a"));
    desk.wait(4 * 60).await;
    assert!(rebooted(&desk, "recovery_timeout").is_none() && !failed(&desk).await, "VC-74: not yet");
    desk.api.clear_faults();
    desk.wait(6 * 60).await;
    assert_eq!(rebooted(&desk, "recovery_timeout"), Some(1.0), "VC-74");
    assert!(failed(&desk).await, "VC-74");
    assert_eq!(replacements(&desk).await.len(), 1, "Z20");
    assert!(!is_going(desk.get("a").await.as_ref()), "Z20: replacement first");
}

/// VC-160, V15-68, V15-70: a reboot whose claim is gone ends without a word.
#[tokio::test(start_paused = true)]
async fn reboots_of_claims_that_are_gone_end() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    desk.delete::<NodeClaim>("a").await;
    desk.change::<NodeClaim>("a", json!({ "metadata": { "finalizers": null } })).await;
    desk.wait(25 * 60).await;
    assert!(desk.all_events().await.iter().all(|(_, _, reason, _)| reason != "RebootFailed"), "VC-160");
    for result in ["succeeded", "provider_error", "recovery_timeout", "invalid_request"] {
        assert_eq!(rebooted(&desk, result), None, "VC-160: {result}");
    }
}

/// VC-70, V15-69: a request that makes no sense is dropped; the claim stays.
#[tokio::test(start_paused = true)]
async fn odd_requests_for_reboots_are_dropped() {
    for grace in ["soon", "-5m"] {
        let mut desk = Desk::start().await;
        add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
        add_node(&desk, "a", SMALL, json!({})).await;
        ask_for_reboot(&desk, "a", grace).await;
        desk.work(30).await;
        let claim = desk.claim("a").await;
        assert_eq!(says(claim.conditions(), "Rebooting"), ("False", "RebootFailed"), "{grace}");
        assert!(!is_going(Some(&claim)) && desk.shop.book().reboots.is_empty(), "{grace}");
        assert_eq!(rebooted(&desk, "invalid_request"), Some(1.0), "{grace}");
        let taints = desk.get::<Node>("a").await.unwrap().spec.unwrap_or_default().taints.unwrap_or_default();
        assert!(taints.is_empty(), "{grace}: {taints:?}");
        assert!(desk.all_events().await.iter().any(|(_, _, reason, _)| reason == "RebootFailed"), "{grace}");
    }
}

/// VC-33, VC-36, VC-37, V15-50: the deadline of a sick node is written just before it is deleted, never earlier and never not.
#[tokio::test(start_paused = true)]
async fn deadlines_are_written_last() {
    let mut all = policies();
    all[0].termination_grace_period = Some(Duration::from_mins(2));
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: all, ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    desk.add_pod("on-a", on("a", "900m")).await;
    set_conditions(&desk, "a", "False", "True", "1").await;
    desk.work(11 * 60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    desk.wait(5 * 60).await;
    let claim = desk.claim("a").await;
    assert!(!is_going(Some(&claim)) && !claim.annotations().contains_key(DEADLINE), "VC-33, VC-37");
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Patch).name("a"));
    join(&desk, &new[0]).await;
    desk.wait(20).await;
    assert!(!is_going(desk.get("a").await.as_ref()), "VC-36");
    desk.api.clear_faults();
    let before = desk.now();
    desk.wait(60).await;
    let claim = desk.get::<NodeClaim>("a").await.unwrap();
    assert!(is_going(Some(&claim)), "VC-36");
    let deadline: jiff::Timestamp = claim.annotations()[DEADLINE].parse().unwrap();
    let after = deadline.duration_since(before).as_secs();
    assert!((120..=180).contains(&after), "VC-33: {after}");
}

/// VC-44, V15-51: without the gate nothing is repaired, and the legacy controller knows no reboots.
#[tokio::test(start_paused = true)]
async fn sick_nodes_stay_without_repair() {
    for legacy_repair in [false, true] {
        let features = crate::Features { legacy_repair, ..crate::Features::default() };
        let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
        add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
        for name in ["a", "b", "c"] {
            add_node(&desk, name, SMALL, json!({})).await;
        }
        let ready = if legacy_repair { "True" } else { "False" };
        set_conditions(&desk, "a", ready, "False", "1").await;
        desk.work(30 * 60).await;
        assert!(!is_going(desk.get("a").await.as_ref()) && desk.shop.book().reboots.is_empty(), "{legacy_repair}");
        assert!(replacements(&desk).await.is_empty());
    }
}

/// V15-77, V15-80, VC-41, VC-77: a static pool at its limit lets its sick node go first; a second look at the same node takes nothing twice.
#[tokio::test(start_paused = true)]
async fn a_full_static_pool_lets_its_sick_node_go() {
    let features = crate::Features {
        repair: true,
        static_capacity: true,
        terminate_first_repair: true,
        ..crate::Features::default()
    };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    let spec: Value = json!({ "spec": {
        "replicas": 1, "limits": { "nodes": "1" }, "disruption": { "budgets": [{ "nodes": "100%" }] },
    } });
    desk.add_ready_pool("blue", spec).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    set_conditions(&desk, "a", "False", "True", "1").await;
    desk.work(11 * 60).await;
    assert!(is_going(desk.get("a").await.as_ref()), "VC-77");
    let counted = &desk.ctx.report.metrics.all.disruption_terminate_first_decisions;
    assert_eq!(counted.value(["blue", "unhealthy", "static-at-limit"]), Some(1.0), "VC-77");
    desk.wait(60).await;
    let claims = desk.all::<NodeClaim>().await;
    assert!(claims.len() <= 1, "never more than the limit: {}", claims.len());
    assert_eq!(desk.ctx.state().counts("blue").reserved, 0, "VC-41, V15-80");
}
