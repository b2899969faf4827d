//! The end of a class.

use karpenter_api::kinds::{EC2NodeClass, NodeClaim};
use karpenter_aws::cloud::ApiError;
use kube::ResourceExt as _;
use serde_json::json;

use crate::account::Profile;
use crate::desk::{Desk, options};

async fn remove(desk: &Desk, claim: &str) {
    desk.delete::<NodeClaim>(claim).await;
    desk.change::<NodeClaim>(claim, json!({ "metadata": { "finalizers": null } })).await;
}

/// AWS-35, AWS-39, AWS-40, AWS-41, AWS-74, AWS-289, AC-74, AC-279: waits for its claims, then leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_class_waits_for_its_claims() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let legacy = karpenter_aws::profiles::legacy_profile_name("cluster", "us-west-2", "default").unwrap();
    desk.account.state().profiles.insert(legacy, Profile::default());
    assert_eq!(desk.account.state().templates.len(), 1, "the one of the check");
    for name in ["a", "b", "c", "d", "e", "f"] {
        desk.add_claim(name, json!({})).await;
    }
    desk.events();
    desk.delete::<EC2NodeClass>("default").await;
    let said = "Normal EC2NodeClass/default: WaitingOnNodeClaimTermination: Waiting on NodeClaim termination for ";
    assert_eq!(desk.events(), [format!("{said}a, b, c, d, e and 1 other(s)")]);
    for name in ["a", "b", "c", "d"] {
        remove(&desk, name).await;
    }
    assert_eq!(desk.events().pop().unwrap(), format!("{said}e, f"));
    assert!(desk.class("default").await.metadata.deletion_timestamp.is_some());
    assert_eq!(desk.account.state().profiles.len(), 2);
    let metrics = &desk.aws.ctx.report.metrics.all;
    assert!(metrics.userdata_bytes.value(["default"]).is_some());
    remove(&desk, "e").await;
    remove(&desk, "f").await;
    assert!(desk.get::<EC2NodeClass>("default").await.is_none(), "no need to wait for the ten minutes");
    assert!(desk.account.state().profiles.is_empty() && desk.account.state().templates.is_empty());
    assert_eq!(metrics.userdata_bytes.value(["default"]), None);
}

/// AC-75: what cannot be cleaned up keeps the class, and is tried again.
#[tokio::test(start_paused = true)]
async fn clean_up_that_fails() {
    for call in ["DeleteLaunchTemplate", "DeleteInstanceProfile", "ListInstanceProfiles"] {
        let desk = Desk::start().await;
        desk.add_class("default", json!({})).await;
        desk.account.break_call(call, ApiError::new("AccessDenied", "no"));
        desk.delete::<EC2NodeClass>("default").await;
        desk.wait(60).await;
        assert_eq!(desk.class("default").await.finalizers(), ["karpenter.k8s.aws/termination"], "{call}");
        desk.account.mend(call);
        desk.wait(120).await;
        assert!(desk.get::<EC2NodeClass>("default").await.is_none(), "{call}");
    }
}

/// AC-76: without a way to IAM nothing is asked of it.
#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc() {
    let mut options = options();
    options.isolated_vpc = true;
    let desk = Desk::with(options).await;
    desk.add_class("default", json!({ "role": null, "instanceProfile": "mine" })).await;
    desk.account.state().calls.clear();
    desk.delete::<EC2NodeClass>("default").await;
    assert!(desk.get::<EC2NodeClass>("default").await.is_none());
    let calls: Vec<&str> = desk.account.state().calls.iter().map(|(name, _)| *name).collect();
    assert!(!calls.iter().any(|name| name.contains("InstanceProfile")), "{calls:?}");
}

/// AC-77, AC-78: no legacy name that IAM would refuse; the user's own profile stays.
#[tokio::test(start_paused = true)]
async fn what_is_not_ours_stays() {
    let mut options = options();
    options.cluster.name = "a:b".to_owned();
    let desk = Desk::with(options).await;
    desk.account.state().profiles.insert("mine".to_owned(), Profile { path: "/".to_owned(), ..Profile::default() });
    desk.add_class("default", json!({ "role": null, "instanceProfile": "mine" })).await;
    desk.delete::<EC2NodeClass>("default").await;
    assert!(desk.get::<EC2NodeClass>("default").await.is_none());
    assert!(desk.account.state().profiles.contains_key("mine"));
    assert!(desk.account.take("GetInstanceProfile").is_empty(), "neither by legacy name nor the user's");
}

/// A claim that the watch has not brought yet keeps the class, too: the API is asked before anything goes.
#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_has_seen() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let rule = karpenter_apiserver::Rule::new(karpenter_apiserver::Fault::RequestLost)
        .kind("NodeClaim")
        .verb(karpenter_apiserver::Verb::List);
    desk.api.add_fault(rule);
    desk.delete::<EC2NodeClass>("default").await;
    assert!(desk.get::<EC2NodeClass>("default").await.is_some(), "nobody can say whether there are any");
    assert_eq!(desk.account.state().profiles.len(), 1);
}
