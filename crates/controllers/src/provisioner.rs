//! From pods that wait to NodeClaims.

mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_solver::buffers::is_virtual;
use karpenter_solver::plan;
use karpenter_state::{Intake, intake};

use crate::buffers;
use crate::context::Context;

/// While pods wait, a pass is made at least this often, so that a lost or skipped one is made up for (SCH-3).
const REARM: Duration = Duration::from_secs(10);
/// How soon an incomplete state is looked at again.
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);
/// A pod that fits nowhere is tried again after this long although nothing has changed that we know of: offers of the
/// cloud come and go without telling.
const FORGET_REFUSAL: Duration = Duration::from_mins(1);

/// Pods that no pass could place, with what the world looked like then. They are left out of passes until it changes.
#[derive(Debug, Default)]
struct Refusals(BTreeMap<PodId, Refused>);

#[derive(Debug)]
struct Refused {
    uid: String,
    world: u64,
    at: tokio::time::Instant,
    /// It stands for a buffer, so the state does not know it.
    is_virtual: bool,
}

impl Refusals {
    fn stands(&self, pod: &PodView, world: u64) -> bool {
        self.0.get(&pod.id).is_some_and(|refused| {
            refused.uid == pod.uid && refused.world == world && refused.at.elapsed() < FORGET_REFUSAL
        })
    }
}

/// What a pass is about.
struct Batch {
    pods: BTreeMap<PodId, Arc<PodView>>,
    /// What the world looked like when they were gathered.
    world: u64,
    /// Pods that wait but cannot be planned for.
    ignored: usize,
}

/// Makes passes until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut refusals = Refusals::default();
    loop {
        ctx.provision.gathered(ctx.batching, REARM).await;
        let unsynced = ctx.state().unsynced();
        if let Some(why) = unsynced {
            ctx.report.unsynced(&why);
            tokio::time::sleep(UNSYNCED_RETRY).await;
            ctx.provision.notify_one();
            continue;
        }
        ctx.report.synced();
        pass(&ctx, &mut refusals).await;
    }
}

async fn pass(ctx: &Context, refusals: &mut Refusals) {
    let Batch { pods, world, ignored } = batch(ctx, refusals);
    if pods.is_empty() {
        return buffers::refresh(ctx, None).await;
    }
    let snapshot = snapshot(ctx, pods).await;
    let started = tokio::time::Instant::now();
    let running = ctx.report.planning(snapshot.pending.len());
    let plan = plan(&snapshot, ctx.provider.label_rules(), &ctx.planning);
    drop(running);
    let unplaced = plan.unplaced.iter().filter(|unplaced| !is_virtual(&snapshot, &unplaced.pod)).count();
    ctx.report.planned(started.elapsed(), ignored, unplaced);
    refusals.0.retain(|id, refused| refused.world == world && (refused.is_virtual || snapshot_pod_is_pending(ctx, id)));
    for unplaced in &plan.unplaced {
        let uid = snapshot.pending.get(&unplaced.pod).map(|pod| pod.uid.clone()).unwrap_or_default();
        let is_virtual = is_virtual(&snapshot, &unplaced.pod);
        let refused = Refused { uid, world, at: tokio::time::Instant::now(), is_virtual };
        refusals.0.insert(unplaced.pod.clone(), refused);
    }
    buffers::refresh(ctx, Some((&snapshot, &plan))).await;
    outcome::carry_out(ctx, &snapshot, &plan).await;
}

fn snapshot_pod_is_pending(ctx: &Context, id: &PodId) -> bool {
    ctx.state().pod(id).is_some_and(|pod| pod.is_provisionable())
}

/// Pods that wait and may be planned for, and pods of nodes that are going (SCH-11, SCH-14). Empty when everybody in it was
/// refused before and nothing has changed since.
fn batch(ctx: &Context, refusals: &Refusals) -> Batch {
    let now = ctx.clock.now();
    let state = ctx.state();
    let world = state.world();
    let mut waiting = state.pending_pods();
    waiting.retain(|_, pod| !refusals.stands(pod, world));
    let moving = state.moving_pods(now).into_iter().filter(|(_, pod)| !refusals.stands(pod, world));
    let mut moving: Vec<_> = moving.collect();
    // Pods that stand for buffers are ours, so nobody has to look whether they make sense (SCH-187).
    let spare = ctx.buffers.virtual_pods().into_iter().filter(|pod| !refusals.stands(pod, world));
    moving.extend(spare.map(|pod| (pod.id.clone(), state.planned(&pod))));
    drop(state);
    let mut ignored = 0;
    waiting.retain(|_, pod| match intake(pod, ctx.provider.label_rules()) {
        Intake::Plan => true,
        Intake::Avoids => {
            ignored += 1;
            ctx.report.avoids_our_nodes(pod);
            false
        }
        Intake::Reject(why) => {
            ignored += 1;
            ctx.report.unplannable(pod, &why);
            false
        }
    });
    waiting.extend(moving);
    Batch { pods: waiting, world, ignored }
}

/// Nodes first: a pod that got a node meanwhile is planned for nothing, never twice (SCH-10).
async fn snapshot(ctx: &Context, pending: BTreeMap<PodId, Arc<PodView>>) -> Snapshot {
    let pools: Vec<_> = ctx.state().pools().into_iter().filter(|pool| pool.is_schedulable()).collect();
    let mut offers = Vec::with_capacity(pools.len());
    for pool in pools {
        match ctx.provider.instance_types(&pool).await {
            Ok(instance_types) => {
                let usage = ctx.state().usage(&pool.name);
                offers.push(PoolOffer { pool, instance_types, usage });
            }
            Err(error) if error.is_quiet() => {}
            Err(error) => ctx.report.instance_types_unavailable(&pool.name, &error),
        }
    }
    let state = ctx.state();
    let (nodes, daemons, namespaces) = (state.nodes(), state.daemons(), state.namespaces().clone());
    // Who was bound while types were being listed needs nothing any more.
    let pending = pending
        .into_iter()
        .filter(|(id, pod)| {
            let unchanged = |now: Arc<PodView>| now.uid == pod.uid && now.node_name == pod.node_name;
            pod.buffer.is_some() || state.pod(id).is_some_and(unchanged)
        })
        .collect();
    drop(state);
    Snapshot { pools: offers, nodes, pending, daemons, namespaces, ..Snapshot::default() }
}
