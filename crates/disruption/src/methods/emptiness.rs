//! Nodes that nobody needs (DIS-93 … DIS-96).

use karpenter_model::duration::NillableDuration;

use super::{Command, Decided, Method};
use crate::budgets::Allowance;
use crate::candidates::Candidate;
use crate::cost;
use crate::look::Look;
use crate::report::Note;

pub(super) const NEVER: &str = "NodePool has consolidation disabled";
const BUFFER: &str = "Node keeps room for a capacity buffer";

/// DIS-93; what an author should know about a node that stays is noted.
pub(super) fn is_eligible(candidate: &Candidate<'_>, look: &Look<'_>, notes: &mut Vec<Note>) -> bool {
    if candidate.pool.view.replicas.is_some() {
        return false;
    }
    if candidate.pool.view.consolidate_after == NillableDuration::Never {
        notes.push(Note::unconsolidatable(candidate.node, NEVER));
        return false;
    }
    if look.buffer_pods.get(candidate.name()).is_some_and(|count| *count > 0) {
        notes.push(Note::unconsolidatable(candidate.node, BUFFER));
        return false;
    }
    candidate.is_empty && candidate.node.claim.as_ref().is_some_and(|claim| claim.consolidatable)
}

/// One command for all empty nodes that budgets let go.
pub fn empty(look: &Look<'_>) -> Decided {
    let mut notes = Vec::new();
    let mut candidates = look.candidates(Method::Emptiness.class(), &mut notes);
    candidates.retain(|candidate| is_eligible(candidate, look, &mut notes));
    let eligible = candidates.len();
    if candidates.is_empty() {
        return Decided { notes, ..Decided::default() };
    }
    candidates.sort_by(|a, b| cost::by_ratio((a.savings_ratio(), a.name()), (b.savings_ratio(), b.name())));
    let mut allowances = look.allowances(Method::Emptiness.reason(), &mut notes);
    let picked: Vec<&Candidate<'_>> = candidates
        .iter()
        .filter(|candidate| {
            let allowance = allowances.get_mut(candidate.pool_name());
            allowance.is_some_and(Allowance::take)
        })
        .collect();
    let commands = if picked.is_empty() { Vec::new() } else { vec![Command::delete(Method::Emptiness, &picked)] };
    Decided { commands, notes, eligible, settled: false, timed_out: false }
}
