use karpenter_model::budget::Budget;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodId;
use karpenter_model::pool::PoolView;
use karpenter_model::selector::Selector;

use super::*;
use crate::testing::{Cluster, instance_type, running};

fn cluster_of(change: impl FnOnce(&mut PoolView)) -> Cluster {
    let types = [instance_type("small", 4, 0.4, &[]), instance_type("large", 16, 1.6, &[])];
    Cluster::new(types).pool("p", change).pool("q", |_| ())
}

/// A node of each pool that could give way to a smaller one.
fn pair(change: impl FnOnce(&mut PoolView)) -> Cluster {
    let cluster = cluster_of(change).node("a", "p", "large", [running("x", 1)]);
    cluster.node("b", "q", "large", [running("y", 16)])
}

/// Codes by node.
fn codes(cluster: &Cluster) -> Vec<(String, &'static str, bool)> {
    cluster.with(|look, simulator| {
        let nodes = look.snapshot.nodes.iter();
        nodes
            .filter_map(|node| {
                let hold = hold(node, look, simulator)?;
                assert!(!hold.to_string().is_empty());
                Some((node.name().to_owned(), hold.code(), hold.is_mistake()))
            })
            .collect()
    })
}

fn code(cluster: &Cluster, node: &str) -> Option<(&'static str, bool)> {
    codes(cluster).into_iter().find(|(name, _, _)| name == node).map(|(_, code, mistake)| (code, mistake))
}

/// DIS-97, DIS-99: what an author decided, and what there is nothing to be done about.
#[test]
fn what_holds_nodes() {
    assert_eq!(codes(&pair(|_| ())), [("b".to_owned(), "NothingCheaper", false)]);
    let closed = Budget { nodes: "0".parse().unwrap(), reasons: None, window: None };
    for (want, cluster) in [
        ("StaticNodePool", pair(|pool| pool.replicas = Some(1))),
        ("ConsolidateAfterNever", pair(|pool| pool.consolidate_after = NillableDuration::Never)),
        ("WhenEmpty", pair(|pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty)),
        ("Budget", pair(|pool| pool.budgets = Budgets::Parsed(vec![closed]))),
        ("NotQuiet", pair(|_| ()).claim("a", |claim| claim.consolidatable = false)),
        ("NoLabel", pair(|_| ()).change("a", |node| drop(node.labels.remove(labels::CAPACITY_TYPE)))),
    ] {
        assert_eq!(code(&cluster, "a"), Some((want, false)));
        assert_eq!(code(&cluster, "b"), Some(("NothingCheaper", false)), "{want}: the other node is judged as ever");
    }
    let mut kept = cluster_of(|_| ()).node("a", "p", "small", []);
    assert_eq!(code(&kept, "a"), None, "an empty node goes");
    kept.buffer_pods.insert("a".to_owned(), 2);
    assert_eq!(code(&kept, "a"), Some(("CapacityBuffer", false)));
}

/// Bad input holds back the nodes concerned and nobody else, and says so in a word: a budget that cannot be read (DIS-56), a
/// node without a price (DIS-75), a pool whose types cannot be listed (X11), an unknown type, a pool that is gone.
#[test]
fn mistakes_hold_only_their_nodes() {
    let label = |key: &'static str, value: &'static str| {
        pair(|_| ()).change("a", |node| drop(node.labels.insert(key.to_owned(), value.to_owned())))
    };
    for (want, cluster) in [
        ("BudgetUnreadable", pair(|pool| pool.budgets = Budgets::Broken)),
        ("NoPrice", label(labels::ZONE, "moon")),
        ("UnknownInstanceType", label(labels::INSTANCE_TYPE, "strange")),
        ("NodePoolNotFound", label(labels::NODEPOOL, "gone")),
        ("InstanceTypesUnlisted", pair(|_| ()).unlisted("p")),
    ] {
        assert_eq!(code(&cluster, "a"), Some((want, true)), "{want}");
        assert_eq!(code(&cluster, "b"), Some(("NothingCheaper", false)), "{want}: the other node is judged as ever");
        assert!(cluster.single().commands.is_empty() && cluster.multi().commands.is_empty(), "{want}");
    }
}

/// DIS-34, X27: a PodDisruptionBudget that selects everything holds the nodes of its namespace only.
#[test]
fn a_budget_that_selects_everything() {
    let all = |allowed| PdbView {
        id: PodId::new("default", "all"),
        selector: Some(Selector::default()),
        disruptions_allowed: allowed,
        never_allows: false,
        lets_unready_go: false,
    };
    let elsewhere = || {
        let other = running("z", 1).but(|pod| pod.id.namespace = "other".into());
        pair(|_| ()).node("c", "p", "large", [other])
    };
    let held = elsewhere().pdb(all(0));
    let blocked = |node: &str| code(&held, node) == Some(("PodDisruptionBudget", false));
    assert!(blocked("a") && blocked("b") && !blocked("c"), "{:?}", codes(&held));
    assert_eq!(held.single().commands[0].going[0].node, "c", "the others go on");
    let open = elsewhere().pdb(all(1));
    assert!(codes(&open).iter().all(|(_, code, _)| *code != "PodDisruptionBudget"));
}
