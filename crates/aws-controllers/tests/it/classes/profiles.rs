//! Instance profiles: made for a role, given by the user, collected when nobody needs them.

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::cloud::ApiError;
use serde_json::json;

use crate::account::Profile;
use crate::desk::{Desk, options, says};

async fn profile_of(desk: &Desk, class: &str) -> String {
    desk.class(class).await.status.unwrap().instance_profile.unwrap_or_default()
}

async fn set_role(desk: &Desk, role: &str) {
    desk.change::<EC2NodeClass>("default", json!({ "spec": { "role": role } })).await;
}

/// AC-65, AC-66, AC-67, AWS-70, AWS-73: kept while its role is right, replaced when it is not, found again within a minute.
#[tokio::test(start_paused = true)]
async fn roles_that_change() {
    let mut desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let first = profile_of(&desk, "default").await;
    set_role(&desk, "other-role").await;
    let second = profile_of(&desk, "default").await;
    assert_ne!(first, second);
    assert_eq!(desk.account.state().profiles[&first].roles, ["node-role"], "the old one is not touched");
    set_role(&desk, "node-role").await;
    assert_eq!(profile_of(&desk, "default").await, first, "made a moment ago");
    desk.account.take("CreateInstanceProfile");
    desk.restart().await;
    desk.wait(60).await;
    assert_eq!(profile_of(&desk, "default").await, first);
    assert!(desk.account.take("CreateInstanceProfile").is_empty(), "it is there with the right role");
    desk.account.state().profiles.get_mut(&first).unwrap().roles.clear();
    desk.wait(16 * 60).await;
    let third = profile_of(&desk, "default").await;
    assert_ne!(third, first, "a profile without a role is as good as none");
}

/// AWS-69, AWS-70, AWS-71: a process that died while it made a profile, however far it came, has left the one that the next one uses.
#[tokio::test(start_paused = true)]
async fn what_was_begun_is_finished() {
    let mut desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let name = profile_of(&desk, "default").await;
    for left in [&["node-role"][..], &[], &["other-role"]] {
        desk.kill();
        desk.account.state().profiles.get_mut(&name).unwrap().roles =
            left.iter().map(|role| (*role).to_owned()).collect();
        desk.set_status::<EC2NodeClass>("default", json!({ "instanceProfile": null })).await;
        desk.restart().await;
        assert_eq!(profile_of(&desk, "default").await, name, "{left:?}");
        let state = desk.account.state();
        assert_eq!(state.profiles.keys().collect::<Vec<_>>(), [&name], "{left:?}");
        assert_eq!(state.profiles[&name].roles, ["node-role"], "{left:?}");
    }
}

/// AC-68, AC-72: two classes of one role have two profiles; a role may come with its path.
#[tokio::test(start_paused = true)]
async fn every_class_has_its_own() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    desk.add_class("other", json!({ "role": "/path/to/node-role" })).await;
    assert_eq!(desk.account.take("AddRoleToInstanceProfile"), ["node-role", "node-role"]);
    assert_ne!(profile_of(&desk, "default").await, profile_of(&desk, "other").await);
    desk.wait(20 * 60).await;
    assert!(desk.account.take("AddRoleToInstanceProfile").is_empty(), "AWS-71: the path is no difference");
}

/// AC-69: IAM that cannot be asked changes nothing.
#[tokio::test(start_paused = true)]
async fn iam_is_down() {
    let mut desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let first = profile_of(&desk, "default").await;
    desk.account.break_call("GetInstanceProfile", ApiError::new("Throttling", "slow down"));
    desk.account.take("CreateInstanceProfile");
    desk.restart().await;
    desk.wait(60).await;
    assert!(desk.account.take("CreateInstanceProfile").is_empty());
    assert_eq!(profile_of(&desk, "default").await, first);
    desk.account.break_call("CreateInstanceProfile", ApiError::new("AccessDenied", "no"));
    let class = desk.add_class("other", json!({})).await;
    assert_eq!(says(class.conditions(), "InstanceProfileReady").0, "Unknown");
}

/// AWS-72, AC-70: a role that does not exist leaves no half-made profile, and is not tried again for a minute.
#[tokio::test(start_paused = true)]
async fn a_role_that_does_not_exist() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({ "role": "nobody" })).await;
    assert_eq!(says(class.conditions(), "InstanceProfileReady").0, "Unknown");
    assert!(desk.account.state().profiles.is_empty());
    assert_eq!(desk.account.take("CreateInstanceProfile").len(), 1);
    desk.change::<EC2NodeClass>("default", json!({ "metadata": { "labels": { "a": "b" } } })).await;
    desk.wait(30).await;
    assert!(desk.account.take("CreateInstanceProfile").is_empty(), "within the minute");
    desk.account.state().roles.push("nobody".to_owned());
    desk.wait(120).await;
    assert_eq!(says(desk.class("default").await.conditions(), "Ready").0, "True");
}

/// AWS-68: with the user's own profile IAM is not asked.
#[tokio::test(start_paused = true)]
async fn the_users_own() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({ "role": null, "instanceProfile": "mine" })).await;
    assert_eq!(profile_of(&desk, "default").await, "mine");
    for call in ["GetInstanceProfile", "CreateInstanceProfile"] {
        assert!(desk.account.take(call).is_empty(), "{call}");
    }
}

/// AWS-75, AC-71, AC-73: collected once nothing refers to them and their protection is over.
#[tokio::test(start_paused = true)]
async fn collection() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let first = profile_of(&desk, "default").await;
    let add = |name: &str, path: &str| {
        let profile = Profile { path: path.to_owned(), roles: vec!["node-role".to_owned()], ..Profile::default() };
        desk.account.state().profiles.insert(name.to_owned(), profile);
    };
    add("orphan", "/karpenter/us-west-2/cluster/some-uid/");
    add("claimed", "/karpenter/us-west-2/cluster/some-uid/");
    add("foreign", "/karpenter/us-west-2/cluster-2/some-uid/");
    let annotation = json!({ "annotations": { "karpenter.k8s.aws/instance-profile-name": "claimed" } });
    desk.add_claim("a", annotation).await;
    let patch = json!({ "spec": { "role": null, "instanceProfile": "mine" } });
    desk.change::<EC2NodeClass>("default", patch).await;
    desk.wait(31 * 60).await;
    let left = || -> Vec<String> { desk.account.state().profiles.keys().cloned().collect() };
    let mut want = vec!["claimed".to_owned(), first.clone(), "foreign".to_owned()];
    want.sort();
    assert_eq!(left(), want, "the old one is protected for an hour");
    desk.wait(60 * 60).await;
    assert_eq!(left(), ["claimed", "foreign"]);
}

/// AWS-75: not in a VPC without a way to IAM.
#[tokio::test(start_paused = true)]
async fn no_collection_in_isolated_vpcs() {
    let mut options = options();
    options.isolated_vpc = true;
    let desk = Desk::with(options).await;
    desk.wait(40 * 60).await;
    assert!(desk.account.take("ListInstanceProfiles").is_empty());
}
