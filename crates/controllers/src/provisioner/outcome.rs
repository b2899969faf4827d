//! What a plan leads to: claims, nominations and events (SCH-24 … SCH-26, SCH-217).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::buffers::real_pods_only;
use karpenter_solver::{Placement, Plan, PlannedClaim, Refusal, Unplaced};
use kube::ResourceExt as _;

use crate::claim_creation::{ClaimOrder, create_claim};
use crate::context::Context;

/// Pods that stand for buffers get their nodes; nobody is told about them (SCH-187, Q20).
pub(super) async fn carry_out(ctx: &Context, snapshot: &Snapshot, plan: &Plan) {
    let real;
    let plan = if snapshot.pending.values().any(|pod| pod.buffer.is_some()) {
        real = real_pods_only(snapshot, plan);
        &real
    } else {
        plan
    };
    nominate(ctx, snapshot, plan);
    for unplaced in &plan.unplaced {
        note_unplaced(ctx, snapshot, unplaced);
    }
    let creating = plan.claims.iter().map(|planned| create(ctx, snapshot, planned));
    futures::future::join_all(creating).await;
}

/// One failure does not stop the others; whoever it concerns is planned again.
async fn create(ctx: &Context, snapshot: &Snapshot, planned: &PlannedClaim) {
    let name = match create_claim(ctx, &ClaimOrder::planned(planned)).await {
        Ok(claim) => claim.name_any(),
        Err(error) => return ctx.report.create_failed(&planned.pool.name, &error),
    };
    ctx.report.created_claim(&name, planned);
    for pod in planned.pods.iter().filter_map(|id| snapshot.pending.get(id)) {
        ctx.state().expectations.expect(&pod.id, Some(&name));
        ctx.report.nominated(pod, Some(&name), None);
    }
}

/// Nodes that pods were planned onto are expected to receive them, and are left alone meanwhile (SCH-24).
fn nominate(ctx: &Context, snapshot: &Snapshot, plan: &Plan) {
    let longest = SignedDuration::try_from(ctx.batching.longest).unwrap_or(SignedDuration::MAX);
    let window = longest.saturating_mul(2).max(SignedDuration::from_secs(10));
    let until = ctx.clock.now().saturating_add(window).unwrap_or(Timestamp::MAX);
    for (id, placement) in &plan.placed {
        let (Placement::Existing(name), Some(pod)) = (placement, snapshot.pending.get(id)) else { continue };
        let found = snapshot.nodes.binary_search_by(|node| node.name().cmp(name.as_str()));
        let Some(entry) = found.ok().and_then(|index| snapshot.nodes.get(index)) else { continue };
        let claim = entry.claim.as_ref().map(|claim| claim.name.as_str());
        let mut state = ctx.state();
        state.nominate(claim.unwrap_or(name), until);
        state.expectations.expect(id, claim);
        drop(state);
        ctx.report.nominated(pod, claim, entry.node.as_ref().map(|node| node.name.as_str()));
    }
}

fn note_unplaced(ctx: &Context, snapshot: &Snapshot, unplaced: &Unplaced) {
    ctx.state().expectations.expect(&unplaced.pod, None);
    let Some(pod) = snapshot.pending.get(&unplaced.pod) else { return };
    // A pod that only waits for reserved capacity is tried again by itself (SCH-26).
    let deferred =
        !unplaced.reasons.is_empty() && unplaced.reasons.iter().all(|refused| refused.why == Refusal::Reserved);
    if deferred {
        ctx.report.waits_for_reservation(pod);
    } else {
        ctx.report.unplaced(pod, unplaced);
    }
}
