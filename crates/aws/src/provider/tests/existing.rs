//! Instances that are there.

use futures::future::join_all;
use karpenter_platform::{InstanceError, RebootError};

use super::*;
use crate::cloud::Tags;
use crate::provider_id::instance_id;
use crate::zonal_shift::ShiftInfo;

fn id_of(claim: &ClaimView) -> String {
    instance_id(claim.provider_id.as_deref().unwrap()).unwrap().to_owned()
}

fn shift(world: &World, zone_id: &str) {
    let expires = world.now() + SignedDuration::from_hours(1);
    let (away_from, applied_status) = (zone_id.to_owned(), "APPLIED".to_owned());
    world.provider.zonal_shifts_described(&[ShiftInfo { away_from, applied_status, expires }]);
}

/// AWS-197, AWS-198, AWS-293, AC-228, AC-229, AC-290: ours and nobody else's; what is gone is forgotten; a class that is gone hides nothing.
#[tokio::test(start_paused = true)]
async fn lists() {
    let world = World::new().await;
    let mut claims = Vec::new();
    for name in ["a", "b", "c", "d"] {
        claims.push(world.launched(&claim(name, &["m5.large"], &["on-demand"])).await.0);
    }
    let change = |at: usize, change: &dyn Fn(&mut Tags)| {
        world.account.lock().machines.get_mut(&id_of(&claims[at])).unwrap().change(|info| change(&mut info.tags));
    };
    change(1, &|tags| drop(tags.insert("eks:eks-cluster-name".to_owned(), "other".to_owned())));
    change(2, &|tags| drop(tags.remove("karpenter.sh/nodepool")));
    pass(90).await;
    let listed = world.provider.list().await.unwrap();
    let mut ids: Vec<&str> = listed.iter().map(|one| one.provider_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [claims[0].provider_id.as_deref().unwrap(), claims[3].provider_id.as_deref().unwrap()]);
    assert!(listed.iter().all(|one| !one.capacity.is_empty() && !label(one, aws::ZONE_ID).is_empty()));
    // Not in the list, so no longer remembered; one more look finds it by its id.
    let calls = world.account.calls("DescribeInstances by id");
    world.provider.get(claims[0].provider_id.as_deref().unwrap()).await.unwrap();
    assert_eq!(world.account.calls("DescribeInstances by id"), calls, "remembered");
    world.provider.get(claims[1].provider_id.as_deref().unwrap()).await.unwrap();
    assert_eq!(world.account.calls("DescribeInstances by id"), calls + 1, "forgotten");

    world.classes.remove("default");
    let listed = world.provider.list().await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|one| one.capacity.is_empty() && label(one, labels::ZONE).starts_with("test-zone")));
    world.account.lock().machines.get_mut(&id_of(&claims[0])).unwrap().ending_since = Some(world.now());
    let listed = world.provider.list().await.unwrap();
    assert_eq!(listed.iter().filter(|one| one.terminating).count(), 1, "AWS-202");
}

/// AWS-199, AWS-200, AC-230, AC-232: delete is sure of it, does nothing twice and says when it is over.
#[tokio::test(start_paused = true)]
async fn deletes() {
    let world = World::new().await;
    let (one, _) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    pass(60).await;
    world.account.fail("TerminateInstances", &ApiError::new("UnauthorizedOperation", "x"), 2);
    world.seen.take();
    assert!(matches!(world.provider.delete(&one).await, Err(InstanceError::Call(_))));
    let rows: Vec<String> = world.seen.take().into_iter().filter(|text| !text.starts_with("batch")).collect();
    assert_eq!(rows, ["termination failed test-zone-1a tstz1-1a"]);
    world.provider.delete(&one).await.unwrap();
    let calls = world.account.calls("TerminateInstances");
    world.provider.delete(&one).await.unwrap();
    assert_eq!(world.account.calls("TerminateInstances"), calls, "it is under way");
    assert!(world.provider.get(one.provider_id.as_deref().unwrap()).await.unwrap().terminating);
    pass(21).await;
    assert!(matches!(world.provider.delete(&one).await, Err(InstanceError::NotFound(_))));
    assert!(matches!(world.provider.get(one.provider_id.as_deref().unwrap()).await, Err(InstanceError::NotFound(_))));
    let odd = ClaimView { provider_id: Some("i-0abc".to_owned()), ..one.clone() };
    assert!(matches!(world.provider.delete(&odd).await, Err(InstanceError::Call(_))), "AWS-34");
    let never = ClaimView { provider_id: None, ..one };
    assert!(matches!(world.provider.delete(&never).await, Err(InstanceError::NotFound(_))));
}

/// An EC2 that does not show a new instance: it is there all the same, and it can be deleted.
#[tokio::test(start_paused = true)]
async fn not_shown_yet() {
    let world = World::new().await;
    world.account.lock().pace.shown_after = SignedDuration::from_secs(20);
    let (one, instance) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    assert!(world.provider.listed_instances().await.unwrap().is_empty());
    let listed = world.provider.list().await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.provider_id).collect::<Vec<_>>(), [&instance.provider_id]);
    assert_eq!(world.provider.get(&instance.provider_id).await.unwrap().labels, instance.labels, "kept in mind");
    world.provider.delete(&one).await.unwrap();
    assert_eq!(world.account.running().len(), 1, "to be asked again");
    pass(20).await;
    world.provider.delete(&one).await.unwrap();
    assert_eq!(world.account.running().len(), 0);

    // One that never appears is not there after a minute.
    world.account.lock().pace.shown_after = SignedDuration::from_hours(1);
    let (never, instance) = world.launched(&claim("b", &["m5.large"], &["on-demand"])).await;
    pass(61).await;
    assert!(world.provider.list().await.unwrap().is_empty());
    assert!(matches!(world.provider.get(&instance.provider_id).await, Err(InstanceError::NotFound(_))));
    assert!(matches!(world.provider.delete(&never).await, Err(InstanceError::NotFound(_))));
}

/// AWS-194, AWS-196, AC-227: many questions are one call; ids that spoil it are asked for alone.
#[tokio::test(start_paused = true)]
async fn batches() {
    let mut world = World::new().await;
    let mut claims = Vec::new();
    for n in 0..50 {
        claims.push(world.launched(&claim(&format!("claim-{n}"), &["m5.large"], &["on-demand"])).await.0);
    }
    pass(60).await;
    world.restart().await;
    world.account.forget_calls();
    let get = async |claim: &ClaimView| world.provider.get(claim.provider_id.as_deref().unwrap()).await;
    assert!(join_all(claims.iter().map(get)).await.iter().all(Result::is_ok));
    assert_eq!(world.account.calls("DescribeInstances by id"), 1);
    world.restart().await;
    world.account.forget_calls();
    let mut more = claims.clone();
    more.push(ClaimView { provider_id: Some("aws:///test-zone-1a/i-nothing".to_owned()), ..claims[0].clone() });
    let get = async |claim: &ClaimView| world.provider.get(claim.provider_id.as_deref().unwrap()).await;
    let answers = join_all(more.iter().map(get)).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 50);
    assert!(matches!(answers[50], Err(InstanceError::NotFound(_))));
    assert_eq!(world.account.calls("DescribeInstances by id"), 52);
    world.account.forget_calls();
    assert!(join_all(claims.iter().map(|claim| world.provider.delete(claim))).await.iter().all(Result::is_ok));
    assert_eq!((world.account.calls("DescribeInstances by id"), world.account.calls("TerminateInstances")), (1, 1));
    assert!(world.seen.take().contains(&"batch terminate_instances 50".to_owned()));
}

/// AWS-227, AC-142, AC-229, AC-231: a zone that traffic is shifted away from is left alone.
#[tokio::test(start_paused = true)]
async fn shifted_zones() {
    let world = World::new().await;
    let (one, instance) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    let one = ClaimView { node_name: Some("node-1".to_owned()), ..one };
    pass(90).await;
    shift(&world, "tstz1-1a");
    world.account.forget_calls();
    world.provider.get(&instance.provider_id).await.unwrap();
    assert!(matches!(world.provider.delete(&one).await, Err(InstanceError::Call(_))));
    assert!(world.provider.tag_instance(&one).await.is_err());
    assert!(matches!(world.provider.reboot(&one, "op").await, Err(RebootError::Call(_))));
    assert_eq!(world.account.all_calls(), 0);
    world.account.lock().machines.clear();
    assert_eq!(world.provider.list().await.unwrap().len(), 0);
    world.provider.get(&instance.provider_id).await.unwrap();
    let types = world.provider.instance_types(&pool()).await.unwrap();
    let large = types.iter().find(|one| one.name == "m5.large").unwrap();
    assert_eq!(large.offerings.iter().filter(|one| one.available).count(), 4, "of six");
    pass(3600).await;
    assert!(matches!(world.provider.delete(&one).await, Err(InstanceError::NotFound(_))), "the shift is over");
    let types = world.provider.instance_types(&pool()).await.unwrap();
    let large = types.iter().find(|one| one.name == "m5.large").unwrap();
    assert_eq!(large.offerings.iter().filter(|one| one.available).count(), 6);
}

/// AWS-157, AC-195, AC-197: tags that are missing, once; a user's name stays.
#[tokio::test(start_paused = true)]
async fn tags() {
    let world = World::new().await;
    world.class(&json!({"tags": {"Name": "mine", "team": "a"}}));
    let (one, _) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    let one = ClaimView { node_name: Some("node-1".to_owned()), ..one };
    assert_eq!(world.provider.tag_instance(&one).await.unwrap(), Tagged::Done);
    assert_eq!(world.provider.tag_instance(&one).await.unwrap(), Tagged::Done);
    assert_eq!(world.account.calls("CreateTags"), 1);
    let tags = world.account.running()[0].tags.clone();
    let value = |key: &str| tags.get(key).map(String::as_str);
    assert_eq!((value("Name"), value("karpenter.sh/nodeclaim"), value("team")), (Some("mine"), Some("a"), Some("a")));
    world.provider.delete(&one).await.unwrap();
    pass(90).await;
    assert_eq!(world.provider.tag_instance(&one).await.unwrap(), Tagged::Gone);
    let odd = ClaimView { provider_id: Some("i-1".to_owned()), ..one };
    assert!(world.provider.tag_instance(&odd).await.is_err());
}

/// AWS-203: an instance of nobody is terminated; one that is gone is fine.
#[tokio::test(start_paused = true)]
async fn orphans() {
    let world = World::new().await;
    let (one, _) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    pass(60).await;
    let all = world.provider.listed_instances().await.unwrap();
    let orphans = crate::instances::orphans(&all, &std::collections::BTreeSet::new(), world.now());
    assert_eq!(orphans.len(), 1);
    world.provider.collect_instance(&orphans[0].id).await.unwrap();
    assert_eq!(world.account.running().len(), 0);
    pass(60).await;
    world.provider.list().await.unwrap();
    world.provider.collect_instance(&id_of(&one)).await.unwrap();
}

/// AWS-307, AWS-308, AWS-311, AC-299, AC-300: one operation is one reboot; what cannot be rebooted says why.
#[tokio::test(start_paused = true)]
async fn reboots() {
    let world = World::new().await;
    let (one, _) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    assert!(matches!(world.provider.reboot(&one, "op-0").await, Err(RebootError::Call(_))), "pending");
    pass(60).await;
    // AWS-311: neither drifted nor gone while it reboots.
    let rebooting = ClaimView { rebooting: true, ..one.clone() };
    assert_eq!(world.provider.drift(&rebooting).await.unwrap(), None);
    assert!(!world.provider.get(rebooting.provider_id.as_deref().unwrap()).await.unwrap().terminating);
    for operation in ["op-1", "op-1", "op-2"] {
        world.provider.reboot(&one, operation).await.unwrap();
    }
    assert_eq!(world.account.calls("RebootInstances"), 2);
    for (code, failed) in [("UnauthorizedOperation", true), ("RequestLimitExceeded", false)] {
        world.account.fail("RebootInstances", &ApiError::new(code, "x"), 1);
        let error = world.provider.reboot(&one, code).await.unwrap_err();
        assert_eq!(matches!(error, RebootError::Failed(_)), failed, "{error:?}");
    }
    let odd = ClaimView { provider_id: Some("i-0abc".to_owned()), ..one.clone() };
    assert!(matches!(world.provider.reboot(&odd, "op-3").await, Err(RebootError::Failed(_))));
    world.account.terminate_instances(&[id_of(&one)]).await.unwrap();
    assert!(matches!(world.provider.reboot(&one, "op-4").await, Err(RebootError::NotFound(_))));
    pass(60).await;
    assert!(matches!(world.provider.reboot(&one, "op-5").await, Err(RebootError::NotFound(_))));
}
