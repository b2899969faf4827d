//! How many values stay possible (SC-59 … SC-70, SC-337, SC-338, VC-100).

use super::build::{Pod, Pool, pod, pool};
use super::cluster::{Cluster, with};
use super::fixtures::{Type, it};
use crate::{MinValuesPolicy, Refusal};

/// Type, CPUs, and what else it is.
fn sized(name: &str, cpus: u32) -> Type {
    it(name, &format!("cpu={cpus} memory={cpus}Gi pods=10"))
}

fn pods() -> [Pod; 2] {
    [(); 2].map(|()| pod().asks("cpu=0.9 memory=0.9Gi"))
}

fn best_effort(mut cluster: Cluster) -> Cluster {
    cluster.options.min_values = MinValuesPolicy::BestEffort;
    cluster
}

/// Two small pods: how many nodes they get and how many types the claims name.
fn two_pods(pool: Pool, types: Vec<Type>) -> (usize, Vec<usize>) {
    let mut cluster = with(pool, types);
    let ids = cluster.run([(); 2].map(|()| pod().asks("cpu=0.9")));
    (cluster.hosts(&ids), cluster.last.claims.iter().map(|claim| claim.instance_types.len()).collect())
}

/// SCH-47, SC-59.
#[test]
fn sc_059_a_full_small_type_keeps_the_next_pod_out() {
    let mut cluster = with(pool("p").require("type In t1 t2 min=2"), vec![sized("t1", 1), sized("t2", 4)]);
    // 0.9Gi fits 1Gi less 10Mi.
    let ids = cluster.run(pods());
    assert_eq!(cluster.hosts(&ids), 2);
    assert!(cluster.last.claims.iter().all(|claim| *claim.instance_types == ["t1", "t2"]));
}

/// SCH-50, SC-60, SC-63, SC-65, API-274.
#[test]
fn sc_060_063_065_two_nodes_with_two_types_each() {
    let generation = |name: &str, cpus, value: &str| sized(name, cpus).with("gen", &[value]);
    let generations = vec![generation("t2", 1, "2"), generation("t3", 1, "3"), generation("t4", 4, "4")];
    let arm = |name: &str, cpus| sized(name, cpus).with("kubernetes.io/arch", &["arm64"]);
    for (id, pool, types) in [
        ("SC-60", pool("p").require("gen Gt 2 min=2"), generations),
        (
            "SC-63",
            pool("p").require("type In t1 t2 t3 min=1; type NotIn t3 min=2"),
            vec![sized("t1", 1), sized("t2", 4), sized("t3", 4)],
        ),
        ("SC-65", pool("p").require("arch Exists min=2; type In t1 t2 min=1"), vec![arm("t1", 1), sized("t2", 4)]),
    ] {
        assert_eq!(two_pods(pool, types), (2, vec![2, 2]), "{id}");
    }
}

/// SC-61, SC-62, SC-64, V15-105, API-274.
#[test]
fn sc_061_062_064_unmet() {
    let generation = |value: &str| sized(&format!("t{value}"), 4).with("gen", &[value]);
    let ten = (0..10).map(|i| sized(&format!("t{i}"), 4)).collect();
    for (id, pool, types, ask) in [
        ("SC-61", pool("p").require("gen Exists min=2"), vec![generation("2"), generation("3")], "gen Gt 2"),
        ("SC-62", pool("p").require("gen Lt 4 min=2"), vec![generation("2"), generation("4")], ""),
        ("SC-64", pool("p").require("type Exists min=11"), ten, ""),
    ] {
        let mut cluster = with(pool, types);
        let asked = pod().asks("cpu=0.9");
        cluster.run([if ask.is_empty() { asked } else { asked.require(ask) }]);
        assert!(cluster.nodes.is_empty(), "{id}");
        let why = &cluster.last.unplaced[0].reasons[0].why;
        assert!(matches!(why, Refusal::MinValues(_)), "{id}: {why}");
        if id == "SC-61" {
            assert_eq!(*why, Refusal::MinValues(vec!["gen".into()]));
            assert_eq!(why.to_string(), "minValues requirement is not met for gen");
        }
    }
}

/// SCH-117, SC-66, API-276, API-277.
#[test]
fn sc_066_truncation_breaks_the_minimum() {
    let mut cluster = with(pool("p").require("type In t1 t2 min=2"), vec![sized("t1", 1), sized("t2", 4)]);
    cluster.options.max_instance_types = 1;
    let ids = cluster.run(pods());
    assert_eq!((cluster.placed(&ids), cluster.last.claims.len(), cluster.last.unplaced.len()), (0, 0, 2));
}

/// SCH-49, SCH-109, SC-67, API-276.
#[test]
fn sc_067_best_effort_lowers_the_minimum() {
    let fresh = || with(pool("p").require("type In t1 t2 t3 min=3"), vec![sized("t1", 1), sized("t2", 4)]);
    assert!(fresh().one(pod()).is_none(), "strict");
    let mut cluster = best_effort(fresh());
    assert_eq!(cluster.one_label("type", pod()), "t1");
    let claim = &cluster.last.claims[0];
    assert_eq!(
        claim.requirements.get("node.kubernetes.io/instance-type").unwrap().to_string(),
        "node.kubernetes.io/instance-type In [t1 t2] minValues 2"
    );
    assert!(claim.min_values_relaxed);
}

/// SC-68.
#[test]
fn sc_068_relaxing_comes_before_lighter_pools() {
    for lighter in ["type In t1 t2 t3", "type In t1 t2 t3 min=3"] {
        let types = || vec![sized("t1", 1), sized("t2", 4)];
        let mut cluster = best_effort(with(pool("heavy").weight(100).require("type In t1 t2 t3 min=3"), types()));
        cluster.pool(pool("light").weight(10).require(lighter), types());
        assert_eq!(cluster.one_label("pool", pod()), "heavy", "{lighter}");
        assert!(cluster.last.claims[0].min_values_relaxed);
    }
}

/// SC-69.
#[test]
fn sc_069_zones() {
    let fresh = || with(pool("p").require("zone In z1 z2 z3 min=3"), vec![sized("t1", 4).in_zones(&["z1", "z2"], 1.0)]);
    assert!(fresh().one(pod()).is_none(), "strict");
    let mut cluster = best_effort(fresh());
    assert!(cluster.one(pod()).is_some());
    assert_eq!(
        cluster.last.claims[0].requirements.get("topology.kubernetes.io/zone").unwrap().to_string(),
        "topology.kubernetes.io/zone In [z1 z2 z3] minValues 2"
    );
}

/// SC-70.
#[test]
fn sc_070_two_keys() {
    let asked = pool("p").require("type In t1 t2 t3 min=3; zone In z1 z2 z3 min=3");
    let mut cluster = best_effort(with(asked, vec![sized("t1", 4).in_zones(&["z1", "z2"], 1.0)]));
    assert!(cluster.one(pod()).is_some());
    let got = |key: &str| cluster.last.claims[0].requirements.get(key).unwrap().to_string();
    assert_eq!(got("node.kubernetes.io/instance-type"), "node.kubernetes.io/instance-type In [t1] minValues 1");
    assert_eq!(got("topology.kubernetes.io/zone"), "topology.kubernetes.io/zone In [z1 z2 z3] minValues 2");
}

/// SC-337.
#[test]
fn sc_337_the_cheapest_600() {
    let many = |count: u32| -> Vec<Type> {
        let even = |i: u32| if i < 600 { "a" } else { "b" };
        (0..count).map(|i| sized(&format!("t{i:03}"), 4).price(1.0 + f64::from(i)).with("team", &[even(i)])).collect()
    };
    for (name, asked, names) in [
        ("plain", "", Some(600)),
        ("minValues on the type", "type Exists min=600", Some(600)),
        ("minValues that the cheap ones do not meet", "team Exists min=2", None),
    ] {
        let mut cluster = with(pool("p").require(asked), many(700));
        let id = cluster.run([pod()]).remove(0);
        assert_eq!(cluster.last.claims.first().map(|claim| claim.instance_types.len()), names, "{name}");
        assert_eq!(cluster.at(&id).is_some(), names.is_some(), "{name}");
        if let Some(claim) = cluster.last.claims.first() {
            assert_eq!((claim.instance_types[0].as_str(), claim.instance_types[599].as_str()), ("t000", "t599"));
        }
    }
}

/// SC-338.
#[test]
fn sc_338_relaxed_is_said() {
    let types = || (0..3).map(|i| sized(&format!("t{i}"), 4)).collect::<Vec<_>>();
    let mut lowered = best_effort(with(pool("p").require("type Exists min=10"), types()));
    lowered.run([pod()]);
    assert!(lowered.last.claims[0].min_values_relaxed);
    let mut met = best_effort(with(pool("p").require("type Exists min=3"), types()));
    met.run([pod()]);
    assert!(!met.last.claims[0].min_values_relaxed);
}

/// VC-100, V15-105: only values that are still allowed count.
#[test]
fn vc_100_a_pinned_zone_is_one_value() {
    let fresh = || with(pool("p").require("zone In z1 z2 z3 min=3"), vec![sized("t1", 4)]);
    let pinned = || pod().volumes_in(&["zone In z1"]);
    assert!(fresh().one(pinned()).is_none(), "strict");
    let mut cluster = best_effort(fresh());
    assert_eq!(cluster.one_label("zone", pinned()), "z1");
    let claim = &cluster.last.claims[0];
    let zone = claim.requirements.get("topology.kubernetes.io/zone").unwrap();
    assert_eq!(zone.to_string(), "topology.kubernetes.io/zone In [z1] minValues 1");
    assert!(claim.min_values_relaxed);
}
