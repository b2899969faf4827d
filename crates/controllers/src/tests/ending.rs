//! From a deleted claim to nothing.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::conditions::Conditioned as _;
use karpenter_platform::{CallError, InstanceError};
use kube::api::DeleteParams;
use serde_json::json;

use super::desk::{Desk, context_of, says};
use super::*;
use crate::queue::Requeue;

/// LIF-13, LIF-40, LIF-42, LIF-44, LC-41, LC-47, API-152: the node, the instance, the finalizer; and Ready is not disturbed.
#[tokio::test(start_paused = true)]
async fn a_claim_goes_after_its_node_and_instance() {
    let desk = Desk::start().await;
    desk.add_launched("a", true, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "blue" } } })).await;
    desk.delete::<NodeClaim>("a").await;
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<Node>("a").await.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(desk.shop.book().deleted.len(), 0, "first the node");
    desk.change::<Node>("a", json!({ "metadata": { "finalizers": [] } })).await;
    assert_eq!(desk.lifecycle("a").await.unwrap(), Requeue::After(Duration::from_secs(5)));
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "InstanceTerminating").0, "True");
    assert_eq!(says(claim.conditions(), "Ready").0, "True", "LC-47");
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<NodeClaim>("a").await.is_none());
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.nodeclaims_terminated.value(["blue", "", ""]), Some(1.0));
    assert_eq!(metrics.nodeclaims_termination_duration.value(["blue"]), Some(1.0));
    assert_eq!(metrics.nodeclaims_instance_termination_duration.value(["blue"]), Some(1.0));
}

/// LC-140, LIF-42, API-252: "not found" the first time is the end, in the same pass; and a claim with odd quantities goes too (LC-48).
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_gone_is_the_end() {
    let desk = Desk::start().await;
    let requests = json!({ "spec": { "resources": { "requests": { "example.com/thing": "50000" } } } });
    desk.add_launched("a", false, requests).await;
    desk.shop.book().machines.clear();
    desk.delete::<NodeClaim>("a").await;
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<NodeClaim>("a").await.is_none());
    assert_eq!(desk.ctx.report.metrics.all.nodeclaims_instance_termination_duration.value([""]), Some(1.0));
}

/// LC-45, API-242: a cloud that fails is asked again, and one that takes its time too.
#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_until_it_is_done() {
    let desk = Desk::start().await;
    desk.add_launched("a", false, json!({})).await;
    desk.delete::<NodeClaim>("a").await;
    desk.shop.book().deletes.extend([Err(CallError::new("TerminateInstances", "down").into()), Ok(()), Ok(())]);
    assert!(desk.lifecycle("a").await.is_err());
    for _ in 0..2 {
        assert_eq!(desk.lifecycle("a").await.unwrap(), Requeue::After(Duration::from_secs(5)));
        assert_eq!(desk.claim("a").await.finalizers().len(), 1);
    }
    desk.shop.book().deletes.push_back(Err(InstanceError::NotFound("shop://a".into())));
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<NodeClaim>("a").await.is_none());
}

/// LC-132, LIF-43, API-243, Y1: a claim that does not know its instance is asked for in the cloud before it goes.
#[tokio::test(start_paused = true)]
async fn an_instance_that_was_not_written_down_goes_too() {
    let mut desk = Desk::start().await;
    desk.add_claim("a", json!({})).await;
    desk.lifecycle("a").await.unwrap();
    desk.lose_status_write("NodeClaim");
    assert!(desk.lifecycle("a").await.is_err());
    assert_eq!(desk.shop.book().machines.len(), 1);
    desk.restart().await;
    desk.delete::<NodeClaim>("a").await;
    desk.lifecycle("a").await.unwrap();
    assert_eq!(desk.shop.book().deleted, ["shop://a"]);
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<NodeClaim>("a").await.is_none());
    assert!(desk.shop.book().machines.is_empty());

    // Where nothing was launched, nobody is asked to end it.
    desk.add_claim("b", json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}})).await;
    desk.delete::<NodeClaim>("b").await;
    desk.lifecycle("b").await.unwrap();
    assert!(desk.get::<NodeClaim>("b").await.is_none());
    assert_eq!(desk.shop.book().deleted.iter().filter(|id| *id != "shop://a").count(), 0);
}

/// LC-136, LIF-131: killed after the instance went, the next process finishes without a complaint.
#[tokio::test(start_paused = true)]
async fn a_crash_after_the_instance_went() {
    let mut desk = Desk::start().await;
    desk.add_launched("a", true, json!({})).await;
    desk.delete::<NodeClaim>("a").await;
    desk.lifecycle("a").await.unwrap();
    desk.shop.book().machines.clear();
    desk.set_ready("a", "False").await;
    desk.restart().await;
    desk.terminate("a").await.unwrap();
    desk.wait(11).await;
    desk.terminate("a").await.unwrap();
    assert!(desk.get::<Node>("a").await.is_none());
    desk.lifecycle("a").await.unwrap();
    assert!(desk.get::<NodeClaim>("a").await.is_none());
}

/// LC-46, LIF-39, V15-112: the deadline is written once, and what stands there is not changed.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_written_down() {
    let desk = Desk::start().await;
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    desk.add_launched("a", false, json!({ "spec": { "terminationGracePeriod": "300s" } })).await;
    desk.delete::<NodeClaim>("a").await;
    desk.reasons();
    desk.lifecycle("a").await.unwrap();
    let claim = desk.claim("a").await;
    let deleted = claim.metadata.deletion_timestamp.clone().unwrap().0;
    let written: jiff::Timestamp = claim.annotations()[key].parse().unwrap();
    assert_eq!(written.duration_since(deleted).as_secs(), 300);
    assert_eq!(desk.reasons(), ["TerminationGracePeriodExpiring"]);
    let tight = json!({ "metadata": { "annotations": { key: "2026-01-01T00:00:30Z" } } });
    desk.change::<NodeClaim>("a", tight).await;
    desk.lifecycle("a").await.unwrap();
    assert_eq!(desk.claim("a").await.annotations()[key], "2026-01-01T00:00:30Z", "a tighter one stays");
}

/// SCH-242: "not found" is news, whoever says it first. A claim or node that a write did not find is not looked at again and again
/// until the watch says that it is gone, and no later answer brings it back.
#[tokio::test(start_paused = true)]
async fn what_a_write_did_not_find_is_gone() {
    let desk = Desk::start().await;
    let grace = json!({ "spec": { "terminationGracePeriod": "300s" } });
    let claim = desk.add_launched("a", true, grace).await;
    desk.delete::<NodeClaim>("a").await;
    desk.delete::<Node>("a").await;
    let (claim, node) = (desk.claim(&claim.name_any()).await, desk.get::<Node>("a").await.unwrap());
    // A process whose watches are late.
    let late = context_of(&desk);
    late.note_claim(claim.clone());
    late.note_node(node.clone());
    desk.change::<NodeClaim>("a", json!({ "metadata": { "finalizers": [] } })).await;
    desk.change::<Node>("a", json!({ "metadata": { "finalizers": [] } })).await;

    let wants = crate::nodeclaim_lifecycle::reconcile(late.clone(), "a".to_owned()).await.unwrap();
    assert_eq!(wants, Requeue::Backoff, "nothing was stored");
    assert!(late.claims.get("a").is_none() && late.state().claim("a").is_none());
    let wants = crate::nodeclaim_lifecycle::reconcile(late.clone(), "a".to_owned()).await.unwrap();
    assert_eq!(wants, Requeue::OnChange);
    late.note_claim(claim);
    assert!(late.claims.get("a").is_none(), "an answer that was on its way");

    let wants = crate::node_termination::reconcile(late.clone(), "a".to_owned()).await.unwrap();
    assert_eq!(wants, Requeue::Backoff);
    assert!(late.nodes.get("a").is_none() && late.state().node("a").is_none());
    assert_eq!(crate::node_termination::reconcile(late.clone(), "a".to_owned()).await.unwrap(), Requeue::OnChange);

    // One that took the name meanwhile is another one.
    let second = desk.add_claim("a", json!({})).await;
    late.note_claim(second.clone());
    assert_eq!(late.claims.get("a").unwrap().uid(), second.uid());
}

/// A kind that is not served any more says nothing about one object.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_not_gone() {
    let desk = Desk::start().await;
    desk.add_launched("a", false, json!({ "spec": { "terminationGracePeriod": "300s" } })).await;
    desk.delete::<NodeClaim>("a").await;
    let late = context_of(&desk);
    late.note_claim(desk.claim("a").await);
    let crds: Api<CustomResourceDefinition> = Api::all(desk.client.clone());
    crds.delete("nodeclaims.karpenter.sh", &DeleteParams::default()).await.unwrap();
    // Refused or not found: whatever the answer is, it is not about this claim.
    let _ = crate::nodeclaim_lifecycle::reconcile(late.clone(), "a".to_owned()).await;
    assert!(late.claims.get("a").is_some());
}

/// LC-52, LC-49, LIF-51: ten nodes that are deleted together are gone together, with their claims.
#[tokio::test(start_paused = true)]
async fn ten_nodes_go_at_once() {
    let mut desk = Desk::start().await;
    for number in 0..10 {
        desk.add_launched(&format!("n{number}"), true, json!({})).await;
    }
    for number in 0..10 {
        desk.delete::<Node>(&format!("n{number}")).await;
    }
    desk.work(60).await;
    assert_eq!((desk.all::<Node>().await.len(), desk.all::<NodeClaim>().await.len()), (0, 0));
    assert!(desk.shop.book().machines.is_empty());
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.nodes_terminated.value(["", ""]), Some(10.0));
    assert_eq!(metrics.nodes_drained.value([""]), Some(10.0));
    assert_eq!(metrics.nodes_termination_duration.value([""]), Some(10.0));
}
