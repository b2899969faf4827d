//! What EC2's refusals lead to.

use std::collections::BTreeSet;

use karpenter_platform::Remedy;

use super::*;
use crate::fake::Refusal;

async fn available(world: &World, instance_type: &str) -> BTreeSet<(String, String)> {
    let types = world.provider.instance_types(&pool()).await.unwrap();
    let known = types.iter().find(|one| one.name == instance_type).unwrap();
    let offerings = known.offerings.iter().filter(|one| one.available);
    let way = |text: Option<&str>| text.unwrap_or_default().to_owned();
    offerings.map(|one| (way(one.capacity_type()), way(one.zone()))).collect()
}

/// AWS-186, AWS-187, AWS-189, AWS-191, AWS-192, AC-216, AC-219, AC-221, AC-225, AC-280: every code of the table, from one override to the
/// claim's condition, the metric and the next list.
#[tokio::test(start_paused = true)]
async fn every_code() {
    for (code, message, error, metric, marks) in [
        ("InsufficientInstanceCapacity", "none", "insufficient capacity", "LaunchFailed", true),
        ("MaxSpotInstanceCountExceeded", "x", "insufficient capacity", "SpotQuotaExceeded", true),
        ("VcpuLimitExceeded", "x", "insufficient capacity", "VCPULimitExceeded", true),
        ("UnfulfillableCapacity", "x", "insufficient capacity", "LaunchFailed", true),
        ("Unsupported", "x", "insufficient capacity", "LaunchFailed", true),
        ("MaxFleetCountExceeded", "x", "insufficient capacity", "FleetQuotaExceeded", true),
        ("ReservationCapacityExceeded", "x", "insufficient capacity", "LaunchFailed", true),
        ("UnauthorizedOperation", "x", "because no identity-based policy allows it", "Unauthorized", false),
        (
            "UnauthorizedOperation",
            "Not authorized for images, with an explicit deny in a permissions boundary",
            "due to a permission boundary",
            "Unauthorized",
            false,
        ),
        ("AuthFailure", "Not authorized for images", "not authorized for AMI", "AMIAuthorizationFailure", false),
        ("InvalidParameter", "belong to different networks", "same VPC", "SecurityGroupSubnetVPCMismatch", false),
        (
            "InvalidParameterValue",
            "iamInstanceProfile.name is invalid",
            "does not exist",
            "InstanceProfileNameInvalid",
            false,
        ),
        ("InvalidLaunchTemplateId.NotFound", "x", "wasn't found", "LaunchTemplateNotFound", false),
        (
            "InvalidUserData.Malformed",
            "User data is limited to 16384 bytes",
            "size limit",
            "UserDataSizeLimitExceeded",
            false,
        ),
        ("InvalidAMIID.Malformed", "x", "AMI used for instance launch is invalid", "InvalidAMIID", false),
        ("InvalidAMIID.NotFound", "x", "either does not exist", "AMINotFound", false),
        ("RequestLimitExceeded", "x", "Request limit exceeded", "RequestLimitExceeded", false),
        ("InternalError", "x", "An internal error has occurred", "InternalError", false),
        ("InvalidParameterCombination", "not eligible for Free Tier", "Free Tier", "FreeTierIneligible", false),
        ("PendingVerification", "x", "still being verified", "AccountPendingVerification", false),
        ("Nonsense", "x", "Instance launch failed", "LaunchFailed", false),
    ] {
        let world = World::with(settings(), &["m5.large"]).await;
        world.account.lock().refusals = vec![Refusal::all(code, message)];
        let text = world.create(&claim("a", &["m5.large"], &["on-demand"])).await.unwrap_err().to_string();
        assert!(text.contains(error), "{code}: {text}");
        let rows: Vec<String> =
            world.seen.take().into_iter().filter(|text| text.starts_with("launch failed")).collect();
        let row = |zone: &str| format!("launch failed test-zone-1{zone} tstz1-1{zone} on-demand {metric}");
        assert_eq!(rows, [row("a"), row("b"), row("c")], "{code}");
        let left = available(&world, "m5.large").await;
        assert_eq!(left.len(), if marks { 3 } else { 6 }, "{code}: {left:?}");
        pass(180).await;
        assert_eq!(available(&world, "m5.large").await.len(), 6, "{code}: for three minutes");
        // The same claim may be tried again once the reason is gone, as often as it takes.
        world.account.lock().refusals.clear();
        world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
        assert_eq!(world.account.running().len(), 1);
    }
}

/// AC-219, AC-220, AC-291, AWS-238, AWS-292: mixed errors are no lack of capacity; no role for spot is; no word at all is a failure.
#[tokio::test(start_paused = true)]
async fn odd_answers() {
    let world = World::with(settings(), &["m5.large", "c5.large"]).await;
    let unauthorized =
        Refusal { instance_type: Some("c5.large".to_owned()), ..Refusal::all("UnauthorizedOperation", "x") };
    world.account.lock().refusals = vec![unauthorized, Refusal::all("InsufficientInstanceCapacity", "none")];
    let error = world.create(&claim("a", &["m5.large", "c5.large"], &["on-demand"])).await.unwrap_err();
    assert!(matches!(&error, CreateError::Explained { reason, .. } if reason == "Unauthorized"), "{error:?}");

    let world = World::with(settings(), &["m5.large"]).await;
    world.account.lock().refusals = vec![Refusal {
        capacity_type: Some("spot".to_owned()),
        ..Refusal::all("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "x")
    }];
    let error = world.create(&claim("a", &["m5.large"], &["spot", "on-demand"])).await.unwrap_err();
    assert!(matches!(error, CreateError::InsufficientCapacity(_)), "{error:?}");
    let events: Vec<String> = world.seen.take().into_iter().filter(|text| text.starts_with("event")).collect();
    assert_eq!(
        events,
        ["event on a: Attempted to launch a spot instance but failed due to \
          \"AuthFailure.ServiceLinkedRoleCreationNotPermitted\""]
    );
    assert!(available(&world, "m5.large").await.iter().all(|(kind, _)| kind == "on-demand"));
    let (_, second) = world.launched(&claim("b", &["m5.large"], &["spot", "on-demand"])).await;
    assert_eq!(label(&second, labels::CAPACITY_TYPE), "on-demand");

    let world = World::with(settings(), &["m5.large"]).await;
    world.account.lock().refusals =
        vec![Refusal { anonymous: true, ..Refusal::all("InsufficientInstanceCapacity", "none") }];
    assert!(world.create(&claim("a", &["m5.large"], &["on-demand"])).await.is_err());
    assert!(world.seen.take().contains(&"launch failed   on-demand LaunchFailed".to_owned()));
    assert_eq!(available(&world, "m5.large").await.len(), 6, "an error about nothing marks nothing");
    world.account.lock().silent_fleets = true;
    let error = world.create(&claim("b", &["m5.large"], &["on-demand"])).await.unwrap_err();
    assert!(matches!(&error, CreateError::Explained { reason, .. } if reason == "LaunchFailed"), "{error:?}");
}

/// AWS-188: errors beside a success count, too.
#[tokio::test(start_paused = true)]
async fn refusals_beside_a_success() {
    let world = World::with(settings(), &["m5.large"]).await;
    world.account.lock().refusals = vec![Refusal::of("InsufficientInstanceCapacity", "m5.large", "test-zone-1a")];
    let (_, instance) = world.launched(&claim("a", &["m5.large"], &["on-demand"])).await;
    assert_eq!(label(&instance, labels::ZONE), "test-zone-1b");
    assert!(!available(&world, "m5.large").await.contains(&("on-demand".to_owned(), "test-zone-1a".to_owned())));
    assert!(available(&world, "m5.large").await.contains(&("spot".to_owned(), "test-zone-1a".to_owned())));
}

/// AWS-66, AC-223, AC-224: no addresses in the only subnet of a zone closes the zone, for every type.
#[tokio::test(start_paused = true)]
async fn no_addresses_left() {
    let world = World::with(settings(), &["m5.large", "c5.large"]).await;
    world.account.lock().subnets[0].0.free_addresses = 0;
    let mut there = claim("a", &["m5.large"], &["on-demand"]);
    there.requirements.add(Requirement::any_of(labels::ZONE, ["test-zone-1a"]));
    let error = world.create(&there).await.unwrap_err();
    assert!(matches!(error, CreateError::InsufficientCapacity(_)), "{error:?}");
    for name in ["m5.large", "c5.large"] {
        let left = available(&world, name).await;
        assert_eq!(left.iter().filter(|(_, zone)| zone == "test-zone-1a").count(), 0, "{name}");
        assert_eq!(left.len(), 4, "{name}");
    }
    pass(180).await;
    assert_eq!(available(&world, "c5.large").await.len(), 6);
}

/// AWS-192: calls that fail as a whole; those without an answer are repeated with the same token.
#[tokio::test(start_paused = true)]
async fn calls_that_fail() {
    let world = World::with(settings(), &["m5.large"]).await;
    let one = claim("a", &["m5.large"], &["on-demand"]);
    for (call, code, text) in [
        (
            "DescribeLaunchTemplates by name",
            "RequestLimitExceeded",
            "Error getting launch template configs: Request limit exceeded",
        ),
        (
            "CreateLaunchTemplate",
            "UnauthorizedOperation",
            "Error getting launch template configs: User is not authorized",
        ),
        ("CreateFleet", "RequestLimitExceeded", "Error creating fleet request: Request limit exceeded"),
        ("CreateFleet", "InternalError", "Error creating fleet request: An internal error has occurred"),
        ("CreateFleet", "", "Error creating fleet request: Instance launch failed"),
    ] {
        world.account.fail(call, &ApiError::new(code, "x"), 1);
        let error = world.create(&one).await.unwrap_err();
        assert!(error.to_string().contains(text), "{call} {code}: {error}");
    }
    world.launched(&one).await;
    assert_eq!((world.account.running().len(), world.account.lock().fleet_requests.len()), (1, 1));
    // Bad user data never gets as far as EC2.
    world.class(&json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-1"}], "userData": "= x"}));
    let calls = world.account.calls("CreateLaunchTemplate");
    let error = world.create(&claim("b", &["m5.large"], &["on-demand"])).await.unwrap_err().to_string();
    assert!(error.contains("spec.userData is not TOML"), "{error}");
    assert_eq!(world.account.calls("CreateLaunchTemplate"), calls);
}

/// Throttled once at every single call: everything is to be tried again, nothing is taken for gone, and it works in the end.
#[tokio::test(start_paused = true)]
async fn throttled_everywhere() {
    let slow = ApiError::new("RequestLimitExceeded", "x");
    for call in [
        "DescribeInstances",
        "DescribeCluster",
        "DescribeLaunchTemplates by name",
        "CreateLaunchTemplate",
        "CreateFleet",
        "DescribeInstances by id",
        "CreateTags",
        "RebootInstances",
        "TerminateInstances",
    ] {
        let world = World::with(settings(), &["m5.large"]).await;
        let one = claim("a", &["m5.large"], &["on-demand"]);
        let mut failures = 0;
        // As many as a batch and its parts.
        world.account.fail(call, &slow, 2);
        let instance = loop {
            match world.create(&one).await {
                Ok(instance) => break instance,
                Err(error) => assert_eq!(error.remedy(), Remedy::Backoff, "{call}"),
            }
            failures += 1;
        };
        let one = ClaimView { node_name: Some("node".to_owned()), ..told(&one, &instance) };
        pass(60).await;
        while let Err(_again) = world.provider.tag_instance(&one).await {
            failures += 1;
        }
        while let Err(again) = world.provider.reboot(&one, "op").await {
            assert_eq!(again.remedy(), Remedy::Backoff, "{call}");
            failures += 1;
        }
        while let Err(again) = world.provider.delete(&one).await {
            assert_eq!(again.remedy(), Remedy::Backoff, "{call}");
            failures += 1;
        }
        assert!((1..=2).contains(&failures), "{call}: {failures}");
        assert_eq!((world.account.running().len(), world.account.lock().machines.len()), (0, 1), "{call}");
    }
}
