//! Writes down when something last happened to the pods of a node (LIF-35).

use std::sync::Arc;

use karpenter_lifecycle::pod_event_stamp;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::queue::{ReconcileError, Requeue};

/// By node name.
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(event) = ctx.memory.take_pod_event(&name) else { return Ok(Requeue::OnChange) };
    let Some(node) = ctx.nodes.get(&name) else { return Ok(Requeue::OnChange) };
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
    let claims = ctx.state().claims_by_provider_id(&provider_id);
    let [claim] = &claims[..] else { return Ok(Requeue::OnChange) };
    let Some(claim) = ctx.claims.get(&claim.name) else { return Ok(Requeue::OnChange) };
    let Some(stamp) = pod_event_stamp(event, view(&ctx, &claim).last_pod_event) else { return Ok(Requeue::OnChange) };
    // The API keeps whole seconds.
    let stamp = jiff::Timestamp::from_second(stamp.as_second()).unwrap_or(stamp);
    let patch = Patch::Merge(json!({ "status": { "lastPodEventTime": stamp } }));
    let written = ctx.claims_api().patch_status(&claim.name_any(), &PatchParams::default(), &patch).await;
    match ctx.claim_written(&claim, written) {
        Ok(_) => Ok(Requeue::OnChange),
        Err(error) => {
            ctx.memory.note_pod_event(&name, event);
            Err(error.into())
        }
    }
}
