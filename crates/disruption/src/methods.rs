//! The methods of a pass, and what they decide (DIS-3, DIS-7, DIS-8).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::budget::DisruptionReason;
use karpenter_model::claim::Status;
use karpenter_model::instance_type::Price;
use karpenter_model::labels;
use karpenter_model::repair::RepairAction;
use karpenter_solver::PlannedClaim;

use crate::candidates::{Candidate, Class};
use crate::command::{Decision, Identity, Text};
use crate::option::Move;
use crate::report::{Note, Subject};
use crate::reserved::TerminateFirst;
use crate::simulation::Receiving;

pub(crate) mod consolidation;
mod drift;
mod emptiness;
mod repair;
mod staged;
pub mod validation;

pub use self::consolidation::{Consolidation, Outlook, Searched, Seen};
pub use self::drift::{StaticPool, drifted, drifted_but, static_drift};
pub use self::emptiness::empty;
pub use self::repair::{RepairOptions, Sick, sick};
pub use self::staged::Stuck;

/// In the order in which they are tried (V15-25; repair comes first where it is on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Repair,
    Emptiness,
    StaticDrift,
    Drift,
    Multi,
    Single,
}

impl Method {
    pub const fn reason(self) -> DisruptionReason {
        match self {
            Self::Repair => DisruptionReason::Unhealthy,
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::Multi | Self::Single => DisruptionReason::Underutilized,
        }
    }

    pub const fn class(self) -> Class {
        match self {
            Self::Repair => Class::Repair,
            Self::StaticDrift | Self::Drift => Class::Eventual,
            Self::Emptiness | Self::Multi | Self::Single => Class::Graceful,
        }
    }

    /// What is not urgent is looked at once more before it starts (DIS-141).
    pub const fn needs_second_look(self) -> bool {
        match self {
            Self::Emptiness | Self::Multi | Self::Single => true,
            Self::Repair | Self::StaticDrift | Self::Drift => false,
        }
    }

    /// The label `consolidation_type` of metrics.
    pub const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::Multi => "multi",
            Self::Single => "single",
            Self::Repair | Self::StaticDrift | Self::Drift => "",
        }
    }
}

/// A node of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Going {
    pub node: String,
    pub claim: String,
    pub pool: String,
    pub instance_type: Option<String>,
    pub capacity_type: Option<String>,
    pub price: Price,
    pub reschedule_cost: f64,
    /// Pods that have to find another place.
    pub pods: usize,
    /// What repair found and wants done.
    pub repair: Option<RepairOf>,
}

/// Why a node is repaired and how, for logs, metrics and the deletion (V15-48, V15-50, V15-52).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairOf {
    pub condition_type: String,
    pub status: Status,
    pub reason: String,
    pub expression: String,
    pub is_fallback: bool,
    pub action: RepairAction,
    /// Since when repair has been due.
    pub due_since: Timestamp,
    /// The deadline of the claim is tightened to so long after its deletion; `None` leaves it alone.
    pub bound: Option<SignedDuration>,
    /// The condition whose policy set the bound.
    pub bound_by: Option<String>,
    /// The node was rebooted often enough (V15-44).
    pub escalated: bool,
}

impl Going {
    pub fn of(candidate: &Candidate<'_>) -> Self {
        let claim = candidate.node.claim.as_ref();
        Self {
            node: candidate.name().to_owned(),
            claim: claim.map(|claim| claim.name.clone()).unwrap_or_default(),
            pool: candidate.pool_name().to_owned(),
            instance_type: candidate.label(labels::INSTANCE_TYPE).map(ToOwned::to_owned),
            capacity_type: candidate.label(labels::CAPACITY_TYPE).map(ToOwned::to_owned),
            price: candidate.price,
            reschedule_cost: candidate.reschedule_cost,
            pods: candidate.reschedulable_pods().count(),
            repair: None,
        }
    }

    pub fn subject(&self) -> Subject {
        Subject { node: Some(self.node.clone()), claim: Some(self.claim.clone()) }
    }
}

/// Nodes that go together, and what takes their place.
#[derive(Debug, Clone)]
pub struct Command {
    pub method: Method,
    pub decision: Decision,
    pub going: Vec<Going>,
    pub replacements: Vec<PlannedClaim>,
    /// Existing nodes that receive a pod.
    pub receiving: Receiving,
    /// Per hour.
    pub savings: f64,
    /// Set when the nodes go before anything takes their place (V15-73).
    pub terminate_first: Option<TerminateFirst>,
    /// Claims that will be needed once nodes that go first have given their capacity back. Nobody creates them for this
    /// command; the provisioner will.
    pub foreseen: Vec<PlannedClaim>,
}

impl Command {
    /// Nodes that go without anything in their place.
    pub fn delete(method: Method, candidates: &[&Candidate<'_>]) -> Self {
        Self {
            method,
            decision: Decision::of(candidates.len(), 0),
            going: candidates.iter().map(|candidate| Going::of(candidate)).collect(),
            replacements: Vec::new(),
            receiving: Receiving::default(),
            savings: candidates.iter().map(|candidate| candidate.price.per_hour()).sum(),
            terminate_first: None,
            foreseen: Vec::new(),
        }
    }

    fn of_move(method: Method, candidates: &[&Candidate<'_>], found: Move, receiving: Receiving) -> Self {
        Self {
            decision: Decision::of(candidates.len(), found.replacements.len()),
            replacements: found.replacements,
            receiving,
            savings: found.savings,
            ..Self::delete(method, candidates)
        }
    }

    /// What the command is worth and what it costs.
    pub fn economics(&self) -> Economics {
        Economics {
            saved_per_hour: self.savings,
            evictions: self.going.iter().map(|going| going.pods).sum(),
            nodes_gone: self.going.len(),
            nodes_new: self.replacements.len(),
            nodes_receiving: self.receiving.len(),
        }
    }

    /// The replacement that was planned for the pods of this claim of a simulation.
    pub fn replacement_for(&self, claim: &PlannedClaim) -> Option<&PlannedClaim> {
        let first = claim.pods.iter().next()?;
        self.replacements.iter().find(|planned| planned.pods.iter().any(|pod| pod == first))
    }

    pub fn text(&self) -> String {
        let nodes: Vec<&str> = self.going.iter().map(|going| going.node.as_str()).collect();
        Text { decision: self.decision, nodes: &nodes, replacements: self.replacements.len(), identity: None }
            .to_string()
    }

    /// What a node's own event says.
    pub fn text_of(&self, node: &str) -> String {
        let nodes: Vec<&str> = self.going.iter().map(|going| going.node.as_str()).collect();
        Text { decision: self.decision, nodes: &nodes, replacements: self.replacements.len(), identity: None }
            .of_node(node)
    }

    /// With the identity that the command got when it started (DIS-186).
    pub fn text_with(&self, id: &str) -> String {
        let nodes: Vec<&str> = self.going.iter().map(|going| going.node.as_str()).collect();
        let pools: BTreeSet<&str> = self.going.iter().map(|going| going.pool.as_str()).collect();
        let pools: Vec<&str> = pools.into_iter().collect();
        let identity = Identity { reason: self.method.reason(), id, pools: &pools, savings: self.savings };
        Text { decision: self.decision, nodes: &nodes, replacements: self.replacements.len(), identity: Some(identity) }
            .to_string()
    }
}

/// What a command is worth and what it costs, so that anybody can say whether it was right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Economics {
    pub saved_per_hour: f64,
    /// Pods that have to find another place.
    pub evictions: usize,
    pub nodes_gone: usize,
    pub nodes_new: usize,
    /// Nodes that exist and receive pods.
    pub nodes_receiving: usize,
}

impl std::fmt::Display for Economics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { saved_per_hour, evictions, nodes_gone, nodes_new, nodes_receiving } = self;
        write!(f, "saves ${saved_per_hour:.2} per hour, evicts {evictions} pods, {nodes_gone} nodes go")?;
        match (nodes_new, nodes_receiving) {
            (0, 0) => f.write_str("; nobody has to find another place"),
            (0, receiving) => write!(f, "; all pods fit on {receiving} nodes that exist"),
            (new, 0) => write!(f, "; {new} new nodes cost less at any price of their lists"),
            (new, receiving) => write!(
                f,
                "; pods fit on {receiving} nodes that exist, and {new} new nodes cost less at any price of their lists"
            ),
        }
    }
}

/// What a method came up with.
#[derive(Debug, Default)]
pub struct Decided {
    pub commands: Vec<Command>,
    pub notes: Vec<Note>,
    /// Nodes that the method could act on, for its gauge.
    pub eligible: usize,
    /// Nothing was found, and nothing but a change of the cluster can change that (DIS-103).
    pub settled: bool,
    /// The search was stopped before its end.
    pub timed_out: bool,
}

#[cfg(test)]
mod tests;
