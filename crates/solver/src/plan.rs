//! What a pass answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Incompatibility, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::Snapshot;
use karpenter_model::taints::Taint;

use crate::options::Options;
use crate::pass::Pass;

/// Where the pods of a pass go.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// New nodes, in the order in which they were opened.
    pub claims: Vec<PlannedClaim>,
    /// Pods that have a place, by pod.
    pub placed: BTreeMap<PodId, Placement>,
    /// Pods that have none, with what ruled out each pool.
    pub unplaced: Vec<Unplaced>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// An existing node or a claim on its way, by name.
    Existing(String),
    /// The claim with this index in [`Plan::claims`].
    New(usize),
}

/// A node to launch.
#[derive(Debug, Clone)]
pub struct PlannedClaim {
    pub pool: Arc<PoolView>,
    /// With the instance types, cheapest first, and their capacity types (API-73).
    pub requirements: Requirements,
    /// Instance types that hold the pods, cheapest first; ties by name.
    pub instance_types: Vec<String>,
    pub requests: Resources,
    pub pods: Vec<PodId>,
    /// What the cheapest of them costs.
    pub price: Price,
    /// A `minValues` was lowered to what can be reached.
    pub min_values_relaxed: bool,
}

#[derive(Debug, Clone)]
pub struct Unplaced {
    pub pod: PodId,
    pub reasons: Vec<RefusedBy>,
}

impl Unplaced {
    pub(crate) fn truncated(pod: PodId, pool: &str) -> Self {
        let why = Refusal::MinValues(Vec::new());
        Self { pod, reasons: vec![RefusedBy { pool: pool.to_owned(), why }] }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedBy {
    pub pool: String,
    pub why: Refusal,
}

/// Why a pod cannot have a node of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Taint(Taint),
    Requirements(Vec<Incompatibility>),
    /// No type passes the requirements with an offering to be had.
    NoInstanceType,
    /// The type that comes closest lacks this much of a resource.
    TooSmall {
        resource: String,
        short_by: Quantity,
    },
    /// Reserved capacity exists, but claims of this pass hold it; the pod waits for the next pass (SCH-113).
    Reserved,
    /// Only reserved capacity would do, and none is left.
    ReservationsFull,
    /// The pool may not grow by any type that would do.
    Limit,
    /// No domain is left by spread constraints and pod affinities.
    Topology,
    /// The pod's volumes are elsewhere.
    Volumes(Vec<Incompatibility>),
    /// No type attaches as many volumes of the driver; the best of them attaches `limit`.
    Attachments {
        driver: String,
        needed: usize,
        limit: u32,
    },
    /// No type attaches as many volumes, for one driver or another.
    NoAttachments,
    /// What the pod asks for could not be read.
    Unreadable(String),
    /// A DaemonSet or another pod has the port on every type.
    HostPort,
    /// Too few distinct values of these keys would stay possible.
    MinValues(Vec<String>),
}

fn joined(all: &[Incompatibility]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taint(taint) => write!(f, "did not tolerate taint {taint}"),
            Self::Requirements(all) => write!(f, "incompatible requirements, {}", joined(all)),
            Self::NoInstanceType => write!(f, "no available instance type meets the requirements"),
            Self::TooSmall { resource, short_by } => {
                write!(f, "no instance type has enough {resource}, the largest lacks {short_by}")
            }
            Self::Reserved => write!(f, "reserved capacity is taken by other nodes of this pass, waiting for the next"),
            Self::ReservationsFull => write!(f, "all reservations are full"),
            Self::Limit => write!(f, "all available instance types exceed limits for nodepool"),
            Self::Topology => write!(f, "unsatisfiable topology constraint"),
            Self::Volumes(all) => write!(f, "incompatible volume requirements, {}", joined(all)),
            Self::Attachments { driver, needed, limit } => {
                write!(f, "no instance type attaches {needed} volumes of {driver}, the most is {limit}")
            }
            Self::NoAttachments => write!(f, "no instance type attaches as many volumes"),
            Self::Unreadable(why) => write!(f, "{why}"),
            Self::HostPort => write!(f, "host port is taken on every instance type"),
            Self::MinValues(keys) if keys.is_empty() => write!(f, "minValues requirement is not met"),
            Self::MinValues(keys) => write!(f, "minValues requirement is not met for {}", keys.join(", ")),
        }
    }
}

/// Plans all pending pods of the snapshot.
pub fn plan(snapshot: &Snapshot, rules: &LabelRules, options: &Options) -> Plan {
    Pass::new(snapshot, rules, options).run(snapshot)
}
