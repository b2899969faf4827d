//! Wishes and how they are given up (SC-151 … SC-158).

use super::build::{Pod, app, near, pod, pool, skew, soft, spread};
use super::cluster::{Cluster, cluster, with};
use super::fixtures::f1;
use crate::Preferences;

fn zone(pod: Pod) -> String {
    cluster().one_label("zone", pod)
}

/// SCH-92, SCH-94, SC-151, SC-153, SC-154.
#[test]
fn sc_151_153_154_terms() {
    let all = || pod().require("zone In z1 z2 z3 unknown");
    for (id, pod, want) in [
        ("SC-151 one", pod().require("zone In invalid"), "none"),
        (
            "SC-151 four",
            pod().require("zone In invalid").require("zone In invalid").require("zone In z1").require("zone In z2"),
            "z1",
        ),
        ("SC-153", pod().require("zone In z3").prefer(1, "zone NotIn z3"), "z3"),
        ("SC-154 In", all().prefer(1, "zone In z2 unknown"), "z2"),
        ("SC-154 NotIn", all().prefer(1, "zone NotIn z1 z3"), "z2"),
    ] {
        assert_eq!(zone(pod), want, "{id}");
    }
    for (id, pod) in [
        ("SC-153 contradictory", pod().prefer(1, "zone In invalid; zone NotIn invalid")),
        ("SC-154 unknown", all().prefer(1, "zone In unknown")),
        ("SC-154 nothing", all().prefer(1, "zone NotIn z1 z2 z3")),
    ] {
        assert_ne!(zone(pod), "none", "{id}");
    }
}

/// SC-152.
#[test]
fn sc_152_the_heaviest_that_can_be_met() {
    assert_ne!(zone(pod().prefer(1, "zone In invalid").prefer(1, "type In invalid")), "none");
    let mut cluster = with(pool("p").require("zone In z1 z2"), f1());
    let pod = pod().prefer(100, "type In z3").prefer(50, "zone In z2").prefer(1, "zone In z1");
    assert_eq!(cluster.one_label("zone", pod), "z2");
}

/// SC-155.
#[test]
fn sc_155_a_wish_opens_no_node_that_would_not_help() {
    for wish in ["zone In unknown", "host In unknown"] {
        let mut cluster = cluster();
        let ids = cluster.run([pod().asks("cpu=2"), pod().asks("cpu=1").prefer(1, wish)]);
        assert_eq!((cluster.hosts(&ids), cluster.placed(&ids)), (1, 2), "{wish}");
    }
}

fn ignoring() -> Cluster {
    let mut cluster = cluster();
    cluster.options.preferences = Preferences::Ignore;
    cluster
}

/// SCH-95, SC-156.
#[test]
fn sc_156_ignored_wishes() {
    let mut cluster = ignoring();
    let ids = cluster.run([
        pod().asks("cpu=2").select("zone", "z1"),
        pod().asks("cpu=3").select("zone", "z2"),
        pod().asks("cpu=3").select("zone", "z2"),
        pod().asks("cpu=1").prefer(1, "zone In z2"),
    ]);
    assert_eq!(cluster.at(&ids[3]).unwrap().name(), cluster.at(&ids[0]).unwrap().name());
}

/// SCH-95, SCH-123, Q13, SC-157.
#[test]
fn sc_157_ignored_spread_and_affinity() {
    for pod in [
        app().spread(soft(spread("zone"))),
        app().spread(soft(spread("host"))),
        app().prefers_apart(1, near("zone", "app=test")),
        app().prefers_apart(1, near("host", "app=test")),
    ] {
        let mut cluster = ignoring();
        let ids = cluster.run_n(5, &pod);
        assert_eq!((cluster.hosts(&ids), cluster.placed(&ids)), (1, 5));
    }
    let mut cluster = ignoring();
    let ids = cluster.run([
        pod().asks("cpu=3").select("zone", "z1"),
        pod().asks("cpu=2").select("zone", "z2").label("here=z2"),
        pod().asks("cpu=1").prefers_near(1, near("zone", "here=z2")),
    ]);
    assert_eq!(cluster.label("zone", &ids[2]), "z1");
}

/// SC-158.
#[test]
fn sc_158_volumes_outlast_relaxing() {
    let pod = pod().require("unsupported In x").require("capacity In on-demand").volumes_in(&["zone In z3"]);
    assert_eq!(zone(pod), "z3");
}

/// SCH-93: the order of the steps, each shown by what is left when placing succeeds.
#[test]
fn wishes_go_in_the_specified_order() {
    let target = || pod().asks("cpu=1").label("target=yes").select("zone", "z2");
    // Pod affinity goes before node affinity, so the node preference wins.
    let mut cluster = cluster();
    let torn = app().prefers_near(100, near("zone", "target=yes")).prefer(1, "zone In z3");
    let ids = cluster.run([target(), torn]);
    assert_eq!(cluster.label("zone", &ids[1]), "z3");
    // Node affinity goes before spread.
    let mut cluster = super::cluster::cluster();
    let first = cluster.run([app().select("zone", "z1")]).remove(0);
    let torn = app().prefer(1, "zone In z1").spread(skew(1, soft(spread("zone"))));
    let second = cluster.run([torn]).remove(0);
    assert_ne!(cluster.label("zone", &first), cluster.label("zone", &second));
}
