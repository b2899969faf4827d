//! Reasons and messages by what the text of an error contains (AWS-192, AWS-291).

/// A condition's reason, and what to say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    pub name: &'static str,
    pub message: &'static str,
}

const UNAUTHORIZED: [&str; 3] = ["UnauthorizedOperation", "AccessDenied", "AuthFailure"];

/// All of the words, and any of those that mean a lack of rights if that is asked for; the first row that applies counts.
struct Row {
    rights: bool,
    words: &'static [&'static str],
    reason: Reason,
}

const fn row(rights: bool, words: &'static [&'static str], name: &'static str, message: &'static str) -> Row {
    Row { rights, words, reason: Reason { name, message } }
}

const ROWS: &[Row] = &[
    row(
        false,
        &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"],
        "SpotSLRCreationFailed",
        "User does not have sufficient permission to create the Spot ServiceLinkedRole to launch spot instances",
    ),
    row(
        true,
        &["with an explicit deny in a permissions boundary"],
        "Unauthorized",
        "User is not authorized to perform this operation due to a permission boundary",
    ),
    row(
        true,
        &["with an explicit deny in a service control policy"],
        "Unauthorized",
        "User is not authorized to perform this operation due to a service control policy",
    ),
    row(
        true,
        &["Not authorized for images"],
        "AMIAuthorizationFailure",
        "User is not authorized for AMI used in instance launch",
    ),
    row(
        true,
        &[],
        "Unauthorized",
        "User is not authorized to perform this operation because no identity-based policy allows it",
    ),
    row(
        false,
        &["InvalidParameter", "belong to different networks"],
        "SecurityGroupSubnetVPCMismatch",
        "Security groups and subnets must be in the same VPC.",
    ),
    row(
        false,
        &["iamInstanceProfile.name is invalid"],
        "InstanceProfileNameInvalid",
        "Instance profile name used from EC2NodeClass status does not exist",
    ),
    row(
        false,
        &["InvalidLaunchTemplateId.NotFound"],
        "LaunchTemplateNotFound",
        "Launch template used for instance launch wasn't found",
    ),
    row(
        false,
        &["User data is limited to"],
        "UserDataSizeLimitExceeded",
        "Rendered user data exceeds the EC2 user data size limit",
    ),
    row(false, &["InvalidAMIID.Malformed"], "InvalidAMIID", "AMI used for instance launch is invalid"),
    row(
        false,
        &["InvalidAMIID.NotFound"],
        "AMINotFound",
        "AMI used for instance launch either does not exist or you don't have permissions to use it",
    ),
    row(false, &["RequestLimitExceeded"], "RequestLimitExceeded", "Request limit exceeded"),
    row(false, &["InternalError"], "InternalError", "An internal error has occurred"),
    row(
        false,
        &["not eligible for Free Tier"],
        "FreeTierIneligible",
        "The specified instance type is not eligible for Free Tier",
    ),
    row(
        false,
        &["MaxFleetCountExceeded"],
        "FleetQuotaExceeded",
        "A fleet launch was requested but this would exceed your fleet request quota",
    ),
    row(
        false,
        &["PendingVerification"],
        "AccountPendingVerification",
        "An instance launch was requested but the request for launching resources in this region is still being verified",
    ),
    row(
        false,
        &["MaxSpotInstanceCountExceeded"],
        "SpotQuotaExceeded",
        "A spot instance launch was requested but this would exceed your spot instance quota",
    ),
    row(
        false,
        &["VcpuLimitExceeded"],
        "VCPULimitExceeded",
        "An instance was requested that would exceed your VCPU quota",
    ),
    row(
        false,
        &["InsufficientFreeAddressesInSubnet"],
        "InsufficientFreeAddressesInSubnet",
        "There are not enough free IP addresses to launch an instance in this subnet",
    ),
];

const OTHER: Reason = Reason { name: "LaunchFailed", message: "Instance launch failed" };

pub fn reason(text: &str) -> Reason {
    let rights = UNAUTHORIZED.iter().any(|word| text.contains(word));
    let applies = |row: &&Row| (!row.rights || rights) && row.words.iter().all(|word| text.contains(word));
    ROWS.iter().find(applies).map_or(OTHER, |row| row.reason)
}
