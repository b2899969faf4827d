//! What the plan says about the claims to create (SC-322 … SC-326, SC-330, SC-336).

use karpenter_model::labels;

use super::build::{pod, pool};
use super::cluster::{Cluster, cluster, custom_labels, with};
use super::fixtures::{f1, it};

fn asked(cluster: &Cluster, key: &str) -> String {
    cluster.last.claims[0].requirements.get(key).map(ToString::to_string).unwrap_or_default()
}

/// SC-322.
#[test]
fn sc_322_types_and_pool() {
    let mut cluster = cluster();
    cluster.run([pod()]);
    assert_eq!(cluster.last.claims.len(), 1);
    let mut types = cluster.last.claims[0].instance_types.to_vec();
    types.sort();
    assert_eq!(types, ["arm", "gpu-a", "gpu-b", "one-pod", "small", "std"]);
    let listed = cluster.last.claims[0].requirements.get(labels::INSTANCE_TYPE).unwrap();
    assert_eq!(listed.values().collect::<Vec<_>>(), types);
    assert_eq!(asked(&cluster, labels::NODEPOOL), "karpenter.sh/nodepool In [default]");
}

/// SC-323, SC-326.
#[test]
fn sc_323_326_custom_requirements_become_labels() {
    let mut cluster = with(pool("p").require("custom-a In v; custom-b In v"), f1());
    cluster.run([pod()]);
    for key in ["custom-a", "custom-b"] {
        assert_eq!(asked(&cluster, key), format!("{key} In [v]"));
        assert_eq!(cluster.nodes[0].labels()[key], "v");
    }
    let mut cluster = with(pool("p").require("foo In bar; node.kubernetes.io/windows-build NotIn x"), f1());
    cluster.run([pod()]);
    assert_eq!(cluster.nodes[0].labels()["foo"], "bar");
    assert!(!cluster.nodes[0].labels().contains_key(labels::WINDOWS_BUILD));
}

/// SC-324.
#[test]
fn sc_324_types_follow_the_requirements() {
    for (pool, pod, want) in [
        (pool("p").require("arch In arm64"), pod(), "arm"),
        (pool("p").require("os In ios"), pod(), "arm"),
        (pool("p"), pod().asks("vendor-a=1"), "gpu-a"),
    ] {
        let mut cluster = with(pool, f1());
        cluster.run([pod]);
        assert_eq!(*cluster.last.claims[0].instance_types, [want]);
        assert_eq!(asked(&cluster, labels::INSTANCE_TYPE), format!("node.kubernetes.io/instance-type In [{want}]"));
    }
}

/// SC-325, SCH-220.
#[test]
fn sc_325_labels_of_every_operator() {
    let asked = "k2 In v2; k3 NotIn v3; k4 Lt 4; k5 Gt 5; k6 Exists; k7 DoesNotExist";
    let mut cluster = with(pool("p").label("k1=v1").require(asked), f1());
    cluster.run([pod()]);
    let labels = custom_labels(&cluster.last.claims[0], &cluster.rules);
    let number = |key: &str| labels[key].parse::<i64>().unwrap();
    assert_eq!([&labels["k1"], &labels["k2"], &labels["karpenter.sh/nodepool"]], ["v1", "v2", "p"]);
    assert_ne!(labels["k3"], "v3");
    assert!(number("k4") < 4 && number("k5") > 5 && labels.contains_key("k6") && !labels.contains_key("k7"));
}

/// SCH-85, SC-330.
#[test]
fn sc_330_the_node_class() {
    let mut cluster = cluster();
    cluster.run([pod()]);
    let pool = &cluster.last.claims[0].pool;
    assert_eq!(pool.node_class.to_string(), "TestClass.test.sh/default");
    assert_eq!(cluster.nodes[0].labels()["test.sh/testclass"], "default");
}

/// SC-336, SCH-221.
#[test]
fn sc_336_capacity_types_that_can_be_had() {
    let mut types = vec![it("a", "cpu=4 memory=4Gi pods=5"), it("b", "cpu=8 memory=8Gi pods=5")];
    for known in &mut types {
        known.0.offerings.iter_mut().for_each(|one| one.available = one.capacity_type() == Some("on-demand"));
    }
    let mut cluster = with(pool("p").require("capacity In spot on-demand"), types);
    cluster.run([pod()]);
    assert_eq!(asked(&cluster, labels::CAPACITY_TYPE), "karpenter.sh/capacity-type In [on-demand]");
}

/// SC-11, SC-14, SC-15, SC-327: pools that are not ready, labels of other domains, and every well-known label.
#[test]
fn sc_11_to_15_327_labels_and_pools() {
    let mut unready = pool("p");
    unready.0.ready = false;
    assert!(with(unready, f1()).one(pod()).is_none(), "SC-11");
    let domains = ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"];
    let wide = domains.iter().fold(pool("p"), |pool, key| pool.require(&format!("{key} In v")));
    let mut cluster = with(wide, f1());
    let id = cluster.run([pod()]).remove(0);
    for key in domains {
        assert_eq!(cluster.label(key, &id), "v", "SC-14");
    }
    for (name, value) in [("zone", "z1"), ("type", "std"), ("arch", "arm64"), ("os", "linux"), ("capacity", "spot")] {
        assert_eq!(with(pool("p"), f1()).one_label(name, pod().select(name, value)), value, "SC-15");
    }
    let labelled = || pool("p").label("subdomain.k8s.io/test=v");
    let asks = pod().require("subdomain.k8s.io/test In v");
    assert_eq!(with(labelled(), f1()).one_label("subdomain.k8s.io/test", asks), "v", "SC-327");
}
