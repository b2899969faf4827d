use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{Controller, PodOwner};
use karpenter_model::protection::Protection;
use karpenter_model::selector::Selector;

use super::*;
use crate::testing::{Cluster, instance_type, running, time};

fn of(kind: &str, name: &str) -> PodView {
    running(name, 1).but(|pod| {
        pod.controller =
            Some(Controller { api_version: "apps/v1".to_owned(), kind: kind.to_owned(), name: "owner".to_owned() });
    })
}

fn web(name: &str) -> PodView {
    of("ReplicaSet", name)
}

fn cluster() -> Cluster {
    Cluster::new([instance_type("small", 4, 0.4, &[])]).pool("p", |_| ())
}

fn nodes(cluster: Cluster, names: &[&str]) -> Cluster {
    names.iter().fold(cluster, |cluster, name| cluster.node(name, "p", "small", [web(name)]))
}

fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

/// Pods with what is to be written, where nothing was; a pod that loses it says so.
fn written(cluster: &Cluster, before: Option<&str>) -> Vec<(String, Option<i32>)> {
    let cycle = cycle(&cluster.look(), &|_| before.map(ToOwned::to_owned));
    let writes = cycle.nodes.iter().flat_map(|node| &node.writes);
    writes.map(|write| (write.pod.name.to_string(), write.value)).collect()
}

fn want(pods: &[(&str, Option<i32>)]) -> Vec<(String, Option<i32>)> {
    pods.iter().map(|(pod, value)| ((*pod).to_owned(), *value)).collect()
}

/// VC-120, V15-95: ranks end at -1, the best ratio first, ties by name.
#[test]
fn vc_120_ranks() {
    let three = nodes(cluster(), &["a", "b", "c"]);
    assert_eq!(written(&three, None), want(&[("a", Some(-3)), ("b", Some(-2)), ("c", Some(-1))]));
}

/// VC-121, V15-93: what is going first, then what has drifted.
#[test]
fn vc_121_groups() {
    let three = nodes(cluster(), &["a", "b", "c"]).drifted("b", 1);
    let three = three.change("c", |node| node.taints.push(Taint::disrupted()));
    assert_eq!(written(&three, None), want(&[("c", Some(i32::MIN)), ("b", Some(-2)), ("a", Some(-1))]));
}

/// VC-122, VC-123, V15-94: nodes that will not be emptied lose the annotation; some pods do not hold theirs.
#[test]
fn vc_122_vc_123_kept_nodes() {
    let hosting = |other: PodView| cluster().node("a", "p", "small", [web("w"), other]);
    let no = want(&[("w", None)]);
    let bare = running("x", 1);
    let stateful = PodView { owner: PodOwner::StatefulSet, ..of("StatefulSet", "x") };
    let guarded = of("Job", "x").but(|pod| pod.protection = Protection::Always);
    for (case, cluster) in [
        ("do-not-disrupt", hosting(guarded)),
        ("StatefulSet", hosting(stateful)),
        ("bare, or only a reference that does not control", hosting(bare.clone())),
        ("unpriceable", cluster().node("a", "p", "strange", [web("w")])),
        (
            "Never",
            Cluster::new([instance_type("small", 4, 0.4, &[])])
                .pool("p", |pool| pool.consolidate_after = NillableDuration::Never)
                .node("a", "p", "small", [web("w")]),
        ),
        (
            "PDB",
            nodes(cluster(), &["w"]).pdb(PdbView {
                id: PodId::new("default", "all"),
                selector: Some(Selector::default()),
                disruptions_allowed: 0,
                never_allows: false,
                lets_unready_go: false,
            }),
        ),
    ] {
        assert_eq!(written(&cluster, Some("7")), no, "VC-122: {case}");
        assert!(written(&cluster, None).is_empty(), "VC-122: {case}, nothing to take away");
    }
    let system = bare.but(|pod| pod.id.namespace = "kube-system".into());
    let daemon = PodView { owner: PodOwner::DaemonSet, ..of("DaemonSet", "x") };
    for other in [of("Job", "x"), daemon, system] {
        assert_eq!(written(&hosting(other), None), want(&[("w", Some(-1))]), "VC-123");
    }
}

/// VC-124: drift counts also where nothing is consolidated; static pools only rank.
#[test]
fn vc_124_drifted_nodes() {
    let with = |change: fn(&mut karpenter_model::pool::PoolView)| {
        let cluster = Cluster::new([instance_type("small", 4, 0.4, &[])]).pool("p", change).pool("q", |_| ());
        nodes(cluster, &["b"]).drifted("b", 1).node("a", "q", "small", [web("a")])
    };
    let never = with(|pool| pool.consolidate_after = NillableDuration::Never);
    assert_eq!(written(&never, None), want(&[("b", Some(-2)), ("a", Some(-1))]), "group B comes first");
    let fixed = with(|pool| pool.replicas = Some(1));
    assert_eq!(written(&fixed, None), want(&[("a", Some(-2)), ("b", Some(-1))]), "group C, by name");
}

/// VC-125, V15-95: budgets cut each pool by itself.
#[test]
fn vc_125_budgets() {
    let cluster = Cluster::new([instance_type("small", 4, 0.4, &[])])
        .pool("p", |pool| pool.budgets = budget("1"))
        .pool("q", |pool| pool.budgets = budget("2"));
    let cluster = nodes(cluster, &["a", "b"]);
    let cluster = ["x", "y", "z"].iter().fold(cluster, |cluster, name| cluster.node(name, "q", "small", [web(name)]));
    let found = written(&cluster, Some("7"));
    let ranks = [("a", Some(-3)), ("x", Some(-2)), ("y", Some(-1)), ("b", None), ("z", None)];
    assert_eq!(found, want(&ranks));
    let drifted = cluster.drifted("a", 1).drifted("b", 1);
    let found = written(&drifted, Some("7"));
    assert_eq!(
        found.iter().filter(|(pod, _)| ["a", "b"].contains(&pod.as_str())).collect::<Vec<_>>(),
        [&("a".to_owned(), Some(-3)), &("b".to_owned(), None)]
    );
}

/// VC-126, VC-127, V15-96, Z12: fifty nodes a cycle, those that are going on top; a cycle that was cut says so.
#[test]
fn vc_126_vc_127_z12_fifty_a_cycle() {
    let of = |normal: usize, going: usize| {
        let names: Vec<String> = (0..normal).map(|index| format!("n{index:02}")).collect();
        let cluster = nodes(cluster(), &names.iter().map(String::as_str).collect::<Vec<_>>());
        let names: Vec<String> = (0..going).map(|index| format!("t{index:02}")).collect();
        let cluster = nodes(cluster, &names.iter().map(String::as_str).collect::<Vec<_>>());
        names.iter().fold(cluster, |cluster, name| cluster.change(name, |node| node.taints.push(Taint::disrupted())))
    };
    for (normal, going, nodes, cut) in [(60, 0, 50, true), (0, 60, 60, false), (60, 60, 110, true), (50, 0, 50, false)]
    {
        let cycle = cycle(&of(normal, going).look(), &|_| None);
        assert_eq!((cycle.nodes.len(), cycle.cut), (nodes, cut), "VC-126: {normal} {going}");
    }
    let mut stamp = Stamp::default();
    let cut = Cycle { cut: true, ..Cycle::default() };
    stamp.done(7, &cut, 60);
    assert!(!stamp.is_current(7), "Z12");
    stamp.done(7, &Cycle::default(), 0);
    assert!(!stamp.is_current(7), "an empty cluster says nothing");
    stamp.done(7, &Cycle::default(), 60);
    assert!(stamp.is_current(7) && !stamp.is_current(8), "VC-128");
    let quiet = cluster().node("a", "p", "small", [of_job("x")]).node("b", "p", "small", [web("w")]);
    assert_eq!(written(&quiet, None), want(&[("w", Some(-1))]), "VC-127: a node without such pods keeps its place");
    let mut unmanaged = nodes(cluster(), &["a"]);
    unmanaged.snapshot.nodes[0].claim = None;
    assert!(written(&unmanaged, None).is_empty(), "VC-127");
}

fn of_job(name: &str) -> PodView {
    of("Job", name)
}

/// VC-128: what is there already is not written again.
#[test]
fn nothing_is_written_twice() {
    let one = nodes(cluster(), &["a"]);
    assert!(written(&one, Some("-1")).is_empty());
    assert_eq!(written(&one, Some("5")), want(&[("a", Some(-1))]), "V15-96: what a user wrote is overwritten");
}

/// VC-164, VC-165, Z32: ranks stay while prices are unknown, others are ranked; pods that have ended are no longer on a node.
#[test]
fn vc_164_vc_165_z32_unknown_prices() {
    let two = nodes(cluster().pool("q", |_| ()), &["a"]).node("b", "q", "small", [web("b")]).unlisted("q");
    assert_eq!(written(&two, Some("7")), want(&[("a", Some(-1))]));
    let deleting = nodes(cluster(), &["a"]).claim("a", |claim| claim.deleting_since = Some(time(1))).unlisted("p");
    assert_eq!(written(&deleting, None), want(&[("a", Some(i32::MIN))]), "what goes goes");
}
