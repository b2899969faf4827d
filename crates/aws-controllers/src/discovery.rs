//! Registered nodes show how much their instance type really has (AWS-120, AWS-313).

use std::sync::Arc;

use karpenter_aws::class::NodeClass;
use karpenter_aws::instance_types::attachments::EBS_DRIVER;
use karpenter_aws::launch::images::image_for;
use karpenter_controllers::queue::{ReconcileError, Requeue};
use karpenter_model::claim::ClaimView;
use karpenter_model::labels::{INSTANCE_TYPE, REGISTERED};
use karpenter_model::node::NodeView;
use karpenter_model::resources::MEMORY;

use crate::Aws;

pub(crate) async fn reconcile(aws: Arc<Aws>, name: String) -> Result<Requeue, ReconcileError> {
    let (node, claim, volumes) = {
        let state = aws.ctx.state();
        let Some(node) = state.node(&name).cloned() else { return Ok(Requeue::OnChange) };
        let claim = node.provider_id.as_deref().and_then(|id| state.claims_by_provider_id(id).first().cloned());
        (node, claim, state.volumes().limits(&name).get(EBS_DRIVER).copied().flatten())
    };
    let Some(claim) = claim.filter(|_| node.labels.get(REGISTERED).is_some_and(|value| value == "true")) else {
        return Ok(Requeue::OnChange);
    };
    let Some(class) = aws.class(&claim.node_class.name).and_then(|class| NodeClass::read(&class).ok()) else {
        return Ok(Requeue::OnChange);
    };
    let Some(instance_type) = node.labels.get(INSTANCE_TYPE) else { return Ok(Requeue::OnChange) };
    if is_current(&aws, &class, &claim, instance_type).await {
        record(&aws, &class, &node, instance_type, volumes);
    }
    Ok(Requeue::OnChange)
}

/// Other images have other kernels, which keep more or less for themselves.
async fn is_current(aws: &Aws, class: &NodeClass, claim: &ClaimView, instance_type: &str) -> bool {
    let Some(image) = aws.ctx.claims.get(&claim.name).and_then(|claim| claim.status.as_ref()?.image_id.clone()) else {
        return false;
    };
    let Ok(types) = aws.shared.instance_types(class).await else { return false };
    let images = class.status.amis.as_deref().unwrap_or_default();
    let known = types.iter().find(|known| known.name == instance_type);
    let boots = known.and_then(|known| image_for(known, images, aws.ctx.provider.label_rules()));
    boots.is_some_and(|boots| boots.id == image)
}

fn record(aws: &Aws, class: &NodeClass, node: &NodeView, instance_type: &str, volumes: Option<u32>) {
    let memory = node.capacity.amount(MEMORY);
    if !memory.is_zero() {
        aws.shared.memory_seen(class, instance_type, memory);
    }
    if let Some(limit) = volumes {
        aws.shared.attachments_seen(class, instance_type, limit);
    }
}
