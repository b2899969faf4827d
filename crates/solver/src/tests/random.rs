//! Random clusters: every plan is valid, and the order in which things are listed does not matter.

use std::sync::Arc;

use karpenter_model::scheduling::NodePolicy;
use karpenter_model::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::sample::select;

use super::build::{Pod, Pool, app, min_domains, near, pod, pool, skew, soft, spread, taint, unmanaged};
use super::cluster::{Cluster, Launched, empty};
use super::fixtures::{Type, it};
use crate::check::violations;
use crate::{MinValuesPolicy, Options, Plan, Preferences, Reserved, plan};

const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const KEYS: [&str; 4] = ["zone", "host", "capacity", "rack"];
const DRIVER: &str = "d.csi";

/// One feature of a pod; pods have a few of them.
#[derive(Debug, Clone)]
enum Trait {
    Zone(&'static str),
    Requires(&'static str),
    Prefers(&'static str, i32),
    Tolerates,
    Spread { key: &'static str, max_skew: u32, hard: bool, least: Option<u32>, honors: bool },
    Near(&'static str, &'static str, bool),
    Apart(&'static str, &'static str, bool),
    Port(u16),
    Volumes(usize),
    VolumeIn(&'static str),
    Label(&'static str),
}

fn any_trait() -> impl Strategy<Value = Trait> {
    let labels = select(vec!["app=test", "app=other", "tier=db"]);
    let terms = select(vec![
        "zone In z1 z2",
        "zone NotIn z1",
        "capacity In spot",
        "rack Exists",
        "rack In r1",
        "rack DoesNotExist",
        "integer Gt 3",
        "size In large",
        "type NotIn t2",
        "nowhere In x",
    ]);
    let keys = || select(KEYS.to_vec());
    prop_oneof![
        select(ZONES.to_vec()).prop_map(Trait::Zone),
        terms.clone().prop_map(Trait::Requires),
        // A wish for the absence of a label that is also required makes the planner look for nodes without it, as in the
        // target (Q9); the checker would rightly object.
        (terms.prop_filter("Q9", |term| !term.ends_with("DoesNotExist")), 1..4_i32)
            .prop_map(|(term, weight)| Trait::Prefers(term, weight)),
        Just(Trait::Tolerates),
        (keys(), 1..3_u32, any::<bool>(), prop::option::of(1..4_u32), any::<bool>())
            .prop_map(|(key, max_skew, hard, least, honors)| Trait::Spread { key, max_skew, hard, least, honors }),
        (keys(), labels.clone(), any::<bool>()).prop_map(|(key, label, hard)| Trait::Near(key, label, hard)),
        (keys(), labels.clone(), any::<bool>()).prop_map(|(key, label, hard)| Trait::Apart(key, label, hard)),
        (80..83_u16).prop_map(Trait::Port),
        (0..6_usize).prop_map(Trait::Volumes),
        select(ZONES.to_vec()).prop_map(Trait::VolumeIn),
        labels.prop_map(Trait::Label),
    ]
}

fn with_trait(pod: Pod, one: &Trait) -> Pod {
    match one {
        Trait::Zone(zone) => pod.select("zone", zone),
        Trait::Requires(term) => pod.require(term),
        Trait::Prefers(term, weight) => pod.prefer(*weight, term),
        Trait::Tolerates => pod.tolerate("t Exists"),
        Trait::Spread { key, max_skew, hard, least, honors } => {
            let mut constraint = skew(*max_skew, spread(key));
            if let Some(least) = least {
                constraint = min_domains(*least, constraint);
            }
            if *honors {
                constraint.node_taints_policy = NodePolicy::Honor;
            } else {
                constraint.node_affinity_policy = NodePolicy::Ignore;
            }
            pod.spread(if *hard { constraint } else { soft(constraint) })
        }
        Trait::Near(key, label, true) => pod.near(near(key, label)),
        Trait::Near(key, label, false) => pod.prefers_near(1, near(key, label)),
        Trait::Apart(key, label, true) => pod.apart(near(key, label)),
        Trait::Apart(key, label, false) => pod.prefers_apart(1, near(key, label)),
        Trait::Port(port) => pod.port(*port),
        Trait::Volumes(count) => {
            let names: Vec<String> = (0..*count).map(|i| format!("v{i}")).collect();
            pod.mounts(DRIVER, &names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Trait::VolumeIn(zone) => pod.volumes_in(&[&format!("zone In {zone}"), "zone In z3"]),
        Trait::Label(label) => pod.label(label),
    }
}

pub(super) fn any_pod() -> impl Strategy<Value = Pod> {
    let size = (1..40_i64, 1..30_i64, any::<bool>());
    (size, prop::collection::vec(any_trait(), 0..4)).prop_map(|((cpu, memory, labelled), traits)| {
        let start = if labelled { app() } else { pod() };
        let start = start.asks(&format!("cpu={}m memory={}Mi", cpu * 100, memory * 100));
        traits.iter().fold(start, with_trait)
    })
}

fn any_pool(name: &'static str) -> impl Strategy<Value = Pool> {
    let asks = select(vec![
        "",
        "zone In z1 z2",
        "rack In r1 r2",
        "capacity In on-demand",
        "type Exists min=2",
        "zone In z1 z2 z3 min=2",
        "integer Lt 9",
    ]);
    let limits = select(vec!["", "cpu=12", "nodes=3", "cpu=40"]);
    let taints = select(vec!["", "", "t=1:NoSchedule", "soft=1:PreferNoSchedule"]);
    (asks, limits, taints, 0..3_u32).prop_map(move |(asks, limits, tainted, weight)| {
        let pool = pool(name).weight(weight).require(asks).limits(limits);
        if tainted.is_empty() { pool } else { pool.taint(tainted) }
    })
}

fn any_type(name: &'static str) -> impl Strategy<Value = Type> {
    (1..12_i64, 1..6_i64, 1..3_u32, 0..3_u32, any::<bool>()).prop_map(move |(cpu, memory, attach, left, reserved)| {
        let known = it(name, &format!("cpu={cpu} memory={memory}Gi pods=8")).attaches(DRIVER, attach * 3);
        if reserved { known.reserved(&format!("r-{name}"), "z1", left, 0.001) } else { known }
    })
}

pub(super) fn any_cluster() -> impl Strategy<Value = Cluster> {
    let pools = (any_pool("a"), any_pool("b"), any::<bool>());
    let types = (any_type("t1"), any_type("t2"), any_type("t3"));
    let nodes = prop::collection::vec((select(ZONES.to_vec()), 1..8_i64, any::<bool>(), 0..3_usize), 0..4);
    let pods = prop::collection::vec(any_pod(), 1..14);
    let daemons = prop::collection::vec(select(vec!["", "size In large", "zone In z1", "rack In r1"]), 0..2);
    let options = (any::<bool>(), any::<bool>(), any::<bool>());
    (pools, types, nodes, pods, daemons, options).prop_map(
        |((a, b, both), (t1, t2, t3), nodes, pods, daemons, (respect, strict, provisioning))| {
            let mut cluster = empty();
            cluster.options = Options {
                preferences: if respect { Preferences::Respect } else { Preferences::Ignore },
                min_values: if strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort },
                reserved: if provisioning { Reserved::Strict } else { Reserved::Fallback },
                ..Options::default()
            };
            cluster.pool(a, vec![t1.clone(), t2.clone()]);
            if both {
                cluster.pool(b, vec![t2, t3]);
            }
            for asked in daemons {
                let daemon = pod().asks("cpu=300m").port(81);
                cluster.daemon(if asked.is_empty() { daemon } else { daemon.require(asked) });
            }
            for (index, (zone, cpu, tainted, bound)) in nodes.into_iter().enumerate() {
                let name = format!("u{index}");
                let labels = format!("zone={zone} rack=r{index} capacity=spot");
                let mut node = unmanaged(&name, &format!("cpu={cpu} memory=4Gi pods=6"), &labels);
                if tainted {
                    Arc::make_mut(node.node.as_mut().unwrap()).taints.push(taint("t=1:NoSchedule"));
                }
                node.volume_limits.insert(DRIVER.to_owned(), Some(2));
                cluster.node(node);
                for turn in 0..bound {
                    let shy = if turn == 0 { app() } else { pod().apart(near("zone", "tier=db")) };
                    cluster.bound(shy, &name);
                }
            }
            for pod in pods {
                cluster.add(pod);
            }
            cluster
        },
    )
}

pub(super) fn text(plan: &Plan) -> String {
    format!("{:#?} {:#?} {:#?} {:?} {:#?}", plan.placed, plan.claims, plan.unplaced, plan.untried, plan.devices)
}

/// The same things, listed the other way round.
pub(super) fn reversed(snapshot: &Snapshot) -> Snapshot {
    let mut other = snapshot.clone();
    other.pools.reverse();
    other.nodes.reverse();
    other.daemons.reverse();
    for offer in &mut other.pools {
        let types = Arc::make_mut(&mut offer.instance_types);
        types.reverse();
        for known in types {
            known.offerings.reverse();
        }
    }
    other
}

proptest! {
    /// SC-368, SC-369, SCH-247, SCH-248: three passes over a random cluster keep every rule and do not depend on the order of lists.
    #[test]
    fn sc_368_plans_are_valid_and_repeatable(mut cluster in any_cluster(), launched in 0..3_usize, more in prop::collection::vec(any_pod(), 0..6)) {
        cluster.launched = [Launched::ClaimOnly, Launched::InFlight, Launched::Initialized][launched];
        for turn in 0..3 {
            let snapshot = cluster.snapshot();
            let planned = plan(&snapshot, &cluster.rules, &cluster.options);
            prop_assert_eq!(violations(&snapshot, &cluster.rules, &planned), vec![]);
            let again = plan(&reversed(&snapshot), &cluster.rules, &cluster.options);
            prop_assert_eq!(text(&planned), text(&again));
            // SC-369: bit-identical with any number of threads.
            let workers = Options { workers: 8, ..cluster.options };
            prop_assert_eq!(text(&planned), text(&plan(&snapshot, &cluster.rules, &workers)));
            let plain = crate::plain::plan(&snapshot, &cluster.rules, &cluster.options);
            prop_assert_eq!(text(&planned), text(&plain));
            if cluster.options.reserved == Reserved::Fallback {
                // Such plans may promise what cannot be launched.
                break;
            }
            cluster.pass();
            if turn == 0 {
                for pod in &more {
                    cluster.add(pod.clone());
                }
            }
        }
    }
}
