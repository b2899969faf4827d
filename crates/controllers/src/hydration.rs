//! Labels of the node class on claims and nodes from before they were given (LIF-37).

use std::sync::Arc;

use karpenter_api::names::node_class_label;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;

use crate::context::Context;
use crate::nodeclaim_lifecycle::seen;
use crate::patch::ignore_gone;
use crate::queue::{ReconcileError, Requeue};

/// The claim and, when there is exactly one, its node.
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(seen) = seen(&ctx, &name) else { return Ok(Requeue::OnChange) };
    let class = &seen.node_class;
    let label = (node_class_label(&class.group, &class.kind), class.name.clone());
    if !seen.labels.contains_key(&label.0)
        && let Some(claim) = ctx.claims.get(&name)
        && let Some(written) = add_label(&ctx.claims_api(), claim.as_ref(), &label).await?
    {
        ctx.note_claim(written);
    }
    let nodes = ctx.state().nodes_by_provider_id(seen.provider_id.as_deref().unwrap_or_default());
    if let [node] = &nodes[..]
        && !node.labels.contains_key(&label.0)
        && let Some(node) = ctx.nodes.get(&node.name)
        && let Some(written) = add_label(&ctx.nodes_api(), node.as_ref(), &label).await?
    {
        ctx.note_node(written);
    }
    Ok(Requeue::OnChange)
}

async fn add_label<K>(api: &Api<K>, object: &K, (key, value): &(String, String)) -> Result<Option<K>, ReconcileError>
where
    K: Resource + Clone + k8s_openapi::serde::de::DeserializeOwned + std::fmt::Debug,
{
    if object.labels().contains_key(key) {
        return Ok(None);
    }
    let patch = Patch::Merge(json!({ "metadata": { "labels": { key: value } } }));
    Ok(ignore_gone(api.patch(&object.name_any(), &PatchParams::default(), &patch).await)?)
}
