//! Classes whose account is slow, or whose controller dies.

use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::cloud::ApiError;
use serde_json::json;

use crate::desk::{Desk, says};

/// Every call of a class's life, from its first look to its end.
const CALLS: [&str; 17] = [
    "GetParameter",
    "DescribeImages",
    "DescribeCapacityReservations",
    "DescribePlacementGroups",
    "DescribeSubnets",
    "DescribeSecurityGroups",
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "GetInstanceProfile",
    "DescribeCluster",
    "CreateLaunchTemplate",
    "CreateFleet",
    "RunInstances",
    "ListInstanceProfiles",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
];

/// AWS-107, AC-107: throttled three times at any one of its calls, a class becomes ready all the same, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_class_lives_through_throttling() {
    for call in CALLS {
        let desk = Desk::start().await;
        let slow = ApiError::new("RequestLimitExceeded", "slow down");
        desk.account.state().errors.insert(call, vec![slow; 3].into());
        let group = karpenter_aws::cloud::PlacementGroupInfo {
            id: "pg-1".to_owned(),
            name: "group".to_owned(),
            strategy: "cluster".to_owned(),
            ..karpenter_aws::cloud::PlacementGroupInfo::default()
        };
        desk.account.state().placement_groups.push(group);
        let more = json!({
            "placementGroupSelector": { "name": "group" },
            "capacityReservationSelectorTerms": [{ "tags": { "a": "b" } }],
        });
        desk.add_class("default", more).await;
        desk.wait(10 * 60).await;
        let class = desk.class("default").await;
        assert_eq!(says(class.conditions(), "Ready").0, "True", "{call}: {:?}", class.conditions());
        assert_eq!(desk.account.state().profiles.len(), 1, "{call}");
        desk.delete::<EC2NodeClass>("default").await;
        desk.wait(10 * 60).await;
        assert!(desk.get::<EC2NodeClass>("default").await.is_none(), "{call}");
        let state = desk.account.state();
        assert!(state.profiles.is_empty() && state.templates.is_empty(), "{call}");
        assert!(state.errors[call].is_empty(), "{call} was throttled");
    }
}

/// AWS-70, AWS-75: a process that dies between making a profile and writing its name down leaves one that nobody knows. When the class
/// has another role by then, the next process makes another, and the lost one is collected, or goes with its class.
#[tokio::test(start_paused = true)]
async fn a_profile_that_nobody_wrote_down() {
    for ends in [false, true] {
        let mut desk = Desk::start().await;
        desk.add_class("default", json!({})).await;
        desk.kill();
        let lost: Vec<String> = desk.account.state().profiles.keys().cloned().collect();
        desk.set_status::<EC2NodeClass>("default", json!({ "instanceProfile": null })).await;
        desk.change::<EC2NodeClass>("default", json!({ "spec": { "role": "other-role" } })).await;
        desk.restart().await;
        desk.wait(60).await;
        let class = desk.class("default").await;
        let now = class.status.unwrap().instance_profile.unwrap();
        assert!(!lost.contains(&now) && desk.account.state().profiles.len() == 2);
        if ends {
            desk.delete::<EC2NodeClass>("default").await;
            assert!(desk.get::<EC2NodeClass>("default").await.is_none());
            assert!(desk.account.state().profiles.is_empty());
        } else {
            desk.wait(2 * 60 * 60).await;
            let left: Vec<String> = desk.account.state().profiles.keys().cloned().collect();
            assert_eq!(left, [now]);
        }
    }
}
