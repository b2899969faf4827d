//! The order in which pods, nodes, claims and pools are tried (SC-134 … SC-150, SC-159, SC-160, SC-171, SC-174).

use jiff::Timestamp;
use karpenter_model::instance_type::InstanceType;

use super::build::{Pod, app, near, pod, pool, unmanaged};
use super::cluster::{Cluster, Launched, cluster, empty, with};
use super::fixtures::{f1, f3, it};
use crate::Placement;

/// SCH-84, SC-134.
#[test]
fn sc_134_weights() {
    let mut cluster = with(pool("none"), f1());
    cluster.pool(pool("some").weight(20), f1()).pool(pool("most").weight(100), f1());
    let ids = cluster.run_n(3, &pod());
    assert!(ids.iter().all(|id| cluster.label("pool", id) == "most"));
    assert_eq!(cluster.one_label("pool", pod().select("pool", "none")), "none");
    assert!(cluster.pending.is_empty());
}

/// SC-135, SCH-89: the pods of a claim are in the order in which they came to it.
#[test]
fn sc_135_order_of_pods() {
    let made = |name: &str, asks: &str, second: i64, uid: &str| {
        let mut pod = pod().named(name).asks(asks);
        pod.0.created_at = Timestamp::from_second(second).unwrap().into();
        pod.0.uid = uid.into();
        pod
    };
    let pods = [
        made("b-late", "cpu=1 memory=1Gi", 9, "1"),
        made("uid-2", "cpu=1 memory=1Gi", 5, "2"),
        made("uid-1", "cpu=1 memory=1Gi", 5, "1"),
        made("memory", "cpu=1 memory=2Gi", 9, "3"),
        made("cpu", "cpu=2.5", 9, "4"),
    ];
    for turn in 0..pods.len() {
        let mut cluster = with(pool("p"), vec![it("t", "cpu=64 memory=64Gi pods=99")]);
        let mut turned = pods.to_vec();
        turned.rotate_left(turn);
        cluster.run(turned);
        let names: Vec<&str> = cluster.last.claims[0].pods.iter().map(|id| id.name.as_str()).collect();
        assert_eq!(names, ["cpu", "memory", "uid-1", "uid-2", "b-late"]);
    }
}

/// SCH-101, SC-136.
#[test]
fn sc_136_in_flight_nodes_are_reused() {
    for launched in [Launched::ClaimOnly, Launched::InFlight, Launched::Initialized] {
        for bound in [true, false] {
            let mut cluster = cluster();
            cluster.launched = launched;
            cluster.run([pod().asks("cpu=10m")]);
            if !bound {
                cluster.empty_all();
            }
            cluster.run([pod().asks("cpu=10m")]);
            assert_eq!(cluster.nodes.len(), 1);
        }
    }
}

/// SC-137, SC-138.
#[test]
fn sc_137_138_what_an_in_flight_node_takes() {
    let next = |first: Pod, second: Pod| {
        let mut cluster = cluster();
        cluster.run([first]);
        cluster.run([second]);
        cluster.nodes.len()
    };
    let zones = |text: &str| pod().require(text);
    assert_eq!(next(zones("zone In z2"), zones("zone In z1 z2")), 1, "SC-137");
    assert_eq!(next(zones("zone In z2"), zones("zone In z1 z3")), 2, "SC-137");
    assert_eq!(next(pod().asks("cpu=1001m"), pod().asks("cpu=1")), 2, "SC-138");
    assert_eq!(next(pod().select("arch", "amd64"), pod().select("arch", "arm64")), 2, "SC-138");
}

/// SC-139.
#[test]
fn sc_139_a_node_that_is_gone() {
    let mut cluster = cluster();
    cluster.run([pod()]);
    cluster.nodes.clear();
    assert_eq!(cluster.one(pod()).unwrap().name(), "n0002");
}

/// SC-140, with fixed batches.
#[test]
fn sc_140_batches_leave_one_node_with_room() {
    let mut cluster = with(pool("p").limits(""), vec![it("t", "cpu=4.25 memory=64Gi pods=4")]);
    for batch in [7, 1, 3, 9, 2, 5, 1, 8, 4, 6] {
        cluster.run_n(batch, &pod().asks("cpu=1"));
    }
    let one = "1".parse().unwrap();
    let roomy = cluster.nodes.iter().filter(|node| node.available().amount("cpu") >= one).count();
    assert!(roomy <= 1, "{roomy}");
    assert_eq!(cluster.nodes.len(), 46_usize.div_ceil(4));
}

/// SCH-87, SC-141.
#[test]
fn sc_141_initialized_nodes_first() {
    for launched in [Launched::InFlight, Launched::ClaimOnly] {
        let mut cluster = cluster();
        cluster.launched = launched;
        cluster.run_n(100, &pod().alone());
        assert_eq!(cluster.nodes.len(), 100);
        cluster.empty_all();
        cluster.launched = Launched::Initialized;
        let last = cluster.run([pod().asks("vendor-b=1")]).remove(0);
        let name = cluster.at(&last).unwrap().name().to_owned();
        cluster.empty_all();
        assert_eq!(cluster.one(pod()).unwrap().name(), name);
        assert_eq!(cluster.nodes.len(), 101);
    }
}

/// SCH-99, SC-142, SC-143.
#[test]
fn sc_142_143_nodes_that_are_not_ours() {
    let mut large = cluster();
    large.node(unmanaged("u", "cpu=10 memory=10Gi pods=200", ""));
    large.run_n(100, &pod().asks("cpu=10m"));
    assert_eq!((large.nodes.len(), large.nodes[0].pods.len()), (1, 100), "SC-142");
    for pools in [false, true] {
        let mut cluster = if pools { cluster() } else { empty() };
        cluster.node(unmanaged("u", "cpu=10 memory=10Gi pods=200", ""));
        assert_eq!(cluster.one(pod().require("zone In z1")).is_some(), pools, "SC-143");
        assert_eq!(cluster.nodes.len(), 1 + usize::from(pools), "SC-143");
    }
}

/// SCH-102, SCH-103, SC-145.
#[test]
fn sc_145_pods_that_cannot_share() {
    for (key, a, other, b) in [
        ("arch", "amd64", "arch", "arm64"),
        ("os", "linux", "os", "windows"),
        ("type", "std", "beta.kubernetes.io/instance-type", "small"),
        ("zone", "z1", "zone", "z2"),
    ] {
        let mut cluster = cluster();
        let ids = cluster.run([pod().select(key, a), pod().select(other, b)]);
        assert_eq!(cluster.hosts(&ids), 2, "{key}");
    }
}

/// SC-146.
#[test]
fn sc_146_outside_of_the_pool() {
    for pod in [pod().select("type", "arm"), pod().select("os", "ios"), pod().asks("cpu=14")] {
        assert!(with(pool("p").require("arch In amd64"), f1()).one(pod).is_none());
    }
}

fn matches(known: &InstanceType, asked: &str) -> bool {
    asked
        .split('-')
        .filter(|word| !word.is_empty() && *word != "on" && *word != "demand")
        .all(|word| known.name.split('-').any(|part| part == word))
        && (!asked.contains("on-demand") || known.name.ends_with("on-demand"))
}

/// SC-147: every subset of four constraints, at the pool and at the pod.
#[test]
fn sc_147_the_cheapest_that_matches() {
    let keys = [("arch", "arm64"), ("os", "windows"), ("zone", "z2"), ("capacity", "on-demand")];
    for subset in 0..16_usize {
        let chosen: Vec<_> =
            keys.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, pair)| pair).collect();
        let text = chosen.iter().map(|(key, value)| format!("{key} In {value}")).collect::<Vec<_>>().join("; ");
        let words = chosen.iter().map(|(_, value)| *value).collect::<Vec<_>>().join("-");
        for at_pool in [true, false] {
            let mut cluster = with(if at_pool { pool("p").require(&text) } else { pool("p") }, f3());
            let asked = if at_pool || text.is_empty() { pod() } else { pod().require(&text) };
            cluster.run([asked]);
            let all = cluster.pools[0].1.clone();
            let claim = &cluster.last.claims[0];
            let named = |name: &String| all.iter().find(|known| known.name == *name).unwrap();
            assert!(claim.instance_types.iter().all(|name| matches(named(name), &words)), "{text}");
            let fitting = all.iter().filter(|known| matches(known, &words));
            let least = fitting.map(|known| known.offerings[0].price).min();
            assert_eq!(Some(claim.price), least, "{text}");
        }
    }
}

/// SC-148.
#[test]
fn sc_148_a_combination_that_nobody_offers() {
    let types = f3().into_iter().filter(|one| !(one.0.name.contains("arm64") && one.0.name.contains("z2"))).collect();
    let mut cluster = with(pool("p"), types);
    assert!(cluster.one(pod().select("arch", "arm64").select("zone", "z2")).is_none());
    assert!(cluster.last.claims.is_empty());
}

/// SCH-105, SCH-106, SCH-108, SC-149.
#[test]
fn sc_149_three_equal_pods() {
    for cpu in ["0.1", "1", "2", "2.5", "4", "8", "16"] {
        for memory in ["0.1", "1", "2", "4", "8", "16", "32"] {
            let mut cluster = with(pool("p"), f3());
            let ids = cluster.run_n(3, &pod().asks(&format!("cpu={cpu} memory={memory}Gi")));
            assert_eq!((cluster.placed(&ids), cluster.nodes.len()), (3, 1), "{cpu} {memory}");
            let claim = &cluster.last.claims[0];
            for known in cluster.pools[0].1.iter().filter(|known| claim.instance_types.contains(&known.name)) {
                assert!(claim.requests.fits(&known.allocatable()), "{cpu} {memory} in {}", known.name);
            }
        }
    }
}

/// SCH-117, SC-150.
#[test]
fn sc_150_only_compatible_offerings_set_the_price() {
    let offers = |name: &str, on_demand, spot| {
        it(name, "cpu=4 memory=4Gi pods=5").offers(&[("z1", "on-demand", on_demand), ("z1", "spot", spot)])
    };
    let fresh = |ask: &str| with(pool("p").require(ask), vec![offers("x", 1.0, 0.2), offers("y", 1.3, 0.1)]);
    assert_eq!(fresh("capacity In on-demand").one_label("type", pod()), "x");
    assert_eq!(fresh("").one_label("type", pod()), "y");
}

/// SCH-86, SC-159.
#[test]
fn sc_159_pools_without_a_usable_type() {
    for ask in ["type In unknown", "arch In unknown", "zone In unknown", "arch In amd64; arch NotIn amd64"] {
        let mut cluster = with(pool("p").require(ask), f1());
        cluster.node(unmanaged("u", "cpu=1 memory=1Gi pods=1", ""));
        cluster.run([pod().asks("cpu=1")]);
        assert!(cluster.pending.is_empty(), "what exists still serves: {ask}");
        cluster.run_n(3, &pod().asks("cpu=2"));
        assert_eq!(cluster.last.unplaced.len(), 3, "{ask}");
        assert_eq!(cluster.last.unplaced[0].reasons[0].why, crate::Refusal::NoInstanceType, "{ask}");
    }
}

/// SC-160.
#[test]
fn sc_160_static_pools_take_no_part() {
    let fixed = || {
        let mut pool = pool("static").weight(100);
        pool.0.replicas = Some(3);
        pool
    };
    assert!(with(fixed(), f1()).one(pod()).is_none());
    let mut both = with(fixed(), f1());
    both.pool(pool("dynamic"), f1());
    assert_eq!(both.one_label("pool", pod()), "dynamic");
}

/// SCH-90, SC-171.
#[test]
fn sc_171_circles_end() {
    let mut cluster = cluster();
    let ids = cluster.run([
        pod().label("a=1").near(near("host", "b=1")),
        pod().label("b=1").near(near("host", "c=1")),
        pod().label("c=1").near(near("host", "a=1")),
        app().near(near("zone", "nobody=1")),
    ]);
    assert_eq!(cluster.placed(&ids), 0);
}

/// SCH-70, SC-174.
#[test]
fn sc_174_unavailable_offerings() {
    let fresh = || -> Cluster {
        let mut known = it("t", "cpu=4 memory=4Gi pods=5").in_zones(&["z1", "z2"], 1.0);
        known.0.offerings[0].available = false;
        with(pool("p"), vec![known])
    };
    assert!(fresh().one(pod().select("zone", "z1")).is_none());
    assert_eq!(fresh().one_label("zone", pod()), "z2");
}

/// SCH-96: claims with the fewest pods come first.
#[test]
fn claims_fill_evenly() {
    let mut cluster = with(pool("p"), vec![it("t", "cpu=8 memory=8Gi pods=10")]);
    cluster.add_all(2, &pod().asks("cpu=2").alone());
    cluster.add_all(4, &pod().asks("cpu=1"));
    let plan = cluster.plan();
    assert_eq!(plan.claims.iter().map(|claim| claim.pods.len()).collect::<Vec<_>>(), [3, 3]);
    assert!(plan.placed.values().all(|at| matches!(at, Placement::New(_))));
}
