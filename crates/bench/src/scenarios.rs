//! The problems. Each has a name, is drawn from a fixed seed and is the same on every machine.

pub mod adversarial;
pub mod aged;
pub mod cluster;
pub mod kwok;
pub mod mix;
pub mod parts;
pub mod scaled_in;
pub mod synth;
pub mod traces;

use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::Snapshot;

/// A problem to plan for.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub snapshot: Snapshot,
    pub rules: LabelRules,
    /// Whether preferences are wishes or nothing at all.
    pub preferences: Preferences,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preferences {
    #[default]
    Respected,
    Ignored,
}

/// How to make a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    pub name: &'static str,
    pub about: &'static str,
    /// Scenarios of one family differ in size only, so that growth can be told.
    pub family: &'static str,
    /// Families are one generation (G6), or the whole table is free to choose from (G7).
    pub choice: Choice,
    make: fn(&'static str) -> Scenario,
}

/// What a planner may choose from, for the goals about cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// One generation of families, or a made-up catalogue.
    OneGeneration,
    /// 605 types of EC2: c, m and r since the fifth generation, amd64, no metal.
    Ec2,
    /// Not about cost.
    Speed,
}

impl Recipe {
    pub fn make(&self) -> Scenario {
        (self.make)(self.name)
    }
}

/// The scenario with this name.
pub fn named(name: &str) -> Option<Scenario> {
    SCENARIOS.iter().find(|recipe| recipe.name == name).map(Recipe::make)
}

const fn speed(
    name: &'static str,
    family: &'static str,
    about: &'static str,
    make: fn(&'static str) -> Scenario,
) -> Recipe {
    Recipe { name, about, family, choice: Choice::Speed, make }
}

const fn cost(name: &'static str, choice: Choice, about: &'static str, make: fn(&'static str) -> Scenario) -> Recipe {
    Recipe { name, about, family: name, choice, make }
}

/// All of them, in the order in which they are run: quick ones first within a family.
pub const SCENARIOS: &[Recipe] = &[
    speed("mix-1", "mix", "upstream's mix of pods on 400 types", |name| mix::diverse(name, 1)),
    speed("mix-100", "mix", "the same", |name| mix::diverse(name, 100)),
    speed("mix-1000", "mix", "the same", |name| mix::diverse(name, 1000)),
    speed("mix-2000", "mix", "the same", |name| mix::diverse(name, 2000)),
    speed("mix-5000", "mix", "the same", |name| mix::diverse(name, 5000)),
    speed("mix-10000", "mix", "the same", |name| mix::diverse(name, 10_000)),
    speed("mix-20000", "mix", "the same", |name| mix::diverse(name, 20_000)),
    speed("mix-50000", "mix", "the same, without the limits of the pool", |name| mix::diverse(name, 50_000)),
    speed("mix-100000", "mix", "the same, without the limits of the pool", |name| mix::diverse(name, 100_000)),
    speed("prefs-500", "prefs", "equal pods that would rather be apart", |name| mix::preferring(name, 500)),
    speed("prefs-1000", "prefs", "the same", |name| mix::preferring(name, 1000)),
    speed("prefs-4000", "prefs", "the same", |name| mix::preferring(name, 4000)),
    speed("prefs-4000-ignored", "prefs-ignored", "the same, wishes ignored", mix::ignoring),
    speed("million", "million", "1,000,000 pods of 2,000 deployments, the whole table of EC2", synth::million),
    speed("churned-1000", "churned", "1,000 nodes, part of their pods gone, 2,000 pods wait", cluster::churned),
    cost("mix-1000-cost", Choice::OneGeneration, "upstream's mix, 1,000 pods", |name| mix::diverse(name, 1000)),
    cost("basic", Choice::OneGeneration, "two deployments of 500, kwok's types below 32 CPUs", kwok::basic),
    cost("wide", Choice::OneGeneration, "30 deployments with spread and anti-affinity, kwok below 32", kwok::wide),
    cost("wide-free", Choice::OneGeneration, "the same without spread and anti-affinity", kwok::wide_free),
    cost("wide-7i", Choice::OneGeneration, "the same pods on c7i, m7i and r7i", kwok::wide_7i),
    cost("wide-7i-small", Choice::OneGeneration, "the same up to 8xlarge", kwok::wide_7i_small),
    cost("openb-7i", Choice::OneGeneration, "pods without GPUs of a trace on c7i, m7i and r7i", traces::cpu_7i),
    cost("synth-120-7i", Choice::OneGeneration, "120 drawn deployments on c7i, m7i and r7i", synth::synth_7i),
    cost("synth-120-7i-small", Choice::OneGeneration, "the same up to 8xlarge", synth::synth_7i_small),
    cost("live", Choice::OneGeneration, "the 960 pods of the live benchmark, all at once", scaled_in::at_once),
    cost("halves", Choice::OneGeneration, "pods a little larger than half a node", adversarial::halves),
    cost("pairs", Choice::OneGeneration, "pods of much CPU and pods of much memory", adversarial::pairs),
    cost("giants", Choice::OneGeneration, "one giant pod of each of 200 shapes", adversarial::giants),
    cost("wide-ec2", Choice::Ec2, "the pods of wide-free on 605 types of EC2", kwok::wide_ec2),
    cost("openb-ec2", Choice::Ec2, "pods without GPUs of a trace on 605 types", traces::cpu_ec2),
    cost("openb-all-ec2", Choice::Ec2, "all pods of the trace, CPU and memory only, on 605 types", traces::all_ec2),
    cost("synth-120-ec2", Choice::Ec2, "120 drawn deployments on 605 types", synth::synth_ec2),
    speed("openb-gpu", "openb-gpu", "all pods of the trace with whole GPUs, the whole table", traces::gpu),
    speed("deep-preferences", "deep", "200 pods with 50 wishes each that cannot hold", adversarial::deep_preferences),
    speed("pools-50", "pools", "50 pools, each with DaemonSets of its own, 2,000 pods", |name| {
        adversarial::pools(name, 50, 2000)
    }),
    speed("pools-2000", "pools-2000", "2,000 pools, 400 pods", |name| adversarial::pools(name, 2000, 400)),
];

#[cfg(test)]
mod tests;
