//! What a pass answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Incompatibility, Requirements};
use karpenter_model::resources::{CPU, Resources};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::Taint;

use crate::bound::Bound;
use crate::compiled::Compiled;
use crate::compiled::pass::Pass;
use crate::devices::{DeviceRefusal, Taken};
use crate::draft::Draft;
use crate::late::Late;
use crate::options::{Options, Planner};
use crate::places::{Placed, PodList};

/// No machine has as many; somebody wrote `100M` for `100m`.
const ABSURD_CPU: Quantity = Quantity::units(1_000_000);

/// Where the pods of a pass go.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// New nodes, in the order in which they were opened.
    pub claims: Vec<PlannedClaim>,
    /// Pods that have a place, by pod.
    pub placed: Placed,
    /// Pods that have none, with what ruled out each pool.
    pub unplaced: Vec<Unplaced>,
    /// Pods that the pass was stopped before, so that nothing is known about them (SCH-118).
    pub untried: Vec<PodId>,
    /// Who was asked to plan.
    pub planner: Planner,
    /// What found this plan.
    pub part: Part,
    /// What such a plan costs at least; [`Planner::Reference`] does not look for it, [`crate::appraise`] does.
    pub bound: Option<Bound>,
    /// The work done beyond the reference, in steps.
    pub steps: u64,
    /// Devices that pods placed on existing nodes would get, by node. The scheduler gives them for real (SCH-216).
    pub devices: BTreeMap<String, Vec<Taken>>,
}

/// Parts of the portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// The specified order.
    #[default]
    Reference,
    /// Node by node, each with what gives most for its price.
    Fill,
    /// Nodes that give little for their price, dissolved and packed anew.
    Search,
    /// Patterns from a linear programme, rounded.
    Patterns,
}

impl Part {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Fill => "fill",
            Self::Search => "search",
            Self::Patterns => "patterns",
        }
    }
}

/// How many errors a summary names.
const SUMMARY: usize = 5;

impl Plan {
    /// What the new nodes cost: of each the cheapest offering. Infinite when one of them cannot be launched.
    pub fn cost_per_hour(&self) -> f64 {
        let price =
            |claim: &PlannedClaim| if claim.price == Price::MAX { f64::INFINITY } else { claim.price.per_hour() };
        self.claims.iter().map(price).sum()
    }

    /// By how much the plan could be dearer than the best one, as a share of the bound; `None` without a bound.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.bound.as_ref()?.per_hour;
        let cost = self.cost_per_hour();
        if cost <= bound { Some(0.0) } else { Some(cost / bound - 1.0) }
    }

    /// Pods by the pool whose node they go to, new or existing (SCH-119).
    pub fn pods_by_pool(&self, snapshot: &Snapshot) -> BTreeMap<String, Vec<PodId>> {
        let mut by_pool: BTreeMap<String, Vec<PodId>> = BTreeMap::new();
        for (pod, placement) in &self.placed {
            let pool = match placement {
                Placement::New(index) => self.claims.get(*index).map(|claim| claim.pool.name.as_str()),
                Placement::Existing(name) => existing(snapshot, name).and_then(ExistingNode::pool),
            };
            if let Some(pool) = pool {
                by_pool.entry(pool.to_owned()).or_default().push(pod.clone());
            }
        }
        by_pool
    }

    /// Pods by the existing NodeClaim that they go to.
    pub fn pods_by_claim(&self, snapshot: &Snapshot) -> BTreeMap<String, Vec<PodId>> {
        let mut by_claim: BTreeMap<String, Vec<PodId>> = BTreeMap::new();
        for (pod, placement) in &self.placed {
            let Placement::Existing(name) = placement else { continue };
            if let Some(claim) = existing(snapshot, name).and_then(|node| node.claim.as_ref()) {
                by_claim.entry(claim.name.clone()).or_default().push(pod.clone());
            }
        }
        by_claim
    }

    /// Nobody who runs today would be left without a node: only pods that wait anyway failed.
    pub fn all_running_pods_placed(&self, snapshot: &Snapshot) -> bool {
        let waits = |pod: &PodId| snapshot.pending.get(pod).is_some_and(|pod| pod.is_provisionable());
        let failed = self.unplaced.iter().map(|unplaced| &unplaced.pod);
        failed.chain(&self.untried).all(waits)
    }

    /// Who failed and why, in a line that does not grow with the number of pods.
    pub fn summary(&self) -> String {
        let text = |unplaced: &Unplaced| {
            let reasons = unplaced.reasons.iter().map(|refused| format!("{}: {}", refused.pool, refused.why));
            format!("{} ({})", unplaced.pod, reasons.collect::<Vec<_>>().join("; "))
        };
        let mut lines: Vec<String> = self.unplaced.iter().take(SUMMARY).map(text).collect();
        if self.unplaced.len() > SUMMARY {
            lines.push(format!("and {} others", self.unplaced.len() - SUMMARY));
        }
        lines.join(", ")
    }
}

fn existing<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a ExistingNode> {
    snapshot.nodes.iter().find(|node| node.name() == name)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// An existing node or a claim on its way, by name.
    Existing(String),
    /// The claim with this index in [`Plan::claims`].
    New(usize),
}

/// Where a pod that waits could be at all, before anything is placed (SCH-29).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectiveZone {
    Only(String),
    /// In several zones, or wherever.
    Flexible,
    /// Nowhere.
    None,
}

impl EffectiveZone {
    /// As metrics name it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Only(zone) => zone,
            Self::Flexible => "flexible",
            Self::None => "none",
        }
    }
}

/// The effective zones of the snapshot's pods in phase Pending, by pod.
pub fn effective_zones(snapshot: &Snapshot, rules: &LabelRules, options: &Options) -> BTreeMap<PodId, EffectiveZone> {
    Solver::new(rules).effective_zones(snapshot, options)
}

/// A node to launch.
#[derive(Debug, Clone)]
pub struct PlannedClaim {
    pub pool: Arc<PoolView>,
    /// With the instance types, cheapest first, and their capacity types (API-73).
    pub requirements: Late<Requirements>,
    /// Instance types that hold the pods, cheapest first; ties by name. Claims that could be the same share the list.
    pub instance_types: Late<Vec<String>>,
    pub requests: Resources,
    pub pods: PodList,
    /// What the cheapest of them costs.
    pub price: Price,
    /// A `minValues` was lowered to what can be reached.
    pub min_values_relaxed: bool,
    /// Devices that the pods would get, by the instance type that the node becomes; empty when nobody asks for any.
    pub devices: BTreeMap<String, Vec<Taken>>,
}

impl PlannedClaim {
    /// The drivers of the devices that its pods may get: a node is not initialized before they have published theirs
    /// (SCH-215).
    pub fn drivers(&self) -> BTreeSet<&str> {
        self.devices.values().flatten().map(|taken| taken.device.driver.as_str()).collect()
    }
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
    /// The pool itself has no type with an offering to be had.
    NoInstanceType,
    /// Types there are, but none passes.
    NoType(Box<NoType>),
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
    /// Devices of the pod's resource claims.
    Devices(DeviceRefusal),
    /// The pod uses devices, and nobody is to look at them (SCH-191).
    DevicesIgnored,
    /// What the pod asks for could not be read.
    Unreadable(String),
    /// A DaemonSet or another pod has the port on every type.
    HostPort,
    /// Too few distinct values of these keys would stay possible.
    MinValues(Vec<String>),
}

/// What a type must do for a claim (SCH-105).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    Requirements,
    Resources,
    Offering,
}

/// Why no type of a pool passes (SCH-107).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoType {
    /// Criteria that no type meets.
    pub unmet: Vec<Criterion>,
    /// Each of them is met by some type, but no type meets them all.
    pub together: bool,
    /// Without what only a pass pretends.
    pub requirements: Requirements,
    /// What the pods and the DaemonSets ask for in all; DaemonSets may differ between types.
    pub least: Resources,
    pub most: Resources,
}

impl std::fmt::Display for NoType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phrase = |criterion: &Criterion| match criterion {
            Criterion::Requirements => "met the requirements",
            Criterion::Resources => "had enough resources",
            Criterion::Offering => "had an offering to be had",
        };
        let phrases: Vec<&str> = self.unmet.iter().map(phrase).collect();
        let (word, last) = if self.together { (" and ", "") } else { (", none ", "none ") };
        write!(f, "no instance type passes: {last}{}", phrases.join(word))?;
        if self.together {
            f.write_str(" at once")?;
        }
        write!(f, " (requirements: {}; requests: {}", self.requirements, self.least)?;
        if self.least != self.most {
            write!(f, " to {}", self.most)?;
        }
        f.write_str(")")
    }
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
            Self::NoType(why) => why.fmt(f),
            Self::TooSmall { resource, short_by } => {
                write!(f, "no instance type has enough {resource}, the largest lacks {short_by}")?;
                if resource == CPU && *short_by >= ABSURD_CPU {
                    f.write_str(" (was m meant instead of M?)")?;
                }
                Ok(())
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
            Self::Devices(why) => why.fmt(f),
            Self::DevicesIgnored => write!(f, "dynamic resource allocation is not supported"),
            Self::Unreadable(why) => write!(f, "{why}"),
            Self::HostPort => write!(f, "host port is taken on every instance type"),
            Self::MinValues(keys) if keys.is_empty() => write!(f, "minValues requirement is not met"),
            Self::MinValues(keys) => write!(f, "minValues requirement is not met for {}", keys.join(", ")),
        }
    }
}

/// Plans all pending pods of the snapshot.
pub fn plan(snapshot: &Snapshot, rules: &LabelRules, options: &Options) -> Plan {
    plan_until(snapshot, rules, options, &mut || false)
}

/// How many things had to be looked at, because they were new or had changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    pub pods: usize,
    pub nodes: usize,
    /// Lists of instance types.
    pub catalogues: usize,
}

/// Plans one snapshot after another; what stays the same between them is compiled once.
#[derive(Debug)]
pub struct Solver {
    rules: LabelRules,
    compiled: Option<Compiled>,
}

impl Solver {
    pub fn new(rules: &LabelRules) -> Self {
        Self { rules: rules.clone(), compiled: None }
    }

    pub fn plan(&mut self, snapshot: &Snapshot, options: &Options) -> Plan {
        self.plan_until(snapshot, options, &mut || false)
    }

    /// A draft for planners that decide themselves who goes where.
    pub fn draft(&mut self, snapshot: &Snapshot, options: &Options) -> Draft<'_> {
        Draft::new(Pass::new(self.compiled(snapshot, options.workers), *options))
    }

    /// As [`plan_until`].
    pub fn plan_until(
        &mut self,
        snapshot: &Snapshot,
        options: &Options,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> Plan {
        match options.planner {
            Planner::Reference => Pass::new(self.compiled(snapshot, options.workers), *options).run(should_stop),
            Planner::Best => {
                let rules = self.rules.clone();
                crate::best::plan(self.compiled(snapshot, options.workers), snapshot, &rules, options, should_stop)
            }
        }
    }

    /// As [`effective_zones`].
    pub fn effective_zones(&mut self, snapshot: &Snapshot, options: &Options) -> BTreeMap<PodId, EffectiveZone> {
        Pass::new(self.compiled(snapshot, options.workers), *options).effective_zones()
    }

    /// What was compiled so far.
    pub fn work(&self) -> Work {
        self.compiled.as_ref().map(Compiled::work).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.compiled.as_ref().map_or(0, Compiled::kept)
    }

    fn compiled(&mut self, snapshot: &Snapshot, workers: usize) -> &mut Compiled {
        let known = self.compiled.get_or_insert_with(|| Compiled::new(&self.rules));
        known.update(snapshot, workers);
        known
    }
}

/// Plans until `should_stop` says so; it is asked before each try of each pod. What has a place by then keeps it.
pub fn plan_until(
    snapshot: &Snapshot,
    rules: &LabelRules,
    options: &Options,
    should_stop: &mut dyn FnMut() -> bool,
) -> Plan {
    Solver::new(rules).plan_until(snapshot, options, should_stop)
}

/// What a plan for these pods costs at least. Plans of [`Planner::Best`] come with it.
pub fn appraise(snapshot: &Snapshot, rules: &LabelRules, options: &Options, plan: &Plan) -> Bound {
    crate::bound::of(snapshot, rules, options, plan, &mut crate::packing::Steps::new(options.steps))
}
