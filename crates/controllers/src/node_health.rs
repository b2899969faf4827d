//! Deletes sick nodes: the controller behind `--legacy-node-repair` (LIF-84 … LIF-89, V15-51).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::names::annotations::TERMINATION_TIMESTAMP;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_platform::{LegacyPolicies, too_many};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::events::{Subject, catalogue};
use crate::patch::{delete_if_present, ignore_gone};
use crate::queue::{ReconcileError, Requeue};

const BLOCKED: Duration = Duration::from_mins(5);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(policies) = &ctx.legacy_repair else { return Ok(Requeue::OnChange) };
    let Some((node, claim)) = pair(&ctx, &name) else { return Ok(Requeue::OnChange) };
    let Some((at, condition)) = policies.due(&node.conditions) else { return Ok(Requeue::OnChange) };
    let now = ctx.clock.now();
    if now < at {
        return Ok(Requeue::After(at.duration_since(now).try_into().unwrap_or_default()));
    }
    if is_blocked(&ctx, policies, &claim) {
        tell_blocked(&ctx, &node, &claim);
        return Ok(Requeue::After(BLOCKED));
    }
    write_deadline(&ctx, &claim, now).await?;
    let Some(object) = ctx.claims.get(&claim.name).filter(|_| claim.deleting_since.is_none()) else {
        return Ok(Requeue::OnChange);
    };
    let pods = ctx.reschedulable_pods(&claim);
    if let Some(left) = delete_if_present(&ctx.claims_api(), object.as_ref()).await? {
        let image = left.status.as_ref().and_then(|status| status.image_id.clone());
        ctx.note_claim(left);
        ctx.report.disrupted(&claim, "unhealthy", pods);
        ctx.report.repaired(&claim, &condition.kind, image.as_deref(), None);
    }
    Ok(Requeue::OnChange)
}

/// A node of ours with its claim.
fn pair(ctx: &Context, name: &str) -> Option<(Arc<NodeView>, Arc<ClaimView>)> {
    let state = ctx.state();
    let node = state.node(name)?.clone();
    match &state.claims_by_provider_id(node.provider_id.as_deref()?)[..] {
        [claim] => Some((node, claim.clone())),
        _ => None,
    }
}

/// Among the nodes of the pool, or all nodes for a claim without one (LIF-87, LC-89).
fn is_blocked(ctx: &Context, policies: &LegacyPolicies, claim: &ClaimView) -> bool {
    let nodes = ctx.state().nodes();
    let scope = nodes
        .iter()
        .filter_map(|entry| entry.node.as_ref())
        .filter(|node| claim.pool.as_ref().is_none_or(|pool| node.labels.get(labels::NODEPOOL) == Some(pool)));
    let (mut all, mut sick) = (0, 0);
    for node in scope {
        all += 1;
        sick += usize::from(policies.is_unhealthy(&node.conditions));
    }
    too_many(sick, all)
}

/// Always on the Node, once for each of the objects concerned.
fn tell_blocked(ctx: &Context, node: &NodeView, claim: &ClaimView) {
    let pool = claim.pool.as_ref().and_then(|pool| ctx.state().pool(pool).map(|pool| pool.uid.clone()));
    let subject = Subject::node(&node.name, &node.uid);
    for uid in [Some(node.uid.clone()), Some(claim.uid.clone()), pool].into_iter().flatten() {
        ctx.report.events.publish(catalogue::legacy_node_repair_blocked(&subject, &uid, claim.pool.is_none()));
    }
}

/// The pods have no time left, unless they had even less; without a lock (LIF-88).
async fn write_deadline(ctx: &Context, claim: &ClaimView, now: Timestamp) -> Result<(), ReconcileError> {
    let written: Option<Timestamp> = claim.annotations.get(TERMINATION_TIMESTAMP).and_then(|text| text.parse().ok());
    if written.is_some_and(|written| written <= now) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { TERMINATION_TIMESTAMP: now.to_string() } } }));
    let answer = ctx.claims_api().patch(&claim.name, &PatchParams::default(), &patch).await;
    if let Some(written) = ignore_gone(answer)? {
        ctx.note_claim(written);
    }
    Ok(())
}
