//! Spread constraints (SC-176 … SC-205).

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::labels;
use karpenter_model::pod::PodPhase;
use karpenter_model::scheduling::{NodePolicy, SpreadConstraint};

use super::build::{
    Pod, Pool, app, exists, min_domains, over, pod, pool, selector, skew, soft, spread, taint, unmanaged,
};
use super::cluster::{Cluster, cluster, empty, with};
use super::fixtures::{f1, f3};

fn by_zone() -> Pod {
    app().spread(spread("zone"))
}

/// One pool with F1 and these requirements.
fn in_zones(text: &str) -> Cluster {
    with(pool("default").require(text), f1())
}

/// A pool that lists `reserved` has it as a domain (SCH-126), and where nothing is reserved it stays empty. The cases
/// that spread over capacity types are about the other two.
fn two_capacity_types() -> Cluster {
    in_zones("capacity In spot on-demand")
}

/// SCH-143, SC-176.
#[test]
fn sc_176_an_unknown_key() {
    let mut cluster = cluster();
    let ids = cluster.run([app().spread(spread("unknown")), app()]);
    assert!(cluster.at(&ids[0]).is_none() && cluster.at(&ids[1]).is_some());
}

/// SCH-121, SCH-137, SCH-138, SC-177, SC-178.
#[test]
fn sc_177_178_zones() {
    let expressions = SpreadConstraint { selector: Some(exists("app")), ..spread("zone") };
    for (id, mut cluster, pod, want) in [
        ("SC-177", cluster(), by_zone(), vec![1, 1, 2]),
        ("SC-177 expressions", cluster(), app().spread(expressions), vec![1, 1, 2]),
        ("SC-177 zones listed", in_zones("zone In z1 z2 z3"), by_zone(), vec![1, 1, 2]),
        ("SC-178 two zones", in_zones("zone In z1 z2"), by_zone(), vec![2, 2]),
        ("SC-178 label", with(pool("p").label("zone=z1"), f1()), by_zone(), vec![4]),
        ("SC-178 both", with(pool("p").require("zone In z1 z2").label("zone=z1"), f1()), by_zone(), vec![4]),
    ] {
        cluster.run_n(4, &pod);
        assert_eq!(cluster.skew("zone"), want, "{id}");
    }
    let mut two = with(pool("a").require("zone In z1 z2").label("zone=z1"), f1());
    two.pool(pool("b").require("zone In z1 z2").label("zone=z2"), f1());
    two.run_n(4, &by_zone());
    assert_eq!(two.skew("zone"), [2, 2], "SC-178 second pool");
}

/// SC-179, SC-180, SC-182: what is there, then what the pool may still do.
#[test]
fn sc_179_180_182_domains_that_are_no_longer_offered() {
    let placed = |pods: Vec<Pod>, then: Pool| {
        let mut cluster = cluster();
        cluster.run(pods);
        cluster.repool(vec![then]);
        cluster
    };
    let in_zone = |zone: &str| by_zone().select("zone", zone).asks("cpu=1.1");
    let mut later = placed(vec![in_zone("z3")], pool("p").require("zone In z1 z2"));
    later.run_n(6, &by_zone().asks("cpu=1.1"));
    assert_eq!(later.skew("zone"), [1, 2, 2], "SC-179");

    let wide = || app().asks("cpu=1.1").spread(skew(5, spread("zone")));
    let first = vec![wide().select("zone", "z1"), wide().select("zone", "z2")];
    let mut later = placed(first, pool("p").require("zone In z3"));
    later.run_n(10, &wide());
    assert_eq!(later.skew("zone"), [1, 1, 6], "SC-180");

    for first in [in_zone("z1"), app().asks("cpu=1.1").select("zone", "z1")] {
        let mut later = placed(vec![first], pool("p").require("zone In z2 z3"));
        later.run_n(10, &by_zone().asks("cpu=1.1"));
        assert_eq!(later.skew("zone"), [1, 2, 2], "SC-182");
    }
}

/// SC-181.
#[test]
fn sc_181_after_pods_have_left() {
    let mut cluster = cluster();
    cluster.run_n(9, &by_zone());
    assert_eq!(cluster.skew("zone"), [3, 3, 3]);
    cluster.remove_pods(|node, _| node.labels()["topology.kubernetes.io/zone"] != "z1");
    cluster.run_n(3, &by_zone());
    assert_eq!(cluster.skew("zone"), [1, 2, 3]);
}

/// SCH-131, SC-183: pods that do not count; the tally is of those that do.
#[test]
fn sc_183_what_is_counted() {
    for (key, values, want) in
        [("zone", ["z1", "z2", "z3"], vec![1, 2, 2]), ("capacity", ["spot", "on-demand", "on-demand"], vec![2, 3])]
    {
        let mut cluster = two_capacity_types();
        for (name, value) in ["n1", "n2", "n3"].into_iter().zip(values) {
            // Without room, so that they count but take nobody.
            cluster.node(unmanaged(name, "pods=0", &format!("{key}={value}")));
        }
        cluster.node(unmanaged("bare", "pods=0", ""));
        let gone = |change: fn(&mut karpenter_model::pod::PodView)| {
            let mut pod = app();
            change(&mut pod.0);
            pod
        };
        for (pod, node) in [
            (pod(), "n3"),
            (app().namespace("other"), "n3"),
            (app(), "bare"),
            (gone(|pod| pod.deleting_since = Some(Timestamp::UNIX_EPOCH.into())), "n3"),
            (app(), "n1"),
            (app(), "n1"),
            (app(), "n2"),
        ] {
            cluster.bound(pod, node);
        }
        for phase in [PodPhase::Failed, PodPhase::Succeeded] {
            let mut ended = app().named(&format!("{phase:?}"));
            ended.0.phase = phase;
            cluster.nodes[2].pods.push(Arc::new(ended.0));
        }
        let ids = cluster.run_n(2, &app().spread(spread(key)));
        let mut tally = [2, 1, 0];
        for id in &ids {
            let value = cluster.label(key, id);
            let index = values.iter().position(|one| *one == value).unwrap_or(2);
            tally[index] += 1;
        }
        tally.sort_unstable();
        let counts: Vec<usize> = tally.into_iter().filter(|count| *count > 0).collect();
        assert_eq!(counts, want, "{key}");
    }
}

/// Q17, SC-184, SC-185, SCH-132.
#[test]
fn sc_184_185_selectors_that_select_nobody() {
    let mut nil = cluster();
    let ids = nil.run_n(2, &pod().spread(SpreadConstraint { selector: None, ..spread("zone") }));
    assert_eq!((nil.placed(&ids), nil.hosts(&ids)), (2, 1), "SC-184");
    let mut nobody = cluster();
    let ids = nobody.run_n(5, &app().spread(over("app=nobody", spread("host"))));
    assert_eq!((nobody.placed(&ids), nobody.hosts(&ids)), (5, 1), "SC-185");
}

/// SC-186.
#[test]
fn sc_186_min_domains() {
    for (zones, least, pods, want) in [
        ("zone In z1 z2", 3, 3, vec![1, 1]),
        ("zone In z1 z2 z3", 3, 11, vec![3, 4, 4]),
        ("zone In z1 z2 z3", 2, 11, vec![3, 4, 4]),
    ] {
        let mut cluster = in_zones(zones);
        cluster.run_n(pods, &app().spread(min_domains(least, spread("zone"))));
        assert_eq!(cluster.skew("zone"), want, "{zones} {least}");
    }
}

/// SCH-139, SCH-144, SC-187, SC-188.
#[test]
fn sc_187_188_hosts() {
    for (max_skew, want) in [(1, vec![1, 1, 1, 1]), (4, vec![4])] {
        let mut cluster = cluster();
        cluster.run_n(4, &app().spread(skew(max_skew, spread("host"))));
        assert_eq!(cluster.skew("host"), want, "SC-187");
    }
    let of = |name: &str| pod().label(&format!("app={name}")).spread(over(&format!("app={name}"), spread("host")));
    let mut shared = cluster();
    let ids = shared.run([of("a"), of("a"), of("b"), of("b")]);
    assert_eq!((shared.placed(&ids), shared.hosts(&ids)), (4, 2), "SC-188");
    let mut apart = cluster();
    let on = |name: &str, arch: &str| of(name).select("arch", arch);
    let ids = apart.run([on("a", "amd64"), on("a", "amd64"), on("b", "arm64"), on("b", "arm64")]);
    assert_eq!((apart.placed(&ids), apart.hosts(&ids)), (4, 4), "SC-188");
}

/// SCH-130, SC-189, SC-190, SC-191.
#[test]
fn sc_189_to_191_capacity_types_and_architectures() {
    let by_capacity = || app().spread(spread("capacity"));
    let mut plain = two_capacity_types();
    plain.run_n(4, &by_capacity());
    assert_eq!(plain.skew("capacity"), [2, 2], "SC-189");
    for (constraint, want) in [(spread("capacity"), vec![1, 2]), (soft(spread("capacity")), vec![1, 5])] {
        let mut later = two_capacity_types();
        let pod = app().asks("cpu=1.1").spread(constraint);
        later.run([pod.clone().select("capacity", "spot")]);
        later.repool(vec![pool("p").require("capacity In on-demand")]);
        later.run_n(5, &pod);
        assert_eq!(later.skew("capacity"), want, "SC-189");
    }
    let mut filtered = two_capacity_types();
    filtered.run([by_capacity().asks("cpu=1.1").select("zone", "z1").select("capacity", "on-demand")]);
    filtered.run_n(5, &by_capacity().asks("cpu=1.1").select("zone", "z2").select("capacity", "spot"));
    assert_eq!(filtered.skew("capacity"), [1, 5], "SC-190");
    for (key, old, new) in [("capacity", "on-demand", "spot"), ("arch", "amd64", "arm64")] {
        let mut later = two_capacity_types();
        let pod = app().asks("cpu=2").spread(spread(key));
        later.run([pod.clone().select(key, old)]);
        later.repool(vec![pool("p").require(&format!("{key} In {new}"))]);
        later.run_n(5, &pod);
        assert_eq!(later.skew(key), [1, 2], "SC-191 {key}");
    }
}

/// SC-192.
#[test]
fn sc_192_two_constraints() {
    let steps: [(&str, [&[usize]; 4]); 2] =
        [("zone", [&[1, 1], &[1, 2, 2], &[3, 3, 4], &[7, 7, 7]]), ("capacity", [&[1, 1], &[2, 3], &[5, 5], &[10, 11]])];
    for (key, wants) in steps {
        let mut cluster = two_capacity_types();
        let pod = app().spread(spread(key)).spread(skew(3, spread("host")));
        for (count, want) in [2, 3, 5, 11].into_iter().zip(wants) {
            cluster.run_n(count, &pod);
            assert_eq!(cluster.skew(key), want, "{key} after {count}");
            assert!(cluster.skew("host").iter().all(|pods| *pods <= 3));
        }
    }
}

/// SC-193.
#[test]
fn sc_193_two_pools_share_a_key() {
    let mut cluster = with(pool("spot").require("capacity In spot; spread In 2 3 4 5"), f1());
    cluster.pool(pool("on-demand").require("capacity In on-demand; spread In 1"), f1());
    cluster.run_n(20, &app().spread(spread("spread")));
    assert_eq!(cluster.skew("spread"), [4, 4, 4, 4, 4]);
    assert_eq!(cluster.skew("capacity"), [4, 16]);
}

/// SC-194.
#[test]
fn sc_194_a_domain_that_a_limit_closes() {
    let mut cluster = with(pool("a").require("zone In z1 z2"), f1());
    cluster.pool(pool("b").require("zone In z3").limits("cpu=0"), f1());
    cluster.run_n(10, &by_zone().spread(soft(spread("host"))));
    assert_eq!(cluster.skew("zone"), [1, 1]);
}

/// SC-195: `matchLabelKeys` are part of the selector by now (SCH-133).
#[test]
fn sc_195_revisions() {
    let of = |revision: &str| {
        let both = format!("app=test rev={revision}");
        pod().label(&both).spread(over(&both, spread("host")))
    };
    let mut revisions = cluster();
    let ids = revisions.run([of("a"), of("a"), of("b"), of("b")]);
    assert_eq!((revisions.hosts(&ids), revisions.skew("host")), (2, vec![2, 2]));
    let mut none = cluster();
    none.run_n(4, &app().spread(spread("host")));
    assert_eq!(none.skew("host"), [1, 1, 1, 1]);
}

fn taints(policy: NodePolicy, constraint: SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint { node_taints_policy: policy, ..constraint }
}

/// SCH-128, SCH-130, SC-196, SC-197.
#[test]
fn sc_196_197_taints_of_domains() {
    for (policy, nodes, pools) in [(NodePolicy::Ignore, 1, 1), (NodePolicy::Honor, 5, 2)] {
        let pod = app().spread(taints(policy, spread("rack")));
        let mut cluster = with(pool("p").label("rack=baz"), f1());
        for rack in ["foo", "bar"] {
            let mut node = unmanaged(rack, "cpu=9 memory=9Gi pods=9", &format!("rack={rack}"));
            Arc::make_mut(node.node.as_mut().unwrap()).taints.push(taint("a=b:NoSchedule"));
            cluster.node(node);
        }
        let ids = cluster.run_n(5, &pod);
        assert_eq!(cluster.placed(&ids), nodes, "SC-196 {policy:?}");
        assert!(ids.iter().filter(|id| cluster.at(id).is_some()).all(|id| cluster.label("rack", id) == "baz"));

        let mut two = with(pool("a").label("rack=foo"), f1());
        two.pool(pool("b").label("rack=bar").taint("a=b:NoSchedule"), f1());
        let ids = two.run_n(2, &pod);
        assert_eq!(two.placed(&ids), pools, "SC-197 {policy:?}");
        assert_eq!(two.counts("rack", &selector("app=test")).into_keys().collect::<Vec<_>>(), ["foo"]);
    }
}

/// SC-198.
#[test]
fn sc_198_tolerated_domains() {
    let mut cluster = with(pool("a").require("rack In foo bar").taint("a=b:NoSchedule"), f1());
    cluster.pool(pool("b").require("rack In foo baz").taint("c=d:NoSchedule"), f1());
    let pod = || app().spread(taints(NodePolicy::Honor, spread("rack")));
    cluster.run_n(2, &pod().tolerate("a Exists"));
    cluster.run_n(4, &pod().tolerate("c Exists"));
    assert_eq!(cluster.skew("rack"), [1, 2, 3]);
}

/// SC-199.
#[test]
fn sc_199_labels_of_domains() {
    for (policy, placed) in [(NodePolicy::Ignore, 1), (NodePolicy::Honor, 5)] {
        let mut cluster = with(pool("p").label("rack=baz selected=yes"), f1());
        for rack in ["foo", "bar"] {
            cluster.node(unmanaged(rack, "cpu=9 memory=9Gi pods=9", &format!("rack={rack} selected=no")));
        }
        let constraint = SpreadConstraint { node_affinity_policy: policy, ..spread("rack") };
        let ids = cluster.run_n(5, &app().select("selected", "yes").spread(constraint));
        assert_eq!(cluster.placed(&ids), placed, "{policy:?}");
    }
}

/// SC-200, SC-201, SC-202, SC-203.
#[test]
fn sc_200_to_203_spread_within_what_the_pod_allows() {
    let mut selecting = cluster();
    selecting.add_all(5, &by_zone().select("zone", "z1"));
    selecting.add_all(10, &by_zone().select("zone", "z2"));
    selecting.pass();
    assert_eq!(selecting.skew("zone"), [5, 10], "SC-200");
    let mut requiring = cluster();
    requiring.run_n(10, &by_zone().require("zone In z1 z2"));
    assert_eq!(requiring.skew("zone"), [5, 5], "SC-200");

    let mut steps = cluster();
    steps.run_n(6, &by_zone().require("zone In z1 z2"));
    assert_eq!(steps.skew("zone"), [3, 3], "SC-201");
    assert_eq!(steps.one_label("zone", by_zone().require("zone In z2 z3")), "z3", "SC-201");
    steps.run_n(5, &by_zone());
    assert_eq!(steps.skew("zone"), [4, 4, 4], "SC-201");

    let mut preferring = cluster();
    preferring.run_n(6, &by_zone().prefer(1, "zone In z1 z2"));
    assert_eq!(preferring.skew("zone"), [2, 2, 2], "SC-202");

    let by_capacity = || app().spread(spread("capacity"));
    let mut capacity = two_capacity_types();
    capacity.run_n(3, &by_capacity().require("capacity In spot"));
    assert_eq!(capacity.skew("capacity"), [3], "SC-203");
    assert_eq!(
        capacity.one_label("capacity", by_capacity().require("capacity In spot on-demand")),
        "on-demand",
        "SC-203"
    );
    capacity.run_n(5, &by_capacity());
    assert_eq!(capacity.skew("capacity"), [4, 5], "SC-203");
    let mut soft_one = two_capacity_types();
    let pod = || app().spread(soft(spread("capacity")));
    soft_one.add_all(5, &pod().select("capacity", "spot"));
    soft_one.add_all(5, &pod().select("capacity", "on-demand"));
    soft_one.pass();
    assert_eq!(soft_one.skew("capacity"), [5, 5], "SC-203");
}

/// SC-204.
#[test]
fn sc_204_three_constraints_on_many_types() {
    let types: Vec<_> =
        f3().into_iter().filter(|one| one.0.name.contains("-8-") || one.0.name.starts_with("4-")).collect();
    let mut cluster = with(pool("p").limits("").require("capacity In spot on-demand"), types);
    let pod = app().spread(spread("capacity")).spread(skew(2, spread("zone"))).spread(skew(3, spread("host")));
    for count in 1..15 {
        let ids = cluster.run_n(count, &pod);
        assert_eq!(cluster.placed(&ids), count);
        let range = |key: &str, domains: usize| {
            let counts = cluster.skew(key);
            let least = if counts.len() < domains { 0 } else { counts[0] };
            counts.last().unwrap() - least
        };
        assert!(range("capacity", 2) <= 1 && range("zone", 3) <= 2, "after {count}");
        assert!(*cluster.skew("host").last().unwrap() <= 3, "after {count}");
    }
}

/// SC-205.
#[test]
fn sc_205_across_passes() {
    let mut zones = cluster();
    zones.run_n(4, &by_zone());
    assert_eq!(zones.skew("zone"), [1, 1, 2]);
    let nodes = zones.nodes.len();
    zones.run_n(5, &by_zone());
    assert_eq!((zones.skew("zone"), zones.nodes.len()), (vec![3, 3, 3], nodes));
    let mut hosts = cluster();
    hosts.run_n(4, &app().spread(spread("host")));
    hosts.run_n(5, &app().spread(spread("host")));
    assert_eq!(hosts.skew("host"), [1; 9]);
}

/// SCH-155, SC-224.
#[test]
fn sc_224_a_volume_decides_the_zone() {
    let mut cluster = cluster();
    cluster.run(["z1", "z2", "z3"].map(|zone| by_zone().select("zone", zone)));
    let pinned = app().spread(min_domains(3, spread("zone"))).volumes_in(&["zone In z1"]);
    assert_eq!(cluster.one_label("zone", pinned), "z1");
    assert_eq!(cluster.skew("zone"), [1, 1, 2]);
}

/// VC-111, SC-225, SC-226, SC-228, SC-229: default constraints are a pod's own once they are there (SCH-150).
#[test]
fn sc_225_to_229_defaults_are_like_own_constraints() {
    let mut zones = cluster();
    zones.run_n(4, &by_zone());
    assert_eq!(zones.skew("zone"), [1, 1, 2], "SC-225");
    let mut hosts = cluster();
    hosts.run_n(3, &app().spread(spread("host")));
    assert_eq!(hosts.skew("host"), [1, 1, 1], "SC-225");
    let mut own = cluster();
    own.run_n(3, &app().spread(skew(3, spread("host"))));
    assert_eq!(own.skew("host"), [3], "SC-225");

    let mut few = in_zones("zone In z1 z2");
    few.run_n(3, &app().spread(min_domains(3, spread("zone"))));
    assert_eq!(few.skew("zone"), [1, 1], "SC-226");
    for (constraint, placed) in [(min_domains(2, spread("zone")), 1), (soft(min_domains(2, spread("zone"))), 3)] {
        let mut one = in_zones("zone In z1");
        let ids = one.run_n(3, &app().spread(constraint));
        assert_eq!(one.placed(&ids), placed, "SC-226");
    }

    let mut counted = in_zones("zone In z1 z2");
    counted.node(unmanaged("n", "pods=0", "zone=z1"));
    counted.bound(app(), "n");
    counted.bound(app(), "n");
    let ids = counted.run_n(2, &by_zone());
    assert!(ids.iter().all(|id| counted.label("zone", id) == "z2"), "SC-228");

    for key in ["set", "hash"] {
        let mut both = cluster();
        for value in ["a", "b"] {
            let label = format!("{key}={value}");
            both.add_all(3, &app().label(&label).spread(over(&label, spread("zone"))));
        }
        both.pass();
        for value in ["a", "b"] {
            assert_eq!(both.skew_of("zone", &selector(&format!("{key}={value}"))), [1, 1, 1], "SC-229 {key}");
        }
    }
}

/// SC-371, Q3.
#[test]
fn sc_371_min_domains_are_part_of_a_group() {
    for turned in [false, true] {
        let mut cluster = in_zones("zone In z1 z2");
        for zone in ["z1", "z2"] {
            cluster.node(unmanaged(zone, "pods=0", &format!("zone={zone}")));
            cluster.bound(app(), zone);
        }
        let mut pods = vec![
            app().named("free").spread(spread("zone")),
            app().named("bound").spread(min_domains(3, spread("zone"))),
        ];
        if turned {
            pods.reverse();
        }
        let ids = cluster.run(pods);
        let placed: Vec<&str> = ids.iter().filter(|id| cluster.at(id).is_some()).map(|id| id.name.as_str()).collect();
        assert_eq!(placed, ["free"]);
    }
}

/// SCH-127, Q5, SC-374, SC-376.
#[test]
fn sc_374_376_which_domains_there_are() {
    let mut none = with(pool("p").require("custom NotIn a"), f1());
    assert!(none.one(app().spread(spread("custom"))).is_none(), "SC-374");
    let mut only_z3 = empty();
    let mut types = f1();
    types[0] = types[0].clone().in_zones(&["z3"], 1.0);
    only_z3.pool(pool("p"), types);
    assert_eq!(only_z3.one_label("zone", by_zone().select("type", "std")), "z3", "SC-376");
}

/// SCH-125: a pod that is planned anew does not count where it is now.
#[test]
fn sch_125_pods_of_the_batch_are_not_counted() {
    let mut cluster = cluster();
    let mut going = unmanaged("going", "cpu=4 pods=9", "zone=z1");
    Arc::make_mut(going.node.as_mut().unwrap()).deleting_since = Some(Timestamp::UNIX_EPOCH);
    cluster.node(going);
    let id = cluster.bound(app().spread(spread("zone")), "going");
    let moving = cluster.at(&id).unwrap().pods[0].clone();
    cluster.pending.insert(id.clone(), moving);
    let plan = cluster.plan();
    let zone = plan.claims[0].requirements.get(labels::ZONE).unwrap().to_string();
    assert_eq!(zone, "topology.kubernetes.io/zone In [z1]", "as if nobody were there");
}
