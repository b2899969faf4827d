//! What a command leaves behind, and what becomes of it (DIS-5, DIS-182, X14, X24).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::kinds::NodeClaim;
use karpenter_disruption::command::Decision;
use karpenter_disruption::methods::{Going, Method};
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::Taint;
use kube::ResourceExt as _;

use super::driving::Underway;
use super::looking::World;
use super::record::{COMMAND, REPLACES, Record};
use super::{marking, slots};
use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::patch::delete_if_present;

/// Finds the commands of whoever led before: those that can go on do, the others are taken back.
pub(super) async fn recover(ctx: &Arc<Context>) {
    for (command, goes_on) in found(ctx) {
        let id = command.record.id.clone();
        // Of this process: only the loop has begun anew.
        if ctx.memory.commands().knows(&id) {
            continue;
        }
        ctx.report.disruption_found(&id, goes_on);
        if goes_on {
            {
                let mut state = ctx.state();
                command.going.keys().for_each(|claim| state.mark(claim, true));
            }
            if command.record.decision() == Decision::TerminateFirst {
                command.going.keys().for_each(|claim| slots::keep_of(ctx, claim, Vec::new()));
            }
            ctx.memory.commands().add(command);
            ctx.queues.commands.add(id);
        } else {
            take_back(ctx, &command).await;
        }
    }
}

/// Commands as the claims tell, each with whether it goes on.
fn found(ctx: &Context) -> Vec<(Underway, bool)> {
    let mut commands: BTreeMap<String, (Record, Vec<Arc<NodeClaim>>)> = BTreeMap::new();
    let mut replacements: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for claim in ctx.claims.all() {
        if let Some(id) = claim.annotations().get(REPLACES) {
            replacements.entry(id.clone()).or_default().insert(claim.name_any());
        }
        match Record::of(claim.annotations()) {
            Some(Ok(record)) => {
                commands.entry(record.id.clone()).or_insert_with(|| (record, Vec::new())).1.push(claim);
            }
            // Nothing is known of it but that it is there: the claim is released with the others that no command stands for.
            Some(Err(error)) => ctx.report.disruption_record_unreadable(&claim.name_any(), &error),
            None => {}
        }
    }
    let commands = commands.into_iter().map(|(id, (record, claims))| {
        let own = replacements.remove(&id).unwrap_or_default();
        let goes_on = match record.decision() {
            // Every claim has been marked before the first replacement was made: those that are missing went.
            Decision::Replace => own.len() >= record.replacements,
            // Nothing is lost by deciding again, unless it has begun.
            Decision::Delete | Decision::TerminateFirst => {
                claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some())
            }
            Decision::NoOp | Decision::Reboot => false,
        };
        let going = claims.iter().map(|claim| (claim.name_any(), view(ctx, claim).node_name.unwrap_or_default()));
        (Underway::found(record, going.collect(), own), goes_on)
    });
    commands.collect()
}

/// Undoes a command that did not get under way, or never will.
pub(super) async fn take_back(ctx: &Context, command: &Underway) {
    for (claim, node) in &command.going {
        release(ctx, claim, Some(node)).await;
    }
    for name in &command.replacements {
        let Some(claim) = ctx.claims.get(name) else { continue };
        if is_unused(ctx, &claim)
            && let Err(error) = delete_if_present(&ctx.claims_api(), claim.as_ref()).await
        {
            ctx.report.disruption_release_failed(name, &error);
        }
    }
}

pub(super) async fn release_all(ctx: &Context, going: &[Going]) {
    for going in going {
        release(ctx, &going.claim, Some(&going.node)).await;
    }
}

/// What could not be undone is tried again with the next pass.
async fn release(ctx: &Context, claim: &str, node: Option<&str>) -> bool {
    {
        let mut state = ctx.state();
        state.mark(claim, false);
        state.set_pending(claim, false);
        if state.claim(claim).is_none_or(|claim| claim.deleting_since.is_some()) {
            return false;
        }
    }
    match marking::release(ctx, claim, node).await {
        Ok(()) => true,
        Err(error) => {
            ctx.report.disruption_release_failed(claim, &error);
            false
        }
    }
}

/// Pools that nodes of the command are of.
pub(super) fn pools_of(ctx: &Context, command: &Underway) -> BTreeSet<String> {
    let state = ctx.state();
    command.going.keys().filter_map(|name| state.claim(name)?.pool.clone()).collect()
}

pub(super) async fn give_up(ctx: &Context, id: &str) {
    let Some(command) = ctx.memory.commands().take(id) else { return };
    ctx.report.disruption_failed(&command);
    if matches!(command.method(), Method::Drift | Method::StaticDrift) {
        let now = ctx.clock.now();
        for pool in pools_of(ctx, &command) {
            ctx.memory.setbacks().note_failure(&pool, now);
        }
    }
    take_back(ctx, &command).await;
}

/// Nobody was told to go to a node that has not come up; one that runs pods by now, or is to run pods that wait, stays.
fn is_unused(ctx: &Context, claim: &NodeClaim) -> bool {
    let seen = view(ctx, claim);
    let state = ctx.state();
    let waits = |id| state.pod(id).is_some_and(|pod| pod.is_provisionable());
    !state.expectations.pods_of(&seen.name).any(waits)
        && !state.pods_of_claim(&seen).iter().any(|pod| pod.is_reschedulable())
}

/// Removes what no command stands for: taints, conditions and records of nodes that stay (DIS-5). Whether there was any.
pub(super) async fn tidy(ctx: &Context, world: &World) -> bool {
    let under_way = ctx.memory.commands().claims();
    let mut tidied = false;
    for entry in world.nodes().iter().filter(|entry| has_marks(entry)) {
        let (Some(claim), Some(node)) = (&entry.claim, &entry.node) else { continue };
        if !entry.is_going() && !under_way.contains(&claim.name) {
            tidied |= release(ctx, &claim.name, Some(&node.name)).await;
        }
    }
    tidied
}

fn has_marks(entry: &ExistingNode) -> bool {
    let (Some(claim), Some(node)) = (&entry.claim, &entry.node) else { return false };
    if claim.rebooting || node.deleting_since.is_some() {
        return false;
    }
    let tainted = node.taints.iter().any(|taint| taint.is_same(&Taint::disrupted()));
    tainted || (claim.disruption_reason.is_some() && node.is_initialized()) || claim.annotations.contains_key(COMMAND)
}
