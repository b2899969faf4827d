//! Hash annotations of pools and their claims (LIF-94 … LIF-96, API-227 … API-229).

use std::sync::Arc;

use karpenter_api::convert;
use karpenter_api::names::annotations;
use karpenter_lifecycle::{Rehash, is_current, is_stamped, rehashes};
use karpenter_model::pool::TemplateHash;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::patch::ignore_gone;
use crate::queue::{ReconcileError, Requeue};

/// Claims first: a pool that says the new version has nothing left to migrate.
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(pool) = ctx.pools.get(&name) else { return Ok(Requeue::OnChange) };
    // A template that cannot be read has no hash; validation says so.
    let Some(hash) = convert::pool(&pool, ctx.provider.label_rules()).view.hash else { return Ok(Requeue::OnChange) };
    let annotation = |key: &str| pool.annotations().get(key).cloned();
    if is_stamped(&hash, annotation) {
        return Ok(Requeue::OnChange);
    }
    if !is_current(&hash, annotation) {
        let own = ctx.state().claims_of(&name);
        for rehash in rehashes(&hash, own.iter().map(Arc::as_ref)) {
            migrate(&ctx, &rehash, &hash).await?;
        }
    }
    let patch = json!({ "metadata": { "annotations": {
        annotations::NODEPOOL_HASH: hash.value.to_string(),
        annotations::NODEPOOL_HASH_VERSION: hash.version,
    } } });
    let written = ctx.pools_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    ignore_gone(written)?.map(|pool| ctx.note_pool(pool));
    Ok(Requeue::OnChange)
}

async fn migrate(ctx: &Context, rehash: &Rehash, current: &TemplateHash) -> Result<(), ReconcileError> {
    let mut changed = json!({ annotations::NODEPOOL_HASH_VERSION: current.version });
    if let Some(hash) = rehash.hash {
        changed[annotations::NODEPOOL_HASH] = hash.to_string().into();
    }
    let patch = Patch::Merge(json!({ "metadata": { "annotations": changed } }));
    let written = ctx.claims_api().patch(&rehash.claim, &PatchParams::default(), &patch).await;
    ignore_gone(written)?.map(|claim| ctx.note_claim(claim));
    Ok(())
}
