//! The instance profile of a class (§2.6).

use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::conditions::INSTANCE_PROFILE_READY;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::ApiError;
use karpenter_aws::profiles::{ProfileStep, profile_step, role_name};
use karpenter_controllers::queue::ReconcileError;

use super::{Again, Part, conditions, status};
use crate::Aws;

#[derive(Debug, thiserror::Error)]
#[error("iam:GetInstanceProfile failed")]
struct ReadError(#[source] ApiError);

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let before = status(class).instance_profile.clone().filter(|name| !name.is_empty());
    let name = name(aws, &NodeClass::read(class)?, before.as_deref()).await?;
    // Claims that were launched from the old one are not all known yet.
    if let Some(old) = before.filter(|old| *old != name) {
        aws.protect_profile(&old);
    }
    status(class).instance_profile = Some(name);
    conditions(aws, class).set_true(INSTANCE_PROFILE_READY);
    Ok(Again::OnChange)
}

async fn name(aws: &Aws, class: &NodeClass, before: Option<&str>) -> Result<String, ReconcileError> {
    let role = role_name(class.spec.role.as_deref().unwrap_or_default());
    let made = aws.profile_made(class, role);
    let current = made.as_deref().or(before);
    let mut step = profile_step(class, current, None);
    if let ProfileStep::Look(name) = &step {
        step = profile_step(class, current, Some(aws.read_profile(name).await));
    }
    match step {
        ProfileStep::Use(name) | ProfileStep::Keep(name) => Ok(name),
        ProfileStep::Create | ProfileStep::Look(_) => Ok(aws.make_profile(class, current).await?),
        ProfileStep::Failed(error) => Err(ReadError(error).into()),
    }
}
