//! What selectors find, and what conditions say about it.

use jiff::Timestamp;
use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::cloud::{ApiError, PlacementGroupInfo, ReservationInfo};
use karpenter_platform::Clock as _;
use serde_json::json;

use crate::desk::{Desk, image, options, says, tags};

/// Every condition, in order of their names: type, status and, unless it is True, the reason.
fn conditions(class: &EC2NodeClass) -> Vec<String> {
    let mut all: Vec<String> = class
        .conditions()
        .iter()
        .map(
            |one| {
                if one.is_true() { one.type_.clone() } else { format!("{}={} {}", one.type_, one.status, one.reason) }
            },
        )
        .collect();
    all.sort();
    all
}

/// AWS-3, AWS-17, AWS-36, AWS-37, AWS-38, AC-64: a class of all defaults becomes ready in one look.
#[tokio::test(start_paused = true)]
async fn a_class_becomes_ready() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(
        conditions(&class),
        [
            "AMIsReady",
            "CapacityReservationsReady",
            "InstanceProfileReady",
            "PlacementGroupReady",
            "Ready",
            "SecurityGroupsReady",
            "SubnetsReady",
            "ValidationSucceeded"
        ]
    );
    assert!(class.conditions().iter().all(|one| one.observed_generation == Some(1)));
    assert_eq!(class.metadata.finalizers.unwrap(), ["karpenter.k8s.aws/termination"]);
    let status = class.status.unwrap();
    let subnets: Vec<String> = status.subnets.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(subnets, ["subnet-1", "subnet-2", "subnet-3"]);
    assert_eq!(status.security_groups.unwrap()[0].id, "sg-1");
    let amis: Vec<String> = status.amis.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(amis, ["ami-arm", "ami-amd"], "the newest first");
    assert_eq!(desk.provider.told.lock().unwrap().subnets.len(), 3, "the provider knows how many addresses are free");

    let (name, profile) = desk.account.state().profiles.pop_first().unwrap();
    assert_eq!(status.instance_profile.as_ref(), Some(&name));
    assert_eq!(profile.path, format!("/karpenter/us-west-2/cluster/{}/", class.metadata.uid.unwrap()));
    assert_eq!(profile.roles, ["node-role"]);
    assert_eq!(profile.tags["karpenter.k8s.aws/ec2nodeclass"], "default");
    assert_eq!(profile.tags.len(), 4);
}

/// AWS-19, AC-61, AC-62, AWS-287: nothing found empties the list and says so; a corrected selector is enough.
#[tokio::test(start_paused = true)]
async fn selectors_that_find_nothing() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let nothing = json!({ "spec": { "subnetSelectorTerms": [{ "tags": { "no": "such" } }] } });
    desk.change::<EC2NodeClass>("default", nothing).await;
    let class = desk.class("default").await;
    let subnets = class.condition("SubnetsReady").unwrap();
    assert_eq!(
        (subnets.reason.as_str(), subnets.message.as_str()),
        ("SubnetsNotFound", "SubnetSelector did not match any Subnets")
    );
    assert_eq!(says(class.conditions(), "ValidationSucceeded"), ("False", "DependenciesNotReady"));
    let ready = class.condition("Ready").unwrap();
    assert_eq!(ready.status.as_str(), "False");
    assert!(ready.message.contains("SubnetsReady=False"), "{}", ready.message);
    assert_eq!(class.status.unwrap().subnets, None);

    let again = json!({ "spec": { "subnetSelectorTerms": [{ "id": "subnet-2" }] } });
    desk.change::<EC2NodeClass>("default", again).await;
    let class = desk.class("default").await;
    assert_eq!(says(class.conditions(), "Ready"), ("True", "Ready"));
    assert_eq!(class.status.unwrap().subnets.unwrap()[0].id, "subnet-2");

    // What changes in the account is seen within a minute, without anybody touching the class.
    desk.account.state().subnets.clear();
    desk.account.state().groups.clear();
    desk.wait(65).await;
    let class = desk.class("default").await;
    assert_eq!(says(class.conditions(), "SubnetsReady"), ("False", "SubnetsNotFound"));
    assert_eq!(says(class.conditions(), "SecurityGroupsReady"), ("False", "SecurityGroupsNotFound"));
}

/// AWS-46, AWS-48, AWS-50, AWS-52, AWS-56, AC-42, AC-43, AC-51, AC-52: parameters that are missing, and images that are.
#[tokio::test(start_paused = true)]
async fn images_and_parameters() {
    let desk = Desk::start().await;
    let class = desk.add_class("default", json!({})).await;
    assert_eq!(class.status.unwrap().amis.unwrap().len(), 2, "three of five parameters are missing");
    let asked = desk.account.take("DescribeImages");
    assert!(asked.len() == 1 && asked[0].contains("image-id"), "one call for all that were found: {asked:?}");
    assert!(["ami-amd", "ami-arm", "state", "available"].iter().all(|part| asked[0].contains(part)), "{asked:?}");

    desk.account.state().parameters.insert("/own".to_owned(), "not-an-ami".to_owned());
    let own = |name: &str| json!({ "amiFamily": "AL2023", "amiSelectorTerms": [{ "ssmParameter": name }] });
    for (name, parameter) in [("odd", "/own"), ("absent", "/absent")] {
        let class = desk.add_class(name, own(parameter)).await;
        let ready = class.condition("AMIsReady").unwrap();
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("AMINotFound", "AMISelector did not match any AMIs"),
            "{name}"
        );
    }
    desk.account.break_call("GetParameter", ApiError::new("AccessDeniedException", "no"));
    let class = desk.add_class("denied", own("/denied")).await;
    assert_eq!(says(class.conditions(), "AMIsReady"), ("Unknown", "AwaitingReconciliation"), "an error, tried again");
    let class = desk.add_class("unresolved", json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] })).await;
    assert_eq!(says(class.conditions(), "AMIsReady").0, "Unknown");
    desk.account.mend("GetParameter");
    desk.account.state().parameters.insert("/denied".to_owned(), "ami-amd".to_owned());
    desk.wait(60).await;
    assert_eq!(says(desk.class("denied").await.conditions(), "AMIsReady").0, "True");
}

/// AWS-47, AC-44, AC-45, AC-289: an alias that the version does not have any more keeps its images, and launches nothing.
#[tokio::test(start_paused = true)]
async fn aliases_of_other_versions() {
    let desk = Desk::start().await;
    desk.account.state().cluster.version = "1.33".to_owned();
    desk.wait(301).await;
    let class = desk.add_class("default", json!({ "amiSelectorTerms": [{ "alias": "al2@latest" }] })).await;
    let ready = class.condition("AMIsReady").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "UnsupportedAlias"));
    assert!(ready.message.starts_with("getting AMI queries, AL2 aliases are no longer supported on EKS 1.33+"));
    let class = desk.add_class("windows", json!({ "amiSelectorTerms": [{ "alias": "windows2025@latest" }] })).await;
    let ready = class.condition("AMIsReady").unwrap();
    let want = "getting AMI queries, Windows Server 2025 requires EKS version 1.35 or higher, current version: 1.33";
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("UnsupportedAlias", want));
    let known = json!({ "amis": [{ "id": "ami-old", "requirements": [] }] });
    desk.set_status::<EC2NodeClass>("default", known).await;
    desk.wait(600).await;
    let class = desk.class("default").await;
    assert_eq!(says(class.conditions(), "Ready").0, "False");
    assert_eq!(class.status.unwrap().amis.unwrap()[0].id, "ami-old");
}

/// AWS-59, AWS-262, AC-54: a parameter whose image is deprecated is read again within half an hour, a pinned one never.
#[tokio::test(start_paused = true)]
async fn deprecated_images_are_looked_up_again() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    let path = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard";
    let pinned = format!("{path}/amazon-eks-node-al2023-x86_64-standard-1.32-v20250101/image_id");
    desk.account.state().parameters.insert(pinned.clone(), "ami-amd".to_owned());
    desk.add_class("pinned", json!({ "amiSelectorTerms": [{ "alias": "al2023@v20250101" }] })).await;
    {
        let mut state = desk.account.state();
        state.images[0].deprecated = Some(desk.clock.now());
        state.images.push(image("ami-new", "x86_64", 300));
        state.parameters.insert(format!("{path}/recommended/image_id"), "ami-new".to_owned());
    }
    desk.account.take("GetParameter");
    desk.wait(31 * 60).await;
    desk.wait(6 * 60).await;
    let first = |class: EC2NodeClass| class.status.unwrap().amis.unwrap()[0].id.clone();
    assert_eq!(first(desk.class("default").await), "ami-new");
    let pinned_class = desk.class("pinned").await.status.unwrap().amis.unwrap();
    assert_eq!((pinned_class[0].id.as_str(), pinned_class[0].deprecated), ("ami-amd", Some(true)));
    assert!(!desk.account.take("GetParameter").contains(&pinned));
}

/// AWS-84, AWS-85, AWS-290, AC-85: groups that are there, that are not, and that cannot be asked about.
#[tokio::test(start_paused = true)]
async fn placement_groups() {
    let desk = Desk::start().await;
    let group = PlacementGroupInfo {
        id: "pg-1".to_owned(),
        name: "mine".to_owned(),
        strategy: "partition".to_owned(),
        partitions: Some(7),
    };
    desk.account.state().placement_groups.push(group);
    let wants = |name: &str| json!({ "placementGroupSelector": { "name": name } });
    let class = desk.add_class("default", wants("mine")).await;
    assert_eq!(says(class.conditions(), "PlacementGroupReady").0, "True");
    let class = desk.add_class("lost", wants("other")).await;
    let condition = class.condition("PlacementGroupReady").unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("PlacementGroupNotFound", "Placement group \"other\" not found")
    );
    assert_eq!(says(class.conditions(), "ValidationSucceeded").0, "True", "not a dependency");
    assert_eq!(says(class.conditions(), "Ready").0, "False");
    desk.account.break_call("DescribePlacementGroups", ApiError::new("InvalidPlacementGroup.Unknown", "unknown"));
    let class = desk.add_class("unknown", wants("no")).await;
    assert_eq!(says(class.conditions(), "PlacementGroupReady"), ("False", "PlacementGroupNotFound"));
    desk.account.break_call("DescribePlacementGroups", ApiError::new("InternalError", "down"));
    let class = desk.add_class("down", wants("some")).await;
    assert_eq!(says(class.conditions(), "PlacementGroupReady"), ("False", "PlacementGroupResolutionFailed"));
    let none = json!({ "spec": { "placementGroupSelector": null } });
    desk.change::<EC2NodeClass>("down", none).await;
    assert_eq!(says(desk.class("down").await.conditions(), "PlacementGroupReady").0, "True", "nothing is asked for");
}

fn reservation(id: &str, kind: &str, ends: Option<Timestamp>) -> ReservationInfo {
    ReservationInfo {
        id: id.to_owned(),
        zone: "test-zone-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: "123456789012".to_owned(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        interruptible: None,
        ends,
        available: 3,
    }
}

/// AWS-76, AWS-77, AWS-80, AWS-81, AC-79, AC-80, AC-81: found, counted, dropped when they end, expiring before.
#[tokio::test(start_paused = true)]
async fn capacity_reservations() {
    let desk = Desk::start().await;
    let in_minutes = |minutes: i64| Some(desk.clock.now() + jiff::SignedDuration::from_mins(minutes));
    desk.account.state().reservations = vec![
        reservation("cr-1", "capacity-block", in_minutes(42)),
        reservation("cr-2", "default", in_minutes(10)),
        reservation("cr-3", "default", in_minutes(-1)),
    ];
    let terms = json!([{ "id": "cr-1" }, { "id": "cr-2" }, { "id": "cr-3" }, { "id": "cr-4" }]);
    let class = desk.add_class("default", json!({ "capacityReservationSelectorTerms": terms })).await;
    let states = |class: EC2NodeClass| -> Vec<String> {
        let all = class.status.unwrap().capacity_reservations.unwrap_or_default();
        all.iter().map(|one| format!("{} {} {:?}", one.id, one.state, one.interruptible)).collect()
    };
    assert_eq!(says(class.conditions(), "CapacityReservationsReady").0, "True");
    assert_eq!(states(class), ["cr-1 active Some(false)", "cr-2 active Some(false)"]);
    assert_eq!(desk.provider.told.lock().unwrap().reservations["cr-1"], 3);
    desk.wait(180).await;
    assert_eq!(states(desk.class("default").await)[0], "cr-1 expiring Some(false)");
    desk.wait(8 * 60).await;
    assert_eq!(states(desk.class("default").await), ["cr-1 expiring Some(false)"], "the other one is over");
}

/// AWS-17, AC-82: while the gate is off nothing is asked and nothing is said.
#[tokio::test(start_paused = true)]
async fn without_reserved_capacity() {
    let mut options = options();
    options.reserved_capacity = false;
    let desk = Desk::with(options).await;
    let class = desk.add_class("default", json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1" }] })).await;
    assert_eq!(class.conditions().len(), 7);
    assert_eq!(says(class.conditions(), "CapacityReservationsReady"), ("", ""));
    assert_eq!(says(class.conditions(), "Ready").0, "True");
    assert!(desk.account.take("DescribeCapacityReservations").is_empty());
}

/// AWS-57, AWS-61, AWS-67: looks within the refresh interval ask nothing again, another generation does.
#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_a_while() {
    let desk = Desk::start().await;
    desk.add_class("default", json!({})).await;
    for call in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert_eq!(desk.account.take(call).len(), 1, "{call}");
    }
    desk.change::<EC2NodeClass>("default", json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert!(desk.account.take("DescribeSubnets").is_empty());
    desk.change::<EC2NodeClass>("default", json!({ "spec": { "tags": { "a": "b" } } })).await;
    assert_eq!(desk.account.take("DescribeSubnets").len(), 1);
    desk.wait(300).await;
    let asked = desk.account.take("DescribeSubnets").len();
    assert!((4..=6).contains(&asked), "once a minute: {asked}");
}

/// AWS-37, AWS-38: one part that fails keeps none of the others, and is tried again.
#[tokio::test(start_paused = true)]
async fn one_failure_does_not_stop_the_rest() {
    let desk = Desk::start().await;
    desk.account.break_call("DescribeSubnets", ApiError::new("RequestLimitExceeded", "slow down"));
    let class = desk.add_class("default", json!({ "tags": tags(&[("team", "a")]) })).await;
    assert_eq!(says(class.conditions(), "SubnetsReady").0, "Unknown");
    assert_eq!(says(class.conditions(), "SecurityGroupsReady").0, "True");
    assert_eq!(says(class.conditions(), "InstanceProfileReady").0, "True");
    assert_eq!(says(class.conditions(), "ValidationSucceeded"), ("Unknown", "DependenciesNotReady"));
    assert_eq!(says(class.conditions(), "Ready").0, "Unknown");
    desk.account.mend("DescribeSubnets");
    desk.wait(60).await;
    assert_eq!(says(desk.class("default").await.conditions(), "Ready").0, "True");
}
