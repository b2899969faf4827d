//! Nodes that are sick.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::conditions::Conditioned as _;
use karpenter_model::claim::Status;
use karpenter_platform::{RebootError, RepairAction, RepairPolicy};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, says};
use super::disrupting::{SMALL, add_node, add_pool, is_going, join, on, replacements};
use super::*;

/// A sick kernel is rebooted after a minute, everything else replaced after ten.
pub(super) fn policies() -> Vec<RepairPolicy> {
    let fallback = RepairPolicy {
        condition_type: "Ready".to_owned(),
        condition_status: Status::False,
        reason_expression: String::new(),
        toleration: Duration::from_mins(10),
        termination_grace_period: None,
        priority: 0,
        action: RepairAction::ReplaceNode,
    };
    let kernel = RepairPolicy {
        condition_type: "KernelReady".to_owned(),
        reason_expression: ".*".to_owned(),
        toleration: Duration::from_mins(1),
        termination_grace_period: Some(Duration::ZERO),
        action: RepairAction::RebootNode,
        ..fallback.clone()
    };
    vec![fallback, kernel]
}

/// Ten nodes, of which `a` runs a pod.
pub(super) async fn ward() -> Desk {
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    for name in ["a", "b", "c", "d", "e"] {
        add_node(&desk, name, SMALL, json!({})).await;
        desk.add_pod(&format!("on-{name}"), on(name, "900m")).await;
    }
    desk
}

pub(super) async fn set_conditions(desk: &Desk, node: &str, ready: &str, kernel: &str, boot: &str) {
    let condition = |type_: &str, status: &str| -> Value {
        json!({ "type": type_, "status": status, "reason": "r", "message": "m", "lastTransitionTime": desk.now() })
    };
    let conditions = [condition("Ready", ready), condition("KernelReady", kernel)];
    desk.set_status::<Node>(node, json!({ "conditions": conditions, "nodeInfo": { "bootID": boot } })).await;
}

/// V15-19, V15-25, V15-32, V15-47, V15-48: a node that has been sick for as long as its policy tolerates is replaced first and then
/// deleted.
#[tokio::test(start_paused = true)]
async fn a_sick_node_is_replaced() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "False", "True", "1").await;
    desk.work(9 * 60).await;
    assert!(replacements(&desk).await.is_empty(), "V15-32");
    desk.wait(2 * 60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1, "V15-47");
    assert_eq!(says(desk.claim("a").await.conditions(), "DisruptionReason"), ("True", "Unhealthy"), "V15-8");
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert!(is_going(desk.get("a").await.as_ref()));
    let counted = &desk.ctx.report.metrics.all.nodeclaims_unhealthy_disrupted;
    assert_eq!(counted.value(["ready", "blue", "on-demand", "", "graceful"]), Some(1.0), "V15-48");
    let decided = &desk.ctx.report.metrics.all.disruption_decisions;
    assert_eq!(decided.value(["replace", "unhealthy", ""]), Some(1.0), "V15-17");
    let metrics = desk.ctx.report.metrics.render(desk.now());
    let evaluated = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count{";
    let of_repair = |line: &str| line.contains("reason=\"unhealthy\"") && line.contains("consolidation_type=\"\"");
    assert!(metrics.lines().any(|line| line.starts_with(evaluated) && of_repair(line)), "V15-19");
    assert!(desk.ctx.report.metrics.all.disruption_eligible_nodes.value(["unhealthy"]).is_some(), "V15-19");
}

/// V15-23, V15-41: when more than a fifth of a pool is sick, something else is wrong.
#[tokio::test(start_paused = true)]
async fn many_sick_nodes_are_left_alone() {
    let mut desk = ward().await;
    for name in ["a", "b"] {
        set_conditions(&desk, name, "False", "True", "1").await;
    }
    desk.work(12 * 60).await;
    assert!(replacements(&desk).await.is_empty());
    let said = desk.all_events().await;
    for (kind, name) in [("Node", "a"), ("NodeClaim", "a"), ("NodePool", "blue")] {
        assert!(said.iter().any(|(k, n, reason, _)| k == kind && n == name && reason == "NodeRepairBlocked"), "{kind}");
    }
}

/// V15-7, V15-53, V15-54, V15-60, V15-64 … V15-66: fenced, asked for once, seen to come back, and in use again.
#[tokio::test(start_paused = true)]
async fn a_sick_kernel_is_rebooted() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Rebooting"), ("True", "RebootIssued"));
    assert_eq!(says(claim.conditions(), "Initialized"), ("Unknown", "Rebooting"), "V15-64");
    assert_eq!(desk.shop.book().reboots.len(), 1);
    let is_fenced = |node: Node| {
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/rebooting")
    };
    let node: Node = desk.get("a").await.unwrap();
    assert!(!node.labels().contains_key("karpenter.sh/initialized"));
    assert!(is_fenced(node));
    set_conditions(&desk, "a", "True", "True", "2").await;
    desk.wait(30).await;
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Rebooting"), ("False", "RebootSucceeded"));
    assert_eq!(says(claim.conditions(), "Initialized").0, "True", "V15-66");
    assert!(!is_fenced(desk.get("a").await.unwrap()));
    assert_eq!(desk.shop.book().reboots.len(), 1, "V15-62");
    assert_eq!(says(claim.conditions(), "DisruptionReason"), ("", ""), "V15-55");
    let ended = &desk.ctx.report.metrics.all.nodes_reboots;
    assert_eq!(ended.value(["succeeded"]), Some(1.0), "V15-18");
}

async fn allow_evictions(desk: &Desk, budget: &str, count: u32) {
    let api: Api<PodDisruptionBudget> = Api::namespaced(desk.client.clone(), "default");
    let status = json!({
        "observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    });
    api.patch_status(budget, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await.unwrap();
    desk.look().await;
}

/// V15-61, V15-71: whoever had to leave a node that is to be rebooted waits for it; but when a PodDisruptionBudget keeps the others there
/// until somebody else runs, that would never end, so a new node comes, and the reboot goes on.
#[tokio::test(start_paused = true)]
async fn a_reboot_that_is_held_up_costs_nobody_a_place() {
    let mut all = policies();
    all[1].termination_grace_period = None;
    let features = crate::Features { repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: all, ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    for name in ["a", "b", "c", "d", "e"] {
        add_node(&desk, name, SMALL, json!({})).await;
        if name != "a" {
            desk.add_pod(&format!("on-{name}"), on(name, "900m")).await;
        }
    }
    let web = |node: Option<&str>| {
        let mut pod = on("", "450m");
        pod["metadata"] = json!({ "labels": { "app": "web" } });
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        pod["spec"]["nodeName"] = node.into();
        pod
    };
    let run = async |desk: &Desk, name: &str, node: &str| {
        desk.add_pod(name, web(Some(node))).await;
        let api: Api<Pod> = Api::namespaced(desk.client.clone(), "default");
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await.unwrap();
    };
    run(&desk, "web-1", "a").await;
    run(&desk, "web-2", "a").await;
    desk.put::<PodDisruptionBudget>(json!({
        "metadata": { "name": "web" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    }))
    .await;
    allow_evictions(&desk, "web", 1).await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(90).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Rebooting"), ("True", "RebootRequested"));
    let webs = async |desk: &Desk| {
        let pods = desk.all::<Pod>().await;
        pods.into_iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == "web")).count()
    };
    assert_eq!(webs(&desk).await, 1, "V15-61: one may leave");
    desk.add_pending("web-3", web(None)).await;
    desk.wait(60).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 5, "V15-71: it waits for the node");
    desk.wait(90).await;
    let claims = desk.all::<NodeClaim>().await;
    assert_eq!(claims.len(), 6, "V15-71: but not for ever");
    assert!(desk.shop.book().reboots.is_empty());

    let new = claims.iter().find(|claim| claim.name_any().starts_with("blue-")).unwrap();
    join(&desk, new).await;
    desk.wait(5).await;
    Api::<Pod>::namespaced(desk.client.clone(), "default").delete("web-3", &DeleteParams::default()).await.unwrap();
    run(&desk, "web-4", &new.name_any()).await;
    allow_evictions(&desk, "web", 1).await;
    desk.wait(60).await;
    assert_eq!(
        (webs(&desk).await, desk.shop.book().reboots.len()),
        (1, 1),
        "the rest has left, and the machine restarts"
    );
    assert_eq!(desk.all::<NodeClaim>().await.len(), 6);
}

/// V15-63, Z20, Z37: what the provider refuses goes back to repair, which replaces the node.
#[tokio::test(start_paused = true)]
async fn a_refused_reboot_ends_in_a_replacement() {
    let mut desk = ward().await;
    desk.shop.book().reboot_answers.push_back(Err(RebootError::NotImplemented));
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(150).await;
    assert_eq!(desk.ctx.report.metrics.all.nodes_reboots.value(["provider_error"]), Some(1.0));
    assert!(desk.all_events().await.iter().any(|(_, _, reason, _)| reason == "RebootFailed"), "V15-22");
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    assert!(!is_going(desk.get("a").await.as_ref()), "replacement first");
    let disrupted = |desk: &Desk| {
        let counted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
        counted.value(["unhealthy", "blue", "on-demand", "", "graceful"])
    };
    assert_eq!(disrupted(&desk), Some(1.0), "the reboot");
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert_eq!((is_going(desk.get("a").await.as_ref()), disrupted(&desk)), (true, Some(2.0)), "Z37");
}

/// Z1, Z8: a reboot that could not be asked for is not counted; a taint that somebody else puts on meanwhile stays.
#[tokio::test(start_paused = true)]
async fn writes_of_a_reboot_respect_others() {
    let mut desk = ward().await;
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.conflict("NodeClaim", "status", 1000);
    desk.work(90).await;
    assert_eq!(desk.ctx.report.metrics.all.disruption_decisions.value(["reboot", "unhealthy", ""]), None, "Z8");
    desk.api.clear_faults();
    let taint = json!([{ "key": "example.com/theirs", "effect": "NoSchedule" }]);
    desk.change::<Node>("a", json!({ "spec": { "taints": taint } })).await;
    desk.wait(60).await;
    assert_eq!(desk.ctx.report.metrics.all.disruption_decisions.value(["reboot", "unhealthy", ""]), Some(1.0));
    let taints = desk.get::<Node>("a").await.unwrap().spec.unwrap().taints.unwrap();
    let keys: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
    assert!(keys.contains(&"example.com/theirs") && keys.contains(&"karpenter.sh/rebooting"), "{keys:?}");
}

/// Z10: a reboot that another provider's claim waits for is not ours to make.
#[tokio::test(start_paused = true)]
async fn reboots_of_other_providers_are_theirs() {
    let mut desk = ward().await;
    let class = json!({ "group": "example.com", "kind": "OtherClass", "name": "x" });
    desk.add_claim("theirs", json!({ "spec": { "nodeClassRef": class } })).await;
    let mut rebooting = desk.condition("Rebooting", "True");
    rebooting["reason"] = "RebootRequested".into();
    let status = json!({ "providerID": "shop://a", "conditions": [desk.condition("Launched", "True"), rebooting] });
    desk.set_status::<NodeClaim>("theirs", status).await;
    desk.work(10 * 60).await;
    assert!(desk.shop.book().reboots.is_empty());
    assert_eq!(says(desk.claim("theirs").await.conditions(), "Rebooting"), ("True", "RebootRequested"));
}

/// API-248, LIF-84, LIF-85, LIF-86, LIF-88, LIF-89, LC-84, LC-86, LC-87, LC-90, V15-51: with the legacy flag sick nodes are deleted at once, whatever budgets and
/// annotations say, with a deadline that is over.
#[tokio::test(start_paused = true)]
async fn the_legacy_controller_deletes_sick_nodes() {
    let features = crate::Features { legacy_repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never", "budgets": [{ "nodes": "0" }] })).await;
    for name in ["a", "b", "c"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    let kept = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } });
    desk.change::<Node>("a", kept).await;
    desk.add_pod("web", on("a", "100m")).await;
    set_conditions(&desk, "a", "False", "True", "1").await;
    desk.work(9 * 60).await;
    assert!(!is_going(desk.get("a").await.as_ref()), "LC-84");
    desk.wait(2 * 60).await;
    let claim = desk.get::<NodeClaim>("a").await;
    assert!(is_going(claim.as_ref()), "LC-87");
    let deadline = claim.map(|claim| claim.annotations()["karpenter.sh/nodeclaim-termination-timestamp"].clone());
    assert!(deadline.is_none_or(|text| text.parse::<jiff::Timestamp>().unwrap() <= desk.now()), "LC-86");
    let counted = &desk.ctx.report.metrics.all.nodeclaims_unhealthy_disrupted;
    assert_eq!(counted.value(["ready", "blue", "on-demand", "", "graceful"]), Some(1.0), "LC-90");
}

/// API-249, LIF-87, LC-88: two of three are too many; said on the Node, once for each object concerned.
#[tokio::test(start_paused = true)]
async fn the_legacy_controller_leaves_sick_pools_alone() {
    let features = crate::Features { legacy_repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    for name in ["a", "b", "c"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    for name in ["a", "b"] {
        set_conditions(&desk, name, "False", "True", "1").await;
    }
    desk.work(11 * 60).await;
    assert!(!is_going(desk.get("a").await.as_ref()));
    let said = desk.all_events().await;
    assert!(
        said.iter().any(|(kind, name, reason, _)| (kind == "Node" && name == "a") && reason == "NodeRepairBlocked")
    );
}

/// LIF-87, LC-89: a claim without a pool is weighed among all nodes, of whatever pool: one of six may go, where two of its own
/// kind would be too many of two.
#[tokio::test(start_paused = true)]
async fn the_legacy_controller_weighs_claims_without_a_pool_among_all_nodes() {
    let features = crate::Features { legacy_repair: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, policies: policies(), ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    for name in ["a", "b", "c", "d", "e"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    desk.add_launched("alone", true, json!({})).await;
    assert!(!desk.claim("alone").await.labels().contains_key("karpenter.sh/nodepool"));
    set_conditions(&desk, "a", "False", "True", "1").await;
    set_conditions(&desk, "b", "False", "True", "1").await;
    set_conditions(&desk, "c", "False", "True", "1").await;
    set_conditions(&desk, "alone", "False", "True", "1").await;
    desk.work(11 * 60).await;
    assert!(!is_going(desk.get("alone").await.as_ref()), "four of six are too many");
    let told = |events: &[(String, String, String, String)]| {
        events.iter().any(|(kind, name, reason, text)| {
            kind == "Node" && name == "alone" && reason == "NodeRepairBlocked" && !text.contains("nodepool")
        })
    };
    assert!(told(&desk.all_events().await));
    for name in ["a", "b", "c"] {
        set_conditions(&desk, name, "True", "True", "2").await;
    }
    desk.wait(6 * 60).await;
    assert!(is_going(desk.get("alone").await.as_ref()), "one of six may go");
}

/// Z24, V15-51: a reason that changes is looked at, although the condition is as old as before.
#[tokio::test(start_paused = true)]
async fn the_legacy_controller_sees_reasons_change() {
    let features = crate::Features { legacy_repair: true, ..crate::Features::default() };
    let mut all = policies();
    let disk =
        RepairPolicy { condition_type: "DiskReady".to_owned(), reason_expression: "Full".to_owned(), ..all[0].clone() };
    all.push(disk);
    let mut desk = Desk::with(Setup { features, policies: all, ..Setup::default() }).await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    for name in ["a", "b", "c"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    let since = desk.now();
    let condition = |type_: &str, status: &str, reason: &str| json!({ "type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since });
    let conditions = |reason: &str| json!([condition("Ready", "True", "r"), condition("DiskReady", "False", reason)]);
    desk.set_status::<Node>("a", json!({ "conditions": conditions("Slow") })).await;
    desk.work(30 * 60).await;
    assert!(!is_going(desk.get("a").await.as_ref()), "no policy is about that");
    desk.set_status::<Node>("a", json!({ "conditions": conditions("Full") })).await;
    desk.wait(5).await;
    assert!(is_going(desk.get("a").await.as_ref()));
}
