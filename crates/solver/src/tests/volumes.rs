//! Volumes, resolved (SC-237 … SC-251, SC-375, SC-387, VC-92 … VC-99).

use super::build::{Pod, app, near, pod, pool, unmanaged};
use super::cluster::{Cluster, Launched, cluster, with};
use super::fixtures::{Type, f2, f4, it};
use crate::Refusal;

const DRIVER: &str = "d.csi";

/// SC-237, SC-238, SC-239, SC-240: where volumes can be, what the pod requires, where it goes.
#[test]
fn sc_237_to_240_zones_of_volumes() {
    for (id, alternatives, requires, want) in [
        ("SC-237", &["zone In z2 z3"][..], "zone In z1 z3", "z3"),
        ("SC-237", &["zone In z2 z3"], "zone In z1", "none"),
        ("SC-238", &["zone In z3"], "", "z3"),
        ("SC-238", &["zone In z3"], "zone In z1", "none"),
        ("SC-239 CSI", &["host In somewhere"], "", "none"),
        ("SC-240", &["", "zone In invalid"], "zone In z2", "z2"),
        ("SC-239 local", &[""], "zone In z2", "z2"),
    ] {
        let pod = pod().volumes_in(alternatives);
        let pod = if requires.is_empty() { pod } else { pod.require(requires) };
        assert_eq!(cluster().one_label("zone", pod), want, "{id}");
    }
}

/// SC-241.
#[test]
fn sc_241_alternatives() {
    let mut cluster = cluster();
    let shy = app().apart(near("zone", "app=test")).volumes_in(&["zone In z1", "zone In z2"]);
    let ids = cluster.run_n(2, &shy);
    assert_eq!([cluster.label("zone", &ids[0]), cluster.label("zone", &ids[1])], ["z1", "z2"]);
}

/// SC-242: the combinations of two classes that do not contradict each other, in their order (SCH-154).
#[test]
fn sc_242_two_classes() {
    let mut cluster = with(pool("p"), f2(5));
    let both = pod().volumes_in(&["zone In z2; special In required", "zone In z1; special In optional"]);
    let id = cluster.run([both]).remove(0);
    assert_eq!([cluster.label("zone", &id), cluster.label("special", &id)], ["z1", "optional"]);
}

/// F4 with a node that has reported this limit.
fn with_node(limit: Option<u32>) -> Cluster {
    let mut cluster = with(pool("p").limits(""), f4());
    cluster.run([pod()]);
    cluster.nodes[0].volume_limits.insert(DRIVER.to_owned(), limit);
    cluster
}

/// Pods with volume claims of their own.
fn each(count: usize, claims: usize) -> Vec<Pod> {
    let names = |i: usize| (0..claims).map(|j| format!("v{i}-{j}")).collect::<Vec<_>>();
    (0..count).map(|i| pod().mounts(DRIVER, &names(i).iter().map(String::as_str).collect::<Vec<_>>())).collect()
}

/// SC-243 … SC-246, SC-250.
#[test]
fn sc_243_to_246_and_250_limits_of_nodes() {
    for (id, limit, pods, counts) in [
        ("SC-243", Some(10), each(6, 2), vec![6, 1]),
        ("SC-244", Some(10), (0..100).map(|_| pod().mounts(DRIVER, &["shared"])).collect(), vec![101]),
        ("SC-245", Some(1), (0..5).map(|_| pod()).collect(), vec![6]),
        ("SC-246", Some(1), each(2, 1), vec![2, 1]),
        ("SC-250", Some(1), each(2, 1), vec![2, 1]),
        ("VC-99", None, each(100, 1), vec![101]),
    ] {
        let mut cluster = with_node(limit);
        cluster.run(pods);
        let pods: Vec<usize> = cluster.nodes.iter().map(|node| node.pods.len()).collect();
        assert_eq!(pods, counts, "{id}");
    }
}

/// SCH-158, SC-251, SC-387, Q36.
#[test]
fn sc_251_387_a_node_at_its_limit() {
    for (id, there, pod, fits) in [
        ("SC-251 unseen", 10, pod().mounts(DRIVER, &["new"]), false),
        ("SC-251 seen", 10, pod().mounts(DRIVER, &["v0-0"]), true),
        ("SC-387 none", 11, pod(), true),
        ("SC-387 one more", 11, pod().mounts(DRIVER, &["new"]), false),
        ("SC-387 another driver", 11, pod().mounts("other.csi", &["new"]), true),
    ] {
        let mut cluster = with_node(Some(10));
        for pod in each(there, 1) {
            cluster.bound(pod, "n0001");
        }
        assert_eq!(cluster.one(pod).unwrap().name() == "n0001", fits, "{id}");
    }
}

fn limited(limit: u32) -> Vec<Type> {
    vec![f4().remove(0).attaches(DRIVER, limit)]
}

/// VC-92, VC-93, VC-94, VC-95, V15-102.
#[test]
fn vc_092_to_095_limits_of_types() {
    for (id, types, pods, nodes) in [
        ("VC-92", limited(10), each(100, 1), 10),
        ("VC-93", limited(10), each(6, 2), 2),
        ("VC-94", limited(10), (0..50).map(|_| pod().mounts(DRIVER, &["shared"])).collect(), 1),
        ("VC-95", vec![f4().remove(0).attaches("other.csi", 10)], each(100, 1), 1),
    ] {
        let mut cluster = with(pool("p").limits(""), types);
        cluster.run(pods);
        assert_eq!((cluster.nodes.len(), cluster.pending.len()), (nodes, 0), "{id}");
    }
}

/// VC-96, VC-97.
#[test]
fn vc_096_097_types_that_attach_too_little() {
    let mut short = with(pool("p").limits(""), limited(10));
    short.run(each(1, 11));
    let why = &short.last.unplaced[0].reasons[0].why;
    assert_eq!(*why, Refusal::Attachments { driver: DRIVER.into(), needed: 11, limit: 10 });
    assert_eq!(why.to_string(), "no instance type attaches 11 volumes of d.csi, the most is 10");
    let sized = |name: &str| it(name, "cpu=4 memory=4Gi pods=9");
    let mut two = with(pool("p"), vec![sized("few").attaches(DRIVER, 2), sized("many").attaches(DRIVER, 20)]);
    two.run(each(1, 5));
    assert_eq!(*two.last.claims[0].instance_types, ["many"]);
    let mut drivers = with(
        pool("p"),
        vec![sized("few").attaches(DRIVER, 20).attaches("other.csi", 0), sized("many").attaches(DRIVER, 20)],
    );
    drivers.run([each(1, 5).remove(0).mounts("other.csi", &["x"])]);
    assert_eq!(*drivers.last.claims[0].instance_types, ["many"]);
}

/// VC-98, VC-99, V15-103.
#[test]
fn vc_098_099_nodes_that_have_not_reported() {
    for launched in [Launched::ClaimOnly, Launched::InFlight, Launched::Initialized] {
        for (reported, nodes) in [(None, 2), (Some(Some(20)), 1), (Some(None), 1)] {
            let mut cluster = with(pool("p").limits(""), limited(10));
            cluster.launched = launched;
            cluster.run([pod()]);
            if let Some(limit) = reported {
                cluster.nodes[0].volume_limits.insert(DRIVER.to_owned(), limit);
            }
            cluster.run(each(11, 1));
            assert_eq!((cluster.nodes.len(), cluster.pending.len()), (nodes, 0), "{reported:?}");
        }
    }
    let mut unknown = with(pool("p").limits(""), limited(10));
    unknown.node(unmanaged("u", "pods=99", ""));
    unknown.run(each(11, 1));
    assert_eq!(unknown.nodes.len(), 1, "a node of no known type");
}

/// SCH-100, Q7, SC-375, SCH-156.
#[test]
fn sc_375_a_pod_whose_volumes_cannot_be_read() {
    let mut broken = pod();
    broken.0.unplannable = Some("persistent volume claim x not found".to_owned());
    let mut cluster = cluster();
    let ids = cluster.run([broken, pod()]);
    assert!(cluster.at(&ids[0]).is_none() && cluster.at(&ids[1]).is_some());
}
