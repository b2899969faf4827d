//! The end of a class: after its last claim, with everything that was made for it (AWS-39 … AWS-41, AWS-289).

use karpenter_api::kinds::{EC2NodeClass, NodeClaim};
use karpenter_api::names::aws;
use karpenter_aws::class::NodeClass;
use karpenter_controllers::patch::{ignore_gone, merge_locked};
use karpenter_controllers::queue::{ReconcileError, Requeue};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::MINUTE;
use crate::Aws;

pub(super) async fn finalize(aws: &Aws, object: &EC2NodeClass) -> Result<Requeue, ReconcileError> {
    if !object.finalizers().iter().any(|name| name == aws::FINALIZER) {
        return Ok(Requeue::OnChange);
    }
    let claims = claims_of(aws, &object.name_any()).await?;
    if !claims.is_empty() {
        aws.report_waiting(object, &claims);
        return Ok(Requeue::After(MINUTE * 10));
    }
    let class = NodeClass::read(object)?;
    if !aws.options.isolated_vpc {
        aws.delete_profiles_of(&class).await?;
    }
    aws.shared.delete_class_templates(&class.name).await?;
    aws.ctx.report.metrics.all.userdata_bytes.remove([&class.name]);
    let others: Vec<&String> = object.finalizers().iter().filter(|name| *name != aws::FINALIZER).collect();
    let patch = json!({ "metadata": { "finalizers": others } });
    if let Some(written) = ignore_gone(merge_locked(&aws.classes_api(), object, patch).await)? {
        aws.note_class(&written);
    }
    aws.classes.verdicts.forget_where(|(name, _)| *name == class.name);
    tracing::info!(nodeclass = class.name, "cleaned up after nodeclass");
    Ok(Requeue::OnChange)
}

/// The API is asked before anything is cleaned up: a claim that the watch has not brought yet needs its profile.
async fn claims_of(aws: &Aws, class: &str) -> Result<Vec<String>, ReconcileError> {
    let uses = |claim: &NodeClaim| {
        let reference = &claim.spec.node_class_ref;
        reference.name == class && reference.kind == aws::NODE_CLASS_KIND && reference.group == aws::GROUP
    };
    let known: Vec<String> = {
        let state = aws.ctx.state();
        let own = state.claims().filter(|claim| claim.node_class.name == class);
        own.map(|claim| claim.name.clone()).collect()
    };
    if !known.is_empty() {
        return Ok(known);
    }
    let listed = aws.ctx.claims_api().list(&ListParams::default()).await?;
    Ok(listed.items.iter().filter(|claim| uses(claim)).map(ResourceExt::name_any).collect())
}
