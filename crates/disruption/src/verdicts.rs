//! What consolidation could do about every node, each by itself.
//!
//! A verdict is what [`option::compute`] says of the node, without the plan behind it: whoever acts on it computes that.

use karpenter_solver::{Asking, NodeId};

use crate::candidates::Candidate;
use crate::look::Look;
use crate::option::{self, Hopeless};
use crate::simulation::Simulator;

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
    quick(candidate, look, simulator).unwrap_or_else(|| match option::compute(&[candidate], look, simulator) {
        Ok(found) if found.replacements.is_empty() => Verdict::Delete { savings: found.savings },
        Ok(found) => Verdict::Replace { savings: found.savings },
        Err(why) => Verdict::Stays(why),
    })
}

/// The same without naming pods and places; `None` where that takes a closer look.
fn quick(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Option<Verdict> {
    let plans_better = simulator.plans_better();
    let price = candidate.price.per_hour();
    let known = simulator.compiled()?;
    let node: NodeId = known.node(candidate.name())?;
    let claim = known.without(&[node], Asking { leave_unsettled_alone: true }, |answer| {
        if answer.homeless() > 0 || answer.moves_to_starting_nodes() {
            return None;
        }
        match answer.claims() {
            0 => Some(Ok(None)),
            _ if plans_better => None,
            1 => answer.claim().map(|claim| Ok(Some(claim))),
            many => Some(Err(Hopeless::ManyNodes(many))),
        }
    })??;
    Some(match claim {
        Err(why) => Verdict::Stays(why),
        Ok(None) => Verdict::Delete { savings: price },
        Ok(Some(claim)) => match option::replacement(&claim, &[candidate], price, look) {
            Ok(_) if option::fit_soon(&[candidate], look, simulator) => Verdict::Stays(Hopeless::FitsSoon),
            Ok(replacement) => Verdict::Replace { savings: price - option::known_price(&replacement) },
            Err(why) => Verdict::Stays(why),
        },
    })
}

#[cfg(test)]
pub(crate) mod tests;
