//! The planner that looks for cheaper plans.
//!
//! The reference plans first, and what it costs is never exceeded. Then the pods that need new nodes are read as a packing
//! problem ([`reading`]), packed in several ways ([`portfolio`]), and the best packings are replayed ([`replay`]) by a pass
//! that refuses what breaks a rule. Whatever the packing knows nothing about, such as zones, the pass sees to; who found no
//! place where the packing wanted it gets one in the specified order.

mod caps;
mod portfolio;
pub(crate) mod reading;
mod replay;

use std::collections::BTreeSet;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::Snapshot;

use self::reading::{Strictness, read};
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
    let placed: BTreeSet<&PodId> = reference.placed.keys().collect();
    let new: Vec<&PodView> = on_new_nodes(snapshot, &reference);
    let reading = read(snapshot, rules, options, Strictness::Wished, &new);
    let packings = portfolio::packings(&reading, reference.cost_per_hour(), steps);
    for candidate in packings {
        if should_stop() {
            return;
        }
        let mut pass = Pass::new(compiled, *options);
        pass.register_all();
        for pod in on_existing_nodes(snapshot, &reference) {
            pass.on_node(pod);
        }
        replay::replay(&reading, &candidate.packing, &mut pass, steps);
        pass.run_rest(should_stop);
        let plan = pass.finish();
        let complete = plan.untried.is_empty() && placed.iter().all(|pod| plan.placed.contains_key(pod));
        if complete && plan.cost_per_hour() < best.cost_per_hour() {
            *best = Plan { part: candidate.part, ..plan };
        }
    }
}

/// Pods of the plan that need new nodes, the largest first.
fn on_new_nodes<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Vec<&'a PodView> {
    // Claims take pods in the order of the pass.
    let pods = plan.claims.iter().flat_map(|claim| &claim.pods);
    pods.filter_map(|pod| snapshot.pending.get(pod)).map(AsRef::as_ref).collect()
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
