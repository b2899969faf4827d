//! What is said about pools.

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::KWOKNodeClass;
use karpenter_apiserver::{Fault, Rule, Verb};
use serde_json::json;

use super::desk::{Desk, says};
use super::*;
use crate::queue::Requeue;

async fn readiness(desk: &Desk) -> (String, String) {
    crate::nodepool_readiness::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
    desk.look().await;
    let pool = desk.get::<NodePool>("blue").await.unwrap();
    let (status, reason) = says(pool.conditions(), "NodeClassReady");
    (status.to_owned(), reason.to_owned())
}

/// LIF-90, LC-93, API-57: the class as it is.
#[tokio::test(start_paused = true)]
async fn a_pool_is_as_ready_as_its_class() {
    let desk = Desk::start().await;
    desk.add_pool("blue", json!({ "spec": { "template": { "spec": { "nodeClassRef": { "name": "own" } } } } })).await;
    let says = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    assert_eq!(readiness(&desk).await, says("False", "NodeClassNotFound"));
    desk.add::<KWOKNodeClass>(json!({
        "metadata": { "name": "own", "finalizers": ["example.com/stay"] }, "spec": {},
    }))
    .await;
    desk.look().await;
    assert_eq!(readiness(&desk).await, says("False", "NodeClassReadinessUnknown"));
    let mut sick = desk.condition("Ready", "False");
    sick["reason"] = json!("NoSubnets");
    desk.set_status::<KWOKNodeClass>("own", json!({ "conditions": [sick] })).await;
    assert_eq!(readiness(&desk).await, says("False", "NoSubnets"));
    desk.set_status::<KWOKNodeClass>("own", json!({ "conditions": [desk.condition("Ready", "True")] })).await;
    assert_eq!(readiness(&desk).await, says("True", "NodeClassReady"));
    desk.delete::<KWOKNodeClass>("own").await;
    assert_eq!(readiness(&desk).await, says("False", "NodeClassTerminating"));
}

/// LC-94, LIF-91, LIF-92, API-57: a template that makes no sense makes its pool unusable; oddities beside sense do not.
#[tokio::test(start_paused = true)]
async fn a_pool_is_validated() {
    for (values, want) in [(json!(["xspot"]), "False"), (json!(["on-demand", "xspot"]), "True")] {
        let desk = Desk::start().await;
        let requirement = json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": values });
        desk.add_pool("blue", json!({ "spec": { "template": { "spec": { "requirements": [requirement] } } } })).await;
        assert_eq!(readiness(&desk).await.0, "True");
        let pool = desk.get::<NodePool>("blue").await.unwrap();
        let reason = if want == "True" { "ValidationSucceeded" } else { "NodePoolValidationFailed" };
        assert_eq!(says(pool.conditions(), "ValidationSucceeded"), (want, reason));
        assert_eq!(says(pool.conditions(), "Ready").0, want);
        assert_eq!(desk.ctx.state().pool("blue").unwrap().is_schedulable(), want == "True");
    }
}

/// LC-93, LIF-1, API-58, API-250: a pool of somebody else's class is left alone.
#[tokio::test(start_paused = true)]
async fn other_providers_pools_are_left_alone() {
    let desk = Desk::start().await;
    let class = json!({ "group": "example.com", "kind": "Other", "name": "x" });
    let before = desk.add_pool("blue", json!({ "spec": { "template": { "spec": { "nodeClassRef": class } } } })).await;
    assert_eq!(readiness(&desk).await, (String::new(), String::new()));
    crate::nodepool_hash::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
    crate::nodepool_counter::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
    crate::registration_health::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
    assert_eq!(desk.get::<NodePool>("blue").await.unwrap(), before);
}

/// API-56, LC-97, LC-98, LIF-97: the status says what there is, not what there should be; before the state is complete
/// it says nothing.
#[tokio::test(start_paused = true)]
async fn the_status_counts_nodes() {
    let desk = Desk::start().await;
    desk.add_ready_pool("blue", json!({ "spec": { "replicas": 7 } })).await;
    desk.add_claim("a", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
    let count = || crate::nodepool_counter::reconcile(desk.ctx.clone(), "blue".to_owned());
    assert_eq!(count().await.unwrap(), Requeue::After(std::time::Duration::from_secs(1)), "a claim is not launched");
    desk.delete::<NodeClaim>("a").await;
    desk.add_launched("b", true, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
    desk.change::<Node>("b", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
    assert_eq!(count().await.unwrap(), Requeue::After(std::time::Duration::from_secs(5)));
    let status = desk.get::<NodePool>("blue").await.unwrap().status.unwrap();
    let resources = serde_json::to_value(status.resources).unwrap();
    assert_eq!((status.nodes, &resources["cpu"], &resources["nodes"]), (Some(1), &json!("4"), &json!("1")));
}

/// API-227, API-229, LIF-94: a claim that could not be migrated keeps the pool at its old version, and all is done again.
#[tokio::test(start_paused = true)]
async fn migration_is_all_or_nothing() {
    let desk = Desk::start().await;
    let version = "karpenter.sh/nodepool-hash-version";
    desk.add_pool("blue", json!({ "metadata": { "annotations": { version: "old" } } })).await;
    for name in ["a", "b"] {
        let metadata = json!({ "labels": { "karpenter.sh/nodepool": "blue" }, "annotations": { version: "old" } });
        desk.add_claim(name, json!({ "metadata": metadata })).await;
    }
    let migrate = || crate::nodepool_hash::reconcile(desk.ctx.clone(), "blue".to_owned());
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Patch).name("b").times(1));
    assert!(migrate().await.is_err());
    desk.look().await;
    assert_eq!(desk.get::<NodePool>("blue").await.unwrap().annotations()[version], "old");
    assert_ne!(desk.claim("a").await.annotations()[version], "old");
    migrate().await.unwrap();
    let new = desk.get::<NodePool>("blue").await.unwrap().annotations()[version].clone();
    assert_eq!(
        (&desk.claim("a").await.annotations()[version], &desk.claim("b").await.annotations()[version]),
        (&new, &new)
    );
}

async fn health(desk: &Desk) -> String {
    crate::registration_health::reconcile(desk.ctx.clone(), "blue".to_owned()).await.unwrap();
    desk.look().await;
    let pool = desk.get::<NodePool>("blue").await.unwrap();
    says(pool.conditions(), "NodeRegistrationHealthy").0.to_owned()
}

async fn record(desk: &Desk, name: &str, registered: bool) {
    let claim = desk.claim(name).await;
    crate::registration_health::record_outcome(&desk.ctx, &claim, registered).await.unwrap();
    desk.look().await;
}

/// API-59, API-60, API-62, API-63, LIF-101, LIF-103, LC-101: a pool or class that changes starts anew; health does not make
/// a pool ready or not.
#[tokio::test(start_paused = true)]
async fn health_starts_anew_with_a_change() {
    let mut desk = Desk::start().await;
    let pool = desk.add_ready_pool("blue", json!({})).await;
    let owner =
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "blue", "uid": pool.uid().unwrap() });
    let metadata = json!({ "labels": { "karpenter.sh/nodepool": "blue" }, "ownerReferences": [owner] });
    for name in ["a", "b", "c", "d"] {
        desk.add_claim(name, json!({ "metadata": metadata })).await;
    }
    assert_eq!(health(&desk).await, "Unknown");
    record(&desk, "a", false).await;
    assert_eq!(health(&desk).await, "Unknown", "API-60: a lone failure changes nothing");
    record(&desk, "b", false).await;
    assert_eq!(health(&desk).await, "False");
    assert!(desk.ctx.state().pool("blue").unwrap().is_schedulable(), "LIF-103");
    desk.restart().await;
    record(&desk, "c", true).await;
    assert_eq!(health(&desk).await, "False", "API-62: False stands for two failures");
    desk.change::<NodePool>("blue", json!({ "spec": { "weight": 5 } })).await;
    assert_eq!(health(&desk).await, "Unknown", "API-63");
    record(&desk, "d", true).await;
    assert_eq!(health(&desk).await, "True");
}

/// API-236, DIS-150: claims of a class that changed, or went away, are looked at again, and no others.
#[tokio::test(start_paused = true)]
async fn a_changed_class_concerns_its_claims() {
    let desk = Desk::start().await;
    let of_class = |class: &str| json!({ "spec": { "nodeClassRef": { "name": class } } });
    desk.add_claim("a", of_class("default")).await;
    desk.add_claim("b", of_class("own")).await;
    desk.look().await;
    let due = || desk.ctx.queues.disruptions.take_due();
    assert_eq!(due(), ["a", "b"], "both are new");
    desk.change::<KWOKNodeClass>("default", json!({ "spec": { "nodeRegistrationDelay": "5s" } })).await;
    desk.look().await;
    assert_eq!(due(), ["a"]);
    desk.delete::<KWOKNodeClass>("default").await;
    desk.look().await;
    assert_eq!(due(), ["a"]);
}
