//! A second look before a command starts (DIS-141 … DIS-147, X10).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_solver::PlannedClaim;

use super::{Command, Method, consolidation, emptiness};
use crate::balanced;
use crate::budgets::Allowance;
use crate::candidates::Candidate;
use crate::look::{Look, sources};
use crate::option::{self, Move};
use crate::simulation::Simulator;

/// Why a command is not started (DIS-146).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// A budget closed, or a node is wanted by a pod that waits.
    Budget,
    /// Pods would no longer find the places that were planned.
    Scheduling,
    /// A node is no candidate any more.
    Churn,
}

impl Invalid {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Churn => "churn",
        }
    }
}

/// What is left of a command.
#[derive(Debug)]
pub struct Checked {
    /// `Err` when nothing is.
    pub outcome: Result<Command, Invalid>,
    /// How many nodes failed, for the counter.
    pub failed: usize,
}

/// Looks again at a command of emptiness or consolidation; the look is of now.
pub fn validate(command: &Command, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Checked {
    match command.method {
        Method::Emptiness => validate_empty(command, look),
        Method::Multi | Method::Single => match validate_all(command, look, simulator) {
            Ok(command) => Checked { outcome: Ok(command), failed: 0 },
            Err(why) => Checked { outcome: Err(why), failed: command.going.len() },
        },
        Method::Repair | Method::StaticDrift | Method::Drift => Checked { outcome: Ok(command.clone()), failed: 0 },
    }
}

fn fresh<'a>(command: &Command, look: &Look<'a>, is_eligible: impl Fn(&Candidate<'a>) -> bool) -> Vec<Candidate<'a>> {
    let names: BTreeSet<&str> = command.going.iter().map(|going| going.claim.as_str()).collect();
    let mut found = look.candidates(command.method.class(), &mut Vec::new());
    found.retain(|candidate| {
        candidate.node.claim.as_ref().is_some_and(|claim| names.contains(claim.name.as_str())) && is_eligible(candidate)
    });
    // In the order of the command.
    let at = |candidate: &Candidate<'a>| command.going.iter().position(|going| going.node == candidate.name());
    found.sort_by_key(at);
    found
}

/// Nodes that were lost to others are left out, the rest goes (DIS-142).
fn validate_empty(command: &Command, look: &Look<'_>) -> Checked {
    let still = fresh(command, look, |candidate| emptiness::is_eligible(candidate, look, &mut Vec::new()));
    if still.is_empty() {
        // A nominated node is no candidate, so that a look at it says the same as one at a node that is in use.
        return Checked { outcome: Err(Invalid::Churn), failed: command.going.len() };
    }
    let mut allowances = look.allowances(command.method.reason(), &mut Vec::new());
    let (kept, lost): (Vec<&Candidate<'_>>, Vec<_>) =
        still.iter().partition(|candidate| allowances.get_mut(candidate.pool_name()).is_some_and(Allowance::take));
    let outcome = if kept.is_empty() { Err(Invalid::Budget) } else { Ok(Command::delete(command.method, &kept)) };
    Checked { outcome, failed: lost.len() }
}

/// All nodes or none; the same places, the same or more types, still cheaper and still worth it (DIS-143 … DIS-145, X10).
fn validate_all(command: &Command, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Result<Command, Invalid> {
    let still = fresh(command, look, |candidate| consolidation::is_eligible(candidate, &mut Vec::new()));
    if still.len() < command.going.len() {
        let nominated = |name: &str| {
            let node = look.snapshot.nodes.iter().find(|node| node.name() == name);
            node.is_some_and(|node| node.nominated_until.is_some_and(|until| look.facts.now < until))
        };
        let wanted = command.going.iter().any(|going| nominated(&going.node));
        return Err(if wanted { Invalid::Budget } else { Invalid::Churn });
    }
    let mut allowances: BTreeMap<String, Allowance> = look.allowances(command.method.reason(), &mut Vec::new());
    if !still.iter().all(|candidate| allowances.get_mut(candidate.pool_name()).is_some_and(Allowance::take)) {
        return Err(Invalid::Budget);
    }
    let nodes: Vec<&Candidate<'_>> = still.iter().collect();
    let found = still_found(command, &nodes, look, simulator).ok_or(Invalid::Scheduling)?;
    let price: f64 = still.iter().map(|candidate| candidate.price.per_hour()).sum();
    let replaced: f64 = command.replacements.iter().map(|claim| claim.price.per_hour()).sum();
    let savings = price - replaced;
    let sources = sources(&nodes);
    let totals = look.totals(&look.candidates(command.method.class(), &mut Vec::new()));
    let votes = balanced::votes(&totals, &sources, savings);
    if savings <= 0.0 || !balanced::approved(&sources, &votes) {
        return Err(Invalid::Scheduling);
    }
    let stands = |part: &option::Part<'_, '_>| part.stands(&found.simulated, false, look, &totals).is_some();
    if command.replacements.len() > 1 && !option::parts(&found.simulated, &nodes).iter().all(stands) {
        return Err(Invalid::Scheduling);
    }
    let receiving = found.simulated.receiving(&look.snapshot.pending);
    Ok(Command { receiving, savings, ..command.clone() })
}

/// What the nodes amount to now, if it is what was planned. Replacements may have been packed, also a single one.
fn still_found(
    command: &Command,
    nodes: &[&Candidate<'_>],
    look: &Look<'_>,
    simulator: &mut Simulator<'_>,
) -> Option<Move> {
    let planned = &command.replacements;
    let wanted = |found: &Move| are_still_wanted(planned, found.simulated.claims());
    let first = if planned.len() > 1 {
        option::compute_several(nodes, false, look, simulator)
    } else {
        option::compute(nodes, look, simulator)
    };
    let may_be_packed = !planned.is_empty() && !look.gates.specified_search;
    first.ok().filter(wanted).or_else(|| {
        let packed = may_be_packed.then(|| option::compute_several(nodes, true, look, simulator).ok()).flatten();
        packed.filter(wanted)
    })
}

/// As many nodes are wanted, and each may be of all the types that were planned (DIS-144).
fn are_still_wanted(planned: &[PlannedClaim], now: &[PlannedClaim]) -> bool {
    fn types(claim: &PlannedClaim) -> BTreeSet<&str> {
        claim.instance_types.iter().map(String::as_str).collect()
    }
    let mut wanted: Vec<BTreeSet<&str>> = planned.iter().map(types).collect();
    let mut left: Vec<BTreeSet<&str>> = now.iter().map(types).collect();
    // The one that asks for most has the least to choose from, and takes what nobody else needs.
    wanted.sort_by_key(|types| std::cmp::Reverse(types.len()));
    left.sort_by_key(BTreeSet::len);
    planned.len() == now.len()
        && wanted
            .iter()
            .all(|types| left.iter().position(|known| types.is_subset(known)).map(|at| left.remove(at)).is_some())
}
