//! One pass over the pending pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Incompatibility, Requirements, Undefined};
use karpenter_model::resources::{CPU, MEMORY, Resources};
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use crate::claim::OpenClaim;

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
}

#[derive(Debug, Clone)]
pub struct Unplaced {
    pub pod: PodId,
    pub reasons: Vec<RefusedBy>,
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
    /// The pool may not grow by any type that would do.
    Limit,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taint(taint) => write!(f, "did not tolerate taint {taint}"),
            Self::Requirements(all) => {
                let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(f, "incompatible requirements, {}", texts.join("; "))
            }
            Self::NoInstanceType => write!(f, "no available instance type meets the requirements"),
            Self::TooSmall { resource, short_by } => {
                write!(f, "no instance type has enough {resource}, the largest lacks {short_by}")
            }
            Self::Limit => write!(f, "all available instance types exceed limits for nodepool"),
        }
    }
}

/// Plans all pending pods of the snapshot.
pub fn plan(snapshot: &Snapshot, rules: &LabelRules) -> Plan {
    let mut pass = Pass {
        rules,
        nodes: snapshot.nodes.iter().filter(|node| !node.is_going()).map(NodeRoom::new).collect(),
        pools: snapshot.pools.iter().map(PoolRoom::new).collect(),
        open: Vec::new(),
        plan: Plan::default(),
    };
    for pod in by_size(snapshot) {
        pass.place(pod);
    }
    pass.finish()
}

/// Largest first: CPU, then memory, then by name so that equal clusters give equal plans.
fn by_size(snapshot: &Snapshot) -> Vec<&PodView> {
    let mut pods: Vec<&PodView> = snapshot.pending.values().map(Arc::as_ref).collect();
    pods.sort_by_key(|pod| {
        std::cmp::Reverse((pod.requests.amount(CPU), pod.requests.amount(MEMORY), std::cmp::Reverse(&pod.id)))
    });
    pods
}

struct NodeRoom<'a> {
    name: &'a str,
    labels: Requirements,
    taints: Vec<Taint>,
    available: Resources,
}

impl<'a> NodeRoom<'a> {
    fn new(node: &'a ExistingNode) -> Self {
        Self {
            name: node.name(),
            labels: Requirements::from_labels(&LabelRules::core(), node.labels()),
            taints: node.taints(),
            available: node.available(),
        }
    }

    fn accepts(&self, pod: &PodView) -> bool {
        first_untolerated(&self.taints, &pod.tolerations).is_none()
            && pod.requests.fits(&self.available)
            && self.labels.is_compatible(&pod.requirements, Undefined::Denied)
    }
}

/// A pool and how much more it may have.
pub(crate) struct PoolRoom<'a> {
    pub(crate) offer: &'a PoolOffer,
    /// Limit less usage, for limited resources only (SCH-78).
    pub(crate) remaining: Resources,
}

impl<'a> PoolRoom<'a> {
    fn new(offer: &'a PoolOffer) -> Self {
        let mut remaining = offer.pool.limits.clone();
        remaining.subtract(&offer.usage);
        Self { offer, remaining }
    }
}

struct Pass<'a> {
    rules: &'a LabelRules,
    nodes: Vec<NodeRoom<'a>>,
    pools: Vec<PoolRoom<'a>>,
    open: Vec<OpenClaim<'a>>,
    plan: Plan,
}

impl<'a> Pass<'a> {
    fn place(&mut self, pod: &'a PodView) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.accepts(pod)) {
            node.available.subtract(&pod.requests);
            self.plan.placed.insert(pod.id.clone(), Placement::Existing(node.name.to_owned()));
            return;
        }
        if let Some(index) = self.open.iter_mut().position(|claim| claim.try_add(pod, self.rules).is_ok()) {
            self.plan.placed.insert(pod.id.clone(), Placement::New(index));
            return;
        }
        let mut reasons = Vec::new();
        for room in &mut self.pools {
            match OpenClaim::open(room, pod, self.rules) {
                Ok(claim) => {
                    self.plan.placed.insert(pod.id.clone(), Placement::New(self.open.len()));
                    self.open.push(claim);
                    return;
                }
                Err(why) => reasons.push(RefusedBy { pool: room.offer.pool.name.clone(), why }),
            }
        }
        self.plan.unplaced.push(Unplaced { pod: pod.id.clone(), reasons });
    }

    fn finish(mut self) -> Plan {
        self.plan.claims = self.open.into_iter().map(|claim| claim.finish(self.rules)).collect();
        self.plan
    }
}
