//! Claims without an instance, and instances without a claim (LIF-76 … LIF-79).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeSpec};
use karpenter_lifecycle::{ClaimAndNodes, Launch, launch};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_platform::InstanceError;
use karpenter_state::Source;

use crate::context::Context;
use crate::node_termination::stand_in;
use crate::nodeclaim_lifecycle::view;
use crate::patch::delete_if_present;
use crate::queue::{Backoff, ReconcileError};

/// What a crash left behind is looked for early after a start, then less often.
const EARLY_ROUNDS: u32 = 20;
const EARLY: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_mins(2);

/// Collects until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let (mut rounds, mut failures) = (0_u32, 0_u32);
    loop {
        let pause = match failures {
            0 if rounds < EARLY_ROUNDS => EARLY,
            0 => LATER,
            failures => Backoff::LIFECYCLE.after(failures),
        };
        tokio::time::sleep(pause).await;
        match collect(&ctx).await {
            Ok(()) => (rounds, failures) = (rounds.saturating_add(1), 0),
            Err(error) => {
                failures = failures.saturating_add(1);
                ctx.report.loop_failed("nodeclaim.garbagecollection", error.as_ref());
            }
        }
    }
}

pub(crate) async fn collect(ctx: &Context) -> Result<(), ReconcileError> {
    let complete = [Source::Claims, Source::Nodes].into_iter().all(|source| ctx.state().is_listed(source));
    if !complete {
        return Ok(());
    }
    let listed = ctx.provider.running().await?;
    let lost = lost_claims(ctx, &listed);
    let outcomes = futures::future::join_all(lost.iter().map(|name| delete_lost(ctx, name))).await;
    let claimed = claimed_instances(ctx).await?;
    let orphans = ctx.memory.collector().orphans(&listed, &claimed, ctx.clock.now());
    let more = futures::future::join_all(orphans.iter().map(|id| terminate_orphan(ctx, id))).await;
    // Everybody gets their turn before the round counts as failed.
    outcomes.into_iter().chain(more).collect()
}

fn lost_claims(ctx: &Context, listed: &BTreeSet<String>) -> Vec<String> {
    let state = ctx.state();
    let claims: Vec<Arc<ClaimView>> = state.claims().cloned().collect();
    let nodes: Vec<Vec<Arc<NodeView>>> = claims
        .iter()
        .map(|claim| claim.provider_id.as_deref().map(|id| state.nodes_by_provider_id(id)).unwrap_or_default())
        .collect();
    drop(state);
    let nodes: Vec<Vec<&NodeView>> = nodes.iter().map(|nodes| nodes.iter().map(Arc::as_ref).collect()).collect();
    let entries: Vec<ClaimAndNodes<'_>> =
        claims.iter().zip(&nodes).map(|(claim, nodes)| ClaimAndNodes { claim, nodes }).collect();
    ctx.memory.collector().lost_claims(&entries, listed)
}

/// Asks for this one instance before acting on what listings did not show (Y4).
async fn delete_lost(ctx: &Context, name: &str) -> Result<(), ReconcileError> {
    let Some(claim) = ctx.claims.get(name) else { return Ok(()) };
    let seen = view(ctx, &claim);
    match ctx.provider.get(seen.provider_id.as_deref().unwrap_or_default()).await {
        Ok(_) => Ok(()),
        Err(InstanceError::NotFound(_)) => {
            let pods = ctx.reschedulable_pods(&seen);
            delete_if_present(&ctx.claims_api(), claim.as_ref()).await?;
            ctx.report.disrupted(&seen, "garbage_collected", pods);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The instances of claims: those written down, those about to be, and those a crash kept from being written down.
async fn claimed_instances(ctx: &Context) -> Result<BTreeSet<String>, ReconcileError> {
    let claims: Vec<Arc<ClaimView>> = ctx.state().claims().cloned().collect();
    let mut claimed: BTreeSet<String> = claims.iter().filter_map(|claim| claim.provider_id.clone()).collect();
    claimed.extend(ctx.memory.launched_ids());
    for claim in claims.iter().filter(|claim| claim.provider_id.is_none() && launch(claim) == Launch::AskProvider) {
        claimed.extend(ctx.provider.find(claim).await?.map(|instance| instance.provider_id));
    }
    Ok(claimed)
}

async fn terminate_orphan(ctx: &Context, provider_id: &str) -> Result<(), ReconcileError> {
    let nodes = ctx.state().nodes_by_provider_id(provider_id);
    let spec = NodeSpec { provider_id: Some(provider_id.to_owned()), ..NodeSpec::default() };
    let seen = stand_in(ctx, &Node { spec: Some(spec), ..Node::default() });
    match ctx.provider.delete(&seen).await {
        Ok(()) | Err(InstanceError::NotFound(_)) => ctx.report.orphan_terminated(provider_id),
        Err(error) => return Err(error.into()),
    }
    for node in nodes.iter().filter_map(|node| ctx.nodes.get(&node.name)) {
        delete_if_present(&ctx.nodes_api(), node.as_ref()).await?;
    }
    Ok(())
}
