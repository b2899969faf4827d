//! One look at the cluster, for all methods of a pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_disruption::budgets::Allowance;
use karpenter_disruption::candidates::{Facts, PoolFacts};
use karpenter_disruption::flux::is_everybody_there;
use karpenter_disruption::look::Look;
use karpenter_disruption::methods::{Command, RepairOptions, Sick, StaticPool};
use karpenter_disruption::roll::Roll;
use karpenter_model::budget::{Budgets, UNLIMITED};
use karpenter_model::claim::{ClaimView, ConditionView};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::pdb::{self, PdbView};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::repair::RepairMatch;
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};
use karpenter_solver::{Options as PlanningOptions, Planner};
use karpenter_state::{ClusterState, Intake, intake};

use super::slots;
use crate::context::Context;

pub(crate) struct World {
    /// As it is.
    snapshot: Snapshot,
    /// Types that lately could not be had.
    refused: BTreeSet<String>,
    /// As it will be when the commands that wait for their second look have been carried out; `None` when there are none.
    then: Option<Snapshot>,
    pools: BTreeMap<String, PoolFacts>,
    budgets: Vec<Arc<PdbView>>,
    /// Claims of commands under way.
    under_way: BTreeSet<String>,
    /// And of those that wait.
    queued: BTreeSet<String>,
    planned: BTreeMap<PodId, Arc<PodView>>,
    buffer_pods: BTreeMap<String, u32>,
    pool_costs: BTreeMap<String, f64>,
    pub(super) static_pools: BTreeMap<String, StaticPool>,
    /// What is wrong with nodes, by name.
    matches: BTreeMap<String, Vec<RepairMatch>>,
    now: Timestamp,
    /// Grows with every change that could change a verdict.
    pub(crate) stamp: karpenter_state::World,
    /// Some pod has no node.
    has_unbound_pods: bool,
    /// Whether a node without pods may be called empty (Y14).
    pub(super) knows_who_is_expected: bool,
    /// What is known from earlier looks, up to date.
    roll: Option<Roll>,
}

/// Until a command that waits has had its second look.
const KEPT: Timestamp = Timestamp::MAX;

/// What a look is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Something new is decided on; what waits for its second look is taken for done.
    Deciding,
    /// What waits is looked at again; nothing of it has happened.
    Checking,
}

impl World {
    /// Types first, then everything else at one moment.
    pub(crate) async fn look<'c>(ctx: &Context, waiting: impl Iterator<Item = &'c Command>) -> Self {
        let (pools, mut offers) = pools(ctx).await;
        let now = ctx.clock.now();
        let under_way = ctx.memory.commands().claims();
        let mut state = ctx.state();
        for offer in &mut offers {
            offer.usage = state.charged(&offer.pool.name);
        }
        // What stands for a claim that is not launched has no node yet, as others see it (DIS-12).
        let mut nodes = state.places(now);
        nodes.iter_mut().filter(|node| is_launching(node)).for_each(|node| node.node = None);
        let devices = state.devices();
        let planned = nodes.iter().flat_map(|node| &node.pods).filter_map(|pod| {
            let planned = state.planned(pod);
            (!Arc::ptr_eq(&planned, pod)).then(|| (pod.id.clone(), planned))
        });
        let matches = matches(ctx, &nodes);
        let static_pools = pools.values().map(|pool| &pool.view).filter(|pool| pool.replicas.is_some());
        let mut world = Self {
            planned: planned.collect(),
            static_pools: static_pools.map(|pool| (pool.name.clone(), static_pool(&state, pool))).collect(),
            budgets: state.pdbs().cloned().collect(),
            buffer_pods: nodes.iter().map(|node| (node.name().to_owned(), state.buffer_pods(node.name()))).collect(),
            stamp: state.world(),
            has_unbound_pods: state.has_unbound_pods(),
            knows_who_is_expected: state.knows_who_is_expected(),
            pool_costs: state.costs(&ctx.memory.prices()),
            snapshot: Snapshot {
                pools: offers,
                pending: pending(ctx, &state, now),
                daemons: state.daemons(),
                namespaces: state.namespaces().clone(),
                nodes,
                devices,
                ..Snapshot::default()
            },
            matches,
            then: None,
            refused: ctx.memory.setbacks().types(now),
            queued: under_way.clone(),
            under_way,
            pools,
            now,
            roll: None,
        };
        drop(state);
        for command in waiting {
            world.carry_out(command);
        }
        world
    }

    /// Goes on with what an earlier look has found out about nodes.
    pub(super) fn remember(&mut self, mut roll: Roll) {
        let facts = Facts { pools: &self.pools, budgets: &self.budgets, queued: &self.queued, now: self.now };
        roll.refresh(&self.snapshot.nodes, &facts);
        self.roll = Some(roll);
    }

    /// What the next look may go on with.
    pub(super) fn into_memory(self) -> Roll {
        self.roll.unwrap_or_default()
    }

    /// Whether every pool's types could be listed.
    pub(crate) fn knows_all_types(&self) -> bool {
        self.pools.values().all(|pool| pool.instance_types.is_some())
    }

    /// Without claims that are not launched: their pods still run elsewhere, or nowhere.
    pub(crate) fn launched_only(mut self) -> Self {
        self.snapshot.nodes.retain(|node| !is_launching(node));
        self
    }

    /// Pools whose budgets nobody can read, by name.
    pub(super) fn unreadable_budgets(&self) -> BTreeSet<&str> {
        let broken = self.pools.iter().filter(|(_, pool)| pool.view.budgets == Budgets::Broken);
        broken.map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn nodes(&self) -> &[ExistingNode] {
        &self.snapshot.nodes
    }

    /// Some node is kept for a pod. That ends without anything happening in the cluster, so that nobody would look again (DIS-103).
    pub(super) fn expects_pods(&self, now: Timestamp) -> bool {
        self.nodes().iter().any(|node| node.nominated_until.is_some_and(|until| now < until))
    }

    /// Whoever was expected on a node has come, or has found another one.
    pub(super) fn is_everybody_there(&self) -> bool {
        is_everybody_there(self.nodes(), self.has_unbound_pods)
    }

    /// Nodes are no longer kept for pods, except by commands that wait.
    pub(super) fn release_nodes(&mut self) {
        let then = self.then.iter_mut().flat_map(|then| &mut then.nodes);
        for node in self.snapshot.nodes.iter_mut().chain(then) {
            node.nominated_until = node.nominated_until.filter(|until| *until == KEPT);
        }
    }

    pub(super) fn sick(&self, ctx: &Context) -> Sick<'_> {
        Sick {
            matches: &self.matches,
            static_pools: &self.static_pools,
            terminate_first: ctx.features.terminate_first_repair,
            options: RepairOptions::default(),
        }
    }

    pub(crate) fn as_look<'a>(&'a self, ctx: &'a Context, stage: Stage) -> Look<'a> {
        let (snapshot, queued) = match stage {
            Stage::Deciding => (self.then.as_ref().unwrap_or(&self.snapshot), &self.queued),
            Stage::Checking => (&self.snapshot, &self.under_way),
        };
        Look {
            snapshot,
            facts: Facts { pools: &self.pools, budgets: &self.budgets, queued, now: self.now },
            planned: &self.planned,
            buffer_pods: &self.buffer_pods,
            pool_costs: &self.pool_costs,
            rules: ctx.provider.label_rules(),
            // Verdicts on thousands of nodes are asked of one compiled snapshot, which follows the specified order.
            options: PlanningOptions { planner: Planner::Reference, ..ctx.planning },
            gates: ctx.features.disruption,
            roll: self.roll.as_ref(),
        }
    }

    /// The same without the types that lately could not be had: nothing is moved for a price that is not to be had. `None` when all
    /// of them are.
    pub(super) fn without_refused(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        let refused = |known: &InstanceType| self.refused.contains(&known.name);
        if self.refused.is_empty() || !snapshot.pools.iter().any(|offer| offer.instance_types.iter().any(refused)) {
            return None;
        }
        let mut snapshot = snapshot.clone();
        for offer in &mut snapshot.pools {
            let kept = offer.instance_types.iter().filter(|known| !refused(known));
            offer.instance_types = Arc::new(kept.cloned().collect());
        }
        Some(snapshot)
    }

    /// How many nodes the budgets of these pools let go for a reason, for people: why a command may start now.
    pub(super) fn budgets(&self, ctx: &Context, command: &Command) -> String {
        let pools: BTreeSet<&str> = command.going.iter().map(|going| going.pool.as_str()).collect();
        let allowances = self.as_look(ctx, Stage::Checking).allowances(command.method.reason(), &mut Vec::new());
        let texts = pools.into_iter().filter_map(|pool| {
            let Allowance { nodes, allowed, consuming } = allowances.get(pool)?;
            Some(match *allowed {
                UNLIMITED => format!("{pool}: no limit, {consuming} of {nodes} under way"),
                allowed => format!("{pool}: {allowed} of {nodes} may go, {consuming} under way"),
            })
        });
        texts.collect::<Vec<_>>().join("; ")
    }

    /// As if the command had started: its nodes go and count against budgets, its pods take room elsewhere unless a
    /// replacement of its own waits for them, and nodes that receive pods are left alone (DIS-175). A command about one of those would
    /// not stand its second look, and nobody would decide about the node meanwhile.
    fn carry_out(&mut self, command: &Command) {
        let snapshot = self.then.get_or_insert_with(|| self.snapshot.clone());
        let provided: BTreeSet<&PodId> = command.replacements.iter().flat_map(|claim| claim.pods.iter()).collect();
        for going in &command.going {
            self.queued.insert(going.claim.clone());
            let Some(node) = snapshot.nodes.iter_mut().find(|node| node.name() == going.node) else { continue };
            node.marked = true;
            if let Some(offer) = snapshot.pools.iter_mut().find(|offer| offer.pool.name == going.pool) {
                offer.usage.subtract(&node.capacity());
            }
            for pod in node.pods.iter().filter(|pod| pod.is_reschedulable() && !provided.contains(&pod.id)) {
                if pod.is_disruptable(self.now) && !pdb::is_fully_blocked(pod, &self.budgets, self.now) {
                    let planned = self.planned.get(&pod.id).unwrap_or(pod).clone();
                    snapshot.pending.insert(pod.id.clone(), planned);
                }
            }
        }
        let receiving: BTreeSet<&str> = command.receiving.pods().map(|(node, _)| node).collect();
        for node in snapshot.nodes.iter_mut().filter(|node| receiving.contains(node.name())) {
            node.nominated_until = Some(KEPT);
        }
    }
}

fn is_launching(node: &ExistingNode) -> bool {
    node.claim.as_ref().is_some_and(|claim| claim.provider_id.is_none())
}

/// All pools with their types, and what those that may be used are offered.
async fn pools(ctx: &Context) -> (BTreeMap<String, PoolFacts>, Vec<PoolOffer>) {
    let known = ctx.state().pools();
    let (mut pools, mut offers) = (BTreeMap::new(), Vec::new());
    for pool in known {
        let instance_types = match ctx.provider.instance_types(&pool).await {
            Ok(types) => {
                ctx.memory.prices().note(&pool.name, types.clone());
                Some(slots::shown(ctx, &pool.name, types))
            }
            Err(error) => {
                if !error.is_quiet() {
                    ctx.report.instance_types_unavailable(&pool, &error);
                }
                None
            }
        };
        if let Some(types) = instance_types.clone().filter(|_| pool.is_schedulable()) {
            offers.push(PoolOffer { pool: pool.clone(), instance_types: types, usage: Resources::new() });
        }
        pools.insert(pool.name.clone(), PoolFacts { view: pool, instance_types });
    }
    (pools, offers)
}

/// What the conditions of nodes call for; nothing while repair is off.
fn matches(ctx: &Context, nodes: &[ExistingNode]) -> BTreeMap<String, Vec<RepairMatch>> {
    let Some(policies) = &ctx.repair else { return BTreeMap::new() };
    let nodes = nodes.iter().filter_map(|node| node.node.as_ref());
    let found = nodes.map(|node| (node.name.clone(), policies.matches(&node.conditions)));
    found.filter(|(_, matches)| !matches.is_empty()).collect()
}

fn static_pool(state: &ClusterState, pool: &PoolView) -> StaticPool {
    let counts = state.counts(&pool.name);
    let limit = pool.limits.get(NODES).map(|limit| u64::try_from(limit.value()).unwrap_or(0));
    let ends = |claim: &Arc<ClaimView>| claim.instance_terminating.is_some_and(ConditionView::is_true);
    let ending = state.claims_of(&pool.name).iter().filter(|claim| ends(claim)).count();
    StaticPool {
        claims: counts.active + counts.pending,
        room: counts.grant(u64::MAX, limit),
        ending: u64::try_from(ending).unwrap_or(u64::MAX),
    }
}

/// Pods that wait, those of nodes that are going, and those that stand for buffers (DIS-82).
///
/// A pod that a claim was made for which is not launched yet has a place, though nobody knows what it will look like: it is left
/// out, and nothing else has to wait for the launch (X2).
fn pending(ctx: &Context, state: &ClusterState, now: Timestamp) -> BTreeMap<PodId, Arc<PodView>> {
    let rules = ctx.provider.label_rules();
    let mut pending = state.pending_pods();
    pending.retain(|_, pod| intake(pod, rules, ctx.device_requests()) == Intake::Plan);
    pending.extend(state.moving_pods(now));
    let awaited = |name: &str| {
        state.claim(name).is_some_and(|claim| claim.provider_id.is_none() && claim.deleting_since.is_none())
    };
    pending.retain(|id, _| !state.expectations.claim_of(id).is_some_and(awaited));
    pending.extend(ctx.buffers.virtual_pods().into_iter().map(|pod| (pod.id.clone(), state.planned(&pod))));
    pending
}
