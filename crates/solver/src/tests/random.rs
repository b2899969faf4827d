//! Random clusters: every plan is valid, and the order in which things are listed does not matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::devices::{
    Allocation, Consumer, CounterUse, Device, DeviceCapacity, DeviceFacts, DeviceRequest, GivenDevice, Reach, Slice,
    TemplatePool, TypeDevices, ValidAmounts,
};
use karpenter_model::instance_type::Price;
use karpenter_model::quantity::Quantity;
use karpenter_model::scheduling::{AffinityTerm, Namespaces, NodePolicy};
use karpenter_model::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::sample::select;

use super::build::{
    Pod, Pool, app, min_domains, near, pairs, pod, pool, selector, skew, soft, spread, taint, unmanaged,
};
use super::cluster::{Cluster, Launched, empty};
use super::fixtures::{Type, it, resources};
use crate::check::violations;
use crate::devices::tests::build::{
    World, any as all_of, asking, claim, device, exactly, first, id, in_zone, labelled, match_attribute, slice, zone,
};
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
    Spread {
        key: &'static str,
        max_skew: u32,
        hard: bool,
        least: Option<u32>,
        honors: bool,
    },
    Near(&'static str, &'static str, bool),
    Apart(&'static str, &'static str, bool),
    Port(u16),
    Volumes(usize),
    VolumeIn(&'static str),
    Label(&'static str),
    /// In another namespace.
    Namespace,
    /// A term about pods of other namespaces, listed or selected.
    Elsewhere {
        key: &'static str,
        label: &'static str,
        selected: bool,
        near: bool,
    },
    /// Resource claims, by number.
    Uses(Vec<usize>),
    /// A resource that only some offerings of a type have.
    Extra(i64),
    /// Tolerates a soft taint.
    TolerantOfSoft,
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
        "host In u0 u1",
        "pool In a",
        "zone In z1; rack NotIn r1",
    ]);
    let keys = || select(KEYS.to_vec());
    prop_oneof![
        select(ZONES.to_vec()).prop_map(Trait::Zone),
        terms.clone().prop_map(Trait::Requires),
        // A wish for the absence of a label that is also required makes the planner look for nodes without it, as in the
        // target (Q9); the checker would rightly object.
        (terms.prop_filter("Q9", |term| !term.contains("DoesNotExist") && !term.contains("rack NotIn")), 1..4_i32)
            .prop_map(|(term, weight)| Trait::Prefers(term, weight)),
        Just(Trait::Tolerates),
        (keys(), 1..3_u32, any::<bool>(), prop::option::of(1..4_u32), any::<bool>())
            .prop_map(|(key, max_skew, hard, least, honors)| Trait::Spread { key, max_skew, hard, least, honors }),
        (keys(), labels.clone(), any::<bool>()).prop_map(|(key, label, hard)| Trait::Near(key, label, hard)),
        (keys(), labels.clone(), any::<bool>()).prop_map(|(key, label, hard)| Trait::Apart(key, label, hard)),
        (80..83_u16).prop_map(Trait::Port),
        (0..6_usize).prop_map(Trait::Volumes),
        select(ZONES.to_vec()).prop_map(Trait::VolumeIn),
        labels.clone().prop_map(Trait::Label),
        Just(Trait::Namespace),
        (keys(), labels, any::<bool>(), any::<bool>()).prop_map(|(key, label, selected, near)| Trait::Elsewhere {
            key,
            label,
            selected,
            near
        }),
        prop::collection::vec(0..CLAIMS, 1..3).prop_map(Trait::Uses),
        prop::collection::vec(0..CLAIMS, 1..2).prop_map(Trait::Uses),
        (1..4_i64).prop_map(Trait::Extra),
        Just(Trait::TolerantOfSoft),
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
        Trait::Namespace => pod.namespace("other"),
        Trait::Elsewhere { key, label, selected, near: wanted } => {
            let namespaces = if *selected {
                Namespaces { selector: Some(selector("team=x")), ..Namespaces::default() }
            } else {
                Namespaces { listed: ["default".to_owned(), "other".to_owned()].into(), selector: None }
            };
            let term = AffinityTerm { namespaces, ..near(key, label) };
            if *wanted { pod.near(term) } else { pod.apart(term) }
        }
        Trait::Uses(claims) => {
            let names: Vec<String> = claims.iter().map(|claim| format!("c{claim}")).collect();
            pod.uses(&names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Trait::Extra(amount) => pod.asks(&format!("extra={amount}")),
        Trait::TolerantOfSoft => pod.tolerate("soft Exists"),
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
        "type In t1 t2 min=1",
        "capacity In reserved on-demand",
    ]);
    let limits = select(vec!["", "cpu=12", "nodes=3", "cpu=40", "extra=4"]);
    let taints = select(vec!["", "", "t=1:NoSchedule", "soft=1:PreferNoSchedule"]);
    (asks, limits, taints, 0..3_u32).prop_map(move |(asks, limits, tainted, weight)| {
        let pool = pool(name).weight(weight).require(asks).limits(limits);
        if tainted.is_empty() { pool } else { pool.taint(tainted) }
    })
}

fn any_type(name: &'static str, overrides: Overrides) -> impl Strategy<Value = Type> {
    let size = (1..12_i64, 1..6_i64, 1..3_u32);
    let overridden = prop::option::of((select(ZONES.to_vec()), 0..3_i64))
        .prop_map(move |one| one.filter(|_| overrides == Overrides::Some));
    // What an overlay makes of the price.
    let factor = select(vec![1.0, 1.0, 0.5, 3.0]);
    (size, 0..3_u32, any::<bool>(), any_type_devices(), overridden, factor).prop_map(
        move |((cpu, memory, attach), left, reserved, devices, overridden, factor)| {
            let mut known = it(name, &format!("cpu={cpu} memory={memory}Gi pods=8")).attaches(DRIVER, attach * 3);
            if reserved {
                known = known.reserved(&format!("r-{name}"), "z1", left, 0.001);
            }
            for offering in &mut known.0.offerings {
                offering.price = Price::new(offering.price.per_hour() * factor).unwrap();
                // Reservations are held whatever their offerings leave for pods (SCH-112), so such a claim might not be
                // launched; the checker would rightly object.
                let overridden = overridden.filter(|(zone, _)| !reserved && offering.zone() == Some(*zone));
                if let Some((zone, extra)) = overridden {
                    offering.overrides.capacity = resources(&format!("extra={extra}"));
                    if zone == "z2" {
                        offering.overrides.overhead = resources("cpu=500m");
                    }
                }
            }
            known.brings(devices)
        },
    )
}

const CLAIMS: usize = 6;

fn gpus(names: &[&str], attribute: i64) -> Vec<Device> {
    names.iter().map(|name| labelled(device(name), "numa", attribute)).collect()
}

/// A device that several claims may share.
fn shared(name: &str) -> Device {
    let capacity = DeviceCapacity {
        value: Quantity::units(10),
        default: Some(Quantity::units(3)),
        valid: ValidAmounts::Range { min: Quantity::units(2), max: None, step: Some(Quantity::units(2)) },
    };
    Device { shared: true, capacity: BTreeMap::from([("m".to_owned(), capacity)]), ..device(name) }
}

/// Devices that take from one budget.
fn parts(amounts: &[i64]) -> Vec<Device> {
    let part = |amount: &i64| {
        let counters = BTreeMap::from([("c".to_owned(), Quantity::units(*amount))]);
        Device { consumes: vec![CounterUse { set: "set".into(), counters }], ..device(&format!("p{amount}")) }
    };
    amounts.iter().map(part).collect()
}

fn budget() -> BTreeMap<String, BTreeMap<String, Quantity>> {
    BTreeMap::from([("set".to_owned(), BTreeMap::from([("c".to_owned(), Quantity::units(100))]))])
}

/// What nodes of a type will publish: nothing, whole devices, a shared one, or parts of one.
fn any_type_devices() -> impl Strategy<Value = TypeDevices> {
    (0..6_usize).prop_map(|which| {
        let own = |devices: Vec<Device>| TemplatePool {
            driver: "gpu.com".into(),
            pool: "own".into(),
            counters: if devices.iter().any(|one| !one.consumes.is_empty()) { budget() } else { BTreeMap::new() },
            devices,
        };
        let devices = match which {
            0 => vec![own(gpus(&["o0", "o1"], 0))],
            1 => vec![own([gpus(&["o0"], 0), gpus(&["o1"], 1)].concat())],
            2 => vec![own(vec![shared("s0")])],
            3 => vec![own(parts(&[40, 50, 60]))],
            _ => Vec::new(),
        };
        TypeDevices { pools: devices, bindings: Vec::new() }
    })
}

fn any_request() -> impl Strategy<Value = DeviceRequest> {
    prop_oneof![
        (1..3_u32).prop_map(|count| exactly("gpu", count)),
        (1..8_i64).prop_map(|amount| asking(exactly("gpu", 1), "m", Quantity::units(amount))),
        (2..4_u32).prop_map(|count| first("gpu", [("more", exactly("gpu", count)), ("one", exactly("gpu", 1))])),
        Just(all_of("gpu")),
    ]
}

/// Claims of both namespaces, and devices that are published for all, for a zone, or for a node.
fn any_devices() -> impl Strategy<Value = Option<DeviceFacts>> {
    let claims = prop::collection::vec((any_request(), any::<bool>(), 0..8_usize), CLAIMS);
    let slices = prop::collection::vec((0..4_usize, 0..4_usize), 0..3);
    (claims, slices, 0..5_usize).prop_map(|(claims, slices, off)| {
        let mut world = World::default();
        for (at, (reach, what)) in slices.into_iter().enumerate() {
            let devices = match what {
                0 => gpus(&["d0", "d1"], 0),
                1 => [gpus(&["d0"], 0), gpus(&["d1", "d2"], 1)].concat(),
                2 => vec![shared("s0")],
                _ => parts(&[40, 50, 60]),
            };
            let reach = match reach {
                0 => Reach::AllNodes,
                1 => in_zone(&["z1"]),
                2 => in_zone(&["z2", "z3"]),
                _ => Reach::Node("u0".into()),
            };
            let pool = format!("pool{at}");
            let parts = if what == 3 { 2 } else { 1 };
            let part = Slice { pool: pool.clone(), devices, reach, parts, ..slice("gpu.com", &[]) };
            world = world.slice(part);
            if what == 3 {
                world =
                    world.slice(Slice { name: "b".into(), pool, parts, counters: budget(), ..slice("gpu.com", &[]) });
            }
        }
        for (at, (request, alike, held)) in claims.into_iter().enumerate() {
            for namespace in ["default", "other"] {
                let mut one = claim(&format!("c{at}"), [request.clone()]);
                one.id.namespace = namespace.into();
                if alike {
                    one.constraints = vec![match_attribute(&[], "gpu.com/numa")];
                }
                // Somebody has a device that is not free any more.
                if held == 0 && namespace == "other" {
                    let id = id("gpu.com", "pool0", "d0");
                    one.allocation = Some(Allocation {
                        devices: vec![GivenDevice { id, consumed: BTreeMap::new() }],
                        terms: vec![zone("z1 z2")],
                        reserved_for: vec![Consumer::Pod { uid: "gone".into() }],
                    });
                }
                world = world.claims([one]);
            }
        }
        (off > 0).then(|| world.facts())
    })
}

/// Whether offerings of one type may differ in what they leave for pods. What a claim costs is the price of its cheapest offering,
/// also of one that does not hold its pods (SCH-117), so bounds are not compared with such costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overrides {
    None,
    Some,
}

pub(super) fn any_cluster(overrides: Overrides) -> impl Strategy<Value = Cluster> {
    let pools = (any_pool("a"), any_pool("b"), any::<bool>());
    let types = (any_type("t1", overrides), any_type("t2", overrides), any_type("t3", overrides));
    let nodes = prop::collection::vec((select(ZONES.to_vec()), 1..8_i64, 0..6_usize, 0..4_usize), 0..4);
    let pods = prop::collection::vec(any_pod(), 1..14);
    let daemons = prop::collection::vec(select(vec!["", "size In large", "zone In z1", "rack In r1"]), 0..2);
    let options = (any::<bool>(), any::<bool>(), 0..5_usize);
    (pools, types, nodes, pods, daemons, options, any_devices()).prop_map(
        |((a, b, both), (t1, t2, t3), nodes, pods, daemons, (respect, strict, reserved), devices)| {
            let mut cluster = empty();
            cluster.options = Options {
                preferences: if respect { Preferences::Respect } else { Preferences::Ignore },
                min_values: if strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort },
                reserved: match reserved {
                    0 | 1 => Reserved::Strict,
                    2 | 3 => Reserved::Fallback,
                    _ => Reserved::Untracked,
                },
                ..Options::default()
            };
            cluster.devices = devices.map(Arc::new);
            cluster.namespaces =
                BTreeMap::from([("default".to_owned(), pairs("team=x")), ("other".to_owned(), pairs("team=y"))]);
            cluster.pool(a, vec![t1.clone(), t2.clone()]);
            if both {
                cluster.pool(b, vec![t2, t3]);
            }
            for asked in daemons {
                let daemon = pod().asks("cpu=300m").port(81);
                cluster.daemon(if asked.is_empty() { daemon } else { daemon.require(asked) });
            }
            for (index, (zone, cpu, state, bound)) in nodes.into_iter().enumerate() {
                let name = format!("u{index}");
                let labels = format!("zone={zone} rack=r{index} capacity=spot");
                let mut node = unmanaged(&name, &format!("cpu={cpu} memory=4Gi pods=6"), &labels);
                let view = Arc::make_mut(node.node.as_mut().unwrap());
                match state {
                    0 => view.taints.push(taint("t=1:NoSchedule")),
                    1 => view.taints.push(taint("soft=1:PreferNoSchedule")),
                    2 => view.deleting_since = Some(Timestamp::UNIX_EPOCH),
                    3 => node.unsettled = true,
                    _ => {}
                }
                node.volume_limits.insert(DRIVER.to_owned(), Some(2));
                cluster.node(node);
                for turn in 0..bound {
                    let shy = match turn {
                        0 => app(),
                        1 => pod().apart(near("zone", "tier=db")),
                        _ => app().namespace("other").asks("cpu=100m"),
                    };
                    let id = cluster.bound(shy, &name);
                    // What a node that is going has to get rid of is planned anew.
                    if state == 2 && turn != 1 {
                        let moving = cluster.nodes.iter().flat_map(|node| &node.pods).find(|pod| pod.id == id);
                        let moving = moving.cloned().unwrap();
                        cluster.pending.insert(id, moving);
                    }
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
    if let Some(devices) = &mut other.devices {
        let DeviceFacts { slices, classes, claims } = Arc::make_mut(devices);
        slices.reverse();
        classes.reverse();
        claims.reverse();
    }
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
    fn sc_368_plans_are_valid_and_repeatable(mut cluster in any_cluster(Overrides::Some), launched in 0..3_usize, more in prop::collection::vec(any_pod(), 0..6)) {
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
            if cluster.options.reserved != Reserved::Strict {
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
