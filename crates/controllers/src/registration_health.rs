//! `NodeRegistrationHealthy` of pools (LIF-98 … LIF-103).

use std::sync::Arc;

use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::kinds::{ConditionStatus, NodeClaim, NodePool};
use karpenter_api::names::conditions::{self, messages, reasons};
use karpenter_lifecycle::{Generations, Ring, health_after, is_outdated};
use karpenter_model::claim::Status;
use kube::ResourceExt as _;
use serde_json::json;

use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::patch::{ignore_gone, merge_status_locked};
use crate::queue::{ReconcileError, Requeue};

/// A changed pool or class begins anew.
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(stored) = ctx.pools.get(&name) else { return Ok(Requeue::OnChange) };
    // At the start a class that has not come yet is not missing; who lists the classes wakes all pools.
    if !ctx.node_classes.is_listed() {
        return Ok(Requeue::OnChange);
    }
    let class = ctx.node_classes.get(&stored.spec.template.spec.node_class_ref.name);
    let current = Generations {
        pool: stored.metadata.generation.unwrap_or_default(),
        class: class.and_then(|class| class.metadata.generation),
    };
    let observed = stored.status.as_ref().and_then(|status| status.node_class_observed_generation);
    let made_from = health(&stored).map(|condition| Generations {
        pool: condition.observed_generation.unwrap_or_default(),
        class: observed.filter(|generation| *generation != 0),
    });
    if !is_outdated(made_from, current) {
        return Ok(Requeue::OnChange);
    }
    let mut pool = (*stored).clone();
    let mut all = condition_sets::NODE_POOL.of(&mut pool, ctx.clock.now());
    all.set_unknown(
        conditions::NODE_REGISTRATION_HEALTHY,
        reasons::AWAITING_RECONCILIATION,
        messages::AWAITING_RECONCILIATION,
    );
    let status = json!({
        "conditions": pool.conditions(),
        "nodeClassObservedGeneration": current.class.unwrap_or_default(),
    });
    if let Some(written) = ignore_gone(merge_status_locked(&ctx.pools_api(), stored.as_ref(), status).await)? {
        ctx.memory.rings().remove(&written.uid().unwrap_or_default());
        ctx.note_pool(written);
    }
    Ok(Requeue::OnChange)
}

fn health(pool: &NodePool) -> Option<&karpenter_api::kinds::Condition> {
    pool.condition(conditions::NODE_REGISTRATION_HEALTHY)
}

fn status(pool: &NodePool) -> Option<Status> {
    health(pool).map(|condition| match condition.status {
        ConditionStatus::True => Status::True,
        ConditionStatus::False => Status::False,
        ConditionStatus::Unknown => Status::Unknown,
    })
}

/// Takes note of a claim that registered, or never did. A conflict is an error: the claim is looked at again, and its
/// outcome is not lost (LC-147).
pub(crate) async fn record_outcome(ctx: &Context, claim: &NodeClaim, registered: bool) -> Result<(), ReconcileError> {
    let seen = view(ctx, claim);
    let Some(pool) = seen.pool.as_ref().and_then(|name| ctx.pools.get(name)) else { return Ok(()) };
    let uid = pool.uid().unwrap_or_default();
    // A pool made anew under the same name answers for its own claims only (LC-40).
    if seen.pool_uid.as_ref() != Some(&uid) || ctx.memory.is_recorded(&seen.uid) {
        return Ok(());
    }
    let known = ctx.memory.rings().get(&uid).cloned().filter(|ring| !ring.is_empty());
    let mut ring = known.unwrap_or_else(|| Ring::from_condition(status(&pool)));
    if let Some(health) = health_after(&ring, registered, status(&pool)) {
        write_health(ctx, &pool, claim, health).await?;
    }
    ring.record(registered);
    ctx.memory.rings().insert(uid, ring);
    ctx.memory.note_recorded(&seen.uid);
    Ok(())
}

async fn write_health(
    ctx: &Context,
    stored: &NodePool,
    claim: &NodeClaim,
    health: Status,
) -> Result<(), ReconcileError> {
    let mut pool = stored.clone();
    let mut all = condition_sets::NODE_POOL.of(&mut pool, ctx.clock.now());
    let launched = claim.condition(conditions::LAUNCHED);
    match (health, launched) {
        (Status::True, _) => all.set_true(conditions::NODE_REGISTRATION_HEALTHY),
        (_, Some(launch)) if !launch.is_true() => {
            all.set_false(conditions::NODE_REGISTRATION_HEALTHY, &launch.reason, &launch.message)
        }
        _ => all.set_false(
            conditions::NODE_REGISTRATION_HEALTHY,
            reasons::REGISTRATION_FAILED,
            messages::REGISTRATION_FAILED,
        ),
    };
    let status = json!({ "conditions": pool.conditions() });
    if let Some(written) = ignore_gone(merge_status_locked(&ctx.pools_api(), stored, status).await)? {
        ctx.note_pool(written);
    }
    Ok(())
}
