//! Requirements as they decide where pods go (SC-48 … SC-58, SC-172, SC-175).

use super::build::{Pod, pod, pool};
use super::cluster::{Cluster, cluster, with};
use super::fixtures::{f1, f2, it};

/// A label of the node that one pod gets in a fresh cluster.
fn lands(fresh: impl Fn() -> Cluster, label: &str, pod: Pod) -> String {
    fresh().one_label(label, pod)
}

/// SC-48.
#[test]
fn sc_048_labels_of_the_pool() {
    let fresh = || with(pool("default").label("test-key=test-value"), f1());
    for (name, pod, want) in [
        ("no selector", pod(), "test-value"),
        ("another value", pod().select("test-key", "different-value"), "none"),
        ("one of two", pod().require("test-key In test-value another-value"), "test-value"),
        ("another one", pod().require("test-key In another-value"), "none"),
    ] {
        assert_eq!(lands(fresh, "test-key", pod), want, "{name}");
    }
}

/// SC-49.
#[test]
fn sc_049_a_label_that_no_pool_has() {
    for (ask, placed) in
        [("In test-value", false), ("NotIn test-value", true), ("Exists", false), ("DoesNotExist", true)]
    {
        let pod = pod().require(&format!("test-key {ask}"));
        assert_eq!(lands(cluster, "type", pod) != "none", placed, "{ask}");
    }
    assert_eq!(lands(cluster, "test-key", pod().require("test-key DoesNotExist")), "-");
    assert_eq!(lands(cluster, "test-key", pod().select("test-key", "test-value")), "none");
}

/// SC-50.
#[test]
fn sc_050_operators_against_a_pool_that_requires_a_value() {
    let fresh = || with(pool("default").require("test-key In test-value"), f1());
    for (ask, want) in [
        ("test-key NotIn test-value", "none"),
        ("test-key Exists", "test-value"),
        ("test-key DoesNotExist", "none"),
        ("test-key NotIn another-value", "test-value"),
    ] {
        assert_eq!(lands(fresh, "test-key", pod().require(ask)), want, "{ask}");
    }
}

/// SC-51.
#[test]
fn sc_051_compatible_pods_share_a_node() {
    let fresh = || with(pool("default").require("test-key In a b"), f1());
    let mut together = fresh();
    let ids = together.run([pod().require("test-key In a"), pod().require("test-key NotIn b")]);
    assert_eq!((together.hosts(&ids), together.label("test-key", &ids[1]).as_str()), (1, "a"));
    let mut apart = fresh();
    let ids = apart.run([pod().require("test-key In a"), pod().require("test-key In b")]);
    assert_eq!(apart.hosts(&ids), 2);
    assert_eq!([apart.label("test-key", &ids[0]), apart.label("test-key", &ids[1])], ["a", "b"]);
}

/// SC-52, SC-53, SC-54.
#[test]
fn sc_052_to_054_zones() {
    let one_zone = || with(pool("default").require("zone In z1"), f1());
    let two_zones = || with(pool("default").require("zone In z1 z2"), f1());
    let in_zone = |zone: &str| pod().select("zone", zone);
    let asks = |text: &str| pod().require(text);
    for (id, got, want) in [
        ("SC-52", lands(cluster, "zone", asks("zone In non-existent; zone Exists")), "none"),
        ("SC-53 z2 of z1", lands(one_zone, "zone", in_zone("z2")), "none"),
        ("SC-53 unknown", lands(one_zone, "zone", in_zone("unknown")), "none"),
        ("SC-53 z2 of two", lands(two_zones, "zone", in_zone("z2")), "z2"),
        ("SC-54 z3 left", lands(cluster, "zone", asks("zone NotIn z1 z2 unknown")), "z3"),
        ("SC-54 none left", lands(cluster, "zone", asks("zone NotIn z1 z2 z3 unknown")), "none"),
    ] {
        assert_eq!(got, want, "{id}");
    }
}

/// SC-55.
#[test]
fn sc_055_bounds_of_the_pool() {
    for (ask, want) in [("integer Gt 8", "16"), ("integer Lt 8", "2"), ("integer Gte 16", "16"), ("integer Lte 2", "2")]
    {
        assert_eq!(lands(|| with(pool("default").require(ask), f1()), "integer", pod()), want, "{ask}");
    }
}

/// SC-56.
#[test]
fn sc_056_everything_at_once() {
    let pod = pod()
        .select("zone", "z3")
        .select("type", "arm")
        .require("zone In z1 z3; type In std arm")
        .prefer(1, "zone NotIn unknown; type NotIn unknown");
    let mut cluster = cluster();
    let id = cluster.run([pod]).remove(0);
    assert_eq!([cluster.label("type", &id), cluster.label("zone", &id)], ["arm", "z3"]);
}

/// SC-57, SC-58.
#[test]
fn sc_057_058_labels_of_the_provider() {
    let fresh = || with(pool("default"), f2(5));
    for (id, pod, want) in [
        ("SC-57 exists", pod().require("special Exists"), "t004"),
        ("SC-57 absent", pod().require("special DoesNotExist"), "t000"),
        ("SC-58 large", pod().select("size", "large"), "t004"),
        ("SC-58 small", pod().select("size", "small"), "t000"),
        ("SC-58 both", pod().select("size", "large").select("type", "t000"), "none"),
    ] {
        assert_eq!(lands(fresh, "type", pod), want, "{id}");
    }
}

/// SC-172.
#[test]
fn sc_172_values_that_only_pods_name() {
    let mut cluster = with(pool("default").require("company.com/team Exists"), f1());
    let team = |name: &str| pod().select("company.com/team", name);
    let ids = cluster.run([team("team-a"), team("team-b")]);
    assert_eq!(cluster.hosts(&ids), 2);
    let names = [cluster.label("company.com/team", &ids[0]), cluster.label("company.com/team", &ids[1])];
    assert_eq!(names, ["team-a", "team-b"]);
    let third = cluster.run([team("team-a")]).remove(0);
    assert_eq!(cluster.at(&third).unwrap().name(), cluster.at(&ids[0]).unwrap().name());
}

/// SC-175.
#[test]
fn sc_175_bounds_of_pool_and_pod_meet() {
    let types = ["50", "150", "250"].map(|n| it(&format!("t{n}"), "cpu=4 memory=4Gi pods=5").with("integer", &[n]));
    let mut cluster = with(pool("default").require("integer Gt 100"), types.to_vec());
    cluster.run([pod().require("integer Lt 200")]);
    assert_eq!(*cluster.last.claims[0].instance_types, ["t150"]);
}
