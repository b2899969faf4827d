//! The instance of a claim.

use jiff::Timestamp;
use karpenter_api::conditions as condition_sets;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::conditions::{self, reasons};
use karpenter_lifecycle::clipped;
use karpenter_model::claim::ClaimView;
use karpenter_platform::{CreateError, Instance};

use crate::claim_creation::quantities;
use crate::context::Context;
use crate::report::chain;

/// Asks the provider, or takes the answer it already gave for this claim (LIF-15, LIF-16).
pub(super) async fn launch_instance(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    now: Timestamp,
) -> Option<CreateError> {
    let answer = match ctx.memory.launched(&seen.uid) {
        Some(instance) => Ok(instance),
        None => ctx.provider.create(seen).await.inspect(|instance| {
            ctx.report.launched(seen, instance);
            ctx.memory.remember_launch(&seen.uid, instance);
        }),
    };
    match answer {
        Ok(instance) => {
            fill_launched(claim, instance);
            condition_sets::NODE_CLAIM.of(claim, now).set_true(conditions::LAUNCHED);
            None
        }
        Err(error) => {
            ctx.state().note_launch_failed(&seen.name);
            let (reason, message) = match &error {
                CreateError::Explained { reason, message } => (reason.clone(), message.clone()),
                other => (reasons::LAUNCH_FAILED.to_owned(), clipped(&chain(other))),
            };
            condition_sets::NODE_CLAIM.of(claim, now).set_unknown(conditions::LAUNCHED, &reason, &message);
            Some(error)
        }
    }
}

/// Labels of the claim win over the provider's, annotations the other way round (API-139).
fn fill_launched(claim: &mut NodeClaim, instance: Instance) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in instance.labels {
        labels.entry(key).or_insert(value);
    }
    claim.metadata.annotations.get_or_insert_default().extend(instance.annotations);
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(instance.provider_id);
    status.image_id = instance.image_id;
    status.capacity = Some(quantities(&instance.capacity));
    status.allocatable = Some(quantities(&instance.allocatable));
}
