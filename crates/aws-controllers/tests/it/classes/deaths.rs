//! Instance profiles when the process dies at any of its calls to IAM, before or after it was carried out.

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::profiles::legacy_profile_name;
use serde_json::json;

use crate::account::Profile;
use crate::desk::{Desk, says};
use crate::mortal::Death;

const HOUR: u64 = 60 * 60;

/// Does `part` once and notes its calls; then does it again, from the start and with a death at each of them. Another process takes
/// over, and everything must be as if nobody had died.
async fn die_at_each_call(
    prepare: impl AsyncFn() -> Desk,
    part: impl AsyncFn(&mut Desk),
    check: impl AsyncFn(&Desk, &str),
    calls: &[&str],
) {
    let mut whole = prepare().await;
    whole.account.lives();
    part(&mut whole).await;
    assert_eq!(whole.account.calls_to_iam(), calls);
    check(&whole, "nobody dies").await;
    for (at, call) in calls.iter().enumerate() {
        for death in [Death::Before, Death::After] {
            let mut desk = prepare().await;
            desk.account.dies(at, death);
            part(&mut desk).await;
            assert!(desk.account.is_dead(), "{call} {death:?}");
            desk.kill();
            desk.account.lives();
            desk.restart().await;
            check(&desk, &format!("{death:?} {call}, {at}")).await;
        }
    }
}

async fn with_class() -> Desk {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    desk
}

async fn delete(desk: &Desk) {
    desk.delete::<EC2NodeClass>("default").await;
}

/// One profile, with this role, which the class knows; hours later, too.
async fn one_profile(desk: &Desk, role: &str, case: &str) {
    desk.wait(2 * HOUR).await;
    let class = desk.class("default").await;
    assert_eq!(says(class.conditions(), "Ready").0, "True", "{case}: {:?}", class.conditions());
    let known = class.status.unwrap().instance_profile.unwrap();
    let state = desk.account.state();
    assert_eq!(state.profiles.keys().collect::<Vec<_>>(), [&known], "{case}");
    assert_eq!(state.profiles[&known].roles, [role], "{case}");
}

async fn nothing(desk: &Desk, case: &str) {
    desk.wait(HOUR).await;
    assert!(desk.get::<EC2NodeClass>("default").await.is_none(), "{case}");
    let state = desk.account.state();
    assert!(state.profiles.is_empty(), "{case}: {:?}", state.profiles);
}

/// AWS-69, AWS-70: a new class.
#[tokio::test(start_paused = true)]
async fn one_profile_whenever_its_maker_dies() {
    let part = async |desk: &mut Desk| drop(desk.add_class("default", json!({})).await);
    let check = async |desk: &Desk, case: &str| {
        one_profile(desk, "node-role", case).await;
        delete(desk).await;
        nothing(desk, case).await;
    };
    let calls = ["CreateInstanceProfile", "AddRoleToInstanceProfile"];
    die_at_each_call(Desk::start, part, check, &calls).await;
}

/// AWS-70, AWS-71: the second process dies, too, while it goes on with what a first one has left.
#[tokio::test(start_paused = true)]
async fn one_profile_whenever_its_second_maker_dies() {
    let prepare = async || {
        let desk = with_class().await;
        desk.kill();
        for left in desk.account.state().profiles.values_mut() {
            left.roles = vec!["other-role".to_owned()];
        }
        desk.set_status::<EC2NodeClass>("default", json!({ "instanceProfile": null })).await;
        desk
    };
    let check = async |desk: &Desk, case: &str| one_profile(desk, "node-role", case).await;
    let calls =
        ["CreateInstanceProfile", "GetInstanceProfile", "RemoveRoleFromInstanceProfile", "AddRoleToInstanceProfile"];
    die_at_each_call(prepare, Desk::restart, check, &calls).await;
}

/// AWS-72: what was begun for a role that does not exist is taken back, by whoever is left to do it.
#[tokio::test(start_paused = true)]
async fn no_profile_without_its_role() {
    let part = async |desk: &mut Desk| drop(desk.add_class("default", json!({ "role": "nobody" })).await);
    let check = async |desk: &Desk, case: &str| {
        desk.wait(10).await;
        assert!(desk.account.state().profiles.is_empty(), "{case}");
        desk.account.state().roles.push("nobody".to_owned());
        one_profile(desk, "nobody", case).await;
    };
    let calls = ["CreateInstanceProfile", "AddRoleToInstanceProfile", "GetInstanceProfile", "DeleteInstanceProfile"];
    die_at_each_call(Desk::start, part, check, &calls).await;
}

/// AWS-71, AWS-75: another role; the profile of the former one is collected.
#[tokio::test(start_paused = true)]
async fn one_profile_whenever_its_changer_dies() {
    let part = async |desk: &mut Desk| {
        desk.change::<EC2NodeClass>("default", json!({ "spec": { "role": "other-role" } })).await;
    };
    let check = async |desk: &Desk, case: &str| one_profile(desk, "other-role", case).await;
    let calls = ["CreateInstanceProfile", "AddRoleToInstanceProfile"];
    die_at_each_call(with_class, part, check, &calls).await;
}

/// AWS-75: one that nobody needs is collected, however often that is begun.
#[tokio::test(start_paused = true)]
async fn no_orphan_whenever_its_collector_dies() {
    let prepare = async || {
        let desk = with_class().await;
        let path = "/karpenter/us-west-2/cluster/some-uid/".to_owned();
        let orphan = Profile { path, roles: vec!["other-role".to_owned()], ..Profile::default() };
        desk.account.state().profiles.insert("orphan".to_owned(), orphan);
        desk
    };
    let part = async |desk: &mut Desk| desk.wait(HOUR / 2).await;
    let check = async |desk: &Desk, case: &str| one_profile(desk, "node-role", case).await;
    let calls = [
        // Of the class's own, which is looked at every quarter of an hour.
        "GetInstanceProfile",
        "ListInstanceProfiles",
        "GetInstanceProfile",
        "RemoveRoleFromInstanceProfile",
        "DeleteInstanceProfile",
        "GetInstanceProfile",
    ];
    die_at_each_call(prepare, part, check, &calls).await;
}

/// AWS-40, AWS-74: the end of a class, with a profile of a former version.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_whenever_its_remover_dies() {
    let prepare = async || {
        let desk = with_class().await;
        let legacy = legacy_profile_name("cluster", "us-west-2", "default").unwrap();
        let profile = Profile { path: "/".to_owned(), roles: vec!["node-role".to_owned()], ..Profile::default() };
        desk.account.state().profiles.insert(legacy, profile);
        desk
    };
    let calls = [
        "ListInstanceProfiles",
        "GetInstanceProfile",
        "RemoveRoleFromInstanceProfile",
        "DeleteInstanceProfile",
        "GetInstanceProfile",
        "RemoveRoleFromInstanceProfile",
        "DeleteInstanceProfile",
    ];
    die_at_each_call(prepare, async |desk: &mut Desk| delete(desk).await, nothing, &calls).await;
}
