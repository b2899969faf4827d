//! The planner that looks for cheaper plans.
//!
//! The reference plans first, and what it costs is never exceeded. Then the pods that need new nodes are read as a packing
//! problem ([`reading`]), with a zone for each where rules are about zones ([`zones`]), packed in several ways ([`portfolio`]), and the best packings are replayed ([`replay`]) by a pass
//! that refuses what breaks a rule. Whatever the packing knows nothing about, such as zones, the pass sees to; who found no
//! place where the packing wanted it gets one in the specified order.

mod caps;
pub(crate) mod portfolio;
pub(crate) mod reading;
pub(crate) mod replay;
pub(crate) mod zones;

use std::collections::BTreeMap;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodView;
use karpenter_model::pool::{PoolView, by_precedence};
use karpenter_model::snapshot::Snapshot;

use self::reading::{Source, Strictness, read};
use self::zones::Zones;
use crate::bound;
use crate::compiled::Compiled;
use crate::compiled::pass::Pass;
use crate::compiled::pods::by_size;
use crate::options::Options;
use crate::packing::Steps;
use crate::plan::{Part, Placement, Plan};

/// A pass that is told where to try. Each call places the pod with all its wishes, or does nothing.
pub(crate) trait Engine<'a> {
    /// On the first existing node that takes it.
    fn on_node(&mut self, pod: &'a PodView) -> bool;
    /// On a new node of the pool, by precedence; the number of the claim.
    fn open(&mut self, pod: &'a PodView, pool: usize) -> Option<usize>;
    /// The same, in this zone and no other.
    fn open_in(&mut self, pod: &'a PodView, pool: usize, zone: &str) -> Option<usize>;
    /// On a node that was opened before.
    fn add(&mut self, pod: &'a PodView, claim: usize) -> bool;
}

/// The cheapest plan that the step budget finds; never dearer than the reference, and nobody is left out whom the
/// reference places.
pub(crate) fn plan(
    compiled: &mut Compiled,
    snapshot: &Snapshot,
    rules: &LabelRules,
    options: &Options,
    should_stop: &mut dyn FnMut() -> bool,
) -> Plan {
    let mut best = Pass::new(compiled, *options).run(should_stop);
    let mut steps = Steps::new(options.steps);
    if best.untried.is_empty() && !best.claims.is_empty() {
        improve(compiled, snapshot, rules, options, &mut best, &mut steps, should_stop);
    }
    let bound = bound::of(snapshot, rules, options, &best, &mut steps);
    best.planner = options.planner;
    best.bound = Some(bound);
    best.steps = steps.used();
    best
}

fn improve(
    compiled: &mut Compiled,
    snapshot: &Snapshot,
    rules: &LabelRules,
    options: &Options,
    best: &mut Plan,
    steps: &mut Steps,
    should_stop: &mut dyn FnMut() -> bool,
) {
    let reference = best.clone();
    let new: Vec<(&PodView, usize)> = on_new_nodes(snapshot, &reference);
    let pods: Vec<&PodView> = new.iter().map(|(pod, _)| *pod).collect();
    let mut zones = None;
    if zones::names(snapshot).len() > 1 {
        let mut pass = begun(compiled, snapshot, options, &reference);
        zones = Zones::assigned(snapshot, &new, &mut pass);
    }
    // With zones for all pods first: where that succeeds there is little left to gain without them.
    for zones in [zones.as_ref(), None].into_iter().skip(usize::from(zones.is_none())) {
        let source = Source { snapshot, rules, options, strictness: Strictness::Wished, zones };
        let reading = read(&source, &pods);
        let mut share = steps.share(if zones.is_some() { 60 } else { 100 });
        let packings = portfolio::packings(&reading, best.cost_per_hour(), &mut share);
        for candidate in packings {
            if should_stop() {
                return;
            }
            let mut pass = begun(compiled, snapshot, options, &reference);
            replay::replay(&reading, &candidate.packing, &mut pass, &mut share);
            pass.run_rest(should_stop);
            let plan = pass.finish();
            let complete = plan.untried.is_empty() && reference.placed.keys().all(|pod| plan.placed.contains_key(pod));
            if complete && is_better(&plan, best) {
                *best = Plan { part: candidate.part, ..plan };
            }
        }
        steps.spend(share);
    }
}

/// Cheaper, or as cheap with fewer nodes.
fn is_better(plan: &Plan, known: &Plan) -> bool {
    let (cost, known_cost) = (plan.cost_per_hour(), known.cost_per_hour());
    cost < known_cost * (1.0 - 1e-9) || (cost <= known_cost && plan.claims.len() < known.claims.len())
}

/// A pass with the pods on existing nodes that the reference puts there.
fn begun<'c>(compiled: &'c mut Compiled, snapshot: &Snapshot, options: &Options, reference: &Plan) -> Pass<'c> {
    let mut pass = Pass::new(compiled, *options);
    pass.register_all();
    for pod in on_existing_nodes(snapshot, reference) {
        pass.on_node(pod);
    }
    pass
}

/// Pods of the plan that need new nodes, the largest first, with the pool of their node, by precedence.
fn on_new_nodes<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Vec<(&'a PodView, usize)> {
    let mut pools: Vec<&PoolView> = snapshot.pools.iter().map(|offer| offer.pool.as_ref()).collect();
    pools.sort_by(|a, b| by_precedence(a, b));
    let known: BTreeMap<&str, usize> = pools.iter().enumerate().map(|(at, pool)| (pool.name.as_str(), at)).collect();
    // Claims take pods in the order of the pass.
    let pods = plan.claims.iter().flat_map(|claim| {
        let pool = known.get(claim.pool.name.as_str()).copied().unwrap_or(0);
        claim.pods.iter().map(move |pod| (pod, pool))
    });
    pods.filter_map(|(pod, pool)| Some((snapshot.pending.get(pod)?.as_ref(), pool))).collect()
}

fn on_existing_nodes<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Vec<&'a PodView> {
    let placed = plan.placed.iter().filter(|(_, at)| matches!(at, Placement::Existing(_)));
    let mut pods: Vec<&PodView> = placed.filter_map(|(pod, _)| snapshot.pending.get(pod)).map(AsRef::as_ref).collect();
    pods.sort_by(|a, b| by_size(a, b));
    pods
}

/// A packing worth replaying.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) part: Part,
    pub(crate) packing: crate::packing::Packing,
}
