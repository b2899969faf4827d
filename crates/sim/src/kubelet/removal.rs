//! The part of the cloud controller that concerns nodes: one whose machine is gone is removed.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::Kubelets;
use crate::cluster::{Outcome, Queue, Requeue};

pub(super) async fn run(kubelets: &Kubelets) {
    let queue = std::sync::Arc::<Queue>::default();
    kubelets.cluster.wake_self::<Node>(&queue);
    kubelets.cluster.synced().await;
    queue.work("node-removal", |name| async move { reconcile(kubelets, &name).await }).await;
}

async fn reconcile(kubelets: &Kubelets, name: &str) -> Outcome {
    let Some(node) = kubelets.cluster.get::<Node>(name) else { return Ok(Requeue::OnChange) };
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    // Only nodes that came from our machines: others have nobody who could say that they are gone.
    if !id.starts_with(crate::cloud::PROVIDER_PREFIX) || node.metadata.deletion_timestamp.is_some() || is_ready(&node) {
        return Ok(Requeue::OnChange);
    }
    if kubelets.fleet.get(id).is_some_and(|machine| machine.on) {
        // It may go while the node is not ready; nothing else would tell.
        return Ok(Requeue::After(kubelets.pace.removal));
    }
    kubelets.cluster.delete(node.as_ref(), None).await?;
    tracing::debug!(node = node.name_any(), "removed the node of a machine that is gone");
    Ok(Requeue::OnChange)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
