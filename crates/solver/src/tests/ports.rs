//! Host ports (SC-253 … SC-256).

use super::build::{pod, pool, unmanaged};
use super::cluster::{cluster, empty, with};
use super::fixtures::f1;
use crate::Refusal;

/// SC-253, SC-254.
#[test]
fn sc_253_254_ports_that_are_taken() {
    let mut two = cluster();
    let ids = two.run([pod().port(8080), pod().port(8080)]);
    assert_eq!((two.placed(&ids), two.hosts(&ids)), (2, 2), "SC-253");
    let mut everywhere = cluster();
    everywhere.daemon(pod().port(8080));
    assert!(everywhere.one(pod().port(8080)).is_none(), "SC-254");
    assert_eq!(everywhere.last.unplaced[0].reasons[0].why, Refusal::HostPort, "SC-254");
}

/// SC-255, SCH-162.
#[test]
fn sc_255_only_types_with_the_daemon_are_ruled_out() {
    let mut cluster = with(pool("p"), f1());
    cluster.daemon(pod().require("size In large").port(8080));
    cluster.daemon(pod().require("size In small").port(8081).asks("cpu=2 memory=2Gi"));
    let pod = pod().require("size In small").asks("cpu=1 memory=1Gi").port(8080);
    assert_eq!(cluster.one_label("type", pod), "std");
}

/// SC-256, SCH-161.
#[test]
fn sc_256_ports_of_a_node() {
    for (port, fits) in [(5, false), (11, true)] {
        let mut cluster = empty();
        cluster.node(unmanaged("u", "pods=50", ""));
        for port in 1..=10 {
            cluster.bound(pod().port(port), "u");
        }
        assert_eq!(cluster.one(pod().port(port)).is_some(), fits, "{port}");
    }
    // A moving pod is still bound where it was; there it does not conflict with itself.
    let mut cluster = empty();
    cluster.node(unmanaged("u", "pods=50", ""));
    cluster.bound(pod().named("mover").port(5), "u");
    cluster.add(pod().named("mover").port(5));
    assert_eq!(cluster.plan().placed.len(), 1);
}
