//! The end of a claim.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::{annotations, conditions};
use karpenter_lifecycle::{Finalization, finalization};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_platform::InstanceError;
use kube::ResourceExt as _;
use serde_json::json;

use super::{nodes_of, view};
use crate::context::Context;
use crate::patch::{delete_if_present, ignore_gone, merge_locked, merge_status_locked, without_finalizer};
use crate::queue::{ReconcileError, Requeue};

/// How soon the provider is asked again whether an instance is gone.
pub(crate) const TERMINATION_POLL: Duration = Duration::from_secs(5);

pub(super) async fn finalize(ctx: &Context, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
    let mut seen = view(ctx, claim);
    // A launch whose answer was not written down yet is known to this process only.
    if seen.provider_id.is_none() {
        seen.provider_id = ctx.memory.launched(&seen.uid).map(|instance| instance.provider_id);
    }
    let nodes = nodes_of(ctx, &seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    match finalization(&seen, &nodes) {
        Finalization::NotOurs | Finalization::WaitForNodes => Ok(Requeue::OnChange),
        Finalization::WriteDeadline(deadline) => {
            let patch =
                json!({ "metadata": { "annotations": { annotations::TERMINATION_TIMESTAMP: deadline.to_string() } } });
            let stored = ctx.claim_written(claim, merge_locked(&ctx.claims_api(), claim, patch).await)?;
            if stored.is_some() {
                ctx.report.claim_grace_period_expiring(&seen, deadline);
            }
            Ok(Requeue::after_write(stored.is_some()))
        }
        Finalization::DeleteNodes(names) => {
            for node in names.iter().filter_map(|name| ctx.nodes.get(name)) {
                delete_if_present(&ctx.nodes_api(), node.as_ref()).await?;
            }
            Ok(Requeue::OnChange)
        }
        Finalization::FindInstance => match ctx.provider.find(&seen).await? {
            Some(instance) => {
                seen.provider_id = Some(instance.provider_id);
                terminate(ctx, claim, &seen).await
            }
            None => remove_finalizer(ctx, claim).await,
        },
        Finalization::TerminateInstance => terminate(ctx, claim, &seen).await,
    }
}

/// LIF-42: also a first answer "not found" is noted, and ends the matter in the same pass.
async fn terminate(ctx: &Context, claim: &NodeClaim, seen: &ClaimView) -> Result<Requeue, ReconcileError> {
    let answer = ctx.provider.delete(seen).await;
    if let Err(InstanceError::Call(_)) = answer {
        return answer.map(|()| Requeue::OnChange).map_err(Into::into);
    }
    let marked = mark_terminating(ctx, claim).await?;
    if answer.is_ok() {
        return Ok(Requeue::After(TERMINATION_POLL));
    }
    let marked_seen = view(ctx, &marked);
    if let Some(asked) = marked_seen.instance_terminating {
        ctx.report.instance_terminated(&marked_seen, asked.since);
    }
    remove_finalizer(ctx, &marked).await
}

/// The claim as it is afterwards.
pub(crate) async fn mark_terminating(ctx: &Context, claim: &NodeClaim) -> Result<Arc<NodeClaim>, ReconcileError> {
    let mut marked = claim.clone();
    if condition_sets::NODE_CLAIM.of(&mut marked, ctx.clock.now()).set_true(conditions::INSTANCE_TERMINATING) {
        let stored = write_conditions(ctx, claim, &marked).await?;
        return Ok(stored.unwrap_or_else(|| Arc::new(marked)));
    }
    Ok(Arc::new(marked))
}

/// Replaces the condition list, if nobody else changed the claim meanwhile (API-124). The claim as it is afterwards; `None` when it is
/// gone.
pub(crate) async fn write_conditions(
    ctx: &Context,
    stored: &NodeClaim,
    changed: &NodeClaim,
) -> Result<Option<Arc<NodeClaim>>, ReconcileError> {
    let status = json!({ "conditions": changed.conditions() });
    Ok(ctx.claim_written(stored, merge_status_locked(&ctx.claims_api(), stored, status).await)?)
}

async fn remove_finalizer(ctx: &Context, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
    if ignore_gone(merge_locked(&ctx.claims_api(), claim, without_finalizer(claim)).await)?.is_some() {
        ctx.report.deleted_claim(&view(ctx, claim));
    }
    ctx.memory.forget_launch(&claim.uid().unwrap_or_default());
    Ok(Requeue::OnChange)
}
