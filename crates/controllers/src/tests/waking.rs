//! What makes the disruption loop look again, and what must not make it forget.

use karpenter_api::conditions::Conditioned as _;
use serde_json::json;

use super::commands::drifting;
use super::desk::{Desk, Setup, says};
use super::disrupting::{LARGE, SMALL, add_node, add_pool, is_going, is_tainted, on, replacements};
use super::*;

/// X3, DIS-101: a window that closes wakes consolidation although nothing else has changed.
#[tokio::test(start_paused = true)]
async fn a_window_that_closes_is_news() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "120s" })).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    desk.work(110).await;
    assert!(replacements(&desk).await.is_empty());
    desk.wait(60).await;
    assert_eq!(replacements(&desk).await.len(), 1, "long before five minutes without news are over");
}

/// X3: so does a budget of pods that lets its pods go.
#[tokio::test(start_paused = true)]
async fn a_pod_disruption_budget_that_goes_is_news() {
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    desk.put::<PodDisruptionBudget>(json!({
        "metadata": { "name": "all" }, "spec": { "maxUnavailable": 0, "selector": {} },
    }))
    .await;
    desk.work(60).await;
    assert!(replacements(&desk).await.is_empty());
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(desk.client.clone(), "default");
    budgets.delete("all", &kube::api::DeleteParams::default()).await.unwrap();
    desk.wait(60).await;
    assert_eq!(replacements(&desk).await.len(), 1);
}

/// X25, DIS-69, DC-193: whoever leads next does not begin to wait anew for a node that has been quiet all along.
#[tokio::test(start_paused = true)]
async fn windows_survive_a_restart() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "10m", "budgets": [{ "nodes": "0" }] })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    desk.add_pod("web", on("a", "500m")).await;
    desk.work(9 * 60).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Consolidatable"), ("", ""));
    desk.work(120).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Consolidatable").0, "True");
    desk.work(30).await;
    assert_eq!(says(desk.claim("a").await.conditions(), "Consolidatable").0, "True", "DC-193");
}

/// X13, DIS-181: replacements that are ready by the time somebody looks are not too late, however late that is.
#[tokio::test(start_paused = true)]
async fn a_late_success_is_a_success() {
    let mut desk = drifting(&["old"]).await;
    desk.work(30).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    // Nobody leads for longer than a command may take.
    desk.restart().await;
    desk.wait(30 * 60).await;
    let ready = ["Launched", "Registered", "Initialized", "Ready"].map(|type_| desk.condition(type_, "True"));
    desk.set_status::<NodeClaim>(&new[0].name_any(), json!({ "conditions": ready })).await;
    desk.work(10).await;
    assert!(is_going(desk.get("old").await.as_ref()));
    assert_eq!(desk.ctx.report.metrics.all.disruption_queue_failures.value(["replace", "drifted", ""]), None);
}

/// X21, DIS-168: news of a claim that is about to be replaced does not make its static pool think that it has a node too many.
#[tokio::test(start_paused = true)]
async fn static_counts_survive_news_of_their_claims() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, ..Setup::default() }).await;
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    let spec = json!({ "spec": {
        "replicas": 2, "limits": { "nodes": "4" }, "disruption": { "budgets": [{ "nodes": "100%" }] },
        "template": { "spec": { "requirements": zone } },
    } });
    desk.add_ready_pool("blue", spec).await;
    for name in ["a", "b"] {
        add_node(&desk, name, SMALL, json!({})).await;
    }
    desk.work(40).await;
    assert_eq!(replacements(&desk).await.len(), 2);
    for name in ["a", "b"] {
        desk.change::<NodeClaim>(name, json!({ "metadata": { "annotations": { "example.com/news": "1" } } })).await;
    }
    desk.wait(60).await;
    let all = desk.all::<NodeClaim>().await;
    assert_eq!((all.len(), all.iter().filter(|claim| is_going(Some(claim))).count()), (4, 0));
    assert!(is_tainted(&desk, "a").await && is_tainted(&desk, "b").await);
}
