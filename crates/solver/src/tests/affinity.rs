//! Pod affinity and anti-affinity (SC-206 … SC-223, SC-373, SC-376 … SC-379).

use std::collections::BTreeMap;

use karpenter_model::scheduling::{AffinityTerm, Namespaces};
use karpenter_model::selector::Selector;

use super::build::{Pod, app, near, pod, pool, selector, spread, unmanaged};
use super::cluster::{Cluster, cluster, with};
use super::fixtures::f1;

fn target() -> Pod {
    pod().label("target=yes")
}

/// Wants to be with others of its kind.
fn flocking(key: &str) -> Pod {
    app().near(near(key, "app=test"))
}

/// SC-206, SC-207.
#[test]
fn sc_206_207_the_same_host() {
    assert!(cluster().one(pod()).is_some(), "SC-206");
    let mut cluster = cluster();
    cluster.add_all(10, &app().spread(spread("host")));
    let ids = cluster.run([target(), pod().near(near("host", "target=yes"))]);
    assert_eq!((cluster.placed(&ids), cluster.hosts(&ids)), (2, 1), "SC-207");
}

/// SC-208.
#[test]
fn sc_208_architectures() {
    let alone = |pod: Pod| pod.label("spread=host").spread(super::build::over("spread=host", spread("host")));
    let mut together = cluster();
    let ids = together.run([
        alone(target()).select("arch", "arm64").asks("cpu=2"),
        alone(pod()).near(near("arch", "target=yes")).asks("cpu=1"),
    ]);
    assert_eq!(together.hosts(&ids), 2);
    assert_eq!(together.label("arch", &ids[1]), "arm64");
    let mut apart = cluster();
    let ids = apart
        .run([target().select("arch", "arm64").asks("cpu=2"), pod().apart(near("arch", "target=yes")).asks("cpu=1")]);
    assert_eq!(apart.label("arch", &ids[1]), "amd64");
}

/// SCH-141, SCH-145, SC-209, SC-210, SC-145.
#[test]
fn sc_209_210_flocks_on_one_host() {
    let mut three = cluster();
    let ids = three.run_n(3, &flocking("host"));
    assert_eq!((three.placed(&ids), three.hosts(&ids)), (3, 1), "SC-209");
    let mut ten = cluster();
    let ids = ten.run_n(10, &flocking("host"));
    assert_eq!((ten.placed(&ids), ten.hosts(&ids)), (5, 1), "SC-209");
    let more = ten.run_n(10, &flocking("host"));
    assert_eq!((ten.placed(&more), ten.pending.len()), (0, 15), "SC-209");
    let mut elsewhere = cluster();
    elsewhere.run([flocking("host").select("zone", "z1")]);
    let ids = elsewhere.run_n(10, &flocking("host").require("zone In z2 z3"));
    assert_eq!(elsewhere.placed(&ids), 0, "SC-210");
}

/// SCH-140, Q4, SC-211, SC-212, SC-373.
#[test]
fn sc_211_212_373_flocks_in_one_zone() {
    let mut three = cluster();
    let ids = three.run_n(3, &flocking("zone"));
    assert_eq!((three.placed(&ids), three.hosts(&ids)), (3, 1), "SC-211");
    let zone = three.last.claims[0].requirements.get("topology.kubernetes.io/zone").unwrap();
    assert!(zone.single_value().is_some(), "SC-373: {zone}");
    let mut limited = cluster();
    let ids = limited.run_n(3, &flocking("zone").select("zone", "z3"));
    assert_eq!((limited.hosts(&ids), limited.label("zone", &ids[0]).as_str()), (1, "z3"), "SC-211");
    let mut unbound = cluster();
    unbound.run([flocking("zone")]);
    unbound.empty_all();
    unbound.run([flocking("zone")]);
    assert_eq!((unbound.nodes.len(), unbound.pending.len()), (1, 0), "SC-211");
    let mut two = cluster();
    let ids = two.run([flocking("zone").select("zone", "z2"), flocking("zone").select("zone", "z3")]);
    assert_eq!([two.label("zone", &ids[0]), two.label("zone", &ids[1])], ["z2", "z3"], "SC-212");
}

/// SC-213.
#[test]
fn sc_213_preferences() {
    assert!(cluster().one(pod().prefers_near(50, near("host", "nobody=1"))).is_some());
    let mut cluster = cluster();
    cluster.add_all(3, &app().spread(spread("zone")));
    let ids = cluster.run((0..10).map(|_| pod().prefers_apart(50, near("zone", "app=test"))));
    assert_eq!(cluster.placed(&ids), 10);
}

/// SCH-142, SC-214.
#[test]
fn sc_214_different_hosts_in_either_order() {
    for (first, second) in [("2", "1"), ("1", "2")] {
        let mut cluster = cluster();
        let ids = cluster.run([
            target().asks(&format!("cpu={first}")),
            pod().apart(near("host", "target=yes")).asks(&format!("cpu={second}")),
        ]);
        assert_eq!((cluster.placed(&ids), cluster.hosts(&ids)), (2, 2));
    }
}

/// SC-215.
#[test]
fn sc_215_no_zone_is_left() {
    let shy = || pod().apart(near("zone", "target=yes"));
    let mut full = cluster();
    let zones = ["z1", "z2", "z3"].map(|zone| target().asks("cpu=2").select("zone", zone));
    let ids = full.run(zones.into_iter().chain([shy()]));
    assert_eq!((full.placed(&ids), full.at(&ids[3]).is_some()), (3, false));
    let mut open = cluster();
    let ids = open.run([target().asks("cpu=2"), shy()]);
    assert_eq!((open.at(&ids[0]).is_some(), open.at(&ids[1]).is_some()), (true, false));
    open.pass();
    assert!(open.at(&ids[1]).is_some(), "SCH-146: the zone is known now");
}

/// SCH-136, SC-216, SCH-124.
#[test]
fn sc_216_owners_keep_others_away() {
    for batch in [true, false] {
        for (required, placed) in [(true, false), (false, true)] {
            let owner = |zone: &str| {
                let pod = pod().asks("cpu=2").select("zone", zone);
                let term = near("zone", "target=yes");
                if required { pod.apart(term) } else { pod.prefers_apart(10, term) }
            };
            let mut cluster = cluster();
            for zone in ["z1", "z2", "z3"] {
                cluster.add(owner(zone));
            }
            if !batch {
                cluster.pass();
            }
            assert_eq!(cluster.one(target()).is_some(), placed, "batch {batch}, required {required}");
        }
    }
}

/// SCH-135, SC-217, SC-218.
#[test]
fn sc_217_218_late_commitment() {
    let mut cluster = cluster();
    let ids = cluster.run([pod().asks("cpu=2").apart(near("zone", "target=yes")), target()]);
    assert_eq!((cluster.at(&ids[0]).is_some(), cluster.at(&ids[1]).is_some()), (true, false), "SC-217");
    cluster.pass();
    assert_ne!(cluster.label("zone", &ids[0]), cluster.label("zone", &ids[1]), "SC-217");
    assert!(cluster.at(&ids[1]).is_some(), "SC-217");
    let mut mutual = super::cluster::cluster();
    for want in [&[1][..], &[1, 1], &[1, 1, 1], &[1, 1, 1]] {
        mutual.run_n(3, &app().apart(near("zone", "app=test")));
        assert_eq!(mutual.skew("zone"), want, "SC-218");
    }
}

/// SC-219.
#[test]
fn sc_219_following_a_target() {
    let follower = || pod().near(near("zone", "target=yes"));
    let mut open = cluster();
    let mut ids = vec![open.add(target().asks("cpu=2"))];
    ids.extend(open.add_all(10, &follower()));
    open.pass();
    assert_eq!(open.placed(&ids), 1);
    open.pass();
    let zone = open.label("zone", &ids[0]);
    assert!(ids.iter().all(|id| open.label("zone", id) == zone));
    let mut pinned = cluster();
    let mut ids = vec![pinned.add(target().asks("cpu=2").select("zone", "z1"))];
    ids.extend(pinned.add_all(10, &follower()));
    pinned.pass();
    assert!(ids.iter().all(|id| pinned.label("zone", id) == "z1"));
}

/// SCH-90, SCH-91, SC-220, SC-221.
#[test]
fn sc_220_221_chains() {
    let chain = [
        pod().label("tier=db"),
        pod().label("tier=web").near(near("host", "tier=db")),
        pod().label("tier=cache").near(near("host", "tier=web")),
        pod().label("tier=ui").near(near("host", "tier=cache")),
    ];
    for turn in 0..4 {
        for reversed in [false, true] {
            let mut pods = chain.to_vec();
            pods.rotate_left(turn);
            if reversed {
                pods.reverse();
            }
            let mut cluster = cluster();
            let ids = cluster.run(pods);
            assert_eq!((cluster.placed(&ids), cluster.hosts(&ids)), (4, 1), "SC-220 turned by {turn}");
        }
    }
    assert!(cluster().one(pod().near(near("host", "nobody=1"))).is_none(), "SC-221");
}

/// SC-222, SCH-134.
#[test]
fn sc_222_namespaces() {
    let everywhere = Namespaces { selector: Some(Selector::default()), ..Namespaces::default() };
    for (name, namespaces, placed) in [
        ("own", Namespaces::only("default"), false),
        ("listed", Namespaces::only("other"), true),
        ("selected", everywhere, true),
    ] {
        let mut cluster = cluster();
        for namespace in ["default", "other"] {
            cluster.namespaces.insert(namespace.to_owned(), BTreeMap::new());
        }
        let term = AffinityTerm { namespaces, ..near("host", "target=yes") };
        let ids = cluster.run([target().namespace("other"), pod().near(term)]);
        assert_eq!(cluster.at(&ids[1]).is_some(), placed, "{name}");
        assert_eq!(cluster.hosts(&ids), 1, "{name}");
    }
}

/// SC-223.
#[test]
fn sc_223_a_wish_against_a_rule() {
    let mut cluster = cluster();
    cluster.run_n(3, &app().spread(spread("host")).prefers_near(50, near("host", "app=test")));
    assert_eq!(cluster.skew("host"), [1, 1, 1]);
}

/// SCH-104, SCH-251, SC-376, Q41: a zone in which the only type that fits is not offered is not the end.
#[test]
fn sc_376_bootstrap_where_it_is_possible() {
    let mut types = f1();
    types[0] = types[0].clone().in_zones(&["z3"], 1.0);
    let mut cluster = with(pool("p"), types);
    assert_eq!(cluster.one_label("zone", flocking("zone").select("type", "std")), "z3");
}

/// SCH-143, SC-377, Q35.
#[test]
fn sc_377_a_key_that_nothing_has() {
    let mut cluster = cluster();
    let ids = cluster.run([pod().apart(near("rack", "target=yes")), target()]);
    assert_eq!(cluster.placed(&ids), 2);
}

/// SCH-129, SC-378, Q34.
#[test]
fn sc_378_domains_that_only_nodes_have() {
    let mut cluster = cluster();
    cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=5", "zone=z9"));
    cluster.node(unmanaged("v", "pods=0", "zone=z1"));
    cluster.bound(pod().apart(near("zone", "target=yes")), "v");
    assert_eq!(cluster.one(target()).unwrap().name(), "u");
}

/// SCH-122, SCH-128, SC-379, Q33.
#[test]
fn sc_379_domains_follow_each_pods_own_tolerations() {
    for turned in [false, true] {
        let mut cluster: Cluster = with(pool("a").require("zone In z1 z2"), f1());
        cluster.pool(pool("b").require("zone In z3").taint("t=1:NoSchedule"), f1());
        for zone in ["z1", "z2"] {
            cluster.node(unmanaged(zone, "pods=0", &format!("zone={zone}")));
            cluster.bound(target(), zone);
        }
        let shy = || pod().apart(near("zone", "target=yes"));
        let mut pods = vec![shy().named("tolerant").tolerate("t Exists"), shy().named("other")];
        if turned {
            pods.reverse();
        }
        let ids = cluster.run(pods);
        let placed: Vec<String> =
            ids.iter().filter(|id| cluster.at(id).is_some()).map(|id| id.name.to_string()).collect();
        assert_eq!(placed, ["tolerant"]);
        assert_eq!(cluster.counts("zone", &selector("target=yes")).len(), 2);
    }
}

/// A group that begins while the pass runs, because relaxing has changed the pod's tolerations, knows who was placed
/// before (found by [`super::random`]).
#[test]
fn groups_that_begin_late_count_what_is_placed() {
    let mut cluster = with(pool("p").taint("soft=1:PreferNoSchedule"), f1());
    cluster.node(unmanaged("u", "cpu=1 memory=1Gi pods=5", "zone=z1"));
    let ids = cluster.run([
        target().asks("cpu=2").select("zone", "z1"),
        pod().asks("cpu=1").select("zone", "z1").apart(near("zone", "target=yes")),
    ]);
    assert_eq!((cluster.placed(&ids), cluster.at(&ids[1]).is_some()), (1, false));
}

/// The owner of a term that will be relaxed to put up with soft taints keeps others away from those zones at once.
#[test]
fn soft_taints_do_not_hide_domains_from_the_other_side() {
    let mut cluster = with(pool("p").taint("soft=1:PreferNoSchedule"), f1());
    let ids = cluster.run([target().asks("cpu=2"), pod().asks("cpu=1").apart(near("zone", "target=yes"))]);
    assert_eq!((cluster.placed(&ids), cluster.at(&ids[1]).is_some()), (1, false));
    cluster.pass();
    assert_ne!(cluster.label("zone", &ids[0]), cluster.label("zone", &ids[1]));
    assert!(cluster.at(&ids[1]).is_some());
}
