//! What consolidation could do about every node, each by itself.
//!
//! A verdict is what [`option::compute`] says of the node, without the plan behind it: whoever acts on it computes that.

mod cache;

use karpenter_solver::{Asking, NodeId};

use crate::candidates::Candidate;
use crate::look::Look;
use crate::option::{self, Hopeless};
use crate::simulation::Simulator;

pub use self::cache::Cache;
use self::cache::Reads;

/// What could be done about one node.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Its pods fit elsewhere.
    Delete {
        savings: f64,
    },
    /// One cheaper node holds what does not fit elsewhere.
    Replace {
        savings: f64,
    },
    Stays(Hopeless),
}

impl Verdict {
    /// Per hour; nothing for a node that stays.
    pub fn savings(&self) -> f64 {
        match self {
            Self::Delete { savings } | Self::Replace { savings } => *savings,
            Self::Stays(_) => 0.0,
        }
    }
}

/// The verdict on each of these nodes, by itself.
pub fn of_each(candidates: &[&Candidate<'_>], look: &Look<'_>, simulator: &mut Simulator<'_>) -> Vec<Verdict> {
    candidates.iter().map(|candidate| of(candidate, look, simulator)).collect()
}

/// The verdict on one node.
pub fn of(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Verdict {
    of_reading(candidate, look, simulator).0
}

/// With what it read.
fn of_reading(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> (Verdict, Reads) {
    quick(candidate, look, simulator).unwrap_or_else(|| (simulated(candidate, look, simulator), Reads::Everything))
}

/// The verdict by a simulation in any case, with names of pods and places: what all others are measured by.
pub fn simulated(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Verdict {
    match option::compute(&[candidate], look, simulator) {
        Ok(found) if found.replacements.is_empty() => Verdict::Delete { savings: found.savings },
        Ok(found) => Verdict::Replace { savings: found.savings },
        Err(why) => Verdict::Stays(why),
    }
}

/// The same without naming pods and places; `None` where that takes a closer look.
fn quick(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Option<(Verdict, Reads)> {
    let plans_better = simulator.plans_better();
    let price = candidate.price.per_hour();
    let node: NodeId = simulator.node_of(candidate)?;
    let known = simulator.compiled()?;
    if known.has_room_for(node) {
        return Some((Verdict::Delete { savings: price }, Reads::Room));
    }
    let (claim, trace) =
        known.without(&[node], Asking { leave_unsettled_alone: true, ..Asking::default() }, |answer| {
            if answer.homeless() > 0 || answer.moves_to_starting_nodes() {
                return None;
            }
            let claim = match answer.claims() {
                0 => Ok(None),
                _ if plans_better => return None,
                1 => Ok(Some(answer.claim()?)),
                many => Err(Hopeless::ManyNodes(many)),
            };
            Some((claim, answer.trace()))
        })??;
    let mut reads = Reads::Traced(trace);
    let verdict = match claim {
        Err(why) => Verdict::Stays(why),
        Ok(None) => Verdict::Delete { savings: price },
        Ok(Some(claim)) => match option::replacement(&claim, &[candidate], price, look) {
            Ok(replacement) => {
                if simulator.has_unsettled() {
                    reads = Reads::Everything;
                }
                if option::fit_soon(&[candidate], look, simulator) {
                    Verdict::Stays(Hopeless::FitsSoon)
                } else {
                    Verdict::Replace { savings: price - option::known_price(&replacement) }
                }
            }
            Err(why) => Verdict::Stays(why),
        },
    };
    Some((verdict, reads))
}

#[cfg(test)]
pub(crate) mod tests;
