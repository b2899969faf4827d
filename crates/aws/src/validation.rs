//! Whether a class could launch anything: what of a pass needs no call, and what the answers of the dry runs mean (§2.11).

use karpenter_api::kinds::{ConditionStatus, EC2NodeClass};
use karpenter_api::names::aws::{self, conditions};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::requirements::Requirements;

use crate::class::NodeClass;
use crate::cloud::ApiError;
use crate::fnv;
use crate::launch::failures::reason;
use crate::launch::images::image_for;
use crate::launch::tags::restricted_tag;

/// What the condition `ValidationSucceeded` is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Succeeded,
    Failed {
        reason: &'static str,
        message: String,
    },
    /// Not known yet, with the same reason as a failure.
    Unknown {
        reason: &'static str,
        message: String,
    },
}

const AWAITING: &str = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";
const NOT_READY: &str = "DependenciesNotReady";
/// In the order of the rule; placement groups are not among them.
const DEPENDENCIES: [&str; 4] = [
    conditions::AMIS_READY,
    conditions::INSTANCE_PROFILE_READY,
    conditions::SECURITY_GROUPS_READY,
    conditions::SUBNETS_READY,
];

/// Step 2: what validation waits for. Judged before tags (AC-288).
pub fn dependencies_verdict(object: &EC2NodeClass) -> Option<Verdict> {
    let all = object.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let statuses: Vec<Option<&ConditionStatus>> = DEPENDENCIES
        .iter()
        .map(|wanted| all.iter().find(|condition| condition.type_ == *wanted).map(|condition| &condition.status))
        .collect();
    let message = AWAITING.to_owned();
    if statuses.contains(&Some(&ConditionStatus::False)) {
        return Some(Verdict::Failed { reason: NOT_READY, message });
    }
    if statuses.iter().any(|status| *status != Some(&ConditionStatus::True)) {
        return Some(Verdict::Unknown { reason: NOT_READY, message });
    }
    None
}

/// Step 3.
pub fn tags_verdict(class: &NodeClass) -> Option<Verdict> {
    restricted_tag(class).map(|key| Verdict::Failed {
        reason: "TagValidationFailed",
        message: format!("spec.tags: tag contains a restricted tag matching {key}"),
    })
}

/// The calls that are tried, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    CreateLaunchTemplate,
    CreateFleet,
    RunInstances,
}

/// What the answer of a check means (AWS-107).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    /// A verdict worth keeping.
    Refused {
        reason: &'static str,
        message: String,
    },
    /// Says nothing: ask again later, leave the condition alone.
    AskAgain,
    Error(ApiError),
}

pub fn outcome(check: Check, answer: Result<(), ApiError>) -> Outcome {
    let Err(error) = answer else { return Outcome::Allowed };
    let (name, action) = match check {
        Check::CreateLaunchTemplate => ("CreateLaunchTemplateAuthCheckFailed", "ec2:CreateLaunchTemplate"),
        Check::CreateFleet => ("CreateFleetAuthCheckFailed", "ec2:CreateFleet"),
        Check::RunInstances => ("RunInstancesAuthCheckFailed", "ec2:RunInstances"),
    };
    let classified = || reason(&error.to_string()).message;
    if error.is_dry_run_success() {
        return Outcome::Allowed;
    }
    if error.is_unauthorized() {
        let message = format!("Controller isn't authorized to call {action}: {}", classified());
        return Outcome::Refused { reason: name, message };
    }
    let says = |code: &str, text: &str| error.code == code && error.message.contains(text);
    if check == Check::CreateLaunchTemplate && says("InvalidUserData.Malformed", "User data is limited to") {
        let message = format!("{action} rejected the rendered user data as too large: {}", classified());
        return Outcome::Refused { reason: "UserDataSizeLimitExceeded", message };
    }
    // A profile that was just made is not known everywhere at once.
    let no_profile = check == Check::RunInstances && says("InvalidParameterValue", "Invalid IAM Instance Profile name");
    if error.is_rate_limited() || error.server_fault || no_profile {
        return Outcome::AskAgain;
    }
    Outcome::Error(error)
}

/// RunInstances is tried in one subnet after the other; one success is enough, else the first answer counts (AWS-106).
pub fn run_instances_answer(answers: Vec<Result<(), ApiError>>) -> Result<(), ApiError> {
    let fine = |answer: &Result<(), ApiError>| answer.as_ref().map_or_else(ApiError::is_dry_run_success, |()| true);
    if answers.is_empty() || answers.iter().any(fine) {
        return Ok(());
    }
    answers.into_iter().next().unwrap_or(Ok(()))
}

/// `dedicated` as soon as any pool of the class allows it (AWS-104).
pub fn checked_tenancy<'a>(pools: impl IntoIterator<Item = &'a Requirements>) -> &'static str {
    let [default, dedicated] = aws::TENANCIES;
    let asks = |asked: &Requirements| asked.get(aws::INSTANCE_TENANCY).is_some_and(|tenancy| tenancy.has(dedicated));
    if pools.into_iter().any(asks) { dedicated } else { default }
}

/// The type that is tried (AWS-105): of those that a pool could use, else of the usual ones, else of all; one that boots the
/// standard image if there is any, because others may need larger disks. `None` when no type has an image.
pub fn checked_type<'a>(
    class: &NodeClass,
    usable: &'a [InstanceType],
    all: &'a [InstanceType],
    rules: &LabelRules,
) -> Option<&'a InstanceType> {
    let images = class.status.amis.as_deref().unwrap_or_default();
    let usual: Vec<&InstanceType> =
        ["m5.large", "m6g.large"].iter().filter_map(|name| all.iter().find(|known| known.name == *name)).collect();
    let candidates: Vec<&InstanceType> = if !usable.is_empty() && !class.family.is_windows() {
        usable.iter().collect()
    } else if usual.is_empty() {
        all.iter().collect()
    } else {
        usual
    };
    let mut booting = candidates.into_iter().filter(|known| image_for(known, images, rules).is_some());
    let plain = |known: &&InstanceType| {
        [aws::INSTANCE_GPU_COUNT, aws::INSTANCE_ACCELERATOR_COUNT]
            .iter()
            .all(|key| known.requirements.get(key).is_none_or(karpenter_model::requirements::Requirement::is_empty))
    };
    let booting: Vec<&InstanceType> = booting.by_ref().collect();
    booting.iter().copied().find(plain).or_else(|| booting.first().copied())
}

/// The key of a kept verdict (AWS-103): whatever it depends on, and all annotations, so that adding one asks again.
pub fn verdict_key(class: &NodeClass, static_hash: u64, tags: &crate::cloud::Tags) -> u64 {
    let status = &class.status;
    let parts = (&status.subnets, &status.security_groups, &status.amis, &status.instance_profile);
    // Plain values with text keys always have a JSON form.
    let text = serde_json::to_vec(&(&class.name, parts, static_hash, &class.annotations, tags)).unwrap_or_default();
    fnv::hash(&text)
}

#[cfg(test)]
mod tests;
