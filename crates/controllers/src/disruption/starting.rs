//! From a decision to a command under way (DIS-169 … DIS-177).
//!
//! In this order, so that whoever finds the pieces knows what to do with them: the record on every claim that goes, taint
//! and condition, the replacements with the command's id on them, the marks in the state.

use std::sync::Arc;

use futures::future::join_all;
use karpenter_disruption::methods::{Command, Going};
use karpenter_model::resources::NODES;
use karpenter_solver::PlannedClaim;
use kube::ResourceExt as _;

use super::driving::Underway;
use super::looking::World;
use super::record::{Record, RepairRecord, identity};
use super::{marking, slots, undoing};
use crate::claim_creation::{ClaimOrder, CreationError, create_claim};
use crate::context::Context;

/// Whether it is under way now.
pub(super) async fn start(ctx: &Arc<Context>, world: &World, command: Command) -> bool {
    let under_way = ctx.memory.commands().claims();
    if command.going.iter().any(|going| under_way.contains(&going.claim)) {
        return false;
    }
    let record = record(ctx, &command);
    ctx.report.disruption_starting(&command, &record.id, &world.budgets(ctx, &command));
    if is_static(&command) && !reserve(ctx, &command) {
        return false;
    }
    let Some(command) = mark_all(ctx, command, &record).await else {
        return false;
    };
    let created =
        join_all(command.replacements.iter().map(|planned| replace(ctx, &command, planned, &record.id))).await;
    let (mut replacements, mut failed) = (Vec::new(), false);
    for (planned, created) in command.replacements.iter().zip(created) {
        match created {
            Ok(name) => replacements.push((name, planned)),
            Err(error) => {
                ctx.report.create_failed(&planned.pool.name, &error);
                failed = true;
            }
        }
    }
    let under_way = Underway::new(record, &command, replacements);
    if failed {
        // What was created is of no use to anybody (X14).
        undoing::take_back(ctx, &under_way).await;
        return false;
    }
    {
        // Only now: before, the provisioner would have bought the same capacity once more (DIS-174).
        let mut state = ctx.state();
        command.going.iter().for_each(|going| state.mark(&going.claim, true));
    }
    nominate(ctx, &command);
    slots::keep(ctx, &command);
    ctx.report.disruption_started(&command);
    let id = under_way.record.id.clone();
    ctx.memory.commands().add(under_way);
    ctx.queues.commands.add(id);
    true
}

/// Nodes that receive pods are left alone meanwhile, and the pods hear where they should go. Those that a replacement is made for do
/// not: it may never come (DIS-175).
fn nominate(ctx: &Context, command: &Command) {
    for (node, pods) in command.receiving.pods() {
        ctx.nominate(node);
        let claim = ctx.claim_of_node(node);
        let pods: Vec<_> = pods.iter().filter_map(|id| ctx.state().pod(id)).collect();
        for pod in &pods {
            ctx.report.nominated(pod, claim.as_deref(), Some(node));
        }
    }
}

/// What it replaces are nodes of a static pool, which has its own count of them.
fn is_static(command: &Command) -> bool {
    command.replacements.iter().any(|planned| planned.pool.replicas.is_some())
}

fn record(ctx: &Context, command: &Command) -> Record {
    let started = ctx.clock.now();
    let claims: Vec<_> = command.going.iter().filter_map(|going| ctx.state().claim(&going.claim).cloned()).collect();
    Record {
        id: identity(claims.iter().map(|claim| claim.uid.as_str()), started),
        method: command.method.into(),
        decision: command.decision.into(),
        started,
        nodes: command.going.len(),
        replacements: command.replacements.len(),
        repair: command.going.iter().find_map(|going| going.repair.as_ref()).map(RepairRecord::of),
    }
}

/// Room under the limit of a static pool, for as long as the replacement is not counted itself (DIS-165).
fn reserve(ctx: &Context, command: &Command) -> bool {
    let mut state = ctx.state();
    for (at, planned) in command.replacements.iter().enumerate() {
        let pool = &planned.pool;
        let limit = pool.limits.get(NODES).map(|limit| u64::try_from(limit.value()).unwrap_or(0));
        if state.reserve(&pool.name, 1, limit) == 0 {
            command.replacements[..at].iter().for_each(|planned| state.release(&planned.pool.name, 1));
            return false;
        }
    }
    true
}

/// The command with the nodes that could be marked; `None` when it does not start (DIS-171, DIS-172).
async fn mark_all(ctx: &Context, command: Command, record: &Record) -> Option<Command> {
    let is_static = is_static(&command);
    if is_static {
        let mut state = ctx.state();
        command.going.iter().for_each(|going| state.set_pending(&going.claim, true));
    }
    let marked =
        join_all(command.going.iter().map(|going| marking::mark(ctx, &going.claim, &going.node, record))).await;
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for (going, marked) in command.going.iter().zip(marked) {
        match marked {
            Ok(()) => kept.push(going.clone()),
            Err(error) => {
                ctx.report.disruption_mark_failed(&going.claim, &error);
                failed.push(going.clone());
            }
        }
    }
    let replaces = !command.replacements.is_empty();
    if kept.is_empty() || (replaces && !failed.is_empty()) {
        let all: Vec<Going> = kept.into_iter().chain(failed).collect();
        undoing::release_all(ctx, &all).await;
        if is_static {
            let mut state = ctx.state();
            command.replacements.iter().for_each(|planned| state.release(&planned.pool.name, 1));
        }
        return None;
    }
    undoing::release_all(ctx, &failed).await;
    Some(Command { going: kept, ..command })
}

/// The name of the new claim.
async fn replace(ctx: &Context, command: &Command, planned: &PlannedClaim, id: &str) -> Result<String, CreationError> {
    let is_static = planned.pool.replicas.is_some();
    let order = if is_static { ClaimOrder::from_template(&planned.pool) } else { ClaimOrder::planned(planned) };
    let created = create_claim(ctx, &order.replacing(id)).await;
    if is_static {
        ctx.state().release(&planned.pool.name, 1);
    }
    let name = created?.name_any();
    let reason = command.method.reason().as_str().to_lowercase();
    ctx.report.count_created(&reason, &planned.pool.name, planned.min_values_relaxed);
    let mut state = ctx.state();
    planned.pods.iter().for_each(|pod| state.expectations.expect(pod, Some(&name)));
    Ok(name)
}
