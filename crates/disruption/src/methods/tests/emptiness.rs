use jiff::Timestamp;
use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::pool::ConsolidationPolicy;

use crate::methods::{Decided, empty};
use crate::report::Note;
use crate::testing::{Cluster, instance_type, running, texts, time};

fn small() -> Cluster {
    Cluster::new([instance_type("small", 4, 0.4, &[])])
}

fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

fn decide(cluster: &Cluster) -> Decided {
    empty(&cluster.look())
}

/// DIS-93, DIS-94, DC-73: all empty nodes go in one command.
#[test]
fn empty_nodes_go_together() {
    let cluster = small().pool("p", |_| ()).node("a", "p", "small", []).node("b", "p", "small", []);
    let decided = decide(&cluster.node("c", "p", "small", []));
    assert_eq!(texts(&decided), ["delete: [a, b, c]"]);
    assert!((decided.commands[0].savings - 1.2).abs() < 1e-9);
    assert!(!decided.settled, "DIS-95");
}

/// DIS-93, DC-74 … DC-77, DC-81 … DC-83: one node with this and that, and whether it goes.
#[test]
fn what_is_empty() {
    let owned = |owner| PodView { owner, ..running("x", 1) };
    let leaving = |pod: PodView| PodView { deleting_since: Some(time(9_990).into()), ..pod };
    let one = |pods: Vec<PodView>| small().pool("p", |_| ()).node("a", "p", "small", pods);
    let unpriced = one(vec![]).change("a", |node| drop(node.labels.remove(labels::INSTANCE_TYPE)));
    let pool = |change: fn(&mut karpenter_model::pool::PoolView)| small().pool("p", change).node("a", "p", "small", []);
    let mut buffered = one(vec![]);
    buffered.buffer_pods.insert("a".to_owned(), 5);
    let mut none_left = one(vec![]);
    none_left.buffer_pods.insert("a".to_owned(), 0);
    let never = pool(|pool| pool.consolidate_after = NillableDuration::Never);
    for (case, cluster, goes, notes) in [
        ("DC-74, a daemon", one(vec![owned(PodOwner::DaemonSet)]), true, 0),
        ("DC-75, leaving", one(vec![leaving(running("x", 1))]), true, 0),
        ("DC-75, comes back", one(vec![leaving(owned(PodOwner::StatefulSet))]), false, 0),
        ("DC-76, in use", one(vec![running("x", 1)]), false, 0),
        ("DC-76, not quiet", one(vec![]).claim("a", |claim| claim.consolidatable = false), false, 0),
        ("DC-77, policy", pool(|pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty), true, 0),
        ("DC-77, no type", unpriced, true, 0),
        ("DC-81", never, false, 1),
        ("DC-82, static", pool(|pool| pool.replicas = Some(1)), false, 0),
        ("DC-83, a buffer's", buffered, false, 1),
        ("DC-83, no longer", none_left, true, 0),
    ] {
        let decided = decide(&cluster);
        assert_eq!(!decided.commands.is_empty(), goes, "{case}");
        let told = decided.notes.iter().filter(|note| matches!(note, Note::Unconsolidatable { .. })).count();
        assert_eq!(told, notes, "{case}");
    }
}

/// DIS-94, DC-53, DC-54, DC-59: as many as the budget lets go, of each pool.
#[test]
fn budgets_hold() {
    let ten = |nodes: &str| {
        let budgets = budget(nodes);
        let cluster = small().pool("p", |pool| pool.budgets = budgets);
        (0..10).fold(cluster, |cluster, at| cluster.node(&format!("n{at}"), "p", "small", []))
    };
    for (nodes, go) in [("30%", 3), ("100%", 10)] {
        assert_eq!(decide(&ten(nodes)).commands[0].going.len(), go, "DC-53, {nodes}");
    }
    let none = decide(&ten("0"));
    assert!(none.commands.is_empty() && !none.settled, "DC-53, DC-59");
    assert!(none.notes.iter().any(|note| matches!(note, Note::PoolClosed { pool, .. } if pool == "p")), "DIS-61");
    let many = (0..10).fold(small(), |cluster, at| {
        let name = format!("p{at}");
        let cluster = cluster.pool(&name, |pool| pool.budgets = budget("50%"));
        (0..3).fold(cluster, |cluster, node| cluster.node(&format!("{name}-{node}"), &name, "small", []))
    });
    let decided = decide(&many);
    assert_eq!(decided.commands[0].going.len(), 20, "DC-54");
    assert_eq!(decided.eligible, 30);
}

/// DIS-76, DIS-94: of a pool with a small budget the dearest empty node goes.
#[test]
fn the_dearest_goes_first() {
    let types = [instance_type("small", 4, 0.4, &[]), instance_type("large", 16, 1.6, &[])];
    let cluster = Cluster::new(types).pool("p", |pool| pool.budgets = budget("1"));
    let cluster = cluster.node("a", "p", "small", []).node("b", "p", "large", []);
    assert_eq!(texts(&decide(&cluster)), ["delete: [b]"]);
}

/// DIS-20, DIS-26: a node that stays has a reason on it; `now` decides about nominations.
#[test]
fn nominated_nodes_stay() {
    let mut cluster = small().pool("p", |_| ()).node("a", "p", "small", []);
    cluster.snapshot.nodes[0].nominated_until = Some(Timestamp::MAX);
    let decided = decide(&cluster);
    assert!(decided.commands.is_empty());
    assert!(matches!(&decided.notes[..], [Note::Blocked { why, .. }] if why.contains("nominated")));
}
