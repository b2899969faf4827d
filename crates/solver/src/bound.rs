//! What the pods of a plan must cost at least, with the prices that prove it.

use std::collections::BTreeMap;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::resources::{CPU, MEMORY, PODS};
use karpenter_model::snapshot::Snapshot;

use crate::best::reading::{Limited, Reading, Source, Strictness, read};
use crate::options::Options;
use crate::packing::bits::Bits;
use crate::packing::fill::values_of;
use crate::packing::knapsack::{Effort, best_load};
use crate::packing::{Item, Packed, Problem, Steps, fluid, patterns};
use crate::places::PodList;
use crate::plan::Plan;

/// Which argument a bound rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoundKind {
    /// Pods as a liquid: prices of resources.
    #[default]
    Fluid,
    /// Pods as they are: what each of them is worth, and no load of a node is worth more than the node.
    Pattern,
}

impl BoundKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fluid => "fluid",
            Self::Pattern => "pattern",
        }
    }
}

/// No valid plan for the pods that a plan places costs less per hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bound {
    pub per_hour: f64,
    pub kind: BoundKind,
    pub prices: DualPrices,
    /// What pods are worth. No node that could be launched holds pods that are worth more than it costs.
    pub worths: Vec<Worth>,
}

/// What resources are worth in the plan, per hour.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DualPrices {
    pub per_cpu: f64,
    pub per_gib: f64,
    pub per_pod: f64,
}

/// Pods that are worth the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Worth {
    pub per_hour: f64,
    pub pods: Vec<PodId>,
}

/// Bounds from prices with rounding in mind: all sums together are off by less.
const SAFE: f64 = 1.0 - 1e-9;
/// Items above this make the pattern programme too slow for what it adds to the fluid bound.
const MOST_ITEMS: usize = 400;

/// The better of the bounds that the steps allow.
pub(crate) fn of(snapshot: &Snapshot, rules: &LabelRules, options: &Options, plan: &Plan, steps: &mut Steps) -> Bound {
    let pods: Vec<&PodView> =
        plan.placed.keys().filter_map(|pod| snapshot.pending.get(pod)).map(AsRef::as_ref).collect();
    let source = Source { snapshot, rules, options, strictness: Strictness::Required, zones: None };
    let reading = read(&source, &pods);
    let problem = &reading.problem;
    // A pod that only a reservation or an existing node can hold costs nothing for sure.
    let counts: Vec<u32> = problem.items.iter().map(|item| if item.bins.is_empty() { 0 } else { item.count }).collect();
    let mut fluid_steps = Steps::new(u64::MAX);
    let prices = fluid::dual_prices(problem, &counts, &mut fluid_steps);
    steps.spend(fluid_steps);
    let values = values_of(problem, &prices, 0.0);
    let mut best = certified(&reading, &counts, &values, BoundKind::Fluid, steps);
    let cost = plan.cost_per_hour();
    // From nothing and from the plan's own nodes: where the search ends depends on where it begins.
    for start in [Vec::new(), seeds(&reading, plan)] {
        if best.per_hour >= cost * 0.997 || counts.len() > MOST_ITEMS || steps.is_empty() {
            break;
        }
        let mut share = steps.share(50);
        let outcome = patterns::solve(problem, &counts, &start, best.per_hour, &mut share);
        steps.spend(share);
        let pattern = certified(&reading, &counts, &outcome.duals, BoundKind::Pattern, steps);
        if pattern.per_hour > best.per_hour {
            best = pattern;
        }
    }
    let price = |name: &str| {
        reading
            .resources
            .iter()
            .position(|known| known == name)
            .and_then(|axis| prices.get(axis))
            .copied()
            .unwrap_or(0.0)
    };
    let per_gib = price(MEMORY) * 1_073_741_824.0;
    best.prices = DualPrices { per_cpu: price(CPU), per_gib, per_pod: price(PODS) };
    best
}

/// The nodes of the plan, as patterns to begin with.
fn seeds(reading: &Reading<'_>, plan: &Plan) -> Vec<Packed> {
    let mut item_of: BTreeMap<&PodId, usize> = BTreeMap::new();
    for (item, groups) in reading.members.iter().enumerate() {
        item_of.extend(groups.iter().flatten().map(|pod| (&pod.id, item)));
    }
    let load = |pods: &PodList| {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for item in pods.iter().filter_map(|pod| item_of.get(pod)) {
            *counts.entry(*item).or_default() += 1;
        }
        counts.into_iter().collect::<Vec<_>>()
    };
    let seed = |load: Vec<(usize, u32)>| Some(Packed { bin: reading.problem.cheapest(&load)?, load, times: 1 });
    plan.claims.iter().filter_map(|claim| seed(load(&claim.pods))).collect()
}

/// What everything is worth, less what bins that are limited in number could hold for nothing or for less.
fn certified(reading: &Reading<'_>, counts: &[u32], values: &[f64], kind: BoundKind, steps: &mut Steps) -> Bound {
    let total: f64 = values.iter().zip(counts).map(|(value, count)| value * f64::from(*count)).sum();
    let given: f64 = limited_gain(reading, counts, values, steps);
    let worth = |(item, value): (usize, &f64)| {
        let pods = reading.members[item].iter().flatten().map(|pod| pod.id.clone());
        (counts[item] > 0 && *value > 0.0).then(|| Worth { per_hour: *value, pods: pods.collect() })
    };
    let worths = values.iter().enumerate().filter_map(worth).collect();
    // A sum of nothing is -0.0, which would be shown.
    Bound { per_hour: ((total - given) * SAFE).max(0.0) + 0.0, kind, prices: DualPrices::default(), worths }
}

/// How much more than their price limited bins could hold, at most.
fn limited_gain(reading: &Reading<'_>, counts: &[u32], values: &[f64], steps: &mut Steps) -> f64 {
    let usable: Vec<&Limited> = reading.limited.iter().filter(|limited| limited.count > 0).collect();
    if usable.is_empty() {
        return 0.0;
    }
    let every = |_: usize| {
        let mut bins = Bits::new(usable.len());
        (0..usable.len()).for_each(|bin| bins.insert(bin));
        bins
    };
    let items = &reading.problem.items;
    let items: Vec<Item> =
        items.iter().enumerate().map(|(at, item)| Item { bins: every(at), ..item.clone() }).collect();
    let all: Vec<usize> = (0..items.len()).collect();
    let bins = usable.iter().map(|limited| limited.bin.clone()).collect();
    let problem = Problem { items, bins, holds: vec![all; usable.len()] };
    let gain = |(bin, limited): (usize, &&Limited)| {
        let effort = Effort { floor: f64::INFINITY, nodes: 0 };
        let most = best_load(&problem, bin, values, counts, effort, steps).ceiling;
        (most - limited.bin.price).max(0.0) * f64::from(limited.count)
    };
    usable.iter().enumerate().map(gain).sum()
}
