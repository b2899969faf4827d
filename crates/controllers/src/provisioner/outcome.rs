//! What a plan leads to: claims, nominations and events (SCH-24 … SCH-26, SCH-217).

use std::collections::BTreeSet;

use karpenter_model::pod::PodView;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::buffers::{is_virtual, real_pods_only};
use karpenter_solver::{Placement, Plan, PlannedClaim, Refusal, Unplaced};
use kube::ResourceExt as _;

use crate::claim_creation::{ClaimOrder, create_claim};
use crate::context::Context;

/// Pods that found no place, but for those that are tried again by themselves (SCH-26).
pub(super) fn unschedulable(snapshot: &Snapshot, plan: &Plan) -> usize {
    let unplaced = plan.unplaced.iter().filter(|unplaced| !is_virtual(snapshot, &unplaced.pod));
    unplaced.filter(|unplaced| !is_deferred(unplaced)).count()
}

/// A pod that only waits for reserved capacity is tried again by itself (SCH-26).
pub(super) fn is_deferred(unplaced: &Unplaced) -> bool {
    !unplaced.reasons.is_empty() && unplaced.reasons.iter().all(|refused| refused.why == Refusal::Reserved)
}

/// There is no pool that could be used: everybody has heard the verdict (SCH-22).
pub(super) fn without_pools(ctx: &Context, snapshot: &Snapshot) {
    for pod in snapshot.pending.values().filter(|pod| pod.buffer.is_none()) {
        ctx.state().expectations.expect(&pod.id, None);
        ctx.report.unplannable(pod, "no nodepool is ready to be used");
    }
}

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
        if let Some(pod) = snapshot.pending.get(&unplaced.pod) {
            note_unplaced(ctx, pod, unplaced);
        }
    }
    note_useless_pools(ctx, plan);
    let creating = plan.claims.iter().map(|planned| create(ctx, snapshot, planned));
    futures::future::join_all(creating).await;
}

/// One failure does not stop the others; whoever it concerns is planned again.
async fn create(ctx: &Context, snapshot: &Snapshot, planned: &PlannedClaim) {
    let name = match create_claim(ctx, &ClaimOrder::planned(planned)).await {
        Ok(claim) => claim.name_any(),
        Err(error) => return ctx.report.create_failed(&planned.pool.name, &error),
    };
    if !planned.pool.limits.is_empty() {
        ctx.state().charge(&name, most(snapshot, planned));
    }
    ctx.report.created_claim(&name, planned);
    for pod in planned.pods.iter().filter_map(|id| snapshot.pending.get(id)) {
        ctx.state().expectations.expect(&pod.id, Some(&name));
        ctx.report.nominated(pod, Some(&name), None);
    }
}

/// The largest amounts among the types that the node may become: what the plan weighed against the limits (SCH-80).
fn most(snapshot: &Snapshot, planned: &PlannedClaim) -> Resources {
    let offer = snapshot.pools.iter().find(|offer| offer.pool.name == planned.pool.name);
    let types = offer.into_iter().flat_map(|offer| offer.instance_types.iter());
    let names: BTreeSet<&str> = planned.instance_types.iter().map(String::as_str).collect();
    let mut most = Resources::new();
    for known in types.filter(|known| names.contains(known.name.as_str())) {
        for (name, amount) in known.capacity.iter() {
            most.set(name, amount.max(most.amount(name)));
        }
    }
    most
}

/// Nodes that pods were planned onto are expected to receive them, and are left alone meanwhile (SCH-24).
fn nominate(ctx: &Context, snapshot: &Snapshot, plan: &Plan) {
    let until = ctx.nomination_end();
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

pub(super) fn note_unplaced(ctx: &Context, pod: &PodView, unplaced: &Unplaced) {
    ctx.state().expectations.expect(&unplaced.pod, None);
    if is_deferred(unplaced) {
        ctx.report.waits_for_reservation(pod);
    } else {
        ctx.report.unplaced(pod, unplaced);
    }
}

/// Pools that could serve nobody, whatever the pod (SCH-86). A pool whose types could not be listed is not among them: that
/// is nobody's mistake (Q31).
fn note_useless_pools(ctx: &Context, plan: &Plan) {
    let refusals = plan.unplaced.iter().flat_map(|unplaced| &unplaced.reasons);
    let useless: BTreeSet<&str> = refusals
        .filter(|refused| refused.why == Refusal::NoInstanceType)
        .map(|refused| refused.pool.as_str())
        .collect();
    for name in useless {
        let pool = ctx.state().pool(name).cloned();
        if let Some(pool) = pool {
            ctx.report.useless_pool(&pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::pod::PodId;
    use karpenter_solver::RefusedBy;

    use super::*;

    /// SCH-26, V15-84: only who waits for nothing but a reservation is tried again by itself, and not counted.
    #[test]
    fn who_waits_for_a_reservation_is_not_hopeless() {
        let unplaced = |reasons: &[Refusal]| Unplaced {
            pod: PodId::new("default", "a"),
            reasons: reasons.iter().map(|why| RefusedBy { pool: "blue".into(), why: why.clone() }).collect(),
        };
        for (reasons, want) in [
            (vec![Refusal::Reserved], true),
            (vec![Refusal::Reserved, Refusal::Reserved], true),
            (vec![Refusal::Reserved, Refusal::Limit], false),
            (vec![], false),
        ] {
            assert_eq!(is_deferred(&unplaced(&reasons)), want, "{reasons:?}");
        }
    }
}
