//! A sick node that is to restart in place (V15-53, V15-54).

use std::sync::Arc;

use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::kinds::{ConditionStatus, NodeClaim};
use karpenter_api::names::annotations::REBOOT_TERMINATION_GRACE_PERIOD;
use karpenter_api::names::conditions::{self, reasons};
use karpenter_disruption::methods::{Command, Going, RepairOf};
use karpenter_disruption::reboot::commitment;
use karpenter_model::annotations::REBOOT_HISTORY;
use kube::ResourceExt as _;
use serde_json::json;

use super::looking::World;
use super::record::identity;
use super::telling;
use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::patch::{merge_locked, merge_status_locked};

/// Whether the reboot was asked for; the rest is the business of its own controller.
pub(super) async fn commit(ctx: &Arc<Context>, world: &World, command: &Command) -> bool {
    let [going] = &command.going[..] else { return false };
    let Some(repair) = &going.repair else { return false };
    match write(ctx, going, repair).await {
        Ok(true) => {}
        // Gone, going or rebooting by now: the next pass sees that.
        Ok(false) => return false,
        Err(error) => {
            ctx.report.disruption_mark_failed(&going.claim, &error);
            return false;
        }
    }
    let uid = ctx.state().claim(&going.claim).map(|claim| claim.uid.clone()).unwrap_or_default();
    ctx.report.disruption_starting(command, &identity([uid.as_str()], ctx.clock.now()), &world.budgets(ctx, command));
    ctx.report.disruption_started(command);
    telling::rebooting(ctx, going, repair);
    ctx.queues.reboots.add(going.claim.clone());
    true
}

async fn write(ctx: &Context, going: &Going, repair: &RepairOf) -> Result<bool, kube::Error> {
    let api = ctx.claims_api();
    let Some(read) = api.get_opt(&going.claim).await? else { return Ok(false) };
    let (read, now) = (ctx.note_claim(read), ctx.clock.now());
    let condition = (repair.condition_type.as_str(), repair.reason.as_str());
    let Ok(commitment) = commitment(&view(ctx, &read), repair.bound, condition, now) else { return Ok(false) };
    let wanted = json!({ REBOOT_TERMINATION_GRACE_PERIOD: commitment.grace, REBOOT_HISTORY: commitment.history });
    let patch = json!({ "metadata": { "annotations": wanted } });
    let stored = ctx.note_claim(merge_locked(&api, read.as_ref(), patch).await?);
    let mut changed = NodeClaim::clone(&stored);
    let mut all = condition_sets::NODE_CLAIM.of(&mut changed, now);
    let unhealthy = karpenter_model::budget::DisruptionReason::Unhealthy.as_str();
    all.set(conditions::DISRUPTION_REASON, ConditionStatus::True, unhealthy, unhealthy);
    all.set(conditions::REBOOTING, ConditionStatus::True, reasons::REBOOT_REQUESTED, &commitment.message);
    let status = json!({ "conditions": changed.conditions() });
    match merge_status_locked(&api, stored.as_ref(), status).await {
        Ok(written) => {
            ctx.note_claim(written);
            Ok(true)
        }
        Err(error) => {
            // It has not begun, so it does not count: twice, and the node would be replaced for reboots that never were. Who dies
            // just here leaves one too many, which costs a reboot and no more.
            let before = json!({ REBOOT_HISTORY: read.annotations().get(REBOOT_HISTORY) });
            let patch = json!({ "metadata": { "annotations": before } });
            if let Ok(restored) = merge_locked(&api, stored.as_ref(), patch).await {
                ctx.note_claim(restored);
            }
            Err(error)
        }
    }
}
