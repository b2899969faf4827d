//! What holds a node back from consolidation, node by node, with a word for scripts and a sentence for people.

use std::fmt;

use karpenter_model::budget::{Budgets, DisruptionReason};
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels;
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::snapshot::ExistingNode;

use crate::balanced::{self, Score};
use crate::candidates::{Blocked, Candidate, Class, candidate};
use crate::cost;
use crate::look::{Look, sources};
use crate::option::{self, Hopeless};
use crate::simulation::Simulator;

#[derive(Debug, Clone, PartialEq)]
pub enum Hold {
    /// The node may not go at all.
    Blocked(Blocked),
    /// Its pool has a fixed number of nodes.
    Static,
    /// A budget of the pool cannot be read, so that none of its nodes goes (DIS-56).
    BudgetUnreadable {
        pool: String,
    },
    /// The pool lets no more nodes go for this reason now.
    BudgetUsedUp {
        pool: String,
        reason: DisruptionReason,
    },
    /// `consolidateAfter: Never`.
    Never,
    /// The pool gives up empty nodes only.
    WhenEmpty,
    /// Pods came or went a short time ago.
    NotQuiet,
    KeepsBuffer,
    /// Nobody can say what the pool is offered (X11).
    TypesUnlisted {
        pool: String,
    },
    UnknownType {
        name: String,
    },
    NoLabel {
        key: &'static str,
    },
    /// The type is known, but is not sold where the node is, so nothing can be called cheaper than it.
    NoPrice {
        instance_type: String,
    },
    /// Nothing that could be done about it is allowed or saves anything.
    Hopeless(Hopeless),
    /// It would save less than it disturbs.
    NotWorthIt(Score),
}

impl Hold {
    /// A word that does not change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Blocked(why) => match why {
                Blocked::Queued => "Queued",
                Blocked::Unmanaged => "Unmanaged",
                Blocked::NoNode => "NoNode",
                Blocked::Rebooting => "Rebooting",
                Blocked::Deleting => "Deleting",
                Blocked::NotInitialized => "NotInitialized",
                Blocked::NotRegistered => "NotRegistered",
                Blocked::Nominated => "Nominated",
                Blocked::DoNotDisrupt => "DoNotDisrupt",
                Blocked::NoPoolLabel => "NoNodePoolLabel",
                Blocked::RepairNeedsPool => "RepairNeedsNodePool",
                Blocked::NoPool(_) => "NodePoolNotFound",
                Blocked::ProtectedPod(_) => "ProtectedPod",
                Blocked::Budget { .. } => "PodDisruptionBudget",
                Blocked::ManyBudgets { .. } => "SeveralPodDisruptionBudgets",
            },
            Self::Static => "StaticNodePool",
            Self::BudgetUnreadable { .. } => "BudgetUnreadable",
            Self::BudgetUsedUp { .. } => "Budget",
            Self::Never => "ConsolidateAfterNever",
            Self::WhenEmpty => "WhenEmpty",
            Self::NotQuiet => "NotQuiet",
            Self::KeepsBuffer => "CapacityBuffer",
            Self::TypesUnlisted { .. } => "InstanceTypesUnlisted",
            Self::UnknownType { .. } => "UnknownInstanceType",
            Self::NoLabel { .. } => "NoLabel",
            Self::NoPrice { .. } => "NoPrice",
            Self::Hopeless(why) => match why {
                Hopeless::Homeless(_) => "PodsWithoutPlace",
                Hopeless::ManyNodes(_) => "SeveralNodesNeeded",
                Hopeless::SpotGate => "SpotToSpotDisabled",
                Hopeless::MinValues(_) => "MinValues",
                Hopeless::NotCheaper => "NothingCheaper",
                Hopeless::SpotFlexibility(_) => "SpotFlexibility",
                Hopeless::FitsSoon => "FitsSoon",
            },
            Self::NotWorthIt(_) => "NotWorthIt",
        }
    }

    /// Somebody should repair a manifest, or ask why the cloud does not answer.
    pub fn is_mistake(&self) -> bool {
        matches!(
            self,
            Self::BudgetUnreadable { .. }
                | Self::TypesUnlisted { .. }
                | Self::UnknownType { .. }
                | Self::NoPrice { .. }
                | Self::Blocked(Blocked::NoPool(_) | Blocked::NoPoolLabel | Blocked::ManyBudgets { .. })
        )
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked(why) => write!(f, "{why}"),
            Self::Static => f.write_str("NodePool has a fixed number of nodes"),
            Self::BudgetUnreadable { pool } => write!(f, "a disruption budget of NodePool {pool} cannot be read"),
            Self::BudgetUsedUp { pool, reason } => {
                write!(f, "the disruption budgets of NodePool {pool} allow no {reason} node to go")
            }
            Self::Never => f.write_str("NodePool has consolidation disabled"),
            Self::WhenEmpty => f.write_str("NodePool consolidates only nodes that are empty"),
            Self::NotQuiet => f.write_str("pods came or went within consolidateAfter"),
            Self::KeepsBuffer => f.write_str("Node keeps room for a capacity buffer"),
            Self::TypesUnlisted { pool } => write!(f, "the instance types of NodePool {pool} cannot be listed"),
            Self::UnknownType { name } => write!(f, "instance type {name:?} is not known"),
            Self::NoLabel { key } => write!(f, "Node does not have label {key:?}"),
            Self::NoPrice { instance_type } => {
                write!(f, "instance type {instance_type} has no price where the node is")
            }
            Self::Hopeless(why) => write!(f, "{why}"),
            Self::NotWorthIt(score) => write!(
                f,
                "it would save {:.1}% of what the NodePool costs and disturb {:.1}% of it",
                score.savings * 100.0,
                score.disruption * 100.0
            ),
        }
    }
}

/// What keeps the node; `None` when it could go by itself.
pub fn hold(node: &ExistingNode, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Option<Hold> {
    let candidate = match candidate(node, &look.facts, Class::Graceful) {
        Ok(candidate) => candidate,
        Err(why) => return Some(Hold::Blocked(why)),
    };
    let empty = cost::is_empty(&node.pods);
    if let Some(hold) = of_pool(&candidate, look, empty) {
        return Some(hold);
    }
    if node.claim.as_ref().is_some_and(|claim| !claim.consolidatable) {
        return Some(Hold::NotQuiet);
    }
    if empty {
        let kept = look.buffer_pods.get(candidate.name()).is_some_and(|count| *count > 0);
        return kept.then_some(Hold::KeepsBuffer);
    }
    of_type(&candidate).or_else(|| of_option(&candidate, look, simulator))
}

fn of_pool(candidate: &Candidate<'_>, look: &Look<'_>, empty: bool) -> Option<Hold> {
    let pool = &candidate.pool.view;
    let reason = if empty { DisruptionReason::Empty } else { DisruptionReason::Underutilized };
    if pool.replicas.is_some() {
        return Some(Hold::Static);
    }
    if pool.budgets == Budgets::Broken {
        return Some(Hold::BudgetUnreadable { pool: pool.name.clone() });
    }
    if pool.consolidate_after == NillableDuration::Never {
        return Some(Hold::Never);
    }
    if !empty && pool.consolidation_policy == ConsolidationPolicy::WhenEmpty {
        return Some(Hold::WhenEmpty);
    }
    let allowance = look.allowances(reason, &mut Vec::new()).get(&pool.name).copied().unwrap_or_default();
    (allowance.remaining() == 0).then(|| Hold::BudgetUsedUp { pool: pool.name.clone(), reason })
}

fn of_type(candidate: &Candidate<'_>) -> Option<Hold> {
    if candidate.pool.instance_types.is_none() {
        return Some(Hold::TypesUnlisted { pool: candidate.pool_name().to_owned() });
    }
    let Some(known) = candidate.instance_type else {
        let name = candidate.label(labels::INSTANCE_TYPE).unwrap_or_default().to_owned();
        return Some(Hold::UnknownType { name });
    };
    let missing = [labels::CAPACITY_TYPE, labels::ZONE].into_iter().find(|key| candidate.label(key).is_none());
    missing.map(|key| Hold::NoLabel { key }).or_else(|| {
        let unknown = !candidate.is_priced();
        unknown.then(|| Hold::NoPrice { instance_type: known.name.clone() })
    })
}

fn of_option(candidate: &Candidate<'_>, look: &Look<'_>, simulator: &mut Simulator<'_>) -> Option<Hold> {
    let found = match option::compute(&[candidate], look, simulator) {
        Ok(found) => found,
        Err(why) => return Some(Hold::Hopeless(why)),
    };
    let totals = look.totals(&look.candidates(Class::Graceful, &mut Vec::new()));
    let votes = balanced::votes(&totals, &sources(&[candidate]), found.savings);
    votes.values().find(|score| !score.approves()).copied().map(Hold::NotWorthIt)
}

#[cfg(test)]
mod tests;
