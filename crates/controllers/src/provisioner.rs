//! From pods that wait to NodeClaims.

mod hints;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_solver::{Plan, Solver};
use karpenter_state::{Intake, Refusals, World, intake};

use self::hints::Hints;
use crate::buffers;
use crate::context::Context;

/// While pods wait, a pass is made at least this often, so that a lost or skipped one is made up for (SCH-3).
const REARM: Duration = Duration::from_secs(10);
/// How soon an incomplete state is looked at again.
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);

/// What is kept from pass to pass. All of it only saves work.
struct Passes {
    /// Tables of pods, nodes and types; what is the same object as in the last pass is not looked at again.
    solver: Solver,
    refusals: Refusals,
    hints: Hints,
}

/// What a pass is about.
struct Batch {
    pods: BTreeMap<PodId, Arc<PodView>>,
    /// What the world looked like when they were gathered.
    world: World,
    /// Pods that wait but cannot be planned for.
    ignored: usize,
    /// Pods that are known to find no place.
    hopeless: usize,
}

/// Makes passes until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut passes = Passes {
        solver: Solver::new(ctx.provider.label_rules()),
        refusals: Refusals::default(),
        hints: Hints::default(),
    };
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
        passes.pass(&ctx).await;
        ctx.state().note_pass();
    }
}

impl Passes {
    async fn pass(&mut self, ctx: &Context) {
        let Batch { pods, world, ignored, hopeless } = self.batch(ctx);
        ctx.report.left_out(ignored, hopeless);
        if pods.is_empty() {
            return buffers::refresh(ctx, None).await;
        }
        let snapshot = snapshot(ctx, pods).await;
        if snapshot.pools.is_empty() {
            // Existing nodes are the scheduler's business (SCH-22).
            outcome::without_pools(ctx, &snapshot);
            return;
        }
        let started = tokio::time::Instant::now();
        let running = ctx.report.planning(snapshot.pending.len());
        ctx.report.effective_zones(self.solver.effective_zones(&snapshot, &ctx.planning).values());
        let plan = self.solver.plan(&snapshot, &ctx.planning);
        drop(running);
        ctx.report.planned(started.elapsed(), outcome::unschedulable(&snapshot, &plan) + hopeless);
        self.remember(ctx, &snapshot, &plan, world);
        buffers::refresh(ctx, Some((&snapshot, &plan))).await;
        outcome::carry_out(ctx, &snapshot, &plan).await;
    }

    /// Whom the pass could not place is left out until something changes. Whoever only waits for a reservation is not: the next
    /// pass may have it.
    fn remember(&mut self, ctx: &Context, snapshot: &Snapshot, plan: &Plan, world: World) {
        let now = ctx.clock.now();
        {
            let state = ctx.state();
            // Pods that stand for buffers are not in the state, and in the snapshot only when they were tried.
            let spare: BTreeSet<PodId> = ctx.buffers.virtual_pods().iter().map(|pod| pod.id.clone()).collect();
            let waits = |id: &PodId| state.pod(id).is_some_and(|pod| pod.is_provisionable());
            self.refusals.retain(|id| spare.contains(id) || waits(id));
        }
        for unplaced in plan.unplaced.iter().filter(|unplaced| !outcome::is_deferred(unplaced)) {
            if let Some(pod) = snapshot.pending.get(&unplaced.pod) {
                self.refusals.note(pod, world, now);
            }
        }
    }

    /// Pods that wait and may be planned for, and pods of nodes that are going (SCH-11, SCH-14). Empty when everybody in it was
    /// refused before and nothing has changed since.
    fn batch(&mut self, ctx: &Context) -> Batch {
        let now = ctx.clock.now();
        let state = ctx.state();
        let world = state.world();
        let mut waiting = state.pending_pods();
        let moving = state.moving_pods(now);
        // Pods that stand for buffers are ours, so nobody has to look whether they make sense (SCH-187).
        let spare = ctx.buffers.virtual_pods().into_iter().map(|pod| (pod.id.clone(), state.planned(&pod)));
        let spare: Vec<_> = spare.collect();
        drop(state);
        let (mut ignored, mut hopeless) = (0, 0);
        waiting.retain(|_, pod| {
            if self.refusals.stands(pod, world, now) {
                hopeless += 1;
                return false;
            }
            if !ctx.features.dynamic_resources && !pod.resource_claims.is_empty() {
                // A node that is chosen without looking at devices may be the wrong one (SCH-27, SCH-191).
                hopeless += 1;
                ctx.report.unplannable(pod, "its resource claims are not looked at, see IGNORE_DRA_REQUESTS");
                return false;
            }
            match intake(pod, ctx.provider.label_rules()) {
                Intake::Plan => true,
                Intake::Avoids => {
                    ignored += 1;
                    ctx.report.avoids_our_nodes(pod);
                    false
                }
                Intake::Reject(why) => {
                    ignored += 1;
                    ctx.state().expectations.expect(&pod.id, None);
                    ctx.report.unplannable(pod, &why);
                    false
                }
            }
        });
        for (kind, pods) in self.hints.of(waiting.values(), ctx.planning.preferences, now) {
            ctx.report.hinders_consolidation(kind, &pods);
        }
        waiting.extend(moving.into_iter().filter(|(_, pod)| !self.refusals.stands(pod, world, now)));
        waiting.extend(spare.into_iter().filter(|(_, pod)| !self.refusals.stands(pod, world, now)));
        Batch { pods: waiting, world, ignored, hopeless }
    }
}

/// Nodes first: a pod that got a node meanwhile is planned for nothing, never twice (SCH-10).
async fn snapshot(ctx: &Context, pending: BTreeMap<PodId, Arc<PodView>>) -> Snapshot {
    let pools: Vec<_> = ctx.state().pools().into_iter().filter(|pool| pool.is_schedulable()).collect();
    let mut offers = Vec::with_capacity(pools.len());
    for pool in pools {
        match ctx.provider.instance_types(&pool).await {
            Ok(instance_types) => {
                ctx.memory.prices().note(&pool.name, instance_types.clone());
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
