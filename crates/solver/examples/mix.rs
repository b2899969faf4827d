//! Times planning of the upstream mix: `cargo run --release -p karpenter-solver --example mix -- 1000 5000`.
//!
//! Cold: everything from the snapshot, the catalogue included. Warm: a second snapshot with the same catalogue and other
//! pods, as passes follow each other in a controller.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program that measures time"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use karpenter_model::budget::Budgets;
use karpenter_model::duration::NillableDuration;
use karpenter_model::example;
use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::{ConsolidationPolicy, NodeClassRef, PoolView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::{
    AffinityTerm, Namespaces, NodePolicy, PodScheduling, Preferred, SpreadConstraint, WhenUnsatisfiable,
};
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_solver::{Options, Solver};

struct Draw(u64);

impl Draw {
    fn of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &from[usize::try_from(self.0 >> 33).unwrap() % from.len()]
    }

    fn letter(&mut self) -> &'static str {
        self.of::<&'static str>(&["a", "b", "c", "d", "e", "f", "g"])
    }
}

fn fake_type(i: i64) -> InstanceType {
    let k = i + 1;
    let price = Price::new(0.314_748_364_8 * f64::from(i32::try_from(k).unwrap())).unwrap();
    let one = |key: &str, values: &[&str]| Requirement::any_of(key, values.iter().copied());
    let large = k > 4 && 2 * k > 8;
    let mut requirements = Requirements::from_iter([
        one(labels::INSTANCE_TYPE, &[&format!("fake-it-{i}")]),
        one(labels::ARCH, &["amd64"]),
        one(labels::OS, &["linux", "windows", "darwin"]),
        one(labels::ZONE, &["test-zone-1", "test-zone-2", "test-zone-3"]),
        one(labels::CAPACITY_TYPE, &["spot", "on-demand"]),
        one("size", &[if large { "large" } else { "small" }]),
        one("integer", &[&k.to_string()]),
    ]);
    requirements.add(if large { one("special", &["optional"]) } else { Requirement::does_not_exist("special") });
    let offering = |(capacity_type, zone): (&str, &str)| Offering {
        requirements: Requirements::from_iter([
            one(labels::ZONE, &[zone]),
            one(labels::CAPACITY_TYPE, &[capacity_type]),
        ]),
        price,
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    let places = [
        ("spot", "test-zone-1"),
        ("spot", "test-zone-2"),
        ("on-demand", "test-zone-1"),
        ("on-demand", "test-zone-2"),
        ("on-demand", "test-zone-3"),
    ];
    InstanceType {
        name: format!("fake-it-{i}"),
        requirements,
        offerings: places.into_iter().map(offering).collect(),
        capacity: Resources::new()
            .with("cpu", Quantity::units(k))
            .with("memory", Quantity::bytes((2 * k) << 30))
            .with("pods", Quantity::units(10 * k)),
        overhead: Overhead {
            kube_reserved: Resources::new().with("cpu", Quantity::milli(100)).with("memory", Quantity::bytes(10 << 20)),
            ..Overhead::default()
        },
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

fn pool() -> PoolView {
    let node_class = NodeClassRef { group: "test.sh".into(), kind: "TestClass".into(), name: "default".into() };
    let labels = BTreeMap::from([
        (labels::NODEPOOL.to_owned(), "default".to_owned()),
        (node_class.label_key(), node_class.name.clone()),
    ]);
    PoolView {
        name: "default".into(),
        uid: "default".into(),
        deleting: false,
        ready: true,
        weight: 0,
        limits: Resources::new()
            .with("cpu", Quantity::units(10_000_000))
            .with("memory", Quantity::bytes(10_000_000 << 30)),
        replicas: None,
        node_class,
        requirements: Requirements::from_labels(&LabelRules::core(), &labels),
        labels,
        annotations: BTreeMap::new(),
        taints: vec![],
        startup_taints: vec![],
        expire_after: NillableDuration::Never,
        termination_grace_period: None,
        budgets: Budgets::Parsed(vec![]),
        consolidation_policy: ConsolidationPolicy::WhenEmpty,
        consolidate_after: NillableDuration::Never,
        hash: None,
    }
}

const CPUS: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEMORIES: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];

fn pod(number: usize, label: (&str, &str), (cpu, memory): (i64, i64), scheduling: PodScheduling) -> PodView {
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let uid = format!("{:016x}-{:04x}", mixed, number & 0xffff).into();
    let pod = PodView { uid, unschedulable: true, ..example::pod(&format!("pod-{number:07}")) };
    pod.but(|pod| {
        pod.labels = [(label.0.to_owned(), label.1.to_owned())].into();
        pod.scheduling = scheduling;
        pod.requests = Resources::new()
            .with("cpu", Quantity::milli(cpu))
            .with("memory", Quantity::bytes(memory << 20))
            .with("pods", Quantity::units(1));
    })
}

fn spread(key: &str, letter: &str) -> PodScheduling {
    PodScheduling {
        spread: vec![SpreadConstraint {
            key: key.into(),
            max_skew: 1,
            when: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(Selector::labels([("my-label", letter)])),
            min_domains: None,
            node_affinity_policy: NodePolicy::Honor,
            node_taints_policy: NodePolicy::Ignore,
        }],
        ..PodScheduling::default()
    }
}

fn term(key: &str, label: (&str, &str)) -> AffinityTerm {
    AffinityTerm { key: key.into(), selector: Some(Selector::labels([label])), namespaces: Namespaces::only("default") }
}

fn diverse(count: usize, draw: &mut Draw) -> Vec<PodView> {
    let mut pods = Vec::with_capacity(count);
    for number in 0..count {
        let block = if number < count / 5 * 5 { number / (count / 5).max(1) } else { 0 };
        let letter = draw.letter();
        let (label, scheduling) = match block {
            1 => (("my-label", letter), spread(labels::ZONE, draw.letter())),
            2 => (("my-label", letter), spread(labels::HOSTNAME, draw.letter())),
            3 => {
                let label = ("my-affininity", letter);
                (label, PodScheduling { affinity: vec![term(labels::ZONE, label)], ..PodScheduling::default() })
            }
            4 => {
                let label = ("app", "nginx");
                (
                    label,
                    PodScheduling { anti_affinity: vec![term(labels::HOSTNAME, label)], ..PodScheduling::default() },
                )
            }
            _ => (("my-label", letter), PodScheduling::default()),
        };
        let size = (*draw.of(&CPUS), *draw.of(&MEMORIES));
        pods.push(pod(number, label, size, scheduling));
    }
    pods
}

fn preferences(count: usize) -> Vec<PodView> {
    let label = ("app", "nginx");
    let scheduling = PodScheduling {
        preferred_terms: vec![Preferred {
            weight: 1,
            value: Requirements::from_iter([Requirement::any_of(labels::ZONE, ["test-zone-1"])]),
        }],
        preferred_anti_affinity: vec![
            Preferred { weight: 10, value: term(labels::ZONE, label) },
            Preferred { weight: 1, value: term(labels::HOSTNAME, label) },
        ],
        ..PodScheduling::default()
    };
    (0..count).map(|number| pod(number, label, (500, 512), scheduling.clone())).collect()
}

/// Replicas of deployments, without constraints but for a few that spread over zones.
fn deployments(count: usize, of: usize, draw: &mut Draw) -> Vec<PodView> {
    let sizes: Vec<(i64, i64)> =
        (0..of).map(|_| (draw.of(&CPUS) + i64::from(*draw.of(&[0, 10, 20, 50, 70])), *draw.of(&MEMORIES))).collect();
    (0..count)
        .map(|number| {
            let which = number % of;
            let name = format!("app-{which}");
            pod(number, ("app", &name), sizes[which], PodScheduling::default())
        })
        .collect()
}

fn snapshot(types: &Arc<Vec<InstanceType>>, pods: Vec<PodView>) -> Snapshot {
    let offer = PoolOffer { pool: Arc::new(pool()), instance_types: types.clone(), usage: Resources::new() };
    let pending = pods.into_iter().map(|pod| (pod.id.clone(), Arc::new(pod))).collect();
    Snapshot { pools: vec![offer], pending, ..Snapshot::default() }
}

fn main() {
    let rules = LabelRules::core().well_known(["size", "special", "integer"]);
    let types: Arc<Vec<InstanceType>> = Arc::new((0..400).map(fake_type).collect());
    for word in std::env::args().skip(1) {
        let (name, count) = match word.strip_prefix("prefs-") {
            Some(count) => ("preferences", count),
            None => match word.strip_prefix("deploy-") {
                Some(count) => ("deployments", count),
                None => ("diverse", word.as_str()),
            },
        };
        let count: usize = count.parse().unwrap();
        let mut draw = Draw(42);
        let pods = match name {
            "preferences" => preferences(count),
            "deployments" => deployments(count, 2000, &mut draw),
            _ => diverse(count, &mut draw),
        };
        let all = snapshot(&types, pods);
        let turns = if count > 50_000 {
            3
        } else if count > 500 {
            7
        } else {
            200
        };
        let (mut cold, mut warm, mut same) = (Vec::new(), Vec::new(), Vec::new());
        let (mut claims, mut unplaced) = (0, 0);
        let mut planner = Solver::new(&rules);
        for _ in 0..turns {
            let start = Instant::now();
            let plan = karpenter_solver::plan(&all, &rules, &Options::default());
            cold.push(start.elapsed());
            (claims, unplaced) = (plan.claims.len(), plan.unplaced.len());
            drop(plan);
            planner.plan(&snapshot(&types, vec![]), &Options::default());
            let start = Instant::now();
            let plan = planner.plan(&all, &Options::default());
            warm.push(start.elapsed());
            drop(plan);
            let start = Instant::now();
            let plan = planner.plan(&all, &Options::default());
            same.push(start.elapsed());
            drop(plan);
        }
        let show = |times: &mut Vec<std::time::Duration>| {
            times.sort_unstable();
            let micros = times[0].as_secs_f64() * 1e6;
            let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1e6;
            format!("{micros:.0} us ({:.2} us/pod, p99 {p99:.0})", micros / f64::from(u32::try_from(count).unwrap()))
        };
        println!(
            "{name} {count}: cold {}, warm {}, known {}; {claims} claims, {unplaced} unplaced",
            show(&mut cold),
            show(&mut warm),
            show(&mut same)
        );
    }
}
