//! The checker finds what it is there for: plans that were valid, then broken in one way each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::devices::{
    Allocation, CounterUse, Device, DeviceCapacity, DeviceFacts, DeviceId, GivenDevice, Reach, ResourceClaim, Slice,
    ValidAmounts,
};
use karpenter_model::pod::PodView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirement;
use karpenter_model::scheduling::{AffinityTerm, Namespaces};
use karpenter_model::snapshot::Snapshot;

use super::build::{Pod, app, near, pod, pool, skew, spread, taint, unmanaged};
use super::cluster::{Cluster, with};
use super::fixtures::{RESERVATION, f1, it, resources};
use crate::check::{Rule, violations};
use crate::devices::Taken;
use crate::devices::tests::build::{World, asking, claim, device, exactly, labelled, match_attribute, slice};
use crate::{Placement, Plan};

/// What the checker says once the cluster, not the plan, has changed.
fn after(cluster: &Cluster, change: impl Fn(&mut Snapshot, &mut Plan)) -> Vec<Rule> {
    let (mut snapshot, mut plan) = (cluster.snapshot(), cluster.plan());
    assert_eq!(plan.unplaced.len(), 0);
    change(&mut snapshot, &mut plan);
    let mut rules: Vec<Rule> = violations(&snapshot, &cluster.rules, &plan).into_iter().map(|one| one.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

/// One waiting pod, before and after; `late` replaces it once the plan is made.
fn late(mut cluster: Cluster, before: Pod, late: impl Fn(Pod) -> Pod) -> Vec<Rule> {
    let id = cluster.add(before);
    after(&cluster, |snapshot, _| edit(snapshot, &id, &late))
}

fn edit(snapshot: &mut Snapshot, id: &karpenter_model::pod::PodId, change: impl Fn(Pod) -> Pod) {
    let known: &mut Arc<PodView> = snapshot.pending.get_mut(id).unwrap();
    *known = Arc::new(change(Pod(PodView::clone(known))).0);
}

fn plain() -> Cluster {
    with(pool("p"), f1())
}

/// A node with a pod on it.
fn with_neighbour(neighbour: Pod) -> Cluster {
    let mut cluster = plain();
    cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=5", "zone=z1 rack=r1"));
    cluster.bound(neighbour, "u");
    cluster
}

#[test]
fn pods_that_changed_their_minds() {
    let limited = || with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5").attaches("d", 1)]);
    for (name, found, want) in [
        ("nothing", late(plain(), pod(), |pod| pod), vec![]),
        (
            "requirement",
            late(plain(), pod().select("zone", "z1"), |pod| pod.require("zone In z2")),
            vec![Rule::Requirements],
        ),
        ("node selector", late(with_neighbour(pod()), pod(), |pod| pod.select("rack", "r2")), vec![Rule::Requirements]),
        (
            "volume",
            late(plain(), pod().select("zone", "z1"), |pod| pod.volumes_in(&["zone In z2"])),
            vec![Rule::Volumes],
        ),
        ("resources", late(plain(), pod(), |pod| pod.asks("cpu=3")), vec![Rule::Resources]),
        ("resources of a node", late(with_neighbour(pod()), pod(), |pod| pod.asks("cpu=5")), vec![Rule::Resources]),
        ("port", late(with_neighbour(pod().port(80)), pod(), |pod| pod.port(80)), vec![Rule::HostPorts]),
        ("attachments", late(limited(), pod(), |pod| pod.mounts("d", &["a", "b"])), vec![Rule::Attachments]),
        (
            "affinity",
            late(with_neighbour(pod()), pod(), |pod| pod.near(near("zone", "app=test"))),
            vec![Rule::Affinity],
        ),
        (
            "anti-affinity",
            late(with_neighbour(app()), pod(), |pod| pod.apart(near("rack", "app=test"))),
            vec![Rule::AntiAffinity],
        ),
        (
            "anti-affinity of another",
            late(with_neighbour(pod().apart(near("zone", "app=test"))), pod(), |pod| pod.label("app=test")),
            vec![Rule::AntiAffinity],
        ),
        ("spread", late(with_neighbour(app()), app(), |pod| pod.spread(skew(1, spread("zone")))), vec![Rule::Spread]),
        ("spread of hosts", late(with_neighbour(app()), app(), |pod| pod.spread(spread("host"))), vec![Rule::Spread]),
    ] {
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn plans_that_were_tampered_with() {
    let cluster = || {
        let mut cluster = plain();
        cluster.add(pod().asks("cpu=1"));
        cluster
    };
    let pool_with = |change: fn(&mut karpenter_model::pool::PoolView)| {
        after(&cluster(), |snapshot, plan| {
            change(Arc::make_mut(&mut snapshot.pools[0].pool));
            change(Arc::make_mut(&mut plan.claims[0].pool));
        })
    };
    let claim_with = |change: fn(&mut crate::PlannedClaim)| after(&cluster(), |_, plan| change(&mut plan.claims[0]));
    for (name, found, want) in [
        ("taint", pool_with(|pool| pool.taints.push(taint("a=b:NoSchedule"))), vec![Rule::Taints]),
        ("limit", pool_with(|pool| pool.limits = resources("cpu=3")), vec![Rule::Limits]),
        ("nodes", pool_with(|pool| pool.limits = resources("nodes=0")), vec![Rule::Limits]),
        (
            "unknown type",
            claim_with(|claim| claim.instance_types.change(|names| names.push("?".into()))),
            vec![Rule::InstanceTypes],
        ),
        (
            "minimum",
            claim_with(|claim| {
                let mut zone = Requirement::any_of("topology.kubernetes.io/zone", ["z1", "z2"]);
                zone.set_min_values(Some(3));
                claim.requirements.change(|requirements| requirements.replace(zone));
            }),
            vec![Rule::MinValues],
        ),
        ("vanished", after(&cluster(), |_, plan| plan.placed.clear()), vec![Rule::Accounting]),
        (
            "nowhere",
            after(&cluster(), |_, plan| plan.placed.values_mut().for_each(|at| *at = Placement::Existing("?".into()))),
            vec![Rule::Accounting],
        ),
    ] {
        assert_eq!(found, want, "{name}");
    }
    let mut reserved = with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5").reserved("r", "z1", 1, 0.1)]);
    reserved.add(pod());
    let held_twice = |_: &mut Snapshot, plan: &mut Plan| {
        assert!(plan.claims[0].requirements.has_key(RESERVATION));
        let copy = plan.claims[0].clone();
        plan.claims.push(crate::PlannedClaim { pods: crate::PodList::default(), ..copy });
    };
    assert_eq!(after(&reserved, held_twice), [Rule::Reservations]);
}

fn node(snapshot: &mut Snapshot) -> &mut karpenter_model::node::NodeView {
    Arc::make_mut(snapshot.nodes[0].node.as_mut().unwrap())
}

fn daemon(snapshot: &mut Snapshot, pod: Pod) {
    let mut pod = pod.daemon().0;
    pod.id.name = "daemon".into();
    snapshot.daemons.push(Arc::new(pod));
}

fn all(snapshot: &mut Snapshot, change: fn(Pod) -> Pod) {
    let ids: Vec<_> = snapshot.pending.keys().cloned().collect();
    for id in &ids {
        edit(snapshot, id, change);
    }
}

fn elsewhere(term: AffinityTerm) -> AffinityTerm {
    let selector = Some(super::build::selector("team=x"));
    AffinityTerm { namespaces: Namespaces { listed: BTreeSet::default(), selector }, ..term }
}

fn facts(snapshot: &mut Snapshot) -> &mut DeviceFacts {
    Arc::make_mut(snapshot.devices.as_mut().unwrap())
}

fn slice_of<'a>(snapshot: &'a mut Snapshot, driver: &str) -> &'a mut Slice {
    let slices = &mut facts(snapshot).slices;
    Arc::make_mut(slices.iter_mut().find(|slice| slice.driver == driver && slice.name == "s").unwrap())
}

/// Nodes, DaemonSets and neighbours that changed once the plan was made.
#[test]
fn clusters_that_changed() {
    let on_node = |pod: Pod, change: fn(&mut Snapshot)| {
        let mut cluster = with_neighbour(super::build::pod());
        cluster.add(pod);
        after(&cluster, |snapshot, plan| {
            assert!(plan.placed.values().all(|at| *at == Placement::Existing("u".into())));
            change(snapshot);
        })
    };
    let on_claim = |pods: Vec<Pod>, change: fn(&mut Snapshot)| {
        let mut cluster = plain();
        for pod in pods {
            cluster.add(pod);
        }
        after(&cluster, |snapshot, _| change(snapshot))
    };
    for (name, found, want) in [
        ("taint", on_node(pod(), |all| node(all).taints.push(taint("a=b:NoSchedule"))), vec![Rule::Taints]),
        ("going", on_node(pod(), |all| node(all).deleting_since = Some(Timestamp::UNIX_EPOCH)), vec![Rule::Accounting]),
        (
            "label",
            on_node(pod().select("rack", "r1"), |all| drop(node(all).labels.remove("rack"))),
            vec![Rule::Requirements],
        ),
        (
            "shrunk",
            on_node(pod().asks("cpu=1"), |all| node(all).allocatable = resources("pods=5").into()),
            vec![Rule::Resources],
        ),
        (
            "attachments",
            on_node(pod().mounts("d", &["a"]), |all| all.nodes[0].volume_limits.extend([("d".into(), Some(0))])),
            vec![Rule::Attachments],
        ),
        (
            "daemon on a node",
            on_node(pod().asks("cpu=1"), |all| daemon(all, pod().asks("cpu=4"))),
            vec![Rule::Resources],
        ),
        ("daemon", on_claim(vec![pod().asks("cpu=1")], |all| daemon(all, pod().asks("cpu=16"))), vec![Rule::Resources]),
        (
            "port of a daemon",
            on_claim(vec![pod().port(80).require("type In std")], |all| daemon(all, pod().port(80))),
            vec![Rule::HostPorts],
        ),
        (
            "ports of two",
            on_claim(vec![pod(), pod()], |snapshot| all(snapshot, |pod| pod.port(80))),
            vec![Rule::HostPorts],
        ),
        (
            "apart from each other",
            on_claim(vec![app(), app()], |snapshot| all(snapshot, |pod| pod.apart(near("host", "app=test")))),
            vec![Rule::AntiAffinity],
        ),
        (
            "spread over hosts",
            on_claim(vec![app(), app()], |snapshot| all(snapshot, |pod| pod.spread(spread("host")))),
            vec![Rule::Spread],
        ),
        (
            "near nobody of that namespace",
            on_node(pod(), |snapshot| {
                snapshot.namespaces.insert("other".into(), super::build::pairs("team=x"));
                all(snapshot, |pod| pod.near(elsewhere(near("zone", ""))));
            }),
            vec![Rule::Affinity],
        ),
        (
            "apart from a namespace",
            on_node(pod(), |snapshot| {
                snapshot.namespaces.insert("default".into(), super::build::pairs("team=x"));
                all(snapshot, |pod| pod.apart(elsewhere(near("zone", ""))));
            }),
            vec![Rule::AntiAffinity],
        ),
        (
            "type",
            on_claim(vec![pod()], |all| types(all)[0].requirements.replace(Requirement::any_of("zone", ["far"]))),
            vec![],
        ),
        (
            "type of another kind",
            on_claim(vec![pod().select("arch", "amd64")], |all| {
                for known in types(all) {
                    known.requirements.replace(Requirement::any_of("kubernetes.io/arch", ["riscv"]));
                }
            }),
            vec![Rule::InstanceTypes],
        ),
    ] {
        assert_eq!(found, want, "{name}");
    }
}

fn types(snapshot: &mut Snapshot) -> &mut Vec<karpenter_model::instance_type::InstanceType> {
    Arc::make_mut(&mut snapshot.pools[0].instance_types)
}

/// One pod twice, somebody nobody knows, and somebody who is said to have failed as well.
#[test]
fn pods_that_are_counted_wrong() {
    let mut cluster = plain();
    cluster.add(pod());
    let twice = |_: &mut Snapshot, plan: &mut Plan| {
        let copy = plan.claims[0].clone();
        plan.claims.push(copy);
    };
    let stranger = |_: &mut Snapshot, plan: &mut Plan| {
        let stranger = Arc::new(karpenter_model::example::pod("?"));
        plan.claims[0].pods = crate::places::PodList::new(&Arc::new(vec![stranger]), vec![0]);
    };
    let failed = |_: &mut Snapshot, plan: &mut Plan| {
        let pod = plan.placed.keys().next().unwrap().clone();
        plan.unplaced.push(crate::Unplaced { pod, reasons: vec![] });
    };
    assert_eq!(after(&cluster, twice), [Rule::Accounting]);
    assert_eq!(after(&cluster, stranger), [Rule::Accounting]);
    assert_eq!(after(&cluster, failed), [Rule::Accounting]);
}

/// Devices: given twice, too few, of another kind, out of reach, more than there is.
#[test]
fn devices_that_were_tampered_with() {
    let gi = |amount: i64| Quantity::bytes(amount << 30);
    let counters = |amount: i64| {
        let budget = BTreeMap::from([("memory".to_owned(), gi(amount))]);
        BTreeMap::from([("set".to_owned(), budget)])
    };
    let part = |name: &str| {
        let consumes = CounterUse { set: "set".into(), counters: counters(40)["set"].clone() };
        Device { consumes: vec![consumes], ..device(name) }
    };
    let shared = || {
        let capacity = DeviceCapacity { value: gi(16), default: None, valid: ValidAmounts::Any };
        let capacity = BTreeMap::from([("memory".to_owned(), capacity)]);
        Device { shared: true, capacity, ..device("shared") }
    };
    let world = || {
        let parts = Slice { devices: vec![part("p0"), part("p1")], parts: 2, ..slice("part.com", &[]) };
        let budget = Slice { name: "budget".into(), counters: counters(80), parts: 2, ..slice("part.com", &[]) };
        let numa = |name: &str, numa| labelled(device(name), "numa", numa);
        let numas = Slice { devices: vec![numa("n0", 0), numa("n1", 0), numa("n2", 1)], ..slice("numa.com", &[]) };
        let mut two = claim("numa", [exactly("numa", 2)]);
        two.constraints = vec![match_attribute(&[], "numa.com/numa")];
        World::default()
            .class("part", "part.com")
            .class("shared", "shared.com")
            .class("numa", "numa.com")
            .slice(slice("gpu.com", &["d0", "d1"]))
            .slice(Slice { devices: vec![shared()], ..slice("shared.com", &[]) })
            .slice(parts)
            .slice(budget)
            .slice(numas)
            .claims([two, claim("one", [exactly("gpu", 1)]), claim("other", [exactly("gpu", 1)])])
            .claims(["s0", "s1"].map(|name| claim(name, [asking(exactly("shared", 1), "memory", gi(8))])))
            .claims(["p0", "p1"].map(|name| claim(name, [exactly("part", 1)])))
    };
    let pods = |claims: &[&str]| {
        let mut cluster = plain();
        cluster.devices = Some(Arc::new(world().facts()));
        for claim in claims {
            cluster.add(pod().uses(&[claim]).alone());
        }
        cluster
    };
    let given = |plan: &mut Plan, change: fn(&mut Vec<Taken>)| {
        plan.claims.iter_mut().flat_map(|claim| claim.devices.values_mut()).for_each(change);
    };
    let found: Vec<(&str, Vec<Rule>)> = vec![
        (
            "given twice",
            after(&pods(&["one", "other"]), |_, plan| given(plan, |taken| taken[0].device.device = "d0".into())),
        ),
        ("too few", after(&pods(&["numa"]), |_, plan| given(plan, |taken| drop(taken.pop())))),
        ("nothing", after(&pods(&["one"]), |_, plan| plan.claims[0].devices.clear())),
        ("nothing on a type", after(&pods(&["one"]), |_, plan| drop(plan.claims[0].devices.pop_first()))),
        ("no such device", after(&pods(&["one"]), |_, plan| given(plan, |taken| taken[0].device.device = "?".into()))),
        ("not of its own", after(&pods(&["one"]), |_, plan| given(plan, |taken| taken[0].own = true))),
        ("of another request", after(&pods(&["one"]), |_, plan| given(plan, |taken| taken[0].request = "?".into()))),
        (
            "of another driver",
            after(&pods(&["one"]), |_, plan| {
                given(plan, |taken| {
                    taken[0].device = DeviceId { driver: "numa.com".into(), pool: "pool".into(), device: "n0".into() };
                });
            }),
        ),
        ("that differ", after(&pods(&["numa"]), |_, plan| given(plan, |taken| taken[1].device.device = "n2".into()))),
        ("out of reach", after(&pods(&["one"]), |all, _| slice_of(all, "gpu.com").reach = Reach::Node("x".into()))),
        ("of an older pool", after(&pods(&["one"]), |all, _| slice_of(all, "gpu.com").parts = 2)),
        (
            "overdrawn",
            after(&pods(&["s0", "s1"]), |all, _| {
                let device = &mut slice_of(all, "shared.com").devices[0];
                device.capacity.get_mut("memory").unwrap().value = Quantity::bytes(15 << 30);
            }),
        ),
        (
            "counters",
            after(&pods(&["p0", "p1"]), |all, _| {
                slice_of(all, "part.com").devices[1].consumes[0].counters.insert("memory".into(), gi(41));
            }),
        ),
        (
            "somebody has it",
            after(&pods(&["one"]), |all, plan| {
                let devices = plan.claims[0].devices.values().next().unwrap();
                let devices = vec![GivenDevice { id: devices[0].device.clone(), consumed: BTreeMap::default() }];
                let holder = ResourceClaim {
                    allocation: Some(Allocation { devices, ..Allocation::default() }),
                    ..claim("holder", [exactly("gpu", 1)])
                };
                facts(all).claims.push(Arc::new(holder));
            }),
        ),
        ("no claim", after(&pods(&["one"]), |all, _| facts(all).claims.retain(|claim| claim.id.name != "one"))),
        ("nobody looks", after(&pods(&["one"]), |all, _| all.devices = None)),
    ];
    assert_eq!(after(&pods(&["one", "other", "numa", "s0", "s1", "p0", "p1"]), |_, _| {}), [], "as planned");
    for (name, found) in found {
        assert_eq!(found, [Rule::Devices], "{name}");
    }
}

/// The same for the planner that looks for cheaper plans.
fn after_best(cluster: &Cluster, change: impl Fn(&mut Plan)) -> Vec<Rule> {
    let snapshot = cluster.snapshot();
    let options = crate::Options { planner: crate::Planner::Best, ..cluster.options };
    let mut plan = crate::plan(&snapshot, &cluster.rules, &options);
    change(&mut plan);
    let mut rules: Vec<Rule> = violations(&snapshot, &cluster.rules, &plan).into_iter().map(|one| one.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[test]
fn figures_that_were_tampered_with() {
    let cluster = |asks: &str, count: usize| {
        let mut cluster = plain();
        cluster.add_all(count, &pod().asks(asks));
        cluster
    };
    let bound = |plan: &mut Plan, change: fn(&mut crate::Bound)| change(plan.bound.as_mut().unwrap());
    for cluster in [cluster("cpu=900m memory=200Mi", 40), cluster("cpu=2", 9)] {
        for (name, found, want) in [
            ("nothing", after_best(&cluster, |_| {}), vec![]),
            (
                "price",
                after_best(&cluster, |plan| plan.claims[0].price = karpenter_model::instance_type::Price::ZERO),
                vec![Rule::Price],
            ),
            (
                "order",
                after_best(&cluster, |plan| plan.claims[0].instance_types.change(|names| names.reverse())),
                vec![Rule::Price],
            ),
            ("bound", after_best(&cluster, |plan| bound(plan, |bound| bound.per_hour *= 1.01)), vec![Rule::Bound]),
            (
                "worth",
                after_best(&cluster, |plan| {
                    bound(plan, |bound| {
                        bound.worths[0].per_hour *= 1.1;
                        bound.per_hour *= 1.1;
                    });
                }),
                vec![Rule::Bound],
            ),
            (
                "counted twice",
                after_best(&cluster, |plan| bound(plan, |bound| bound.worths.push(bound.worths[0].clone()))),
                vec![Rule::Bound],
            ),
            (
                "worth of nobody",
                after_best(&cluster, |plan| bound(plan, |bound| bound.worths[0].pods[0].name = "?".into())),
                vec![Rule::Bound],
            ),
        ] {
            assert_eq!(found, want, "{name}");
        }
    }
}

/// SCH-84.
#[test]
fn pools_that_changed_their_weight() {
    let mut cluster = plain();
    cluster.pool(pool("z"), f1());
    cluster.add(pod());
    let lighter = |snapshot: &mut Snapshot, plan: &mut Plan| {
        assert_eq!(plan.claims[0].pool.name, "z");
        let index = snapshot.pools.iter().position(|offer| offer.pool.name == "p").unwrap();
        let heavier = Arc::make_mut(&mut snapshot.pools[index].pool);
        heavier.weight = 5;
        heavier.limits = resources("");
    };
    assert_eq!(after(&cluster, lighter), [Rule::Weights]);
}
