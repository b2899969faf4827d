//! Claims that end by themselves, and what is checked of those that live.

use karpenter_api::conditions::Conditioned as _;
use karpenter_model::pod::PodOwner;
use serde_json::json;

use super::desk::{Desk, Setup, says};
use super::*;
use crate::queue::Requeue;

fn daemon() -> serde_json::Value {
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true });
    json!({ "metadata": { "ownerReferences": [owner] }, "spec": { "nodeName": "a" } })
}

/// LIF-74, LIF-75, LC-78, LC-79, LC-80, V15-111: an expired claim goes whatever runs there; who has to move is counted, once.
#[tokio::test(start_paused = true)]
async fn expired_claims_are_counted() {
    let desk = Desk::start().await;
    let labels = json!({ "karpenter.sh/nodepool": "blue" });
    desk.add_launched("a", true, json!({ "metadata": { "labels": labels }, "spec": { "expireAfter": "30s" } })).await;
    let protected = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } });
    for (name, mut pod) in [("one", protected), ("two", json!({}))] {
        super::desk::merge(&mut pod, json!({ "spec": { "nodeName": "a" } }));
        desk.add_pod(name, pod).await;
    }
    desk.add_pod("agent", daemon()).await;
    let daemons = desk.ctx.state().pods_on("a").iter().filter(|pod| pod.owner == PodOwner::DaemonSet).count();
    assert_eq!(daemons, 1);
    let reconcile = || crate::expiration::reconcile(desk.ctx.clone(), "a".to_owned());
    let Requeue::After(left) = reconcile().await.unwrap() else { panic!("it waits") };
    assert!(left.as_secs() <= 30);
    desk.wait(31).await;
    for _ in 0..3 {
        reconcile().await.unwrap();
        desk.look().await;
    }
    assert!(desk.claim("a").await.metadata.deletion_timestamp.is_some());
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.nodeclaims_disrupted.value(["expired", "blue", "", "", "graceful"]), Some(1.0));
    assert_eq!(metrics.pods_disruption_initiated.value(["expired", "blue", "", "", "graceful"]), Some(2.0));
}

/// LC-149, Y29, API-71: a hundred claims that expire together go together.
#[tokio::test(start_paused = true)]
async fn a_hundred_claims_expire_together() {
    let mut desk = Desk::start().await;
    for number in 0..100 {
        desk.add_launched(&format!("c{number}"), false, json!({ "spec": { "expireAfter": "60s" } })).await;
    }
    desk.shop.book().types = std::sync::Arc::default();
    desk.work(55).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 100);
    desk.wait(15).await;
    let left = desk.all::<NodeClaim>().await;
    assert!(left.iter().all(|claim| claim.metadata.deletion_timestamp.is_some()), "{}", left.len());
}

/// Y18, LIF-74, SC-24, SCH-25: when a long life ends, its pods have been planned for elsewhere already.
#[tokio::test(start_paused = true)]
async fn replacements_are_there_before_a_claim_expires() {
    let mut desk = Desk::start().await;
    let pool = desk.add_pool("blue", json!({ "metadata": { "labels": {} } })).await;
    let owner =
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "blue", "uid": pool.uid().unwrap() });
    let metadata = json!({ "labels": { "karpenter.sh/nodepool": "blue" }, "ownerReferences": [owner] });
    desk.add_launched("a", true, json!({ "metadata": metadata, "spec": { "expireAfter": "2h" } })).await;
    desk.add_pod("web", json!({ "spec": { "nodeName": "a" } })).await;
    desk.work(3600).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 1);
    desk.wait(3600 - 60).await;
    let claims = desk.all::<NodeClaim>().await;
    assert_eq!(claims.len(), 2, "the next one is on its way");
    assert!(claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none()), "and the old one still lives");
    let decisions = desk.ctx.report.metrics.all.pods_scheduling_decision_duration.value([]);
    assert_eq!(decisions, None, "SC-24: nothing was decided about a pod that runs");
    desk.wait(70).await;
    assert!(desk.claim("a").await.metadata.deletion_timestamp.is_some());
    assert_eq!(desk.all::<NodeClaim>().await.len(), 2, "one replacement is enough");
}

/// LIF-76, LIF-78, LC-81, API-245, Y3, Y4: whose instance is gone goes, after a second look and a question; nobody goes while the
/// nodes are not known.
#[tokio::test(start_paused = true)]
async fn claims_without_an_instance_go() {
    let desk = Desk::start().await;
    desk.add_launched("ready", true, json!({})).await;
    desk.add_launched("silent", true, json!({})).await;
    desk.add_launched("unregistered", false, json!({})).await;
    desk.set_ready("silent", "False").await;
    desk.shop.book().machines.clear();
    let deleting = |claims: Vec<NodeClaim>| {
        let gone = claims.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_some());
        gone.map(|claim| claim.name_any()).collect::<Vec<_>>()
    };
    // A Context that has seen no nodes collects nothing, however often it looks.
    let blind = super::desk::context_of(&desk);
    for _ in 0..4 {
        crate::garbage_collection::collect(&blind).await.unwrap();
    }
    assert_eq!(deleting(desk.all().await), Vec::<String>::new());
    crate::garbage_collection::collect(&desk.ctx).await.unwrap();
    assert_eq!(deleting(desk.all().await), Vec::<String>::new(), "one listing can be wrong");
    let down = karpenter_platform::CallError::new("DescribeInstances", "down");
    desk.shop.book().gets.push_back(Err(down.into()));
    assert!(crate::garbage_collection::collect(&desk.ctx).await.is_err());
    assert_eq!(deleting(desk.all().await), Vec::<String>::new(), "nor does a failed question say anything");
    crate::garbage_collection::collect(&desk.ctx).await.unwrap();
    assert_eq!(deleting(desk.all().await), ["silent"]);
    let counted = &desk.ctx.report.metrics.all.nodeclaims_disrupted;
    assert_eq!(counted.value(["garbage_collected", "", "", "", "graceful"]), Some(1.0));
}

/// AWS-203, AC-233, LIF-79: instances that nobody has claimed for half a minute go, all in one pass, and their nodes with them.
#[tokio::test(start_paused = true)]
async fn instances_without_a_claim_go() {
    let desk = Desk::start().await;
    let id = |number: usize| format!("shop://orphan-{number}");
    let machines = (0..500).map(|number| (id(number), super::desk::instance(&id(number))));
    desk.shop.book().machines.extend(machines);
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "providerID": id(7) } });
    desk.add::<Node>(node).await;
    let mut left = Vec::new();
    for seconds in [0, 29, 2] {
        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        crate::garbage_collection::collect(&desk.ctx).await.unwrap();
        let machines = desk.shop.book().machines.len();
        left.push((machines, desk.get::<Node>("n").await.is_some()));
    }
    assert_eq!(left, [(500, true), (500, true), (0, false)]);
}

/// LIF-80, LC-82, SC-356, SCH-242, VC-136: an entry that nobody knows any more goes after a while; others stay.
#[tokio::test(start_paused = true)]
async fn ghosts_are_forgotten() {
    let desk = Desk::start().await;
    desk.add_claim("waiting", json!({})).await;
    desk.add_launched("launched", false, json!({})).await;
    // The API's answer to a create, arriving after the news that the claim is gone.
    let mut ghost = desk.claim("waiting").await;
    (ghost.metadata.name, ghost.metadata.uid) = (Some("ghost".into()), Some("ghost".into()));
    desk.ctx.note_claim(ghost);
    let known = |name: &str| desk.ctx.state().claim(name).is_some();
    assert!(known("ghost") && desk.ctx.state().unsynced().is_some());
    for name in ["ghost", "waiting", "launched"] {
        crate::ghosts::reconcile(desk.ctx.clone(), name.to_owned()).await.unwrap();
    }
    assert!(!known("ghost") && known("waiting") && known("launched"));
}

/// LIF-81, LIF-83, LC-142, Y24: a check that was not made, or not stored, does not keep the next one away.
#[tokio::test(start_paused = true)]
async fn consistency_is_checked_when_it_can_be() {
    let desk = Desk::start().await;
    let reconcile = || crate::consistency::reconcile(desk.ctx.clone(), "a".to_owned());
    let found = || async { says(desk.claim("a").await.conditions(), "ConsistentStateFound").0.to_owned() };
    let requests = json!({ "spec": { "resources": { "requests": { "cpu": "1" } } } });
    desk.add_launched("a", false, requests).await;
    assert_eq!(reconcile().await.unwrap(), Requeue::OnChange);
    assert_eq!(found().await, "", "there is no node to compare with");
    desk.add_node("n", "shop://a").await;
    assert_eq!(reconcile().await.unwrap(), Requeue::OnChange);
    assert_eq!(found().await, "", "it is not initialized");
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(|type_| desk.condition(type_, "True"));
    let status = json!({ "conditions": conditions, "capacity": { "cpu": "8" } });
    desk.set_status::<NodeClaim>("a", status).await;
    desk.conflict("NodeClaim", "status", 1);
    assert!(reconcile().await.is_err());
    let Requeue::After(next) = reconcile().await.unwrap() else { panic!("it looks again") };
    desk.look().await;
    assert_eq!((found().await.as_str(), next.as_secs()), ("False", 600));
    assert!(desk.reasons().contains(&"FailedConsistencyCheck".to_owned()));
    let Requeue::After(left) = reconcile().await.unwrap() else { panic!("later") };
    assert!(left.as_secs() <= 600, "a check holds for ten minutes");
}

/// LIF-37, LC-92: claims and nodes from before get the label of their class.
#[tokio::test(start_paused = true)]
async fn labels_are_filled_in() {
    let desk = Desk::start().await;
    let label = "karpenter.kwok.sh/kwoknodeclass";
    desk.add_launched("a", true, json!({})).await;
    desk.change::<Node>("a", json!({ "metadata": { "labels": { label: null } } })).await;
    desk.add_node("other", "shop://other").await;
    desk.change::<Node>("other", json!({ "metadata": { "labels": { label: null } } })).await;
    crate::hydration::reconcile(desk.ctx.clone(), "a".to_owned()).await.unwrap();
    assert_eq!(desk.claim("a").await.labels()[label], "default");
    assert_eq!(desk.get::<Node>("a").await.unwrap().labels()[label], "default");
    assert!(!desk.get::<Node>("other").await.unwrap().labels().contains_key(label));
}

/// LC-106, LC-137, LIF-104, LIF-105, LIF-108, Y15, Y16, Y34: as many as there should be, also when another takes over in the
/// middle, and overlapping looks do not add up.
#[tokio::test(start_paused = true)]
async fn static_pools_get_their_nodes() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, ..Setup::default() }).await;
    desk.add_ready_pool("fixed", json!({ "spec": { "replicas": 5 } })).await;
    let up = |desk: &Desk| crate::static_capacity::provision(desk.ctx.clone(), "fixed".to_owned());
    desk.api.add_fault(
        karpenter_apiserver::Rule::new(karpenter_apiserver::Fault::RequestLost)
            .kind("NodeClaim")
            .verb(karpenter_apiserver::Verb::Create)
            .nth(3),
    );
    let _ = up(&desk).await;
    let some = desk.all::<NodeClaim>().await.len();
    assert!(some < 5, "{some}");
    desk.api.clear_faults();
    desk.restart().await;
    let overlapping = futures::future::join_all((0..10).map(|_| up(&desk))).await;
    assert!(overlapping.iter().all(Result::is_ok));
    assert_eq!(desk.all::<NodeClaim>().await.len(), 5);

    desk.change::<NodePool>("fixed", json!({ "spec": { "replicas": 1000 } })).await;
    up(&desk).await.unwrap();
    desk.look().await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 1000);

    desk.change::<NodePool>("fixed", json!({ "spec": { "replicas": 2 } })).await;
    for _ in 0..3 {
        crate::static_capacity::deprovision(desk.ctx.clone(), "fixed".to_owned()).await.unwrap();
        desk.look().await;
    }
    let staying = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none();
    let (left, all) = {
        let claims = desk.all::<NodeClaim>().await;
        (claims.iter().filter(|claim| staying(claim)).count(), claims.len())
    };
    assert_eq!((left, all), (2, 1000), "LIF-11: the finalizer came with the claim, so their instances are ended first");
}

/// LC-104, LIF-106, Y16: neither launches nor deletes before everything that counts has been seen.
#[tokio::test(start_paused = true)]
async fn static_pools_wait_for_the_lists() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let desk = Desk::with(Setup { features, ..Setup::default() }).await;
    desk.add_ready_pool("fixed", json!({ "spec": { "replicas": 0 } })).await;
    desk.add_claim("extra", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "fixed" } } })).await;
    let blind = super::desk::context_of(&desk);
    blind.note_pool(desk.get("fixed").await.unwrap());
    blind.note_claim(desk.claim("extra").await);
    let second = Requeue::After(std::time::Duration::from_secs(1));
    assert_eq!(crate::static_capacity::deprovision(blind.clone(), "fixed".to_owned()).await.unwrap(), second);
    assert_eq!(crate::static_capacity::provision(blind, "fixed".to_owned()).await.unwrap(), second);
    assert_eq!(desk.all::<NodeClaim>().await.len(), 1);
}

/// LC-108: what wakes the look at a static pool.
#[tokio::test(start_paused = true)]
async fn static_pools_are_looked_at_when_something_changes() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let desk = Desk::with(Setup { features, ..Setup::default() }).await;
    desk.add_ready_pool("fixed", json!({ "spec": { "replicas": 5 } })).await;
    let woken = || (desk.ctx.queues.static_up.take_due(), desk.ctx.queues.static_down.take_due());
    let both = (vec!["fixed".to_owned()], vec!["fixed".to_owned()]);
    assert_eq!(woken(), both, "it became ready");
    desk.change::<NodePool>("fixed", json!({ "spec": { "replicas": 3 } })).await;
    assert_eq!(woken(), both, "another number");
    desk.look().await;
    assert_eq!(woken(), (vec![], vec![]), "nothing happens");
    desk.add_claim("c", json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "fixed" } } })).await;
    assert_eq!(woken(), both, "a claim came");
    desk.delete::<NodeClaim>("c").await;
    assert_eq!(woken(), both, "and went");
}
