//! The micro-benchmark of the target's scheduler: 400 made-up types, one pool, pods of five sorts (`performance.md` 1.1).
//!
//! Same catalogue, same distributions, same order of draws; the generator of numbers is ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::{CPU, MEMORY, PODS, Resources};
use karpenter_model::scheduling::Preferred;

use super::parts::{GI, MI, Market, near, open, scenario, spread, waiting};
use super::{Preferences, Scenario};
use crate::dice::Dice;

const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const MILLICORES: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEBIBYTES: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];
const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// The 400 types; `size`, `special` and `integer` are well-known with them.
pub fn market() -> Market {
    let rules = LabelRules::core().well_known(["size", "special", "integer"]);
    Market { types: Arc::new((1..=400).map(fake_type).collect()), rules }
}

#[expect(clippy::cast_precision_loss, reason = "at most 800 GiB")]
fn fake_type(k: i64) -> InstanceType {
    let name = format!("fake-it-{}", k - 1);
    let price = Price::new(0.1 * k as f64 + 0.1 * (2 * k * GI) as f64 / 1e9).unwrap_or(Price::MAX);
    let offering = |capacity_type: &str, zone: &str| Offering {
        requirements: [(labels::CAPACITY_TYPE, capacity_type), (labels::ZONE, zone)]
            .map(|(key, value)| Requirement::any_of(key, [value]))
            .into_iter()
            .collect(),
        price,
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    let large = k > 4 && 2 * k > 8;
    let requirements: Requirements = [
        Requirement::any_of(labels::INSTANCE_TYPE, [name.as_str()]),
        Requirement::any_of(labels::ARCH, ["amd64"]),
        Requirement::any_of(labels::OS, ["linux", "windows", "darwin"]),
        Requirement::any_of(labels::ZONE, ZONES),
        Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND]),
        Requirement::any_of("size", [if large { "large" } else { "small" }]),
        if large { Requirement::any_of("special", ["optional"]) } else { Requirement::does_not_exist("special") },
        Requirement::any_of("integer", [k.to_string()]),
    ]
    .into_iter()
    .collect();
    InstanceType {
        name,
        requirements,
        offerings: vec![
            offering(labels::CAPACITY_TYPE_SPOT, ZONES[0]),
            offering(labels::CAPACITY_TYPE_SPOT, ZONES[1]),
            offering(labels::CAPACITY_TYPE_ON_DEMAND, ZONES[0]),
            offering(labels::CAPACITY_TYPE_ON_DEMAND, ZONES[1]),
            offering(labels::CAPACITY_TYPE_ON_DEMAND, ZONES[2]),
        ],
        capacity: Resources::new()
            .with(CPU, Quantity::units(k))
            .with(MEMORY, Quantity::bytes(2 * k * GI))
            .with(PODS, Quantity::units(10 * k)),
        overhead: Overhead {
            kube_reserved: Resources::new().with(CPU, Quantity::milli(100)).with(MEMORY, Quantity::bytes(10 * MI)),
            ..Overhead::default()
        },
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

/// The most pods that the target's benchmark has. Its pool's limits, made for them, would leave some of many more
/// without a place: memory for 12,500 nodes, when each counts as the largest type.
const MOST_PODS: usize = 20_000;

fn pool(pods: usize) -> karpenter_model::pool::PoolView {
    let mut pool = open("default");
    if pods > MOST_PODS {
        return pool;
    }
    pool.limits = Resources::new()
        .with(CPU, Quantity::units(10_000_000))
        .with(MEMORY, "10000000Gi".parse().unwrap_or(Quantity::ZERO));
    pool
}

/// Five blocks of a fifth each, the rest generic.
pub fn diverse(name: &'static str, count: usize) -> Scenario {
    let mut dice = Dice::new(42);
    let mut ids = Dice::new(4242);
    let sorts: [fn(&mut Dice, &mut PodView); 5] = [generic, zone_spread, host_spread, zone_affinity, host_apart];
    let block = count / 5;
    let rest = count - 5 * block;
    let blocks = sorts.into_iter().zip([block; 5]).chain([(sorts[0], rest)]);
    let each = blocks.flat_map(|(sort, pods)| std::iter::repeat_n(sort, pods)).enumerate();
    let pods = each.map(|(number, sort)| {
        let mut pod = waiting(&format!("pod-{number:06}"), 0, 0, &mut ids);
        sort(&mut dice, &mut pod);
        let (cpu, memory) = (dice.pick(&MILLICORES), dice.pick(&MEBIBYTES));
        pod.requests.set(CPU, Quantity::milli(cpu));
        pod.requests.set(MEMORY, Quantity::bytes(memory * MI));
        pod
    });
    let pods: Vec<PodView> = pods.collect();
    scenario(name, market(), pool(count), pods)
}

fn label(pod: &mut PodView, key: &str, value: &str) {
    pod.labels.insert(key.to_owned(), value.to_owned());
}

fn generic(dice: &mut Dice, pod: &mut PodView) {
    label(pod, "my-label", dice.pick(&LETTERS));
}

fn zone_spread(dice: &mut Dice, pod: &mut PodView) {
    generic(dice, pod);
    pod.scheduling.spread.push(spread(labels::ZONE, ("my-label", dice.pick(&LETTERS))));
}

fn host_spread(dice: &mut Dice, pod: &mut PodView) {
    generic(dice, pod);
    pod.scheduling.spread.push(spread(labels::HOSTNAME, ("my-label", dice.pick(&LETTERS))));
}

fn zone_affinity(dice: &mut Dice, pod: &mut PodView) {
    let letter = dice.pick(&LETTERS);
    label(pod, "my-affininity", letter);
    pod.scheduling.affinity.push(near(labels::ZONE, ("my-affininity", letter)));
}

fn host_apart(_: &mut Dice, pod: &mut PodView) {
    label(pod, "app", "nginx");
    pod.scheduling.anti_affinity.push(near(labels::HOSTNAME, ("app", "nginx")));
}

/// Equal pods that would rather be in one zone, in different zones (which cannot hold) and on different hosts.
pub fn preferring(name: &'static str, count: usize) -> Scenario {
    let mut dice = Dice::new(42);
    let mut ids = Dice::new(4242);
    let (cpu, memory) = (dice.pick(&MILLICORES), dice.pick(&MEBIBYTES));
    let zone = Requirements::from_iter([Requirement::any_of(labels::ZONE, [ZONES[0]])]);
    let apart = |key: &str, weight: i32| Preferred { weight, value: near(key, ("app", "nginx")) };
    let pods = (0..count).map(|number| {
        let mut pod = waiting(&format!("pod-{number:06}"), cpu, memory * MI, &mut ids);
        label(&mut pod, "app", "nginx");
        pod.scheduling.preferred_terms.push(Preferred { weight: 1, value: zone.clone() });
        pod.scheduling.preferred_anti_affinity = vec![apart(labels::ZONE, 10), apart(labels::HOSTNAME, 1)];
        pod
    });
    let pods: Vec<PodView> = pods.collect();
    scenario(name, market(), pool(count), pods)
}

pub fn ignoring(name: &'static str) -> Scenario {
    Scenario { preferences: Preferences::Ignored, ..preferring(name, 4000) }
}
