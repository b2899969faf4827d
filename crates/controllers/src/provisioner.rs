//! From pods that wait to NodeClaims.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_solver::{Placement, Plan, plan};

use crate::claim_creation::create_claim;
use crate::context::Context;

/// While pods wait, a pass is made at least this often, so that a lost or skipped one is made up for (SCH-3).
const REARM: Duration = Duration::from_secs(10);
/// How soon an incomplete state is looked at again.
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);

/// Makes passes until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    loop {
        let _ = tokio::time::timeout(REARM, ctx.provision.notified()).await;
        if ctx.state().pending_pods().is_empty() {
            continue;
        }
        gather(&ctx).await;
        let unsynced = ctx.state().unsynced();
        if let Some(why) = unsynced {
            ctx.report.unsynced(&why);
            tokio::time::sleep(UNSYNCED_RETRY).await;
            ctx.provision.notify_one();
            continue;
        }
        ctx.report.synced();
        pass(&ctx).await;
    }
}

/// Waits until no new pod has come for the idle time, or the longest time has passed (API-159).
async fn gather(ctx: &Context) {
    let deadline = tokio::time::Instant::now() + ctx.batching.longest;
    let mut seen = ctx.state().pending_pods().len();
    loop {
        let idle = tokio::time::Instant::now() + ctx.batching.idle;
        tokio::time::sleep_until(idle.min(deadline)).await;
        let now = ctx.state().pending_pods().len();
        if now <= seen || tokio::time::Instant::now() >= deadline {
            return;
        }
        seen = now;
    }
}

async fn pass(ctx: &Context) {
    let (snapshot, ignored) = snapshot(ctx).await;
    let started = tokio::time::Instant::now();
    let plan = plan(&snapshot, ctx.provider.label_rules(), &ctx.planning);
    ctx.report.planned(started.elapsed(), ignored, plan.unplaced.len());
    nominate(ctx, &plan, &snapshot);
    for unplaced in &plan.unplaced {
        if let Some(pod) = snapshot.pending.get(&unplaced.pod) {
            ctx.report.unplaced(pod, unplaced);
        }
    }
    for planned in &plan.claims {
        match create_claim(ctx, planned).await {
            Ok(name) => {
                ctx.report.created_claim(&name, planned);
                for pod in planned.pods.iter().filter_map(|id| snapshot.pending.get(id)) {
                    ctx.report.nominated(pod, Some(&name), None);
                }
            }
            Err(error) => ctx.report.create_failed(&planned.pool.name, &error),
        }
    }
}

/// Nodes first, then pods: a pod that got a node meanwhile is planned for nothing, never twice (SCH-10). Also says how many
/// pods cannot be planned for.
async fn snapshot(ctx: &Context) -> (Snapshot, usize) {
    let pools: Vec<_> = ctx.state().pools().into_iter().filter(|pool| pool.is_schedulable()).collect();
    let mut offers = Vec::with_capacity(pools.len());
    for pool in pools {
        match ctx.provider.instance_types(&pool).await {
            Ok(instance_types) => {
                let usage = ctx.state().usage(&pool.name);
                offers.push(PoolOffer { pool, instance_types, usage });
            }
            Err(error) => ctx.report.instance_types_unavailable(&pool.name, &error),
        }
    }
    let state = ctx.state();
    let nodes = state.nodes();
    let mut pending = state.pending_pods();
    let daemons = state.daemons();
    let namespaces = state.namespaces().clone();
    drop(state);
    let waiting = pending.len();
    pending.retain(|_, pod| match &pod.unplannable {
        Some(why) => {
            ctx.report.unplannable(pod, why);
            false
        }
        None => true,
    });
    let ignored = waiting - pending.len();
    (Snapshot { pools: offers, nodes, pending, daemons, namespaces, ..Snapshot::default() }, ignored)
}

/// Claims that pods were planned onto are expected to receive them (SCH-24).
fn nominate(ctx: &Context, plan: &Plan, snapshot: &Snapshot) {
    let longest = SignedDuration::try_from(ctx.batching.longest).unwrap_or(SignedDuration::MAX);
    let window = longest.saturating_mul(2).max(SignedDuration::from_secs(10));
    let Ok(until) = ctx.clock.now().saturating_add(window) else { return };
    for (id, placement) in &plan.placed {
        if let Placement::Existing(name) = placement {
            ctx.state().nominate(name, until);
            if let Some(pod) = snapshot.pending.get(id) {
                ctx.report.nominated(pod, None, Some(name));
            }
        }
    }
}
