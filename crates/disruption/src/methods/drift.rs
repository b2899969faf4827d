//! Nodes that no longer are what their pool asks for (DIS-158 … DIS-166, V15-74 … V15-78).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::instance_type::Price;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;
use karpenter_solver::{PlannedClaim, PodList};

use super::staged::{Stuck, give_back, own_slot};
use super::{Command, Decided, Method};
use crate::budgets::Allowance;
use crate::candidates::Candidate;
use crate::command::Decision;
use crate::cost;
use crate::look::Look;
use crate::report::Note;
use crate::reserved::{self, Supply, TerminateFirst};
use crate::simulation::{Question, Simulator};

fn drifted_since(candidate: &Candidate<'_>) -> Option<Timestamp> {
    let claim = candidate.node.claim.as_ref()?;
    claim.drifted.filter(|condition| condition.is_true()).map(|condition| condition.since)
}

/// At most one command, with one node (DIS-158 … DIS-161).
pub fn drifted(look: &Look<'_>, simulator: &mut Simulator<'_>) -> Decided {
    drifted_but(look, simulator, &BTreeSet::new())
}

/// Pools whose replacements keep failing rest meanwhile (X16).
pub fn drifted_but(look: &Look<'_>, simulator: &mut Simulator<'_>, resting: &BTreeSet<String>) -> Decided {
    let mut notes = Vec::new();
    let mut candidates = look.candidates(Method::Drift.class(), &mut notes);
    candidates.retain(|candidate| candidate.pool.view.replicas.is_none() && drifted_since(candidate).is_some());
    let eligible = candidates.len();
    if candidates.is_empty() {
        return Decided { notes, ..Decided::default() };
    }
    // Nodes without pods first, then who has drifted for longest; ties by name (DIS-159, X22).
    candidates.sort_by_key(|candidate| {
        (candidate.reschedulable_pods().next().is_some(), drifted_since(candidate), candidate.name())
    });
    let allowances = look.allowances(Method::Drift.reason(), &mut notes);
    let mut commands = Vec::new();
    for candidate in candidates.iter().filter(|candidate| !resting.contains(candidate.pool_name())) {
        if allowances.get(candidate.pool_name()).is_none_or(|allowance| allowance.remaining() == 0) {
            continue;
        }
        match replaced(candidate, look, simulator) {
            Ok(command) => {
                commands.push(command);
                break;
            }
            Err(why) => notes.push(Note::blocked(candidate.node, why)),
        }
    }
    Decided { commands, notes, eligible, settled: false, timed_out: false }
}

/// DIS-160; the error says which pods would have no place.
fn replaced(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Result<Command, String> {
    let simulated = simulator.without(&[candidate], Question::default());
    let command = Command::delete(Method::Drift, &[candidate]);
    if simulated.homeless.is_empty() {
        // Pods that wait are placed too, but a node that only they need is the provisioner's business (X31).
        let needed = |claim: &&PlannedClaim| claim.pods.iter().any(|pod| simulated.moved.contains(pod));
        let replacements: Vec<PlannedClaim> = simulated.claims().iter().filter(needed).cloned().collect();
        return Ok(Command {
            decision: Decision::of(1, replacements.len()),
            receiving: simulated.receiving(&look.snapshot.pending),
            savings: savings(candidate, &replacements),
            replacements,
            ..command
        });
    }
    let given_back =
        look.gates.terminate_first_drift.then(|| give_back(candidate, look, simulator, Question::default()));
    given_back.flatten().map(|given_back| given_back.over(command)).ok_or_else(|| simulated.homeless_text())
}

/// DIS-78: a type that cannot be had now costs nothing.
pub(super) fn savings(candidate: &Candidate<'_>, replacements: &[PlannedClaim]) -> f64 {
    let prices = replacements.iter().map(|claim| if claim.price == Price::MAX { Price::ZERO } else { claim.price });
    cost::savings([candidate.price], prices)
}

/// What is known about a static pool besides its spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticPool {
    /// Claims that are there and not being deleted, those about to be replaced included.
    pub claims: u64,
    /// How many more the pool's `limits.nodes` allows.
    pub room: u64,
    /// Claims whose instance is being terminated. They take no budget any more and make room in a moment.
    pub ending: u64,
}

/// One command per drifted node of a static pool, as many as budget and limit allow (DIS-164 … DIS-166).
pub fn static_drift(look: &Look<'_>, pools: &BTreeMap<String, StaticPool>) -> Decided {
    let mut notes = Vec::new();
    let mut candidates = look.candidates(Method::StaticDrift.class(), &mut notes);
    candidates.retain(|candidate| candidate.pool.view.replicas.is_some() && drifted_since(candidate).is_some());
    let eligible = candidates.len();
    if candidates.is_empty() {
        return Decided { notes, ..Decided::default() };
    }
    let allowances = look.allowances(Method::StaticDrift.reason(), &mut notes);
    let mut by_pool: BTreeMap<&str, Vec<&Candidate<'_>>> = BTreeMap::new();
    for candidate in &candidates {
        by_pool.entry(candidate.pool_name()).or_default().push(candidate);
    }
    let mut commands = Vec::new();
    for (name, drifted) in by_pool {
        let Some(known) = pools.get(name) else { continue };
        let pool = &drifted[0].pool.view;
        let allowed = allowances.get(name).map_or(0, Allowance::remaining);
        // Scaling down comes first: it may take a drifted node anyway.
        if allowed == 0 || known.claims > pool.replicas.unwrap_or(0) {
            continue;
        }
        let wanted = drifted.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let may_go_first = look.gates.terminate_first_drift && pool.ready && !pool.deleting;
        if look.gates.terminate_first_drift {
            // What it is offered cannot be known now; the other pools go on (V15-79).
            let Some(types) = &drifted[0].pool.instance_types else { continue };
            let supply = reserved::supply(pool, types, look.rules);
            if supply != Supply::Open {
                // Those that can go come first, and only then the budget cuts (V15-78).
                let judged = drifted.iter().map(|candidate| (own_slot(candidate, look, &supply), candidate));
                let (mut able, unable): (Vec<_>, Vec<_>) = judged.partition(|(slot, _)| slot.is_ok() && may_go_first);
                able.extend(unable);
                for (slot, candidate) in able.into_iter().take(wanted) {
                    match slot {
                        Ok(()) if may_go_first => {
                            commands.push(first(candidate, TerminateFirst::NoReservedCapacity));
                        }
                        Ok(()) => notes.push(Note::blocked(candidate.node, Stuck::ReservationsFull.to_string())),
                        Err(why) => notes.push(Note::blocked(candidate.node, why.to_string())),
                    }
                }
                continue;
            }
        }
        let granted = wanted.min(usize::try_from(known.room).unwrap_or(usize::MAX));
        for candidate in drifted.iter().take(granted) {
            commands.push(Command {
                decision: Decision::Replace,
                replacements: vec![from_template(pool)],
                savings: 0.0,
                ..Command::delete(Method::StaticDrift, &[candidate])
            });
        }
        // At the limit only until a node of the last command is gone: the next one can wait for its replacement after all.
        if granted > 0 || known.ending > 0 {
            continue;
        }
        for candidate in drifted.iter().take(wanted) {
            if may_go_first {
                commands.push(first(candidate, TerminateFirst::StaticAtLimit));
            } else {
                notes.push(Note::blocked(candidate.node, Stuck::AtLimit.to_string()));
            }
        }
    }
    Decided { commands, notes, eligible, settled: false, timed_out: false }
}

fn first(candidate: &Candidate<'_>, reason: TerminateFirst) -> Command {
    Command {
        decision: Decision::TerminateFirst,
        terminate_first: Some(reason),
        ..Command::delete(Method::StaticDrift, &[candidate])
    }
}

/// A claim as the pool's template says; the provider chooses the type (DIS-166).
pub(super) fn from_template(pool: &Arc<PoolView>) -> PlannedClaim {
    PlannedClaim {
        pool: pool.clone(),
        requirements: pool.requirements.clone().into(),
        instance_types: Vec::new().into(),
        requests: Resources::new(),
        pods: PodList::default(),
        price: Price::MAX,
        min_values_relaxed: false,
        devices: BTreeMap::new(),
    }
}
