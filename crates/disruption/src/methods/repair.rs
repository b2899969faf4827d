//! Nodes that are sick (V15-25, V15-35 … V15-50).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use karpenter_model::annotations::DO_NOT_REPAIR;
use karpenter_model::budget::DisruptionReason;
use karpenter_model::labels;
use karpenter_model::repair::{RepairAction, RepairMatch};
use karpenter_model::snapshot::ExistingNode;
use karpenter_solver::PlannedClaim;

use super::staged::{self, Staged};
use super::{Command, Decided, Method, RepairOf, StaticPool};
use crate::candidates::{Candidate, Class, candidate};
use crate::command::Decision;
use crate::cost;
use crate::look::Look;
use crate::reboot::History;
use crate::repair::{Diagnosis, diagnosis, drain_bound};
use crate::report::{Note, Subject};
use crate::simulation::{Question, Simulator};

/// More than this part of a pool sick at once is a fault of something else, and repair would make it worse (V15-41).
const BREAKER_PERCENT: usize = 20;
/// Nodes that never became ready need no budget, but are not all replaced at once either (Z21).
const YOUNG_PERCENT: usize = 10;

const VETOED: &str = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
const NEEDS_GRACE: &str = "repair requires a termination grace period to bypass blocking pods";

/// What repair knows besides the look.
#[derive(Debug, Clone, Copy)]
pub struct Sick<'a> {
    /// What the conditions of nodes call for, by the name of the Node; only of those that have some.
    pub matches: &'a BTreeMap<String, Vec<RepairMatch>>,
    pub static_pools: &'a BTreeMap<String, StaticPool>,
    /// The gate `TerminateFirstRepair`.
    pub terminate_first: bool,
    pub options: RepairOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairOptions {
    /// Commands of one pass (Z5).
    pub most: usize,
    /// A node whose policy allows no time for its pods, and whose pods fit nowhere, is deleted all the same after so long
    /// (Z3).
    pub forlorn_after: Option<SignedDuration>,
}

impl Default for RepairOptions {
    /// An hour is longer than a shortage that is worth waiting out with a dead machine.
    fn default() -> Self {
        Self { most: usize::MAX, forlorn_after: Some(SignedDuration::from_hours(1)) }
    }
}

impl RepairOptions {
    /// As specified for the compatibility target (V15-25, V15-47).
    pub const SPECIFIED: Self = Self { most: 1, forlorn_after: None };
}

struct Patient<'a> {
    candidate: Candidate<'a>,
    diagnosis: Diagnosis<'a>,
    action: RepairAction,
    escalated: bool,
    bound: Option<SignedDuration>,
    cost: f64,
}

impl Patient<'_> {
    fn command(&self) -> Command {
        let mut command = Command::delete(Method::Repair, &[&self.candidate]);
        let Diagnosis { governing, due_since, bound, .. } = &self.diagnosis;
        for going in &mut command.going {
            going.repair = Some(RepairOf {
                condition_type: governing.condition_type.clone(),
                status: governing.status,
                reason: governing.reason.clone(),
                expression: governing.expression.clone(),
                is_fallback: governing.is_fallback,
                action: self.action,
                due_since: *due_since,
                bound: self.bound,
                bound_by: bound.map(|(_, matched)| matched.condition_type.clone()),
                escalated: self.escalated,
            });
        }
        command
    }

    fn is_initialized(&self) -> bool {
        self.candidate.node.is_initialized()
    }
}

/// The most urgent first, as many as budgets, the breaker and the options let through.
pub fn sick(look: &Look<'_>, simulator: &mut Simulator<'_>, facts: &Sick<'_>) -> Decided {
    let mut notes = Vec::new();
    let mut patients = patients(look, facts, &mut notes);
    let eligible = patients.len();
    if patients.is_empty() {
        return Decided { notes, ..Decided::default() };
    }
    patients.sort_by(|a, b| {
        let urgency = b.diagnosis.score.total_cmp(&a.diagnosis.score).then(a.cost.total_cmp(&b.cost));
        urgency.then_with(|| a.candidate.name().cmp(b.candidate.name()))
    });
    let allowances = look.allowances(DisruptionReason::Unhealthy, &mut notes);
    let mut ward =
        Ward { look, facts, notes, allowances, young: BTreeMap::new(), staged: Staged::default(), moved: false };
    let mut commands = Vec::new();
    for patient in &patients {
        if commands.len() >= facts.options.most {
            break;
        }
        if let Some(command) = ward.admit(patient, simulator) {
            commands.push(command);
        }
    }
    Decided { commands, notes: ward.notes, eligible, settled: false, timed_out: false }
}

/// Nodes for which something is due and may be done (V15-36 … V15-38).
fn patients<'a>(look: &Look<'a>, facts: &Sick<'a>, notes: &mut Vec<Note>) -> Vec<Patient<'a>> {
    let now = look.facts.now;
    let mut patients = Vec::new();
    for node in &look.snapshot.nodes {
        let Some((view, claim)) = node.node.as_ref().zip(node.claim.as_ref()) else { continue };
        let Some(matches) = facts.matches.get(&view.name) else { continue };
        // What keeps a healthy node is nobody's concern here (Z31).
        let Some(diagnosis) = diagnosis(matches, view, claim, now) else { continue };
        let candidate = match candidate(node, &look.facts, Class::Repair) {
            Ok(candidate) => candidate,
            Err(why) if why.is_silent() => continue,
            Err(why) => {
                notes.push(Note::blocked(node, why.to_string()));
                continue;
            }
        };
        let escalated = diagnosis.action == RepairAction::RebootNode && History::of(claim).is_exhausted(now);
        let annotations = if view.is_registered() { &view.annotations } else { &claim.annotations };
        let bound = drain_bound(&diagnosis, claim);
        if annotations.get(DO_NOT_REPAIR).is_some_and(|value| value == "true") {
            notes.push(Note::blocked(node, VETOED.to_owned()));
        } else if candidate.has_blockers && bound.is_none() && claim.termination_grace_period.is_none() {
            notes.push(Note::blocked(node, NEEDS_GRACE.to_owned()));
        } else {
            let action = if escalated { RepairAction::ReplaceNode } else { diagnosis.action };
            let evictions: f64 = node.pods.iter().map(|pod| pod.eviction_cost()).sum();
            let cost = evictions * cost::lifetime_remaining(claim, now);
            patients.push(Patient { candidate, diagnosis, action, escalated, bound, cost });
        }
    }
    patients
}

/// One pass over the patients.
struct Ward<'l, 'a> {
    look: &'l Look<'a>,
    facts: &'l Sick<'l>,
    notes: Vec<Note>,
    allowances: BTreeMap<String, crate::budgets::Allowance>,
    /// Nodes that never were ready and go in this pass, by pool.
    young: BTreeMap<String, usize>,
    staged: Staged,
    /// Pods were given places in this pass; the next ones can be placed only once that is seen.
    moved: bool,
}

impl Ward<'_, '_> {
    fn admit(&mut self, patient: &Patient<'_>, simulator: &mut Simulator<'_>) -> Option<Command> {
        let pool = patient.candidate.pool_name();
        let counts = PoolHealth::of(pool, self.look, self.facts);
        if counts.is_tripped() {
            let subject = Subject::of(patient.candidate.node);
            self.notes.push(Note::RepairBlocked { subject, pool: pool.to_owned() });
            return None;
        }
        let young = self.young.get(pool).copied().unwrap_or_default();
        if patient.is_initialized() {
            if self.allowances.get(pool).is_none_or(|allowance| allowance.remaining() == 0) {
                return None;
            }
        } else if counts.young_going + young >= part(counts.nodes, YOUNG_PERCENT).max(1) {
            return None;
        }
        let command = self.treat(patient, simulator)?;
        if !patient.is_initialized() {
            self.young.insert(pool.to_owned(), young + 1);
        } else if let Some(allowance) = self.allowances.get_mut(pool) {
            allowance.take();
        }
        Some(command)
    }

    fn treat(&mut self, patient: &Patient<'_>, simulator: &mut Simulator<'_>) -> Option<Command> {
        if patient.action == RepairAction::RebootNode {
            return Some(Command { decision: Decision::Reboot, savings: 0.0, ..patient.command() });
        }
        if patient.candidate.pool.view.replicas.is_some() {
            let gate = self.facts.terminate_first;
            return match self.staged.one(&patient.candidate, self.look, self.facts.static_pools, gate) {
                Ok(staged) => staged.map(|staged| staged.apply(patient.command())),
                Err(why) => {
                    self.notes.push(Note::blocked(patient.candidate.node, why.to_string()));
                    None
                }
            };
        }
        // Pods of an empty node need no place, and those that wait are the provisioner's business (X31).
        if patient.candidate.reschedulable_pods().next().is_none() {
            return Some(patient.command());
        }
        if self.moved {
            return None;
        }
        let command = self.relocate(patient, simulator);
        self.moved = command.is_some();
        command
    }

    /// V15-47: with all pods, also those that nobody may evict now.
    fn relocate(&mut self, patient: &Patient<'_>, simulator: &mut Simulator<'_>) -> Option<Command> {
        let candidate = &patient.candidate;
        let question = Question { everybody: true, ..Question::default() };
        let simulated = simulator.without(&[candidate], question);
        if simulated.homeless.is_empty() {
            let needed = |claim: &&PlannedClaim| claim.pods.iter().any(|pod| simulated.moved.contains(pod));
            let replacements: Vec<PlannedClaim> = simulated.claims().iter().filter(needed).cloned().collect();
            return Some(Command {
                decision: Decision::of(1, replacements.len()),
                receiving: simulated.receiving(&self.look.snapshot.pending),
                savings: super::drift::savings(candidate, &replacements),
                replacements,
                ..patient.command()
            });
        }
        if self.facts.terminate_first
            && let Some(command) = staged::give_back(candidate, self.look, simulator, question)
        {
            return Some(command.over(patient.command()));
        }
        let waited = self.look.facts.now.duration_since(patient.diagnosis.due_since);
        let forlorn = self.facts.options.forlorn_after.is_some_and(|limit| waited > limit);
        if forlorn && patient.bound == Some(SignedDuration::ZERO) {
            return Some(patient.command());
        }
        let why = format!("{}; repair has been due for {}m", simulated.homeless_text(), waited.as_mins());
        self.notes.push(Note::blocked(candidate.node, why));
        None
    }
}

/// How many nodes of a pool are sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PoolHealth {
    nodes: usize,
    sick: usize,
    /// Never ready, and on their way out because they were sick.
    young_going: usize,
}

fn part(nodes: usize, percent: usize) -> usize {
    (nodes * percent).div_ceil(100)
}

impl PoolHealth {
    /// Nodes that are being repaired already are not another failure (Z7).
    fn of(pool: &str, look: &Look<'_>, facts: &Sick<'_>) -> Self {
        let mut health = Self::default();
        for node in &look.snapshot.nodes {
            let Some(view) = node.node.as_ref() else { continue };
            if view.labels.get(labels::NODEPOOL).is_none_or(|label| label != pool) {
                continue;
            }
            let repaired = is_under_repair(node, look);
            health.nodes += 1;
            health.sick += usize::from(!repaired && facts.matches.contains_key(&view.name));
            health.young_going += usize::from(repaired && !view.is_initialized());
        }
        health
    }

    fn is_tripped(self) -> bool {
        self.sick > part(self.nodes, BREAKER_PERCENT)
    }
}

fn is_under_repair(node: &ExistingNode, look: &Look<'_>) -> bool {
    let Some(claim) = &node.claim else { return false };
    let unhealthy = claim.disruption_reason.as_deref() == Some(DisruptionReason::Unhealthy.as_str());
    unhealthy && (node.is_going() || claim.rebooting || look.facts.queued.contains(&claim.name))
}

#[cfg(test)]
mod tests;
