//! Instances get the name of their node and of their claim as tags (AWS-157).

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::names::aws;
use karpenter_aws::provider_id::instance_id;
use karpenter_aws::upkeep::awaits_tags;
use karpenter_controllers::patch::ignore_gone;
use karpenter_controllers::queue::{ReconcileError, Requeue};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::Aws;

/// One after the other, and at most one call in this time.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn reconcile(aws: Arc<Aws>, name: String) -> Result<Requeue, ReconcileError> {
    let claim = aws.ctx.state().claim(&name).cloned();
    let Some(claim) = claim.filter(|claim| awaits_tags(claim)) else { return Ok(Requeue::OnChange) };
    if let Err(error) = instance_id(claim.provider_id.as_deref().unwrap_or_default()) {
        tracing::error!(nodeclaim = name, %error, "cannot tag an instance without knowing its id");
        return Ok(Requeue::OnChange);
    }
    let tagged = aws.shared.tag_instance(&claim).await;
    // The only worker: while it waits nobody calls.
    tokio::time::sleep(PAUSE).await;
    if !tagged? {
        return Ok(Requeue::OnChange);
    }
    let done = json!({ aws::TAGGED_ANNOTATION: "true", aws::CLUSTER_NAME_TAGGED_ANNOTATION: "true" });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": done } }));
    let written = aws.ctx.claims_api().patch(&name, &PatchParams::default(), &patch).await;
    ignore_gone(written)?.map(|claim| aws.ctx.note_claim(claim));
    Ok(Requeue::OnChange)
}
