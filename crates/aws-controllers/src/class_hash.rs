//! Hash annotations of classes and their claims (AWS-26 … AWS-30).

use std::sync::Arc;

use karpenter_api::hash::{EC2_NODE_CLASS_HASH_VERSION, ec2_node_class_hash};
use karpenter_api::names::aws;
use karpenter_aws::upkeep::restamped;
use karpenter_controllers::patch::ignore_gone;
use karpenter_controllers::queue::{ReconcileError, Requeue};
use karpenter_model::claim::ClaimView;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::Aws;

/// Claims first: a class that says the new version has nothing left to migrate.
pub(crate) async fn reconcile(aws: Arc<Aws>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(class) = aws.class(&name) else { return Ok(Requeue::OnChange) };
    if class.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    // A claim that nobody has seen yet would keep its old version for ever.
    if aws.ctx.state().unlisted().is_some() {
        return Ok(Requeue::Backoff);
    }
    let hash = ec2_node_class_hash(&class.spec, aws.ca_bundle())?;
    let annotation = |key: &str| class.annotations().get(key).map(String::as_str);
    let version = annotation(aws::HASH_VERSION_ANNOTATION);
    if version == Some(EC2_NODE_CLASS_HASH_VERSION) && annotation(aws::HASH_ANNOTATION) == Some(&hash.to_string()) {
        return Ok(Requeue::OnChange);
    }
    if version != Some(EC2_NODE_CLASS_HASH_VERSION) {
        for claim in claims_of(&aws, &name) {
            let Some(stamps) = restamped(&claim, hash) else { continue };
            let patch = Patch::Merge(json!({ "metadata": { "annotations": stamps } }));
            let written = aws.ctx.claims_api().patch(&claim.name, &PatchParams::default(), &patch).await;
            ignore_gone(written)?.map(|claim| aws.ctx.note_claim(claim));
        }
    }
    let patch = json!({ "metadata": { "annotations": {
        aws::HASH_ANNOTATION: hash.to_string(),
        aws::HASH_VERSION_ANNOTATION: EC2_NODE_CLASS_HASH_VERSION,
    } } });
    let written = aws.classes_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    if let Some(written) = ignore_gone(written)? {
        aws.note_class(&written);
    }
    Ok(Requeue::OnChange)
}

fn claims_of(aws: &Aws, class: &str) -> Vec<Arc<ClaimView>> {
    let state = aws.ctx.state();
    state.claims().filter(|claim| claim.node_class.name == class).cloned().collect()
}
