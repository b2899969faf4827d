//! From pods that wait to NodeClaims.

mod hints;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_solver::{Plan, RefusedBy, Solver, Unplaced};
use karpenter_state::{Intake, Refusals, Standing, World, intake};
use tracing::Instrument as _;

use self::hints::Hints;
use crate::apart::aside;
use crate::buffers;
use crate::context::Context;
use crate::disruption::slots;

/// While pods wait, a pass is made at least this often, so that a lost or skipped one is made up for (SCH-3).
const REARM: Duration = Duration::from_secs(10);
/// After a pass that could not be finished.
pub(crate) const REST: Duration = Duration::from_secs(1);
/// How soon an incomplete state is looked at again.
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);

/// What is kept from pass to pass. All of it only saves work.
struct Passes {
    /// Tables of pods, nodes and types; what is the same object as in the last pass is not looked at again.
    solver: Solver,
    /// With what each was told.
    refusals: Refusals<Vec<RefusedBy>>,
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
    let new_solver = || Solver::new(ctx.provider.label_rules());
    let mut passes = Passes { solver: new_solver(), refusals: Refusals::default(), hints: Hints::default() };
    loop {
        ctx.provision.gathered(ctx.batching, REARM).await;
        settled(&ctx).await;
        passes.pass(&ctx).instrument(tracing::info_span!("pass", controller = "provisioner")).await;
        ctx.state().note_pass();
        if ctx.is_frugal() {
            passes.solver = new_solver();
        }
    }
}

/// Until enough is known to decide. A claim that cannot be launched is shown as what it is, and waited for a moment only (X2).
async fn settled(ctx: &Context) {
    loop {
        let (unsynced, waits_for) = {
            let mut state = ctx.state();
            (state.unsynced(), state.waits_for(ctx.clock.now()))
        };
        match &unsynced {
            Some(why) => ctx.report.unsynced(why),
            None => ctx.report.synced(),
        }
        if waits_for.is_none() {
            return;
        }
        ctx.provision.heard(UNSYNCED_RETRY).await;
    }
}

impl Passes {
    async fn pass(&mut self, ctx: &Context) {
        let Batch { pods, world, ignored, hopeless } = self.batch(ctx);
        ctx.report.left_out(ignored, hopeless);
        if pods.is_empty() {
            return buffers::refresh(ctx, None).await;
        }
        let Gathered { snapshot, usable, skipped } = gathered(ctx, pods).await;
        if usable == 0 {
            // Existing nodes are the scheduler's business (SCH-22).
            outcome::without_pools(ctx, &snapshot);
            return;
        }
        let started = tokio::time::Instant::now();
        let running = ctx.report.planning(snapshot.pending.len());
        ctx.report.effective_zones(self.solver.effective_zones(&snapshot, &ctx.planning).values());
        let span = tracing::debug_span!("plan", pods = snapshot.pending.len(), nodes = snapshot.nodes.len());
        let plan = span.in_scope(|| aside(|| self.solver.plan(&snapshot, &ctx.planning)));
        drop(running);
        ctx.report.planned(started.elapsed(), outcome::unschedulable(&snapshot, &plan) + hopeless);
        if !skipped {
            self.remember(ctx, &snapshot, &plan, world);
        }
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
            self.refusals.retain(|id| spare.contains(id) || waits(id), now);
        }
        for unplaced in plan.unplaced.iter().filter(|unplaced| !outcome::is_deferred(unplaced)) {
            if let Some(pod) = snapshot.pending.get(&unplaced.pod) {
                self.refusals.note(pod, world, now, unplaced.reasons.clone());
            }
        }
    }

    /// Pods that wait and may be planned for, and pods of nodes that are going (SCH-11, SCH-14). Empty when everybody in it was
    /// refused before and nothing has changed since.
    fn batch(&mut self, ctx: &Context) -> Batch {
        let now = ctx.clock.now();
        let nominated_until = ctx.nomination_end();
        let mut state = ctx.state();
        if ctx.batching.siblings {
            state.presume_kept_waiting(now);
        }
        let moving = state.moving_pods(now);
        for claim in state.hold(&moving, now) {
            state.nominate(&claim, nominated_until);
        }
        let world = state.world();
        let mut waiting = state.pending_pods();
        // Pods that stand for buffers are ours, so nobody has to look whether they make sense (SCH-187).
        let spare = ctx.buffers.virtual_pods().into_iter().map(|pod| (pod.id.clone(), state.planned(&pod)));
        let spare: Vec<_> = spare.collect();
        waiting.retain(|id, _| !state.is_in_hand(id));
        let moving: Vec<_> = moving.into_iter().filter(|(id, _)| !state.is_in_hand(id)).collect();
        drop(state);
        let devices = ctx.device_requests();
        let (mut ignored, mut hopeless) = (0, 0);
        let mut like_refused = Vec::new();
        waiting.retain(|_, pod| {
            match self.refusals.standing(pod, world, now) {
                Standing::Open => {}
                Standing::Refused => {
                    hopeless += 1;
                    return false;
                }
                Standing::LikeRefused(reasons) => {
                    hopeless += 1;
                    let reasons = reasons.clone();
                    let unplaced = Unplaced { pod: pod.id.clone(), reasons };
                    like_refused.push((pod.clone(), unplaced));
                    return false;
                }
            }
            match intake(pod, ctx.provider.label_rules(), devices) {
                Intake::Plan => true,
                Intake::Avoids => {
                    ignored += 1;
                    ctx.report.avoids_our_nodes(pod);
                    false
                }
                Intake::Unsupported(why) => {
                    hopeless += 1;
                    ctx.state().expectations.expect(&pod.id, None);
                    ctx.report.unplannable(pod, why);
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
        for (pod, unplaced) in &like_refused {
            self.refusals.note_told(pod);
            outcome::note_unplaced(ctx, pod, unplaced);
        }
        for (kind, pods) in self.hints.of(waiting.values(), ctx.planning.preferences, now) {
            ctx.report.hinders_consolidation(kind, &pods);
        }
        waiting.extend(moving.into_iter().filter(|(_, pod)| self.refusals.is_open(pod, world, now)));
        waiting.extend(spare.into_iter().filter(|(_, pod)| self.refusals.is_open(pod, world, now)));
        Batch { pods: waiting, world, ignored, hopeless }
    }
}

/// What a pass looks at.
struct Gathered {
    snapshot: Snapshot,
    /// How many pools may be used.
    usable: usize,
    /// Some of them are left out because nobody knows what they have to offer. Whom that leaves without a place is not
    /// hopeless.
    skipped: bool,
}

/// Nodes first: a pod that got a node meanwhile is planned for nothing, never twice (SCH-10).
async fn gathered(ctx: &Context, pending: BTreeMap<PodId, Arc<PodView>>) -> Gathered {
    let pools: Vec<_> = ctx.state().pools().into_iter().filter(|pool| pool.is_schedulable()).collect();
    let usable = pools.len();
    let mut offers = Vec::with_capacity(pools.len());
    for pool in pools {
        if let Some(instance_types) = instance_types(ctx, &pool).await {
            ctx.memory.prices().note(&pool.name, instance_types.clone());
            let instance_types = slots::shown(ctx, &pool.name, instance_types);
            let usage = ctx.state().charged(&pool.name);
            offers.push(PoolOffer { pool, instance_types, usage });
        }
    }
    let skipped = offers.len() < usable;
    let mut state = ctx.state();
    let devices = state.devices();
    let (nodes, daemons, namespaces) = (state.places(ctx.clock.now()), state.daemons(), state.namespaces().clone());
    // Who was bound while types were being listed needs nothing any more.
    let pending = pending
        .into_iter()
        .filter(|(id, pod)| {
            let unchanged = |now: Arc<PodView>| now.uid == pod.uid && now.node_name == pod.node_name;
            pod.buffer.is_some() || state.pod(id).is_some_and(unchanged)
        })
        .collect();
    drop(state);
    let snapshot = Snapshot { pools: offers, nodes, pending, daemons, namespaces, devices, ..Snapshot::default() };
    Gathered { snapshot, usable, skipped }
}

/// SCH-23: a pool whose types cannot be had is done without; it brings no domains either.
async fn instance_types(ctx: &Context, pool: &PoolView) -> Option<Arc<Vec<InstanceType>>> {
    match ctx.provider.instance_types(pool).await {
        Ok(types) if types.is_empty() => ctx.report.no_instance_types(&pool.name),
        Ok(types) => return Some(types),
        Err(error) if error.is_quiet() => {}
        Err(error) => ctx.report.instance_types_unavailable(pool, &error),
    }
    None
}
