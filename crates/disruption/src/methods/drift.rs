//! Nodes that no longer are what their pool asks for (DIS-158 … DIS-166, V15-74 … V15-78).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::instance_type::Price;
use karpenter_model::labels;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;
use karpenter_solver::{PlannedClaim, PodList};

use super::{Command, Decided, Method};
use crate::budgets::Allowance;
use crate::candidates::Candidate;
use crate::command::Decision;
use crate::cost;
use crate::look::Look;
use crate::report::Note;
use crate::simulation::{Question, Simulator};

fn drifted_since(candidate: &Candidate<'_>) -> Option<Timestamp> {
    let claim = candidate.node.claim.as_ref()?;
    claim.drifted.filter(|condition| condition.is_true()).map(|condition| condition.since)
}

/// At most one command, with one node (DIS-158 … DIS-161).
pub fn drifted(look: &Look<'_>, simulator: &mut Simulator<'_>) -> Decided {
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
    for candidate in &candidates {
        if allowances.get(candidate.pool_name()).is_none_or(|allowance| allowance.remaining() == 0) {
            continue;
        }
        let simulated = simulator.without(&[candidate], Question::default());
        if simulated.homeless.is_empty() {
            let receiving = simulated.receiving(&look.snapshot.pending);
            // Pods that wait are placed too, but a node that only they need is the provisioner's business (X31).
            let needed = |claim: &&PlannedClaim| claim.pods.iter().any(|pod| simulated.moved.contains(pod));
            let replacements: Vec<PlannedClaim> = simulated.claims().iter().filter(needed).cloned().collect();
            let prices =
                replacements.iter().map(|claim| if claim.price == Price::MAX { Price::ZERO } else { claim.price });
            let command = Command {
                decision: Decision::of(1, replacements.len()),
                receiving,
                savings: cost::savings([candidate.price], prices),
                replacements: replacements.clone(),
                ..Command::delete(Method::Drift, &[candidate])
            };
            return Decided { commands: vec![command], notes, eligible, settled: false, timed_out: false };
        }
        if let Some(command) = terminate_first(candidate, look, simulator) {
            return Decided { commands: vec![command], notes, eligible, settled: false, timed_out: false };
        }
        notes.push(Note::blocked(candidate.node, simulated.homeless_text()));
    }
    Decided { commands: Vec::new(), notes, eligible, settled: false, timed_out: false }
}

/// The node holds the only reserved instance that its pods could have: it goes first (V15-74).
fn terminate_first(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Option<Command> {
    if !look.gates.terminate_first_drift
        || candidate.label(labels::CAPACITY_TYPE) != Some(labels::CAPACITY_TYPE_RESERVED)
    {
        return None;
    }
    let reservation = look.rules.reservation_key().and_then(|key| candidate.label(key))?;
    let question = Question { giving_back: Some(reservation), ..Question::default() };
    let simulated = simulator.without(&[candidate], question);
    simulated.homeless.is_empty().then(|| Command {
        decision: Decision::TerminateFirst,
        receiving: simulated.receiving(&look.snapshot.pending),
        ..Command::delete(Method::Drift, &[candidate])
    })
}

/// What is known about a static pool besides its spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticPool {
    /// Claims that are there and not being deleted, those about to be replaced included.
    pub claims: u64,
    /// How many more the pool's `limits.nodes` allows.
    pub room: u64,
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
        let granted = wanted.min(usize::try_from(known.room).unwrap_or(usize::MAX));
        for candidate in drifted.iter().take(granted) {
            commands.push(Command {
                decision: Decision::Replace,
                replacements: vec![from_template(pool)],
                savings: 0.0,
                ..Command::delete(Method::StaticDrift, &[candidate])
            });
        }
        if granted > 0 {
            continue;
        }
        for candidate in drifted.iter().take(wanted) {
            if look.gates.terminate_first_drift && pool.ready && !pool.deleting {
                commands.push(Command {
                    decision: Decision::TerminateFirst,
                    ..Command::delete(Method::StaticDrift, &[candidate])
                });
            } else {
                let why = "static NodePool is at its node limit and cannot stage a replacement";
                notes.push(Note::blocked(candidate.node, why.to_owned()));
            }
        }
    }
    Decided { commands, notes, eligible, settled: false, timed_out: false }
}

/// A claim as the pool's template says; the provider chooses the type (DIS-166).
fn from_template(pool: &Arc<PoolView>) -> PlannedClaim {
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
