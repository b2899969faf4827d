use std::collections::BTreeMap;

use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodView;
use karpenter_model::protection::Protection;
use karpenter_model::requirements::Requirement;
use karpenter_model::selector::Selector;
use karpenter_model::{labels, pod::PodId};

use crate::command::Decision;
use crate::look::Gates;
use crate::methods::{Decided, StaticPool, drifted, static_drift};
use crate::report::Note;
use crate::testing::{Cluster, instance_type, running, texts, waiting};

fn cluster() -> Cluster {
    Cluster::new([instance_type("small", 4, 0.4, &[]), instance_type("large", 16, 1.6, &[])]).pool("p", |_| ())
}

fn decide(cluster: &Cluster) -> Decided {
    cluster.with(drifted)
}

fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

/// DIS-160, DC-154: a replacement only where there is no room.
#[test]
fn room_elsewhere_or_a_replacement() {
    let full = cluster().node("a", "p", "small", [running("x", 3)]).drifted("a", 1);
    assert_eq!(texts(&decide(&full)), ["replace: [a] -> [1 replacement] small|large"]);
    let room = full.node("b", "p", "small", []);
    let decided = decide(&room);
    assert_eq!(texts(&decided), ["delete: [a]"]);
    assert_eq!(decided.commands[0].receiving.iter().collect::<Vec<_>>(), ["b"]);
}

/// DIS-160, DC-155: as many replacements as it takes.
#[test]
fn several_replacements() {
    let types = [instance_type("old", 8, 0.8, &[]), instance_type("three", 3, 0.3, &[])];
    let only = Requirement::any_of(labels::INSTANCE_TYPE, ["three"]);
    let cluster = Cluster::new(types).pool("p", |pool| pool.requirements.add(only)).drifted_old();
    let decided = decide(&cluster);
    assert_eq!(decided.commands[0].replacements.len(), 3);
    assert_eq!(decided.commands[0].decision, Decision::Replace);
}

trait Old {
    fn drifted_old(self) -> Self;
}

impl Old for Cluster {
    fn drifted_old(self) -> Self {
        self.node("a", "p", "old", [running("x", 2), running("y", 2), running("z", 2)]).drifted("a", 1)
    }
}

/// DIS-159, DC-156, DC-157: empty ones first, then who has drifted for longest; one per pass.
#[test]
fn order() {
    let two = cluster().node("a", "p", "small", [running("x", 3)]).node("b", "p", "small", [running("y", 3)]);
    let two = two.drifted("a", 200).drifted("b", 100);
    assert_eq!(decide(&two).commands[0].going[0].node, "b");
    let three = two.node("c", "p", "small", []).drifted("c", 300);
    assert_eq!(decide(&three).commands[0].going[0].node, "c");
}

/// DIS-160, DC-158: a node whose pods have nowhere to go is passed over, with a reason.
#[test]
fn homeless_pods_block() {
    let pinned = {
        let mut pod = running("x", 1);
        pod.scheduling.node_selector.add(Requirement::any_of("disk", ["fast"]));
        pod
    };
    let cluster = cluster().node("a", "p", "small", [pinned]).node("b", "p", "small", [running("y", 3)]);
    let decided = decide(&cluster.drifted("a", 1).drifted("b", 2));
    assert_eq!(decided.commands[0].going[0].node, "b");
    assert!(
        matches!(&decided.notes[..], [Note::Blocked { why, .. }] if why.contains("default/x")),
        "{:?}",
        decided.notes
    );
}

/// DIS-21, DIS-161, DC-159, DC-160: who cannot be evicted blocks, or with a grace period stays without a new place.
#[test]
fn pods_that_stay() {
    let protected = running("x", 3).but(|pod| pod.protection = Protection::Always);
    let cluster = |pod: PodView| cluster().node("a", "p", "small", [pod]).drifted("a", 1);
    assert!(decide(&cluster(protected.clone())).commands.is_empty(), "DC-159");
    let forced = cluster(protected).claim("a", |claim| {
        claim.termination_grace_period = Some(GoDuration::from_secs(300));
    });
    assert_eq!(texts(&decide(&forced)), ["delete: [a]"], "DC-159");
    let held = cluster(running("x", 3))
        .claim("a", |claim| claim.termination_grace_period = Some(GoDuration::from_secs(300)))
        .pdb(PdbView {
            id: PodId::new("default", "all"),
            selector: Some(Selector::default()),
            disruptions_allowed: 0,
            never_allows: true,
            lets_unready_go: false,
        });
    assert_eq!(texts(&decide(&held)), ["delete: [a]"], "DC-160");
}

/// DIS-158, DC-161: whether the pool consolidates does not matter.
#[test]
fn never_consolidating_pools_drift() {
    let types = [instance_type("small", 4, 0.4, &[])];
    let cluster = Cluster::new(types).pool("p", |pool| pool.consolidate_after = NillableDuration::Never);
    let cluster = cluster.node("a", "p", "small", []).drifted("a", 1);
    assert_eq!(texts(&decide(&cluster)), ["delete: [a]"]);
}

/// DC-57, DC-58: no budget, no command.
#[test]
fn budgets_hold() {
    let types = [instance_type("small", 4, 0.4, &[])];
    let cluster = Cluster::new(types).pool("p", |pool| pool.budgets = budget("0"));
    assert!(decide(&cluster.node("a", "p", "small", []).drifted("a", 1)).commands.is_empty());
}

/// DIS-88, X31: a pod that waits is planned for, but the node does not wait for the pod's new node.
#[test]
fn x31_pods_that_wait_do_not_hold_up() {
    let cluster = cluster().node("a", "p", "small", []).drifted("a", 1).waiting(waiting("new", 10));
    assert_eq!(texts(&decide(&cluster)), ["delete: [a]"]);
}

fn static_pool(nodes: usize, replicas: u64, change: impl FnOnce(&mut karpenter_model::pool::PoolView)) -> Cluster {
    let cluster = Cluster::new([instance_type("small", 4, 0.4, &[])]).pool("s", |pool| {
        pool.replicas = Some(replicas);
        change(pool);
    });
    (0..nodes).fold(cluster, |cluster, at| {
        let name = format!("n{at}");
        cluster.node(&name, "s", "small", []).drifted(&name, 1)
    })
}

fn room(claims: u64, room: u64) -> BTreeMap<String, StaticPool> {
    BTreeMap::from([("s".to_owned(), StaticPool { claims, room, ending: 0 })])
}

/// DIS-164 … DIS-166, DC-163 … DC-167: how many commands of one node each.
#[test]
fn static_pools() {
    let budgeted = |nodes: &str| {
        let budgets = budget(nodes);
        static_pool(5, 5, |pool| pool.budgets = budgets)
    };
    for (case, cluster, counts, want) in [
        ("DC-163", budgeted("2"), room(5, u64::MAX), 2),
        ("DC-164", budgeted("20%"), room(5, u64::MAX), 1),
        ("DC-165, at the limit", budgeted("100%"), room(5, 0), 0),
        ("DC-165, two more", budgeted("100%"), room(5, 2), 2),
        ("DC-165, no limit", budgeted("100%"), room(5, u64::MAX), 5),
        ("DC-166", static_pool(2, 1, |_| ()), room(2, u64::MAX), 0),
        ("DC-167", static_pool(2, 0, |_| ()), room(2, u64::MAX), 0),
    ] {
        let decided = static_drift(&cluster.look(), &counts);
        assert_eq!(decided.commands.len(), want, "{case}");
        assert!(
            decided.commands.iter().all(|c| c.replacements.len() == 1 && c.decision == Decision::Replace),
            "{case}"
        );
    }
}

/// V15-77: at the limit the node goes first where the gate is on, or the author hears why it stays.
#[test]
fn static_pools_at_their_limit() {
    let mut cluster = static_pool(5, 5, |pool| pool.budgets = budget("2"));
    let blocked = static_drift(&cluster.look(), &room(5, 0));
    assert!(blocked.commands.is_empty());
    let told = |note: &&Note| matches!(note, Note::Blocked { why, .. } if why.contains("at its node limit"));
    assert_eq!(blocked.notes.iter().filter(told).count(), 2);
    cluster.gates = Gates { terminate_first_drift: true, ..Gates::default() };
    let first = static_drift(&cluster.look(), &room(5, 0));
    assert!(first.commands.iter().all(|command| command.decision == Decision::TerminateFirst));
    assert_eq!(first.commands.len(), 2);
    // DIS-57: one whose instance is ending takes no budget any more, but its place until it is gone. Nobody goes first for that.
    let ending = BTreeMap::from([("s".to_owned(), StaticPool { claims: 5, room: 0, ending: 1 })]);
    let waits = static_drift(&cluster.look(), &ending);
    assert!(waits.commands.is_empty() && !waits.notes.iter().any(|note| told(&note)));
}

/// VC-77 … VC-81, VC-78, VC-80, V15-77, V15-81: static drift replaces first where it can, goes first where it may.
#[test]
fn vc_77_to_vc_81_static_drift_at_the_limit() {
    use crate::reserved::TerminateFirst::StaticAtLimit;
    let types = || [instance_type("small", 4, 0.4, &[])];
    let on = |gate: bool, claims: u64, room: u64| {
        let mut cluster = Cluster::new(types()).pool("p", |pool| pool.replicas = Some(1));
        cluster = cluster.node("a", "p", "small", []).drifted("a", 1);
        cluster.gates.terminate_first_drift = gate;
        let pools = BTreeMap::from([("p".to_owned(), StaticPool { claims, room, ending: 0 })]);
        let decided = static_drift(&cluster.look(), &pools);
        let blocked = decided.notes.iter().filter(|note| matches!(note, Note::Blocked { .. })).count();
        let commands: Vec<_> = decided.commands.iter().map(|c| (c.decision, c.terminate_first)).collect();
        (commands, blocked)
    };
    assert_eq!(on(true, 1, 0), (vec![(Decision::TerminateFirst, Some(StaticAtLimit))], 0), "VC-77");
    assert_eq!(on(false, 1, 0), (vec![], 1), "VC-78: gate off");
    assert_eq!(on(true, 1, 1), (vec![(Decision::Replace, None)], 0), "VC-79");
    for gate in [true, false] {
        assert_eq!(on(gate, 1, u64::MAX), (vec![(Decision::Replace, None)], 0), "VC-80");
    }
    assert_eq!(on(true, 2, 5), (vec![], 0), "VC-81");
}

/// VC-87, VC-83, VC-86, VC-88, V15-78, V15-79: with full reservations, those that can go come before the budget cuts.
#[test]
fn vc_87_the_eligible_one_goes() {
    use crate::testing::{RESERVATION, with_reservation};
    let known = with_reservation(instance_type("small", 4, 0.4, &[]), "r1", Some(0));
    let mut cluster = Cluster::new([known]).reservations().pool("p", |pool| {
        pool.replicas = Some(3);
        pool.budgets = budget("1");
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["reserved"]));
    });
    cluster.gates.terminate_first_drift = true;
    for (name, kind, id) in
        [("a", "small on-demand", "r1"), ("b", "small reserved", "gone"), ("c", "small reserved", "r1")]
    {
        cluster = cluster.node(name, "p", kind, []).drifted(name, 1);
        cluster = cluster.change(name, |node| drop(node.labels.insert(RESERVATION.to_owned(), id.to_owned())));
    }
    let pools = BTreeMap::from([("p".to_owned(), StaticPool { claims: 3, room: 9, ending: 0 })]);
    assert_eq!(texts(&static_drift(&cluster.look(), &pools)), ["terminate-first: [c]"], "VC-87");
    let unlisted = cluster.unlisted("p");
    let decided = static_drift(&unlisted.look(), &pools);
    assert!(decided.commands.is_empty() && decided.notes.is_empty(), "VC-88");
}

/// X16, Z23, DIS-163, V15-1: a pool whose replacements keep failing rests, and a younger one gets its turn.
#[test]
fn x16_resting_pools_are_passed_over() {
    let two = cluster().pool("q", |_| ()).node("a", "p", "small", [running("x", 3)]).drifted("a", 1);
    let two = two.node("b", "q", "small", [running("y", 3)]).drifted("b", 2);
    let resting = std::collections::BTreeSet::from(["p".to_owned()]);
    let decided = two.with(|look, simulator| crate::methods::drifted_but(look, simulator, &resting));
    assert_eq!(decided.commands[0].going[0].node, "b");
    assert_eq!(decide(&two).commands[0].going[0].node, "a");
}
