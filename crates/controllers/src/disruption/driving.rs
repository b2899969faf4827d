//! Commands under way: wait for what takes their place, then let the nodes go (DIS-178 … DIS-185).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use karpenter_api::kinds::NodeClaim;
use karpenter_disruption::command;
use karpenter_disruption::methods::{Command, Method};
use karpenter_solver::PlannedClaim;

use super::record::{Record, RepairRecord};
use super::{marking, telling, undoing};
use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::patch::delete_if_present;
use crate::queue::{ReconcileError, Requeue};

const POLL: Duration = Duration::from_secs(1);

/// A command as this process knows it; [`Record`] is what others know.
#[derive(Debug, Clone)]
pub(crate) struct Underway {
    pub(crate) record: Record,
    /// Claims that go, by name, with their nodes.
    pub(crate) going: BTreeMap<String, String>,
    /// Claims that take their place.
    pub(crate) replacements: BTreeSet<String>,
    /// Those of them that were seen ready once; what becomes of them later is another matter (DIS-179).
    latched: BTreeSet<String>,
    /// The types that each of them could become, as far as this process knows.
    types: BTreeMap<String, Vec<String>>,
}

impl Underway {
    /// `created`: the replacements by name, with what was asked for.
    pub(crate) fn new(record: Record, command: &Command, created: Vec<(String, &PlannedClaim)>) -> Self {
        let going = command.going.iter().map(|going| (going.claim.clone(), going.node.clone())).collect();
        let replacements = created.iter().map(|(name, _)| name.clone()).collect();
        let types = created.into_iter().map(|(name, planned)| (name, planned.instance_types.to_vec())).collect();
        Self { types, ..Self::found(record, going, replacements) }
    }

    pub(crate) fn found(record: Record, going: BTreeMap<String, String>, replacements: BTreeSet<String>) -> Self {
        Self { record, going, replacements, latched: BTreeSet::new(), types: BTreeMap::new() }
    }

    pub(crate) fn method(&self) -> Method {
        self.record.method()
    }

    fn awaited(&self) -> impl Iterator<Item = &String> {
        self.replacements.difference(&self.latched)
    }

    /// Replacements that nobody has seen ready.
    pub(crate) fn not_latched(&self) -> usize {
        self.record.replacements.saturating_sub(self.latched.len())
    }
}

/// All commands under way, by id.
#[derive(Debug, Default)]
pub(crate) struct Commands(BTreeMap<String, Underway>);

impl Commands {
    pub(crate) fn add(&mut self, command: Underway) {
        self.0.insert(command.record.id.clone(), command);
    }

    fn get(&self, id: &str) -> Option<Underway> {
        self.0.get(id).cloned()
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn take(&mut self, id: &str) -> Option<Underway> {
        self.0.remove(id)
    }

    fn latch(&mut self, id: &str, claim: &str) {
        if let Some(command) = self.0.get_mut(id) {
            command.latched.insert(claim.to_owned());
        }
    }

    /// Every claim that a command wants gone.
    pub(crate) fn claims(&self) -> BTreeSet<String> {
        self.0.values().flat_map(|command| command.going.keys().cloned()).collect()
    }

    fn timeout(&self) -> SignedDuration {
        let entries: usize = self.0.values().map(|command| command.going.len()).sum();
        command::timeout(u32::try_from(entries).unwrap_or(u32::MAX))
    }
}

/// How far a replacement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Ready,
    Waiting,
    /// It will never be ready.
    Lost,
}

/// By command id, which outlives every one of its claims (X15).
pub async fn drive(ctx: Arc<Context>, id: String) -> Result<Requeue, ReconcileError> {
    let (command, timeout) = {
        let commands = ctx.memory.commands();
        let Some(command) = commands.get(&id) else { return Ok(Requeue::OnChange) };
        (command, commands.timeout())
    };
    let mut ready = true;
    for name in command.awaited() {
        match progress(&ctx, &command, name).await {
            Progress::Ready => ctx.memory.commands().latch(&id, name),
            Progress::Waiting => ready = false,
            Progress::Lost => {
                ctx.report.disruption_replacement_lost(&id, name);
                if ctx.claims.get(name).is_none_or(|claim| !view(&ctx, &claim).launched.is_true()) {
                    let types = command.types.get(name).into_iter().flatten();
                    ctx.memory.setbacks().note(types, ctx.clock.now());
                }
                undoing::give_up(&ctx, &id).await;
                return Ok(Requeue::OnChange);
            }
        }
    }
    if ready && let_go(&ctx, &command).await {
        ctx.memory.commands().take(&id);
        for pool in undoing::pools_of(&ctx, &command) {
            ctx.memory.setbacks().note_success(&pool);
        }
        return Ok(Requeue::OnChange);
    }
    // Only a command that is still waiting can be too late (X13).
    if ctx.clock.now().duration_since(command.record.started) > timeout {
        ctx.report.disruption_timed_out(&id);
        undoing::give_up(&ctx, &id).await;
        return Ok(Requeue::OnChange);
    }
    Ok(Requeue::After(POLL))
}

async fn progress(ctx: &Context, command: &Underway, name: &str) -> Progress {
    let Some(claim) = ctx.claims.get(name) else {
        // The watch may be behind; only what neither the API nor the state knows is gone (DIS-179).
        return match ctx.claims_api().get_opt(name).await {
            Ok(None) => Progress::Lost,
            Ok(Some(_)) | Err(_) => Progress::Waiting,
        };
    };
    let seen = view(ctx, &claim);
    let ready = seen.initialized.is_true();
    if !ready && seen.deleting_since.is_some() {
        return Progress::Lost;
    }
    ctx.report.disruption_waiting(&seen, command.method(), ready);
    if ready { Progress::Ready } else { Progress::Waiting }
}

/// Deletes every claim that is still there; whether all of them are on their way out (DIS-180).
async fn let_go(ctx: &Context, command: &Underway) -> bool {
    let there: Vec<Arc<NodeClaim>> = command.going.keys().filter_map(|name| ctx.claims.get(name)).collect();
    let there = there.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    let deleting = there.map(|claim| async move {
        let seen = view(ctx, &claim);
        let pods = ctx.reschedulable_pods(&seen);
        // Just before, when everything that takes its place is there: a deadline is only ever tightened (V15-50).
        if let Some(bound) = command.record.repair.as_ref().and_then(RepairRecord::bound)
            && let Err(error) = marking::tighten(ctx, &claim, bound).await
        {
            ctx.report.disruption_delete_failed(&seen.name, &error);
            return false;
        }
        match delete_if_present(&ctx.claims_api(), claim.as_ref()).await {
            // Counted once: an attempt that is repeated finds the claim on its way out (X19), and a claim that went by itself
            // is nobody's doing (DC-190).
            Ok(Some(left)) => {
                ctx.note_claim(left);
                telling::terminating(ctx, &seen, command, pods);
                true
            }
            Ok(None) => true,
            Err(error) => {
                ctx.report.disruption_delete_failed(&seen.name, &error);
                false
            }
        }
    });
    join_all(deleting).await.into_iter().all(|gone| gone)
}
