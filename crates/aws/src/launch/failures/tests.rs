use karpenter_platform::Remedy;
use serde_json::json;

use super::*;
use crate::fixtures::{class, sold};

fn error(code: &str, message: &str) -> FleetError {
    FleetError {
        code: code.to_owned(),
        message: message.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "test-zone-1a".to_owned(),
        subnet_id: "subnet-test1".to_owned(),
        template_name: "lt-1".to_owned(),
    }
}

fn attempt<'a>(class: &'a NodeClass, capacity_type: &'a str, templates: &'a [Template]) -> Attempt<'a> {
    Attempt { class, capacity_type, templates, placement_group: None, partition: None }
}

fn offering(capacity_type: &str, instance_type: &str) -> Effect {
    Effect::Offering(OfferingKey {
        capacity_type: capacity_type.to_owned(),
        instance_type: instance_type.to_owned(),
        zone: "test-zone-1a".to_owned(),
        group: None,
    })
}

/// A template that launches both types, into a reservation if one is named.
fn template(class: &NodeClass, reservation: Option<&str>) -> Template {
    let request = crate::launch::tests::request("lt-1");
    let reservation = reservation.map(|id| crate::launch::templates::TargetReservation {
        id: id.to_owned(),
        kind: "default".to_owned(),
        interruptible: false,
    });
    let types = sold(&["m5.large", "m5.xlarge"], class, &[]);
    Template { request, reservation, types, user_data_bytes: 0, dropped_settings: Vec::new() }
}

/// AWS-187, AWS-189, AC-216, AC-221: each code that means a lack of capacity marks its offering, others nothing.
#[test]
fn lack_of_capacity() {
    let class = class(&json!({}));
    for code in [
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    ] {
        let errors = [error(code, "none left"), error(code, "none left")];
        assert_eq!(effects(&errors, &attempt(&class, "spot", &[])), [offering("spot", "m5.large")], "{code}");
        let given_up = no_instance(&errors);
        assert_eq!(given_up.remedy(), Remedy::DeleteClaim);
        let text = given_up.to_string();
        assert_eq!(text, format!("insufficient capacity, with fleet error(s), {code}: none left"), "each pair once");
    }
    for code in ["UnauthorizedOperation", "RequestLimitExceeded", "InvalidAMIID.NotFound", "", "Surprise"] {
        assert_eq!(effects(&[error(code, "x")], &attempt(&class, "spot", &[])), [], "{code}");
        assert_eq!(no_instance(&[error(code, "x")]).remedy(), Remedy::Backoff, "{code}");
    }
}

/// AWS-66, AWS-189, AC-223, AC-220: subnets without addresses, and the role that spot needs.
#[test]
fn subnets_and_the_spot_role() {
    let class = class(&json!({}));
    let full = effects(&[error("InsufficientFreeAddressesInSubnet", "")], &attempt(&class, "on-demand", &[]));
    assert_eq!(full, [Effect::Subnet("subnet-test1".to_owned()), offering("on-demand", "m5.large")]);
    let role = [error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no")];
    let found = effects(&role, &attempt(&class, "spot", &[]));
    assert_eq!(found, [Effect::CapacityType("spot"), Effect::SpotRoleMissing]);
    assert_eq!(no_instance(&role).remedy(), Remedy::DeleteClaim);
}

/// AWS-190, AWS-191, AWS-143, AC-222, AC-236: placement groups and reservations.
#[test]
fn groups_and_reservations() {
    let class = class(&json!({}));
    let group = PlacementGroup { id: "pg-1".into(), name: "g".into(), strategy: "spread".into(), partitions: 0 };
    let templates = [template(&class, None)];
    let in_group = Attempt { placement_group: Some(&group), ..attempt(&class, "spot", &templates) };
    let scoped = |name: &str, partition: Option<&str>| {
        let Effect::Offering(key) = offering("spot", name) else { panic!() };
        let group = Some(GroupScope { group_id: "pg-1".to_owned(), partition: partition.map(str::to_owned) });
        Effect::Offering(OfferingKey { group, ..key })
    };
    assert_eq!(effects(&[error("InsufficientInstanceCapacity", "")], &in_group), [scoped("m5.large", None)]);
    let in_partition = Attempt { partition: Some(2), ..in_group };
    assert_eq!(effects(&[error("InsufficientInstanceCapacity", "")], &in_partition), [scoped("m5.large", Some("2"))]);
    let limit =
        error("InsufficientInstanceCapacity", "You have exceeded the limit of instances in the spread placement group");
    assert_eq!(effects(std::slice::from_ref(&limit), &in_group), [scoped("m5.large", None), scoped("m5.xlarge", None)]);

    let reserved = [template(&class, Some("cr-1"))];
    let found = |error: FleetError| effects(&[error], &attempt(&class, "reserved", &reserved));
    assert_eq!(found(error("ReservationCapacityExceeded", "")), [Effect::Reservation("cr-1".to_owned())]);
    assert_eq!(found(error("RequestLimitExceeded", "")), []);
    assert_eq!(found(limit), [], "the group is full, not the reservation");
    assert_eq!(found(FleetError { template_name: "other".into(), ..error("Unsupported", "") }), []);
}

/// AWS-186, AC-219, AC-291: a mixture, both kinds of a text, and nothing at all.
#[test]
fn mixtures() {
    let explained = |errors: &[FleetError]| match no_instance(errors) {
        CreateError::Explained { reason, message } => (reason, message),
        other => panic!("{other}"),
    };
    let mixed = [error("InsufficientInstanceCapacity", "x"), error("UnauthorizedOperation", "You are not authorized")];
    assert_eq!(explained(&mixed).0, "Unauthorized");
    let text = "Not authorized for images: [ami-1] with an explicit deny in a permissions boundary";
    let (reason, message) = explained(&[error("UnauthorizedOperation", text)]);
    assert_eq!((reason.as_str(), message.contains("permission boundary")), ("Unauthorized", true));
    assert_eq!(explained(&[]).0, "LaunchFailed");
}

/// AWS-192, AWS-291, AC-105: every row of the table, first match first.
#[test]
fn reasons_by_text() {
    for (text, name, says) in [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: x", "SpotSLRCreationFailed", "Spot ServiceLinkedRole"),
        (
            "UnauthorizedOperation: with an explicit deny in a permissions boundary",
            "Unauthorized",
            "permission boundary",
        ),
        ("AccessDenied: with an explicit deny in a service control policy", "Unauthorized", "service control policy"),
        ("AuthFailure: Not authorized for images: [ami-1]", "AMIAuthorizationFailure", "AMI used"),
        ("UnauthorizedOperation: no", "Unauthorized", "no identity-based policy allows it"),
        (
            "InvalidParameter: sg-1 and subnet-1 belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
            "same VPC.",
        ),
        (
            "InvalidParameterValue: iamInstanceProfile.name is invalid",
            "InstanceProfileNameInvalid",
            "status does not exist",
        ),
        ("InvalidLaunchTemplateId.NotFound: x", "LaunchTemplateNotFound", "wasn't found"),
        ("InvalidUserData.Malformed: User data is limited to 16384 bytes", "UserDataSizeLimitExceeded", "size limit"),
        ("InvalidAMIID.Malformed: x", "InvalidAMIID", "is invalid"),
        ("InvalidAMIID.NotFound: x", "AMINotFound", "does not exist or you don't have permissions"),
        ("RequestLimitExceeded: x", "RequestLimitExceeded", "Request limit exceeded"),
        ("InternalError: x", "InternalError", "internal error"),
        ("InvalidParameterCombination: not eligible for Free Tier", "FreeTierIneligible", "Free Tier"),
        ("MaxFleetCountExceeded: x", "FleetQuotaExceeded", "fleet request quota"),
        ("PendingVerification: x", "AccountPendingVerification", "still being verified"),
        ("MaxSpotInstanceCountExceeded: x", "SpotQuotaExceeded", "spot instance quota"),
        ("VcpuLimitExceeded: x", "VCPULimitExceeded", "VCPU quota"),
        ("InsufficientFreeAddressesInSubnet: x", "InsufficientFreeAddressesInSubnet", "free IP addresses"),
        ("Weird: x", "LaunchFailed", "Instance launch failed"),
        ("with an explicit deny in a permissions boundary", "LaunchFailed", "Instance launch failed"),
    ] {
        let reason = reason(text);
        assert_eq!(reason.name, name, "{text}");
        assert!(reason.message.contains(says), "{text}: {}", reason.message);
    }
}

/// AWS-192: whole calls that fail say which.
#[test]
fn failed_calls() {
    for (call, says) in [
        (FailedCall::Fleet, "Error creating fleet request: Request limit exceeded"),
        (FailedCall::TemplatesGone, "Launch templates not found when creating fleet request: Request limit exceeded"),
        (FailedCall::Templates, "Error getting launch template configs: Request limit exceeded"),
    ] {
        let error = failed_call(call, &ApiError::new("RequestLimitExceeded", "slow down"));
        assert_eq!(error.to_string(), format!("creating nodeclaim, {says}"));
    }
}

/// AWS-189, AWS-292, AC-225, AC-280, AC-221: one row per error, with what is known of the zone.
#[test]
fn rows_of_the_metric() {
    let class = class(&json!({}));
    let nowhere = FleetError { code: "Odd".into(), message: "text".into(), ..FleetError::default() };
    let elsewhere = FleetError { zone: "zone-x".into(), ..error("MaxFleetCountExceeded", "") };
    let errors = [error("VcpuLimitExceeded", ""), elsewhere, nowhere.clone()];
    let rows = launch_failures(&errors, &attempt(&class, "spot", &[]));
    let text: Vec<String> =
        rows.iter().map(|row| format!("{}/{}/{}/{}", row.zone, row.zone_id, row.capacity_type, row.reason)).collect();
    assert_eq!(
        text,
        ["test-zone-1a/tstz1-1a/spot/VCPULimitExceeded", "zone-x//spot/FleetQuotaExceeded", "//spot/LaunchFailed"]
    );
    let unnamed = FleetError { code: "Unsupported".into(), ..nowhere };
    assert_eq!(effects(&[unnamed], &attempt(&class, "spot", &[])), [], "nothing is named, nothing is marked");
}
