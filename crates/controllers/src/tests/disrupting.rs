//! Nodes that go because somebody decided so: from the decision to the end, with all controllers at work.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::conditions::Conditioned as _;
use karpenter_apiserver::{Fault, Rule, Verb};
use serde_json::{Value, json};

use super::desk::{Desk, merge, says};
use super::*;
use crate::disruption::record::{COMMAND, REPLACES};

pub(super) const SMALL: &str = "c-1x-amd64-linux";
pub(super) const LARGE: &str = "c-16x-amd64-linux";

/// A ready pool whose nodes may go as soon as they are quiet. Only on-demand: else everything would become spot.
pub(super) async fn add_pool(desk: &Desk, name: &str, disruption: Value) {
    let mut all = json!({ "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }] });
    merge(&mut all, disruption);
    let template = json!({ "spec": { "requirements": [on_demand()] } });
    desk.add_ready_pool(name, json!({ "spec": { "disruption": all, "template": template } })).await;
}

fn on_demand() -> Value {
    json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] })
}

/// A node in use, of a type in zone a.
pub(super) async fn add_node(desk: &Desk, name: &str, instance_type: &str, more: Value) {
    let cpu = instance_type.split(['-', 'x']).nth(1).unwrap_or("1");
    let labels = json!({
        "karpenter.sh/nodepool": "blue", "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": "test-zone-a", "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    let mut claim = json!({ "metadata": { "labels": labels } });
    merge(&mut claim, more);
    let labels = claim["metadata"]["labels"].clone();
    desk.add_launched(name, true, claim).await;
    // Nodes are born with a taint that whoever watches their health takes off.
    desk.change::<Node>(name, json!({ "metadata": { "labels": labels }, "spec": { "taints": null } })).await;
    let amounts = json!({ "cpu": cpu, "memory": "30Gi", "pods": "110" });
    desk.set_status::<Node>(name, json!({ "capacity": amounts, "allocatable": amounts })).await;
}

pub(super) fn on(node: &str, cpu: &str) -> Value {
    let container = json!({ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu } } });
    json!({ "spec": { "nodeName": node, "containers": [container] } })
}

/// The machine of a claim becomes a node that is ready.
pub(super) async fn join(desk: &Desk, claim: &NodeClaim) {
    let status = claim.status.clone().unwrap_or_default();
    let taint = json!({ "key": "karpenter.sh/unregistered", "effect": "NoExecute" });
    let name = claim.name_any();
    desk.add::<Node>(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "providerID": status.provider_id.unwrap(), "taints": [taint] },
    }))
    .await;
    let ready = json!({ "type": "Ready", "status": "True", "reason": "r", "message": "m" });
    let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi" });
    let status = json!({ "conditions": [ready], "capacity": amounts, "allocatable": amounts });
    desk.set_status::<Node>(&name, status).await;
    desk.wait(2).await;
    // Born with a taint that whoever watches its health takes off.
    desk.change::<Node>(&name, json!({ "spec": { "taints": null } })).await;
}

pub(super) async fn assert_ready(desk: &Desk, claim: &NodeClaim) {
    let claim = desk.claim(&claim.name_any()).await;
    assert_eq!(says(claim.conditions(), "Initialized").0, "True", "{:#?}", claim.status);
}

pub(super) async fn replacements(desk: &Desk) -> Vec<NodeClaim> {
    desk.all::<NodeClaim>().await.into_iter().filter(|claim| claim.annotations().contains_key(REPLACES)).collect()
}

pub(super) fn is_going(claim: Option<&NodeClaim>) -> bool {
    claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
}

pub(super) async fn going(desk: &Desk) -> BTreeMap<String, bool> {
    let claims = desk.all::<NodeClaim>().await;
    claims.iter().map(|claim| (claim.name_any(), is_going(Some(claim)))).collect()
}

pub(super) async fn is_tainted(desk: &Desk, node: &str) -> bool {
    let spec = desk.get::<Node>(node).await.unwrap().spec.unwrap_or_default();
    spec.taints.unwrap_or_default().iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

pub(super) fn decisions(desk: &Desk, labels: [&str; 3]) -> f64 {
    desk.ctx.report.metrics.all.disruption_decisions.value(labels).unwrap_or_default()
}

/// DIS-64, DIS-67, DIS-93, DIS-141, DIS-180, DC-61, DC-62, DC-73, DC-174, DC-178: an empty node is quiet after its window, waits
/// for its second look, and goes with its machine; a node in use stays.
#[tokio::test(start_paused = true)]
async fn an_empty_node_goes() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "60s", "consolidationPolicy": "WhenEmpty" })).await;
    add_node(&desk, "empty", SMALL, json!({})).await;
    add_node(&desk, "used", SMALL, json!({})).await;
    desk.add_pod("web", on("used", "100m")).await;
    desk.work(50).await;
    assert_eq!(says(desk.claim("empty").await.conditions(), "Consolidatable"), ("", ""), "DC-61");
    desk.wait(20).await;
    assert_eq!(says(desk.claim("empty").await.conditions(), "Consolidatable").0, "True", "DC-62");
    assert!(!is_tainted(&desk, "empty").await, "DIS-141");
    desk.wait(60).await;
    assert_eq!(going(&desk).await, [("used".to_owned(), false)].into());
    assert_eq!(desk.shop.book().deleted.first().map(String::as_str), Some("shop://empty"));
    assert!((decisions(&desk, ["delete", "empty", "empty"]) - 1.0).abs() < 1e-9, "DC-178");
    let disrupted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
    assert_eq!(disrupted.value(["empty", "blue", "on-demand", "when_empty", "graceful"]), Some(1.0), "DIS-187");
}

/// DIS-150, DIS-156, DIS-158, DIS-160, DIS-171, DIS-179, DC-154, DC-169: a drifted node is tainted and waits for its replacement.
#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_replaced() {
    let mut desk = drifting().await;
    desk.work(30).await;
    assert_eq!(says(desk.claim("old").await.conditions(), "Drifted"), ("True", "RequirementsDrifted"));
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1, "DC-154");
    let old = desk.claim("old").await;
    assert_eq!(says(old.conditions(), "DisruptionReason"), ("True", "Drifted"), "DIS-171");
    assert!(old.annotations().contains_key(COMMAND), "X24");
    assert!(is_tainted(&desk, "old").await);
    desk.wait(60).await;
    assert!(!is_going(desk.get("old").await.as_ref()), "DC-169");
    assert_eq!(replacements(&desk).await.len(), 1, "nobody buys the same twice (DIS-174)");
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert_ready(&desk, &new[0]).await;
    assert!(is_going(desk.get("old").await.as_ref()), "DIS-180");
    assert!((decisions(&desk, ["replace", "drifted", ""]) - 1.0).abs() < 1e-9, "DC-178");
    let created = &desk.ctx.report.metrics.all.nodeclaims_created;
    assert_eq!(created.value(["drifted", "blue", "false"]), Some(1.0));
}

/// A pool whose only node runs a pod, and is in a zone that the pool does not want any more.
async fn drifting() -> Desk {
    let desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    let zone = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] });
    let zone = json!([zone, on_demand()]);
    desk.change::<NodePool>("blue", json!({ "spec": { "template": { "spec": { "requirements": zone } } } })).await;
    add_node(&desk, "old", SMALL, json!({})).await;
    desk.add_pod("web", on("old", "500m")).await;
    desk
}

/// DIS-105, DIS-109, DIS-110, DC-88: a node that is too large for what it runs gives way to a cheaper one.
#[tokio::test(start_paused = true)]
async fn a_large_node_is_replaced_by_a_cheaper_one() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    desk.work(60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    let types = new[0].spec.requirements.iter().find(|one| one.key == "node.kubernetes.io/instance-type").unwrap();
    assert!(!types.values.as_ref().unwrap().contains(&LARGE.to_owned()), "DC-88");
    assert!(!is_going(desk.get("large").await.as_ref()));
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert_ready(&desk, &new[0]).await;
    assert!(is_going(desk.get("large").await.as_ref()));
    assert!((decisions(&desk, ["replace", "underutilized", "single"]) - 1.0).abs() < 1e-9);
}

/// DIS-105, DC-109, DC-178: pods that have room elsewhere move there, and nothing is bought.
#[tokio::test(start_paused = true)]
async fn two_half_empty_nodes_become_one() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    add_node(&desk, "b", SMALL, json!({})).await;
    desk.add_pod("one", on("a", "300m")).await;
    desk.add_pod("two", on("b", "300m")).await;
    desk.work(60).await;
    let gone = going(&desk).await.into_values().filter(|going| *going).count();
    assert_eq!((gone, replacements(&desk).await.len()), (1, 0));
}

/// DIS-179, DIS-182, DC-162, DC-170, X14: what cannot be launched is not waited for; the node stays and is free again.
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_fails_is_taken_back() {
    let mut desk = drifting().await;
    let sold_out = || Err(karpenter_platform::CreateError::InsufficientCapacity("sold out".to_owned()));
    desk.shop.book().creates = std::iter::repeat_with(sold_out).take(100).collect();
    desk.work(12).await;
    let failures = &desk.ctx.report.metrics.all.disruption_queue_failures;
    assert!(failures.value(["replace", "drifted", ""]).unwrap_or_default() >= 1.0, "V15-17");
    // Until something can be had again every attempt ends like this.
    desk.shop.book().types = std::sync::Arc::new(Vec::new());
    desk.wait(60).await;
    assert!(!is_tainted(&desk, "old").await, "DC-162");
    let old = desk.claim("old").await;
    assert_eq!((says(old.conditions(), "DisruptionReason"), old.annotations().get(COMMAND)), (("", ""), None));
    assert_eq!(going(&desk).await, [("old".to_owned(), false)].into(), "X14");
}

/// DIS-181, DIS-182, DC-171, X14: a replacement that never becomes ready is given up, and goes.
#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_taken_back() {
    let mut desk = drifting().await;
    desk.work(30).await;
    let new = replacements(&desk).await;
    desk.wait(9 * 60).await;
    assert!(is_tainted(&desk, "old").await);
    // Nothing to buy any more, so that the next attempt does not begin at once.
    desk.shop.book().types = std::sync::Arc::new(Vec::new());
    desk.wait(2 * 60).await;
    assert!(!is_tainted(&desk, "old").await, "DC-171");
    assert!(is_going(desk.get(&new[0].name_any()).await.as_ref()), "X14");
    assert!(!is_going(desk.get("old").await.as_ref()));
}

/// X24, D7, LC-134: whoever leads next goes on with what is under way, and buys nothing twice.
#[tokio::test(start_paused = true)]
async fn a_new_leader_carries_on() {
    let mut desk = drifting().await;
    desk.work(30).await;
    let new = replacements(&desk).await;
    desk.work(30).await;
    assert_eq!(replacements(&desk).await.len(), 1);
    assert!(is_tainted(&desk, "old").await && !is_going(desk.get("old").await.as_ref()));
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert_ready(&desk, &new[0]).await;
    assert!(is_going(desk.get("old").await.as_ref()));
}

/// LC-133, DIS-5, DC-2, X24: what a dead leader only began is undone, whatever is left of it.
#[tokio::test(start_paused = true)]
async fn a_new_leader_takes_back_what_was_only_begun() {
    let record = |decision: &str, replacements: usize| {
        json!({
            "id": "u-1", "method": "multi", "decision": decision, "started": "2026-01-01T00:00:00Z", "nodes": 1,
            "replacements": replacements,
        })
        .to_string()
    };
    for (case, text) in [
        ("no replacement was made", Some(record("replace", 1))),
        ("nothing was deleted", Some(record("delete", 0))),
        ("written by nobody we know", Some("{".to_owned())),
        ("the target's own", None),
    ] {
        let annotated = |text: Option<String>| {
            text.map_or(json!({}), |text| json!({ "metadata": { "annotations": { COMMAND: text } } }))
        };
        let mut desk = Desk::start().await;
        add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
        add_node(&desk, "a", SMALL, annotated(text)).await;
        let mut conditions = json!([]);
        let status = desk.claim("a").await.status.unwrap();
        if let Some(all) = conditions.as_array_mut() {
            all.extend(status.conditions.unwrap_or_default().iter().map(|one| serde_json::to_value(one).unwrap()));
            all.push(desk.condition("DisruptionReason", "True"));
        }
        desk.set_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
        let taint = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
        desk.change::<Node>("a", json!({ "spec": { "taints": taint } })).await;
        desk.work(15).await;
        let claim = desk.claim("a").await;
        assert!(!is_tainted(&desk, "a").await, "{case}");
        assert_eq!(says(claim.conditions(), "DisruptionReason"), ("", ""), "{case}");
        assert_eq!((claim.annotations().get(COMMAND), is_going(Some(&claim))), (None, false), "{case}");
    }
}

/// DIS-5, DC-3, DC-4: nodes that go keep their taint, and nodes of others are not touched.
#[tokio::test(start_paused = true)]
async fn taints_of_others_stay() {
    let mut desk = Desk::start().await;
    let taint = json!({ "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] } });
    desk.add_node("theirs", "other://1").await;
    desk.change::<Node>("theirs", json!({ "metadata": { "labels": { "karpenter.kwok.sh/kwoknodeclass": null } } }))
        .await;
    desk.change::<Node>("theirs", taint).await;
    desk.work(30).await;
    assert!(is_tainted(&desk, "theirs").await, "DC-4");
}

/// DIS-54, DIS-61, DC-53, DC-59: a budget of nothing holds every node, and the pool says so.
#[tokio::test(start_paused = true)]
async fn a_closed_budget_holds_everything() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "budgets": [{ "nodes": "0" }] })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    desk.work(60).await;
    assert_eq!(going(&desk).await, [("a".to_owned(), false)].into());
    let list = desk.all_events().await;
    let said = list.iter().find(|(kind, _, reason, _)| kind == "NodePool" && reason == "DisruptionBlocked");
    let (_, name, _, message) = said.expect("an event on the pool");
    assert_eq!(name, "blue");
    assert_eq!(message, "No allowed disruptions for disruption reason Empty due to blocking budget");
    let gauge = &desk.ctx.report.metrics.all.nodepools_allowed_disruptions;
    assert_eq!(gauge.value(["blue", "empty"]), Some(0.0), "DIS-62, V15-17");
    desk.change::<NodePool>("blue", json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } })).await;
    desk.wait(60).await;
    assert!(is_going(desk.get("a").await.as_ref()));
}

/// DIS-60, DIS-94, DC-53: of many empty nodes as many go at a time as the budget says, and the rest after them.
#[tokio::test(start_paused = true)]
async fn empty_nodes_go_within_their_budget() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "budgets": [{ "nodes": "2" }] })).await;
    let template = json!({
        "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    let set: DaemonSet = desk
        .put(json!({
            "metadata": { "name": "d" },
            "spec": { "selector": { "matchLabels": { "app": "d" } }, "template": template },
        }))
        .await;
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": set.uid() }]);
    for name in ["a", "b", "c"] {
        add_node(&desk, name, SMALL, json!({})).await;
        // They do not end by themselves: nobody lets their pods go.
        let pod = json!({ "metadata": { "ownerReferences": owner }, "spec": { "nodeName": name } });
        desk.add_pod(&format!("d-{name}"), pod).await;
    }
    desk.work(45).await;
    let gone = going(&desk).await.into_values().filter(|going| *going).count();
    assert_eq!(gone, 2, "the budget is used up until they are gone");
    let decided = decisions(&desk, ["delete", "empty", "empty"]);
    assert!((decided - 1.0).abs() < 1e-9, "one command (DC-73): {decided}");
    assert_eq!(desk.ctx.report.metrics.all.disruption_failed_validations.value(["empty"]), None);
    desk.wait(5 * 60).await;
    assert!(going(&desk).await.is_empty(), "then the third");
}

/// DIS-142, DC-79, DC-80: what happens while a command waits for its second look counts.
#[tokio::test(start_paused = true)]
async fn a_pod_that_lands_meanwhile_saves_its_node() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidationPolicy": "WhenEmpty" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    add_node(&desk, "b", SMALL, json!({})).await;
    desk.work(15).await;
    desk.add_pod("late", on("a", "100m")).await;
    desk.wait(45).await;
    assert_eq!(going(&desk).await, [("a".to_owned(), false)].into(), "DC-80");
}

/// DIS-172, DC-177: what cannot be marked stays; a delete goes on without it.
#[tokio::test(start_paused = true)]
async fn a_delete_goes_on_without_what_cannot_be_marked() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    add_node(&desk, "b", SMALL, json!({})).await;
    desk.work(5).await;
    desk.api.add_fault(Rule::new(Fault::Conflict).kind("Node").verb(Verb::Patch).name("a").times(4));
    for _ in 0..60 {
        if is_going(desk.get("b").await.as_ref()) {
            break;
        }
        desk.wait(1).await;
    }
    assert!(is_going(desk.get("b").await.as_ref()));
    assert!(!is_going(desk.get("a").await.as_ref()), "not with this command");
    desk.wait(60).await;
    assert!(is_going(desk.get("a").await.as_ref()), "but with the next");
}

/// DIS-164 … DIS-166, DC-163, LIF-110, X17: drifted nodes of a static pool are replaced one by one, within budget and limit.
#[tokio::test(start_paused = true)]
async fn static_pools_are_rolled_within_budget_and_limit() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let mut desk = Desk::with(super::desk::Setup { features, ..super::desk::Setup::default() }).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    let spec = json!({ "spec": {
        "replicas": 3, "limits": { "nodes": "5" }, "disruption": { "budgets": [{ "nodes": "2" }] },
        "template": { "spec": { "requirements": zone } },
    } });
    desk.add_ready_pool("blue", spec).await;
    for name in ["a", "b", "c"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    desk.work(40).await;
    assert_eq!(replacements(&desk).await.len(), 2, "DC-163: the budget");
    assert_eq!(desk.all::<NodeClaim>().await.len(), 5, "nobody else makes up for nodes that are about to be replaced");
    for claim in replacements(&desk).await {
        join(&desk, &claim).await;
    }
    desk.wait(60).await;
    let left = going(&desk).await;
    assert_eq!(["a", "b", "c"].into_iter().filter(|name| left.contains_key(*name)).count(), 1);
    assert_eq!(replacements(&desk).await.len(), 3, "the third comes after them");
    assert_eq!(desk.ctx.state().counts("blue").reserved, 0, "X17");
}

/// X11, DIS-99, DC-26: while a pool's types cannot be listed its nodes are not consolidated, and say so; empty ones go.
#[tokio::test(start_paused = true)]
async fn unknown_types_hold_only_what_needs_a_price() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    add_node(&desk, "empty", SMALL, json!({})).await;
    desk.shop.book().unlisted.insert("blue".to_owned());
    desk.work(60).await;
    assert_eq!(going(&desk).await, [("large".to_owned(), false)].into());
    let said = desk.all_events().await;
    let unknown = |(kind, name, reason, message): &&(String, String, String, String)| {
        (kind.as_str(), name.as_str(), reason.as_str()) == ("Node", "large", "Unconsolidatable")
            && message.contains(LARGE)
    };
    assert!(said.iter().any(|event| unknown(&event)), "{said:?}");
    let of_pool = said.iter().find(|(kind, _, reason, _)| kind == "NodePool" && reason == "InstanceTypesUnavailable");
    let (_, name, _, message) = of_pool.expect("an event on the pool");
    assert!(name == "blue" && message.contains("try later"), "{name} {message}");
}

/// DIS-23, DIS-99, DC-24, DC-86: a node that nobody knows the price of stays, and says why; others are not held up by it.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_price_holds_only_itself() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "odd", "z-16x-amd64-linux", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    // There is no room for the other.
    desk.add_pod("much", on("odd", "15900m")).await;
    desk.add_pod("little", on("large", "500m")).await;
    desk.work(60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    assert!(is_tainted(&desk, "large").await && !is_tainted(&desk, "odd").await);
    let said = desk.all_events().await;
    for kind in ["Node", "NodeClaim"] {
        let found =
            said.iter().any(|(k, n, r, m)| k == kind && n == "odd" && r == "Unconsolidatable" && m.contains("z-16x"));
        assert!(found, "{kind}: {said:#?}");
    }
}

/// DIS-20, DIS-56, DC-46, X27: a budget nobody can read closes its pool and says so on it; a PDB holds its own pods' nodes.
#[tokio::test(start_paused = true)]
async fn bad_input_holds_back_only_what_it_concerns() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    let broken = json!([{ "nodes": "1", "schedule": "61 * * * *", "duration": "1h" }]);
    add_pool(&desk, "red", json!({ "budgets": broken })).await;
    let red = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "red" } } });
    add_node(&desk, "in-red", SMALL, red).await;
    add_node(&desk, "held", LARGE, json!({})).await;
    add_node(&desk, "free", SMALL, json!({})).await;
    desk.add_pod("web", on("held", "500m")).await;
    desk.put::<PodDisruptionBudget>(json!({
        "metadata": { "name": "all" }, "spec": { "maxUnavailable": 0, "selector": {} },
    }))
    .await;
    desk.work(60).await;
    assert_eq!(going(&desk).await, [("held".to_owned(), false), ("in-red".to_owned(), false)].into());
    let said = desk.all_events().await;
    for (kind, name, reason, text) in [
        ("NodePool", "red", "InvalidField", "spec.disruption.budgets[0]"),
        ("NodePool", "red", "DisruptionBlocked", "Empty"),
        ("Node", "held", "DisruptionBlocked", "default/all"),
    ] {
        let found = said.iter().any(|(k, n, r, m)| k == kind && n == name && r == reason && m.contains(text));
        assert!(found, "{kind} {name} {reason} {text}: {said:#?}");
    }
}

/// API-143, DIS-44, DIS-45, DC-29, DC-31, DC-32: pods hear what their annotation means.
#[tokio::test(start_paused = true)]
async fn protected_pods_hear_until_when() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    for (name, value) in [("short", "1m"), ("odd", "soon"), ("always", "true")] {
        let mut pod = on("a", "100m");
        merge(&mut pod, json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": value } } }));
        desk.add_pod(name, pod).await;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(desk.client.clone(), "default");
        let status = kube::api::Patch::Merge(json!({ "status": { "startTime": desk.now() } }));
        pods.patch_status(name, &kube::api::PatchParams::default(), &status).await.unwrap();
    }
    desk.work(90).await;
    let said = desk.all_events().await;
    let reasons = |pod: &str| -> Vec<&str> {
        let mut reasons: Vec<&str> = said
            .iter()
            .filter(|(kind, name, _, _)| kind == "Pod" && name == pod)
            .map(|(_, _, reason, _)| reason.as_str())
            .collect();
        reasons.sort_unstable();
        reasons
    };
    assert_eq!(reasons("short"), ["DoNotDisruptGracePeriodElapsed", "DoNotDisruptUntil"]);
    assert_eq!(reasons("odd"), ["InvalidDoNotDisruptAnnotation"]);
    assert!(reasons("always").is_empty(), "DC-32");
}

/// VC-134, DIS-188: a type that was refused is not tried again at once: consolidation leaves the node alone meanwhile.
#[tokio::test(start_paused = true)]
async fn refused_types_are_no_target_for_a_while() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    let sold_out = || Err(karpenter_platform::CreateError::InsufficientCapacity("sold out".to_owned()));
    desk.shop.book().creates = std::iter::repeat_with(sold_out).take(100).collect();
    desk.work(5 * 60).await;
    let failures = &desk.ctx.report.metrics.all.disruption_queue_failures;
    assert_eq!(failures.value(["replace", "underutilized", "single"]), Some(1.0), "every cheaper type was refused");
    assert!(!is_tainted(&desk, "large").await);
    desk.shop.book().creates.clear();
    desk.wait(12 * 60).await;
    assert_eq!(replacements(&desk).await.len(), 1, "and is tried again later");
}
