//! What DaemonSets take (SC-118 … SC-129, SC-370, SC-380, SC-381).

use karpenter_model::resources::Resources;

use super::build::{Pod, Pool, pod, pool, unmanaged};
use super::cluster::{Cluster, with};
use super::fixtures::{f1, it};

/// Which type a pod gets beside these daemons.
fn chosen(pool: Pool, daemons: &[Pod], asks: &str) -> String {
    let mut cluster = with(pool, f1());
    for daemon in daemons {
        cluster.daemon(daemon.clone());
    }
    cluster.one_label("type", pod().asks(asks))
}

/// SCH-56, SCH-72, SCH-73, SCH-74, SC-118 … SC-126, SCH-71 … SCH-76.
#[test]
fn sc_118_to_126_which_daemons_count() {
    let large = || pod().asks("cpu=2 memory=2Gi");
    let plain = || pool("p");
    let one = "cpu=1 memory=1Gi";
    let initialized = |key: &str| pod().asks("cpu=1").select(key, "true");
    for (id, pool, daemons, asks, want) in [
        ("SC-118", plain(), vec![large()], one, "std"),
        ("SC-118 startup taint", plain().startup_taint("a=b:NoSchedule"), vec![large()], one, "std"),
        ("SC-118 too large", plain(), vec![pod().asks("cpu=10000")], one, "none"),
        ("SC-119 taint", plain(), vec![large().select("node", "invalid")], one, "small"),
        ("SC-119 unknown type", plain(), vec![large().require("type In unknown")], one, "small"),
        ("SC-120 label", plain().label("foo=bar"), vec![large().select("foo", "bar")], one, "std"),
        ("SC-120 NotIn", plain(), vec![large().require("foo NotIn bar")], one, "std"),
        (
            "SC-121 second term",
            plain().label("foo=voo"),
            vec![large().require("foo In bar").require("foo In voo")],
            one,
            "std",
        ),
        ("SC-121 preference", plain(), vec![large().prefer(1, "zone In unknown")], one, "std"),
        (
            "SC-122",
            plain(),
            vec![pod().asks("cpu=1").require("size In small"), pod().asks("cpu=10").require("size In large")],
            "cpu=1 memory=1Gi",
            "std",
        ),
        ("SC-123 the live pod stands for its set", plain(), vec![large()], one, "std"),
        ("SC-124 memory from limits", plain(), vec![pod().asks("cpu=1 memory=10000Gi")], one, "none"),
        ("SC-124 init container", plain(), vec![pod().asks("cpu=2 memory=2Gi")], one, "std"),
        ("SC-125 the set's own term", plain().label("foo=bar"), vec![large().require("foo In bar")], one, "std"),
        (
            "SC-126",
            plain(),
            vec![initialized("karpenter.sh/initialized"), initialized("karpenter.sh/registered")],
            "cpu=2",
            "arm",
        ),
    ] {
        assert_eq!(chosen(pool, &daemons, asks), want, "{id}");
    }
}

/// SC-119, SC-121: taints of the pool.
#[test]
fn sc_119_121_daemons_and_taints() {
    for (id, tainted, want) in [("SC-119", "a=b:NoSchedule", "small"), ("SC-121", "a=b:PreferNoSchedule", "std")] {
        let mut cluster = with(pool("p").taint(tainted), f1());
        cluster.daemon(pod().asks("cpu=2 memory=2Gi"));
        let pod = pod().asks("cpu=1 memory=1Gi").tolerate("a Exists");
        assert_eq!(cluster.one_label("type", pod), want, "{id}");
    }
}

/// SC-126: the labels that only a pass pretends are nowhere in the claim.
#[test]
fn sc_126_pretended_labels_stay_out() {
    let mut cluster = with(pool("p"), f1());
    cluster.daemon(pod().asks("cpu=1").select("karpenter.sh/initialized", "true"));
    cluster.run([pod()]);
    let claim = &cluster.last.claims[0];
    for key in ["karpenter.sh/initialized", "karpenter.sh/registered", "kubernetes.io/hostname"] {
        assert!(!claim.requirements.has_key(key) && !claim.pool.labels.contains_key(key), "{key}");
    }
}

/// A node of 16 CPUs that was launched and emptied.
fn sixteen(daemon: Pod) -> Cluster {
    let mut cluster = with(pool("p"), vec![it("t16", "cpu=16 memory=16Gi pods=10")]);
    cluster.daemon(daemon);
    cluster.run([pod()]);
    cluster.empty_all();
    cluster
}

/// SC-127.
#[test]
fn sc_127_a_daemon_that_runs_is_not_counted_twice() {
    let mut cluster = sixteen(pod().asks("cpu=1").named("ds"));
    cluster.bound(pod().asks("cpu=1").daemon(), "n0001");
    assert_eq!(cluster.nodes[0].available().amount("cpu"), "14900m".parse().unwrap());
    cluster.run([pod().asks("cpu=14.9")]);
    assert_eq!((cluster.nodes.len(), cluster.pending.len()), (1, 0));
}

/// SC-128, SCH-77.
#[test]
fn sc_128_an_unexpected_daemon_gives_nothing_back() {
    let mut cluster = sixteen(pod().asks("cpu=1").select("later", "yes"));
    cluster.bound(pod().asks("cpu=1").daemon(), "n0001");
    cluster.run([pod().asks("cpu=15.5")]);
    assert_eq!((cluster.nodes.len(), cluster.pending.len()), (2, 0));
}

/// SC-129.
#[test]
fn sc_129_a_daemon_that_only_new_nodes_would_run() {
    let mut cluster = with(pool("p"), f1());
    cluster.daemon(pod().asks("cpu=100").require("zone In z1"));
    cluster.repool(vec![pool("p").require("zone In z1")]);
    cluster.node(unmanaged("u", "cpu=1 memory=1Gi pods=10", ""));
    let ids = cluster.run([pod().asks("cpu=1"), pod().asks("cpu=1")]);
    assert_eq!(cluster.placed(&ids), 1);
    assert_eq!(cluster.at(&ids[0]).unwrap().name(), "u");
}

/// SC-370, Q1.
#[test]
fn sc_370_the_order_of_pools_does_not_matter_to_daemons() {
    for weights in [(1, 2), (2, 1)] {
        let mut cluster = with(pool("a").weight(weights.0).label("x=a"), f1());
        cluster.pool(pool("b").weight(weights.1).label("x=b"), f1());
        cluster.daemon(pod().asks("cpu=2 memory=2Gi").require("x In nowhere").require("x In b"));
        let ask = |name: &str| pod().asks("cpu=1 memory=1Gi").select("pool", name);
        let ids = cluster.run([ask("a"), ask("b")]);
        assert_eq!([cluster.label("type", &ids[0]), cluster.label("type", &ids[1])], ["small", "std"]);
    }
}

/// SC-380, SCH-75, Q30.
#[test]
fn sc_380_overhead_that_not_every_type_has() {
    let types = || {
        vec![
            it("a", "cpu=4 memory=4Gi pods=5").with("kind", &["x"]),
            it("b", "cpu=8 memory=4Gi pods=5").with("kind", &["y"]),
        ]
    };
    let requests = |pod: Pod| -> Resources {
        let mut cluster = with(pool("p").require("kind Exists"), types());
        cluster.daemon(super::build::pod().asks("cpu=1").require("kind In x"));
        cluster.run([pod]);
        cluster.last.claims[0].requests.clone()
    };
    assert_eq!(requests(pod().asks("cpu=1")).to_string(), "cpu: 1, pods: 1", "both parts");
    assert_eq!(requests(pod().asks("cpu=1").select("kind", "x")).to_string(), "cpu: 2, pods: 2", "the first only");
}

/// SC-381, SCH-77.
#[test]
fn sc_381_any_term_counts_on_existing_nodes() {
    for label in ["x=a", "x=b"] {
        let mut cluster = with(pool("p").label(label), vec![it("t", "cpu=4 memory=4Gi pods=5")]);
        cluster.daemon(pod().asks("cpu=3").require("x In a").require("x In b"));
        cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=5", "x=b"));
        let ids = cluster.run([pod().asks("cpu=1"), pod().asks("cpu=1")]);
        assert_eq!(cluster.at(&ids[0]).unwrap().name(), "u");
        assert!(cluster.at(&ids[1]).is_none(), "3 of 4 CPUs are for the daemon, here and on any new node");
    }
}
