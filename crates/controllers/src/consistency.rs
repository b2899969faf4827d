//! Compares nodes with what was promised (LIF-81 … LIF-83).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::conditions as condition_sets;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::conditions::{self, messages, reasons};
use karpenter_lifecycle::{CHECK_EVERY, Consistency, ShapeIssue, consistency};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;

use crate::context::Context;
use crate::events::catalogue::Shortfall;
use crate::nodeclaim_lifecycle::{seen, view, write_conditions};
use crate::queue::{ReconcileError, Requeue};

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(seen) = seen(&ctx, &name) else { return Ok(Requeue::OnChange) };
    let now = ctx.clock.now();
    let checked = ctx.memory.checks().get(&seen.uid).copied();
    let left = checked.map_or(SignedDuration::ZERO, |at| CHECK_EVERY - now.duration_since(at));
    if left.is_positive() {
        return Ok(Requeue::After(left.try_into().unwrap_or(Duration::ZERO)));
    }
    let nodes = seen.provider_id.as_deref().map(|id| ctx.state().nodes_by_provider_id(id)).unwrap_or_default();
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    let Consistency::Checked(issues) = consistency(&seen, &nodes) else { return Ok(Requeue::OnChange) };
    let Some(claim) = ctx.claims.get(&name) else { return Ok(Requeue::OnChange) };
    write(&ctx, &claim, &issues).await?;
    // Only a check that was made and stored keeps the next one away (Y24).
    ctx.memory.checks().insert(seen.uid.clone(), now);
    Ok(Requeue::After(CHECK_EVERY.try_into().unwrap_or(Duration::from_mins(10))))
}

/// A node that has just been initialized is compared at once, so that what is found is stored with that. What is wrong is left
/// to [`reconcile`], which tells.
pub(crate) fn note_consistent(ctx: &Context, claim: &mut NodeClaim, seen: &ClaimView, now: Timestamp) -> bool {
    let nodes = seen.provider_id.as_deref().map(|id| ctx.state().nodes_by_provider_id(id)).unwrap_or_default();
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    let fine = matches!(consistency(seen, &nodes), Consistency::Checked(issues) if issues.is_empty());
    if fine {
        condition_sets::NODE_CLAIM.of(claim, now).set_true(conditions::CONSISTENT_STATE_FOUND);
    }
    fine
}

async fn write(ctx: &Context, claim: &NodeClaim, issues: &[ShapeIssue]) -> Result<(), ReconcileError> {
    let mut changed = claim.clone();
    let mut all = condition_sets::NODE_CLAIM.of(&mut changed, ctx.clock.now());
    let news = if issues.is_empty() {
        all.set_true(conditions::CONSISTENT_STATE_FOUND)
    } else {
        let (reason, message) = (reasons::CONSISTENCY_CHECK_FAILED, messages::CONSISTENCY_CHECK_FAILED);
        all.set_false(conditions::CONSISTENT_STATE_FOUND, reason, message)
    };
    for issue in issues {
        let shortfall = Shortfall { resource: &issue.resource, expected: issue.expected, found: issue.found };
        ctx.report.failed_consistency_check(&view(ctx, claim), &shortfall);
    }
    if news {
        write_conditions(ctx, claim, &changed).await?;
    }
    Ok(())
}
