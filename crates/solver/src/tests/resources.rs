//! What fits where (SC-98 … SC-112, SC-130 … SC-133).

use std::sync::Arc;

use karpenter_model::instance_type::{Overhead, Overrides};
use karpenter_model::resources::Resources;

use super::build::{pod, pool};
use super::cluster::{cluster, with};
use super::fixtures::{Type, f2, it, offering, resources};

/// SC-98, SC-99: the effective requests (SCH-60) of the pods in the cases, whose parts are summed elsewhere.
#[test]
fn sc_098_099_effective_requests_choose_the_type() {
    for (id, asks, want) in [
        ("SC-98 6+4.9 against init 10", "cpu=10.9 memory=4.9Gi", "t11"),
        ("SC-98 sidecar first, init 5+4.9 against 6+4.9", "cpu=10.9 memory=4.9Gi", "t11"),
        ("SC-98 sidecar first, init 6+4.9 against 5+4.9", "cpu=10.9 memory=4.9Gi", "t11"),
        ("SC-99 pod-level", "cpu=9.9 memory=3.9Gi", "t10"),
    ] {
        let sizes = [(10, 4), (11, 5), (12, 6)];
        let types = sizes.map(|(cpu, memory)| it(&format!("t{cpu}"), &format!("cpu={cpu} memory={memory}Gi pods=5")));
        assert_eq!(with(pool("p"), types.to_vec()).one_label("type", pod().asks(asks)), want, "{id}");
    }
}

fn slotted() -> Type {
    let base = [offering("z1", "on-demand", 1.0), offering("z2", "on-demand", 1.0)];
    let mut slots = base.clone();
    for one in &mut slots {
        one.overrides = Overrides { capacity: resources("slots=12"), overhead: resources("memory=3Gi") };
    }
    let mut known = it("x", "cpu=4 memory=16Gi pods=5").offerings(base.into_iter().chain(slots).collect());
    known.0.overhead = Overhead { system_reserved: resources("cpu=100m memory=1Gi"), ..Overhead::default() };
    known
}

/// SC-102, SCH-69, V15-101.
#[test]
fn sc_102_groups_of_offerings() {
    let known = slotted();
    let groups = known.0.allocatable_groups();
    let shown: Vec<(String, usize)> =
        groups.iter().map(|group| (group.allocatable.to_string(), group.offerings.len())).collect();
    assert_eq!(
        shown,
        [
            ("cpu: 3900m, memory: 15Gi, pods: 5".to_owned(), 2),
            ("cpu: 3900m, memory: 13Gi, pods: 5, slots: 12".to_owned(), 2)
        ]
    );
}

/// SC-103.
#[test]
fn sc_103_a_resource_that_only_some_offerings_have() {
    let other = it("y", "cpu=4 memory=16Gi pods=5");
    let mut cluster = with(pool("p"), vec![slotted(), other.clone()]);
    assert!(cluster.one(pod().asks("slots=1")).is_some());
    assert_eq!(*cluster.last.claims[0].instance_types, ["x"]);
    let mut known = slotted();
    known.0.offerings.iter_mut().filter(|one| !one.overrides.capacity.is_empty()).for_each(|one| one.available = false);
    assert!(with(pool("p"), vec![known, other]).one(pod().asks("slots=1")).is_none());
}

/// SC-104, SC-105, SC-106, SC-110.
#[test]
fn sc_104_to_106_and_110_one_pod() {
    for (id, asks, want) in [
        ("SC-104 overhead", "cpu=3", "std"),
        ("SC-105 cpu", "cpu=512", "none"),
        ("SC-105 memory", "memory=2Ti", "none"),
        ("SC-105 none of something unknown", "foo=0", "small"),
        ("SC-106", "memory=100M", "small"),
        ("SC-106", "memory=2000M", "small"),
        ("SC-110 the init container asks for more", "cpu=2", "std"),
        ("SC-110 init", "memory=1Ti", "none"),
    ] {
        assert_eq!(cluster().one_label("type", pod().asks(asks)), want, "{id}");
    }
}

/// SC-106, SC-107, SC-108: pods, nodes, and their type.
#[test]
fn sc_106_to_108_packing() {
    let amd = || pod().select("arch", "amd64");
    let mut five = cluster();
    let ids = five.run_n(5, &pod().asks("memory=10M"));
    assert_eq!((five.hosts(&ids), five.label("type", &ids[0]).as_str()), (1, "small"), "SC-106");
    let mut many = cluster();
    let ids = many.run_n(25, &amd().asks("cpu=1m"));
    assert_eq!((many.hosts(&ids), many.placed(&ids)), (5, 25), "SC-107");
    assert!(ids.iter().all(|id| many.label("type", id) == "small"), "SC-107");
    for small in [0, 20] {
        let mut large = cluster();
        large.add_all(40, &amd().asks("memory=1.8G"));
        large.add_all(small, &amd().asks("memory=400M"));
        large.pass();
        assert_eq!((large.nodes.len(), large.pending.len()), (20, 0), "SC-108 with {small}");
        assert!(large.nodes.iter().all(|node| node.labels()["node.kubernetes.io/instance-type"] == "std"), "SC-108");
    }
}

/// SC-109.
#[test]
fn sc_109_a_large_and_a_small_pod() {
    let mut cluster = with(pool("p"), f2(5));
    let ids = cluster.run([pod().asks("cpu=4.5"), pod().asks("cpu=1")]);
    assert_eq!(cluster.hosts(&ids), 2);
    assert_ne!(cluster.label("type", &ids[0]), cluster.label("type", &ids[1]));
}

/// SC-111.
#[test]
fn sc_111_the_cheapest_need_not_be_the_smallest() {
    let sized = |name: &str, cpus: u32, price| it(name, &format!("cpu={cpus} memory=1Gi pods=5")).price(price);
    let mut cluster = with(pool("p"), vec![sized("medium", 2, 3.0), sized("small", 1, 2.0), sized("large", 4, 1.0)]);
    assert_eq!(cluster.one_label("type", pod().asks("cpu=1m memory=1Mi")), "large");
    assert_eq!(*cluster.last.claims[0].instance_types, ["large", "small", "medium"]);
}

/// SC-112.
#[test]
fn sc_112_accelerators_of_different_types() {
    let fresh = || {
        let mut types = f2(5);
        for (index, name) in [(0, "gpu1"), (1, "gpu2")] {
            types[index].0.capacity.set(name, "25".parse().unwrap());
        }
        with(pool("p"), types)
    };
    let mut one_each = fresh();
    let ids = one_each.run([pod().asks("gpu1=1"), pod().asks("gpu2=1")]);
    assert_eq!(one_each.hosts(&ids), 2);
    assert!(fresh().one(pod().asks("gpu1=1 gpu2=1")).is_none());
}

/// SCH-116, SC-130.
#[test]
fn sc_130_requests_include_daemons() {
    for (pods, want) in [(1, "cpu: 2, memory: 2Mi, pods: 2"), (2, "cpu: 3, memory: 3Mi, pods: 3")] {
        let mut cluster = with(pool("p"), vec![it("t", "cpu=8 memory=8Gi pods=10")]);
        cluster.daemon(pod().asks("cpu=1 memory=1Mi"));
        cluster.run_n(pods, &pod().asks("cpu=1 memory=1Mi"));
        assert_eq!(cluster.last.claims[0].requests.to_string(), want);
    }
}

/// SC-131.
#[test]
fn sc_131_requests_are_those_of_the_pods() {
    let mut cluster = cluster();
    cluster.run([pod().asks("cpu=1 memory=1Mi vendor-a=1")]);
    assert_eq!(cluster.last.claims[0].requests.to_string(), "cpu: 1, memory: 1Mi, pods: 1, vendor-a: 1");
}

/// SC-132, SCH-83.
#[test]
fn sc_132_what_a_starting_node_does_not_report_yet() {
    let mut cluster = cluster();
    let first = cluster.run([pod().asks("vendor-a=1")]).remove(0);
    cluster.edit_nodes(|node| {
        for amounts in [&mut node.capacity, &mut node.allocatable] {
            amounts.set("vendor-a", "0".parse().unwrap());
        }
    });
    let second = cluster.run([pod().asks("vendor-a=1")]).remove(0);
    assert_eq!(cluster.hosts(&[first, second]), 1);
    cluster.initialize();
    assert_eq!(cluster.nodes[0].allocatable().amount("vendor-a"), "0".parse().unwrap());
}

/// SC-133.
#[test]
fn sc_133_types_stay_as_they_are() {
    let mut cluster = cluster();
    let before = cluster.pools[0].1.clone();
    cluster.daemon(pod().asks("cpu=1"));
    cluster.run_n(20, &pod().asks("cpu=0.5"));
    assert_eq!(*before, *cluster.pools[0].1);
    assert!(Arc::strong_count(&before) > 1);
    assert_ne!(Resources::new(), before[0].capacity);
}
