//! From a claim to an instance.

use karpenter_api::conditions::Conditioned as _;
use karpenter_platform::{CallError, CreateError};
use serde_json::json;

use super::desk::{Desk, instance, says};
use super::*;

/// LIF-1, LIF-12, LIF-15, LIF-16, LC-1, LC-2, LC-3, API-139: first the finalizer, then the instance and what it says.
#[tokio::test(start_paused = true)]
async fn a_claim_is_launched() {
    let desk = Desk::start().await;
    let mut machine = instance("shop://1");
    for (key, value) in [("zone", "cloud"), ("type", "cloud")] {
        machine.labels.insert(key.into(), value.into());
        machine.annotations.insert(key.into(), value.into());
    }
    desk.shop.book().creates.push_back(Ok(machine));
    let own = json!({ "zone": "claim" });
    desk.add_claim("a", json!({ "metadata": { "labels": own, "annotations": own } })).await;
    desk.lifecycle("a").await.unwrap();
    let claim = desk.claim("a").await;
    assert_eq!(claim.finalizers(), ["karpenter.sh/termination"]);
    assert_eq!(desk.shop.book().created, 0, "nothing is launched before the finalizer is stored");

    desk.lifecycle("a").await.unwrap();
    let claim = desk.claim("a").await;
    assert_eq!((&*claim.labels()["zone"], &*claim.labels()["type"]), ("claim", "cloud"));
    assert_eq!((&*claim.annotations()["zone"], &*claim.annotations()["type"]), ("cloud", "cloud"));
    let status = claim.status.clone().unwrap();
    assert_eq!((status.provider_id.as_deref(), status.image_id.as_deref()), (Some("shop://1"), Some("image-1")));
    assert!(status.capacity.unwrap().contains_key("cpu") && status.allocatable.unwrap().contains_key("cpu"));
    assert_eq!(says(claim.conditions(), "Launched"), ("True", "Launched"));
    assert_eq!(says(claim.conditions(), "Registered"), ("Unknown", "NodeNotFound"));
}

/// LIF-1, LC-1, API-250: a claim of somebody else's class is left alone.
#[tokio::test(start_paused = true)]
async fn other_providers_claims_are_left_alone() {
    let desk = Desk::start().await;
    let class = json!({ "group": "example.com", "kind": "Other", "name": "x" });
    desk.add_claim("theirs", json!({ "spec": { "nodeClassRef": class } })).await;
    let before = desk.claim("theirs").await;
    for _ in 0..3 {
        desk.lifecycle("theirs").await.unwrap();
        crate::hydration::reconcile(desk.ctx.clone(), "theirs".into()).await.unwrap();
        crate::expiration::reconcile(desk.ctx.clone(), "theirs".into()).await.unwrap();
    }
    assert_eq!((desk.claim("theirs").await, desk.shop.book().created), (before, 0));
}

/// LC-7, LIF-15, LIF-131, API-239: an answer that could not be written down is not asked for again.
#[tokio::test(start_paused = true)]
async fn a_lost_write_launches_nothing_twice() {
    let desk = Desk::start().await;
    desk.add_claim("a", json!({})).await;
    desk.lifecycle("a").await.unwrap();
    desk.lose_status_write("NodeClaim");
    assert!(desk.lifecycle("a").await.is_err());
    desk.lifecycle("a").await.unwrap();
    assert_eq!(desk.shop.book().created, 1);
    assert_eq!(desk.claim("a").await.status.unwrap().provider_id.as_deref(), Some("shop://a"));
}

/// LC-131, Y1, Y2: killed between the launch and the write, the next process finds the same instance; what is seen in
/// between has labels at most, never a capacity without them.
#[tokio::test(start_paused = true)]
async fn a_crash_between_launch_and_write_leaves_one_instance() {
    let mut desk = Desk::start().await;
    desk.add_claim("a", json!({})).await;
    desk.lifecycle("a").await.unwrap();
    desk.lose_status_write("NodeClaim");
    assert!(desk.lifecycle("a").await.is_err());
    let half = desk.claim("a").await;
    assert!(half.labels().contains_key("node.kubernetes.io/instance-type"), "labels come first");
    assert_eq!(half.status.and_then(|status| status.capacity), None);
    desk.restart().await;
    desk.lifecycle("a").await.unwrap();
    assert_eq!(desk.shop.book().machines.len(), 1);
    assert_eq!(desk.claim("a").await.status.unwrap().provider_id.as_deref(), Some("shop://a"));
}

/// LIF-17, LIF-18, LIF-34, LC-4, API-241, V15-109: what cannot be launched is deleted and counted; pods that wait for it are told.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_launched_is_given_up() {
    for (error, reason, events) in [
        (CreateError::InsufficientCapacity("none".into()), "insufficient_capacity", 2),
        (CreateError::NodeClassNotReady("x".into()), "nodeclass_not_ready", 0),
    ] {
        let desk = Desk::start().await;
        desk.add_claim("a", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
        desk.add_pending("web", json!({})).await;
        let id = karpenter_model::pod::PodId::new("default", "web");
        desk.ctx.state().expectations.expect(&id, Some("a"));
        desk.lifecycle("a").await.unwrap();
        desk.reasons();
        desk.shop.book().creates.push_back(Err(error));
        desk.lifecycle("a").await.unwrap();
        assert!(desk.claim("a").await.metadata.deletion_timestamp.is_some(), "{reason}");
        assert_eq!(desk.reasons(), vec!["InsufficientCapacityError"; events], "{reason}");
        let counted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
        assert_eq!(counted.value([reason, "blue", "", "", "graceful"]), Some(1.0));
        desk.lifecycle("a").await.unwrap();
        assert!(desk.get::<NodeClaim>("a").await.is_none(), "without an instance it goes at once");
    }
}

/// LIF-19, LC-5, LC-6, API-241: other failures are told in the condition and tried again.
#[tokio::test(start_paused = true)]
async fn failures_to_launch_are_explained() {
    let desk = Desk::start().await;
    desk.add_claim("a", json!({})).await;
    desk.lifecycle("a").await.unwrap();
    let explained = CreateError::Explained { reason: "QuotaExceeded".into(), message: "ask for more".into() };
    let call = CreateError::Call(CallError::new("CreateFleet", "x".repeat(2000)));
    for (error, reason) in [(explained, "QuotaExceeded"), (call, "LaunchFailed")] {
        desk.shop.book().creates.push_back(Err(error));
        assert!(desk.lifecycle("a").await.is_err(), "{reason}");
        let claim = desk.claim("a").await;
        assert_eq!(says(claim.conditions(), "Launched"), ("Unknown", reason));
        assert!(claim.condition("Launched").unwrap().message.len() <= 1024);
    }
    desk.lifecycle("a").await.unwrap();
    assert_eq!(says(desk.claim("a").await.conditions(), "Launched").0, "True");
}

/// LIF-10: the events of a claim, of its node and of the node's going wake its reconcile.
#[tokio::test(start_paused = true)]
async fn claims_are_looked_at_when_something_happens() {
    let desk = Desk::start().await;
    let claims = &desk.ctx.queues.claims;
    desk.add_launched("a", false, json!({})).await;
    assert!(claims.take_due().contains(&"a".to_owned()));
    desk.add_node("a", "shop://a").await;
    assert!(claims.take_due().contains(&"a".to_owned()), "by provider ID");
    desk.add_node("other", "shop://other").await;
    assert!(claims.take_due().is_empty());
    desk.change::<Node>("a", json!({ "metadata": { "finalizers": [] } })).await;
    claims.take_due();
    desk.delete::<Node>("a").await;
    assert!(claims.take_due().contains(&"a".to_owned()));
}

/// LIF-31, LIF-34, LC-139, API-81, Y23: after a long absence one timeout is counted, and the claim goes.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_counted_once() {
    let desk = Desk::start().await;
    desk.add_pool("blue", json!({})).await;
    desk.add_claim("a", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
    desk.lifecycle("a").await.unwrap();
    desk.shop.book().creates.push_back(Err(CallError::new("CreateFleet", "down").into()));
    desk.wait(20 * 60).await;
    desk.lifecycle("a").await.unwrap();
    assert!(desk.claim("a").await.metadata.deletion_timestamp.is_some());
    let counted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
    assert_eq!(counted.value(["launch_timeout", "blue", "", "", "graceful"]), Some(1.0));
    assert_eq!(counted.value(["registration_timeout", "blue", "", "", "graceful"]), None);
}
