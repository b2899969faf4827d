//! Taints and tolerations as they decide where pods go (SC-71 … SC-86).

use std::sync::Arc;

use super::build::{pod, pool, taint, unmanaged};
use super::cluster::{Cluster, Launched, cluster, with};
use super::fixtures::f1;

/// SC-71, SC-72.
#[test]
fn sc_071_072_tolerations() {
    for (id, tainted, toleration, placed) in [
        ("SC-71 exists", "test-key=test-value:NoSchedule", "test-key Exists", true),
        ("SC-71 equal", "test-key=test-value:NoSchedule", "test-key Equal test-value", true),
        ("SC-71 wrong key", "test-key=test-value:NoSchedule", "invalid Exists", false),
        ("SC-71 empty value", "test-key=test-value:NoSchedule", "test-key Equal", false),
        ("SC-72 equal", "nvidia.com/gpu=true:NoSchedule", "nvidia.com/gpu Equal true NoSchedule", true),
        ("SC-72 effect", "nvidia.com/gpu=true:NoSchedule", "nvidia.com/gpu Exists NoSchedule", true),
        ("SC-72 no effect", "nvidia.com/gpu=true:NoSchedule", "nvidia.com/gpu Exists", true),
        ("SC-72 no key", "nvidia.com/gpu=true:NoSchedule", "* Exists", true),
    ] {
        let mut cluster = with(pool("p").taint(tainted), f1());
        assert_eq!(cluster.one(pod().tolerate(toleration)).is_some(), placed, "{id}");
    }
    let mut cluster = with(pool("p").taint("test-key=test-value:NoSchedule"), f1());
    assert!(cluster.one(pod()).is_none(), "SC-71 no toleration");
}

/// SC-73, SC-74, SC-75, SCH-54.
#[test]
fn sc_073_to_075_taints_come_from_the_pool_alone() {
    let mut tainted = with(pool("p").taint("a=b:NoSchedule"), f1());
    assert_eq!(tainted.one(pod().tolerate("* Exists")).unwrap().taints(), [taint("a=b:NoSchedule")], "SC-73");
    let mut plain = cluster();
    assert!(plain.one(pod().tolerate("unknown Exists NoExecute")).unwrap().taints().is_empty(), "SC-74");
    let mut startup = with(pool("p").startup_taint("ignore-me=nothing-to-see:NoSchedule"), f1());
    assert!(startup.one(pod()).is_some(), "SC-75");
}

/// SC-76, SC-77, SCH-55.
#[test]
fn sc_076_077_prefer_no_schedule_is_avoided_while_it_can_be() {
    let tainted = || pool("tainted").weight(10).taint("foo=bar:PreferNoSchedule");
    let mut both = with(tainted(), f1());
    both.pool(pool("plain"), f1());
    assert_eq!(both.one_label("pool", pod()), "plain");
    let mut only = with(tainted(), f1());
    let picky = pod().prefer(1, "zone In invalid").prefer(1, "type In invalid");
    assert_eq!(only.one(picky).unwrap().taints(), [taint("foo=bar:PreferNoSchedule")]);
}

const EPHEMERAL: [&str; 4] = [
    "node.kubernetes.io/not-ready:NoSchedule",
    "node.kubernetes.io/not-ready:NoExecute",
    "node.kubernetes.io/unreachable:NoSchedule",
    "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
];

/// A managed node with these taints, in flight and initialized: how many it shows.
fn shown(taints: &[&str], startup: &[&str]) -> (usize, usize) {
    let pool = startup.iter().fold(pool("p"), |pool, text| pool.startup_taint(text));
    let mut cluster = with(pool, f1());
    cluster.run([pod()]);
    let all: Vec<_> = taints.iter().map(|text| taint(text)).collect();
    cluster.edit_nodes(|node| node.taints.clone_from(&all));
    let starting = cluster.nodes[0].taints().len();
    cluster.initialize();
    (starting, cluster.nodes[0].taints().len())
}

/// SC-78, SC-79, SC-80, SC-81, SC-82, SCH-57, SCH-58.
#[test]
fn sc_078_to_082_what_a_starting_node_sheds() {
    assert_eq!(shown(&EPHEMERAL, &[]), (0, 4), "SC-78");
    assert_eq!(shown(&["readiness.k8s.io/a:NoSchedule", "readiness.k8s.io/b:NoExecute"], &[]), (0, 2), "SC-79");
    assert_eq!(shown(&["foo/readiness.k8s.io/bar:NoSchedule", "example.com/x:NoSchedule"], &[]), (2, 2), "SC-80");
    let own = ["a=b:NoSchedule", "c=d:NoExecute"];
    assert_eq!(shown(&own, &own), (0, 2), "SC-82");
    let mut node = unmanaged("u", "cpu=4", "");
    let view = Arc::make_mut(node.node.as_mut().unwrap());
    view.taints = EPHEMERAL.iter().map(|text| taint(text)).collect();
    assert_eq!(node.taints().len(), 4, "SC-81");
}

/// A node launched and emptied; its next pod goes to how many nodes in all?
fn nodes_after(fresh: Cluster, initialized: bool, taints: &[&str]) -> usize {
    let mut cluster = fresh;
    cluster.run([pod()]);
    cluster.empty_all();
    if initialized {
        cluster.initialize();
    }
    let all: Vec<_> = taints.iter().map(|text| taint(text)).collect();
    cluster.edit_nodes(|node| node.taints.clone_from(&all));
    assert!(cluster.one(pod()).is_some());
    cluster.nodes.len()
}

/// SC-83, SC-84, SC-85, SC-86, SC-144.
#[test]
fn sc_083_to_086_and_144_reuse_of_starting_nodes() {
    let started = || with(pool("p").startup_taint("ignore=me:NoSchedule"), f1());
    for (id, fresh, initialized, taints, nodes) in [
        ("SC-83", started(), false, vec!["ignore=me:NoSchedule", EPHEMERAL[0]], 1),
        ("SC-84", started(), true, vec!["ignore=me:NoSchedule"], 2),
        ("SC-85", cluster(), true, vec!["foo.com/taint:NoSchedule"], 2),
        ("SC-86 starting", cluster(), false, vec![EPHEMERAL[1]], 1),
        ("SC-86 initialized", cluster(), true, vec![EPHEMERAL[1]], 2),
        ("SC-144", cluster(), true, vec![], 1),
    ] {
        assert_eq!(nodes_after(fresh, initialized, &taints), nodes, "{id}");
    }
    let mut claim_only = started();
    claim_only.launched = Launched::ClaimOnly;
    assert_eq!(nodes_after(claim_only, false, &[]), 1, "known by its claim only");
}

/// SC-87.
#[test]
fn sc_087_numbers() {
    for (toleration, tainted, placed) in [
        ("k Gt 5", "k=7:NoSchedule", true),
        ("k Gt 5", "k=5:NoSchedule", false),
        ("k Lt 5", "k=3:NoSchedule", true),
        ("k Lt 5", "k=abc:NoSchedule", false),
    ] {
        let mut cluster = with(pool("p").taint(tainted), f1());
        assert_eq!(cluster.one(pod().tolerate(toleration)).is_some(), placed, "{toleration} of {tainted}");
    }
}
