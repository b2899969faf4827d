//! What a pool has, in its status (LIF-97).

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::names::WELL_KNOWN_RESOURCES;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{NODES, Resources};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::claim_creation::quantities;
use crate::context::Context;
use crate::patch::ignore_gone;
use crate::queue::{ReconcileError, Requeue};

const COUNT_EVERY: Duration = Duration::from_secs(5);
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(pool) = ctx.pools.get(&name) else { return Ok(Requeue::OnChange) };
    let (usage, again) = {
        let state = ctx.state();
        if state.unlisted().is_some() {
            return Ok(Requeue::After(UNSYNCED_RETRY));
        }
        // A claim that is being launched counts soon. What is there already is told meanwhile: it may be a claim of another
        // pool, and take minutes (X2).
        (state.usage(&name), if state.unsynced().is_some() { UNSYNCED_RETRY } else { COUNT_EVERY })
    };
    let resources = quantities(&counted(&usage));
    let nodes = usage.amount(NODES).value();
    let status = pool.status.as_ref();
    if status.and_then(|status| status.resources.as_ref()) == Some(&resources)
        && status.and_then(|status| status.nodes) == Some(nodes)
    {
        return Ok(Requeue::After(again));
    }
    let patch = Patch::Merge(json!({ "status": { "resources": resources, "nodes": nodes } }));
    let written = ctx.pools_api().patch_status(&pool.name_any(), &PatchParams::default(), &patch).await;
    ignore_gone(written)?.map(|pool| ctx.note_pool(pool));
    Ok(Requeue::After(again))
}

/// Zeroes where there is nothing, so that a reader need not guess.
fn counted(usage: &Resources) -> Resources {
    let mut all: Resources =
        WELL_KNOWN_RESOURCES.iter().chain([&NODES]).map(|name| ((*name).to_owned(), Quantity::ZERO)).collect();
    all.add(usage);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIF-97, LC-97.
    #[test]
    fn zeroes_where_there_is_nothing() {
        assert_eq!(
            counted(&Resources::new()).to_string(),
            "cpu: 0, ephemeral-storage: 0, memory: 0, nodes: 0, pods: 0"
        );
        let usage = Resources::new().with("cpu", Quantity::units(4)).with("gpu", Quantity::units(1));
        assert_eq!(counted(&usage).to_string(), "cpu: 4, ephemeral-storage: 0, gpu: 1, memory: 0, nodes: 0, pods: 0");
    }
}
