//! Conformance cases that no other file is about.

use karpenter_model::budget::{Budget, Budgets, DisruptionReason};
use karpenter_model::claim::ConditionView;
use karpenter_model::duration::GoDuration;
use karpenter_model::labels;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::protection::Protection;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirement;
use karpenter_model::selector::Selector;
use karpenter_solver::{MinValuesPolicy, Options, Preferences};

use crate::balanced::THRESHOLD;
use crate::candidates::Class;
use crate::command::Decision;
use crate::cost;
use crate::methods::{Method, StaticPool, drifted, empty, static_drift, validation};
use crate::report::Note;
use crate::simulation::Question;
use crate::testing::{Cluster, instance_type, running, texts, time, waiting, with_reservation};

fn sizes() -> Cluster {
    Cluster::new([
        instance_type("nano", 1, 0.1, &[]),
        instance_type("small", 4, 0.4, &[]),
        instance_type("large", 16, 1.6, &[]),
        instance_type("huge", 64, 6.4, &[]),
    ])
}

pub(super) fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

fn pdb(name: &str, change: impl FnOnce(&mut PdbView)) -> PdbView {
    let mut view = PdbView {
        id: PodId::new("default", name),
        selector: Some(Selector::default()),
        disruptions_allowed: 1,
        never_allows: false,
        lets_unready_go: false,
    };
    change(&mut view);
    view
}

/// DIS-3, DIS-8, DIS-162, DC-5, DC-6: methods in order; an empty node goes as empty, drifted or not.
#[test]
fn dc_5_dc_6_methods_in_order() {
    use Method::{Drift, Emptiness, Multi, Repair, Single, StaticDrift};
    let mut order = [Single, Multi, Drift, StaticDrift, Emptiness, Repair];
    order.sort();
    assert_eq!(order, [Repair, Emptiness, StaticDrift, Drift, Multi, Single], "V15-25");
    let both = sizes().pool("p", |_| ()).node("a", "p", "small", []).drifted("a", 1);
    let found = empty(&both.look());
    assert_eq!(
        (texts(&found), found.commands[0].method.reason()),
        (vec!["delete: [a]".to_owned()], DisruptionReason::Empty)
    );
    let two = both.node("b", "p", "small", [running("x", 3)]).drifted("b", 1);
    assert_eq!(texts(&empty(&two.look())), ["delete: [a]"], "DC-5: first the empty one");
}

/// API-195, DIS-96, DIS-98, DIS-148, DIS-158, DIS-187: what the methods are called.
#[test]
fn names_of_methods() {
    use Method::{Drift, Emptiness, Multi, Repair, Single, StaticDrift};
    for (method, reason, class, kind) in [
        (Repair, "Unhealthy", Class::Repair, ""),
        (Emptiness, "Empty", Class::Graceful, "empty"),
        (StaticDrift, "Drifted", Class::Eventual, ""),
        (Drift, "Drifted", Class::Eventual, ""),
        (Multi, "Underutilized", Class::Graceful, "multi"),
        (Single, "Underutilized", Class::Graceful, "single"),
    ] {
        assert_eq!((method.reason().as_str(), method.class(), method.consolidation_type()), (reason, class, kind));
    }
}

/// DIS-32, DIS-38, DC-36: who can never be evicted does not move; who only cannot now does.
#[test]
fn dc_36_pods_that_never_move() {
    let cluster = |never: bool| {
        let cluster = sizes().pool("p", |_| ()).node("a", "p", "small", [running("x", 3)]);
        cluster.pdb(pdb("all", |pdb| {
            pdb.disruptions_allowed = 0;
            pdb.never_allows = never;
        }))
    };
    for (never, moved) in [(true, 0), (false, 1)] {
        let cluster = cluster(never);
        let cluster = cluster.claim("a", |claim| claim.termination_grace_period = Some(GoDuration::from_secs(9)));
        let found = cluster.with(|look, simulator| {
            let candidates = look.candidates(Class::Eventual, &mut Vec::new());
            simulator.without(&candidates.iter().collect::<Vec<_>>(), Question::default()).moved.len()
        });
        assert_eq!(found, moved, "{never}");
        assert!(cluster.single().commands.is_empty(), "DC-36: it blocks candidacy");
    }
}

/// DC-187, DIS-36: a pod of two budgets stays where it is, and nothing is bought for it.
#[test]
fn dc_187_two_budgets() {
    let cluster = sizes().pool("p", |_| ()).node("a", "p", "small", [running("x", 3)]).drifted("a", 1);
    let cluster = cluster.claim("a", |claim| claim.termination_grace_period = Some(GoDuration::from_secs(9)));
    let decided = cluster.pdb(pdb("one", |_| ())).pdb(pdb("two", |_| ())).with(drifted);
    assert_eq!(texts(&decided), ["delete: [a]"]);
}

/// DIS-48, DC-28: the longest protection counts.
#[test]
fn dc_28_the_longest_protection_counts() {
    let pod = |name: &str, minutes: i64| {
        let pod = PodView { started_at: Some(time(10_000).into()), ..running(name, 1) };
        pod.but(|pod| pod.protection = Protection::For(jiff::SignedDuration::from_mins(minutes)))
    };
    for (minute, blocked) in [(2, true), (4, false)] {
        let mut cluster = sizes().pool("p", |_| ()).node("a", "p", "huge", [pod("x", 1), pod("y", 3)]);
        cluster.now = time(10_000 + minute * 60);
        assert_eq!(cluster.single().commands.is_empty(), blocked, "{minute}");
    }
}

/// DIS-60, DC-56: one at a time, and what is under way takes its part of the budget.
#[test]
fn dc_56_passes_use_up_the_budget() {
    let types = [instance_type("big", 32, 3.2, &[])];
    let mut cluster = Cluster::new(types).pool("p", |pool| pool.budgets = budget("30%"));
    for at in 0..10 {
        let name = format!("n{at}");
        cluster = cluster.node(&name, "p", "big", [running(&name, 15)]);
    }
    let mut gone = 0;
    for _ in 0..5 {
        let decided = cluster.single();
        let Some(command) = decided.commands.first() else { continue };
        gone += 1;
        let node = command.going[0].node.clone();
        let pods = cluster.snapshot.nodes.iter().find(|one| one.name() == node).unwrap().pods.clone();
        cluster.snapshot.nodes.iter_mut().find(|one| one.name() == node).unwrap().marked = true;
        for pod in pods.into_inner() {
            cluster.snapshot.pending.insert(pod.id.clone(), pod);
        }
    }
    assert_eq!(gone, 3);
}

/// A pass after the other, each command under way when the next one begins.
fn passes(cluster: &mut Cluster, count: usize) -> usize {
    let mut commands = 0;
    for _ in 0..count {
        let decided = cluster.with(drifted);
        let Some(command) = decided.commands.first() else { continue };
        commands += 1;
        let going = command.going[0].node.clone();
        cluster.snapshot.nodes.iter_mut().find(|one| one.name() == going).unwrap().marked = true;
    }
    commands
}

/// DC-7, DIS-8: one drifted node a pass while earlier commands still wait for their replacements, until the budget is used up.
#[test]
fn dc_7_commands_under_way_use_up_the_budget() {
    let types = [instance_type("small", 4, 0.4, &[])];
    let mut cluster = Cluster::new(types).pool("p", |pool| pool.budgets = budget("3"));
    for at in 0..10 {
        let name = format!("n{at}");
        // Nobody's pod fits beside another one.
        cluster = cluster.node(&name, "p", "small", [running(&name, 3)]).drifted(&name, 1);
    }
    let mut claims = Vec::new();
    for pass in 0..4 {
        let decided = cluster.with(drifted);
        if let Some(command) = decided.commands.first() {
            assert_eq!((command.going.len(), command.replacements.len()), (1, 1));
            let going = command.going[0].node.clone();
            cluster.snapshot.nodes.iter_mut().find(|one| one.name() == going).unwrap().marked = true;
            // Launched and full, but its node has not joined: it does not count for the budget.
            let name = format!("r{pass}");
            cluster = cluster.node(&name, "p", "small", [running(&name, 3)]).claim(&name, |claim| {
                claim.initialized.status = karpenter_model::claim::Status::Unknown;
                claim.labels.remove(labels::INITIALIZED);
            });
            cluster.snapshot.nodes.iter_mut().find(|one| one.name() == name).unwrap().node = None;
        }
        claims.push(cluster.snapshot.nodes.len());
    }
    assert_eq!(claims, [11, 12, 13, 13]);
}

/// DIS-86: of seven hundred types a new node may be one of the six hundred cheapest. Where that leaves fewer than the pool asks for, its
/// pods have no place; where the pool only wishes for so many, it takes what there is.
#[test]
fn the_cheapest_six_hundred_types() {
    let types: Vec<_> = (0..700_u32)
        .map(|at| instance_type(&format!("t{at:03}"), 4, 0.1 + f64::from(at) / 1000.0, &[]))
        .chain([instance_type("old", 4, 9.0, &[])])
        .collect();
    let replaced = |least: Option<u32>, policy: MinValuesPolicy| {
        let mut wanted = Requirement::exists(labels::INSTANCE_TYPE);
        wanted.set_min_values(least);
        let cluster = Cluster::new(types.clone()).pool("p", |pool| pool.requirements.add(wanted));
        let mut cluster = cluster.node("a", "p", "old", [running("x", 3)]).drifted("a", 1);
        cluster.options = Options { min_values: policy, ..cluster.options };
        cluster.with(drifted)
    };
    for (least, policy) in [(None, MinValuesPolicy::Strict), (Some(650), MinValuesPolicy::BestEffort)] {
        let decided = replaced(least, policy);
        let offered = &decided.commands[0].replacements[0].instance_types;
        let ends = (offered.first().map(String::as_str), offered.last().map(String::as_str));
        assert_eq!((offered.len(), ends), (600, (Some("t000"), Some("t599"))), "{policy:?}");
    }
    let decided = replaced(Some(650), MinValuesPolicy::Strict);
    assert!(decided.commands.is_empty());
    assert!(decided.notes.iter().any(|note| matches!(note, Note::Blocked { .. })), "{:?}", decided.notes);
}

/// DIS-160, DC-57, DC-58: drift takes one node a pass, and no more of a pool than its budget allows at a time.
#[test]
fn dc_57_dc_58_drift_within_budgets() {
    let types = || [instance_type("small", 4, 0.4, &[])];
    let mut ten = Cluster::new(types()).pool("p", |pool| pool.budgets = budget("30%"));
    for at in 0..10 {
        let name = format!("n{at}");
        ten = ten.node(&name, "p", "small", [running(&name, 3)]);
        if at < 5 {
            ten = ten.drifted(&name, 1);
        }
    }
    assert_eq!(passes(&mut ten, 5), 3, "DC-57");
    let mut many = Cluster::new(types());
    for pool in 0..10 {
        let pool = format!("p{pool}");
        many = many.pool(&pool, |view| view.budgets = budget("1"));
        for at in 0..3 {
            let name = format!("{pool}-n{at}");
            many = many.node(&name, &pool, "small", [running(&name, 3)]).drifted(&name, 1);
        }
    }
    assert_eq!(passes(&mut many, 30), 10, "DC-58");
}

/// DIS-73, DIS-75, DIS-76, DC-69, DC-71, DC-72: prices and ratios of nodes.
#[test]
fn dc_69_dc_71_dc_72_prices() {
    let mut known = instance_type("t", 4, 5.0, &[]);
    known.offerings[0].price = karpenter_model::instance_type::Price::new(1.0).unwrap();
    known.offerings[0].available = false;
    let cluster = Cluster::new([known, instance_type("m", 4, 4.84, &[])]).pool("p", |_| ());
    let cluster = cluster.node("a", "p", "t", []).node("b", "p", "strange", [running("x", 1)]);
    let cluster = cluster.node("c", "p", "m", []);
    let cluster = cluster.node("d", "p", "m", [running("y", 1), running("z", 1), running("w", 1)]);
    let look = cluster.look();
    let found = look.candidates(Class::Graceful, &mut Vec::new());
    let close = |found: f64, want: f64| assert!((found - want).abs() < 1e-9, "{found} instead of {want}");
    close(found[0].price.per_hour(), 1.0);
    close(found[1].savings_ratio(), 0.0);
    close(found[2].savings_ratio(), 4.84);
    close(found[3].savings_ratio(), 1.21);
    assert!(karpenter_model::instance_type::Price::new(f64::NAN).is_err(), "DC-71: there is no such price");
    let totals = look.totals(&found);
    close(totals["p"].cost, 1.0 + 2.0 * 4.84);
}

/// DIS-72, DC-67, DC-68: what a pod says it costs, within bounds.
#[test]
fn dc_67_dc_68_eviction_costs() {
    let cost = |disruption_cost, priority| PodView { disruption_cost, priority, ..running("x", 1) }.eviction_cost();
    let exactly = |found: f64, want: f64| assert!((found - want).abs() < 1e-9, "{found} instead of {want}");
    exactly(cost(i32::MAX, 0), 10.0);
    exactly(cost(-i32::MAX, 0), -10.0);
    exactly(cost(0, 1_000_000_000), 10.0);
    assert!(cost(0, 1) > 1.0 && cost(0, -1) < 1.0);
    let told = PodView { deletion_cost: 1 << 27, ..running("x", 1) };
    exactly(told.eviction_cost(), 2.0);
}

/// DIS-24, X11, DC-92, DC-26: a pool that cannot say what it is offered stops nobody else, and still gives up what is empty.
#[test]
fn dc_92_x11_unlisted_pools() {
    let cluster = sizes().pool("p", |_| ()).pool("q", |_| ()).node("a", "p", "huge", [running("x", 3)]).unlisted("q");
    assert_eq!(texts(&cluster.single()), ["replace: [a] -> [1 replacement] small|large"], "DC-92");
    let of_q =
        sizes().pool("q", |_| ()).node("b", "q", "huge", [running("y", 3)]).node("c", "q", "small", []).unlisted("q");
    assert_eq!(texts(&empty(&of_q.look())), ["delete: [c]"], "X11");
    let decided = of_q.single();
    assert!(
        decided.commands.is_empty() && decided.notes.iter().any(|note| matches!(note, Note::Unconsolidatable { .. }))
    );
}

/// DIS-80, DIS-84, DC-95: a number of types that was lowered once is not lowered again.
#[test]
fn dc_95_best_effort_min_values() {
    let mut wanted = Requirement::exists(labels::INSTANCE_TYPE);
    wanted.set_min_values(Some(3));
    let types = [instance_type("dear", 4, 0.5, &[]), instance_type("cheap", 4, 0.4, &[])];
    let mut cluster = Cluster::new(types).pool("p", |pool| pool.requirements.add(wanted));
    cluster.options = Options { min_values: MinValuesPolicy::BestEffort, ..cluster.options };
    let decided = cluster.node("a", "p", "dear", [running("x", 1)]).single();
    assert!(decided.commands.is_empty());
    let told = |note: &Note| matches!(note, Note::Unconsolidatable { why, .. } if why.contains("minValues"));
    assert!(decided.notes.iter().any(told), "{:?}", decided.notes);
}

/// DIS-84, DC-96: with preferences ignored, a wish for the dear type holds nobody.
#[test]
fn dc_96_preferences_ignored() {
    let mut wishing = running("x", 1);
    wishing.scheduling.preferred_terms.push(karpenter_model::scheduling::Preferred {
        weight: 100,
        value: [Requirement::any_of(labels::INSTANCE_TYPE, ["huge"])].into_iter().collect(),
    });
    let mut cluster = sizes().pool("p", |_| ()).node("a", "p", "huge", [wishing]);
    cluster.options = Options { preferences: Preferences::Ignore, ..cluster.options };
    assert_eq!(cluster.single().commands.len(), 1);
}

/// DIS-108, DC-98: a reservation that costs next to nothing is cheaper than anything, also for a spot node without the
/// gate.
#[test]
fn dc_98_reserved_capacity_is_cheap() {
    for kind in ["small on-demand", "small spot"] {
        let known = with_reservation(instance_type("small", 4, 0.4, &[0.2; 3]), "r1", Some(2));
        let cluster = Cluster::new([known]).reservations().pool("p", |_| ());
        let decided = cluster.node("a", "p", kind, [running("x", 3)]).single();
        assert_eq!(texts(&decided), ["replace: [a] -> [1 replacement] small"], "{kind}");
        let claim = &decided.commands[0].replacements[0];
        assert!(claim.requirements.get(labels::CAPACITY_TYPE).unwrap().has("reserved"), "{kind}");
    }
}

/// DIS-104, DC-101: nodes that cannot share and are cheapest already are left alone.
#[test]
fn dc_101_nothing_to_gain() {
    let types = [instance_type("nano", 1, 0.1, &[]), instance_type("small", 4, 0.4, &[])];
    let cluster = Cluster::new(types).pool("p", |_| ());
    let cluster = cluster.node("a", "p", "nano", [running("x", 1)]).node("b", "p", "nano", [running("y", 1)]);
    assert!(cluster.single().commands.is_empty() && cluster.multi().commands.is_empty());
}

/// DIS-70, DIS-85, DC-115: pods of nodes that are going may go where nobody else is sent.
#[test]
fn dc_115_pods_of_going_nodes() {
    let cluster = sizes().pool("p", |_| ()).node("a", "p", "small", [running("x", 1)]);
    let cluster = cluster.node("b", "p", "small", []).change("b", |node| drop(node.labels.remove(labels::INITIALIZED)));
    let mut cluster = cluster.node("g", "p", "small", [running("y", 1)]);
    let going = cluster.snapshot.nodes.iter_mut().find(|node| node.name() == "g").unwrap();
    going.marked = true;
    let pod = going.pods[0].clone();
    cluster.snapshot.pending.insert(pod.id.clone(), pod);
    let homeless = cluster.with(|look, simulator| {
        let all = look.candidates(Class::Graceful, &mut Vec::new());
        simulator.without(&all.iter().filter(|one| one.name() == "a").collect::<Vec<_>>(), Question::default()).homeless
    });
    let names: Vec<&str> = homeless.iter().map(|(pod, _)| pod.name.as_str()).collect();
    assert!(!names.contains(&"y"), "{homeless:?}");
}

/// DIS-122, DC-121: a number of types that the same-type filter breaks makes the move smaller, not fail.
#[test]
fn dc_121_same_type_and_min_values() {
    let mut wanted = Requirement::exists(labels::INSTANCE_TYPE);
    wanted.set_min_values(Some(2));
    let types = [instance_type("s", 4, 0.4, &[]), instance_type("m", 8, 0.9, &[]), instance_type("l", 16, 1.0, &[])];
    let cluster = Cluster::new(types).pool("p", |pool| pool.requirements.add(wanted));
    let cluster =
        ["a", "b", "c"].iter().fold(cluster, |cluster, name| cluster.node(name, "p", "l", [running(name, 1)]));
    let decided = cluster.multi();
    assert!(decided.commands.iter().all(|command| command.going.len() <= 3));
    let least = decided.commands.iter().map(|command| command.savings).fold(0.0, f64::max);
    assert!(least > 0.0, "{:?}", texts(&decided));
}

/// DIS-139, DC-139: with one node allowed, the empty one goes first.
#[test]
fn dc_139_empty_first() {
    let balanced = |pool: &mut karpenter_model::pool::PoolView| {
        pool.consolidation_policy = ConsolidationPolicy::Balanced;
        pool.budgets = budget("1");
    };
    let cluster = sizes().pool("p", balanced).node("a", "p", "small", []).node("b", "p", "huge", [running("x", 1)]);
    assert_eq!(texts(&empty(&cluster.look())), ["delete: [a]"]);
    assert!((THRESHOLD - 0.5).abs() < 1e-9);
}

/// DIS-165, DC-168: each static pool by its own budget, all in one pass.
#[test]
fn dc_168_static_pools_by_themselves() {
    let mut cluster = Cluster::new([instance_type("small", 4, 0.4, &[])]);
    let mut counts = std::collections::BTreeMap::new();
    for (pool, nodes) in [("a", "1"), ("b", "2"), ("c", "100%")] {
        cluster = cluster.pool(pool, |view| {
            view.replicas = Some(2);
            view.budgets = budget(nodes);
        });
        for at in 0..2 {
            let name = format!("{pool}{at}");
            cluster = cluster.node(&name, pool, "small", []).drifted(&name, 1);
        }
        counts.insert(pool.to_owned(), StaticPool { claims: 2, room: u64::MAX, ending: 0 });
    }
    assert_eq!(static_drift(&cluster.look(), &counts).commands.len(), 5);
}

/// DIS-193, DC-189: what goes no longer counts against the limit of its pool.
#[test]
fn dc_189_limits_without_what_goes() {
    let types =
        [instance_type("four", 4, 0.4, &[]), instance_type("two", 2, 0.2, &[]), instance_type("eight", 8, 0.8, &[])];
    let cluster = Cluster::new(types).pool("p", |pool| pool.limits.set("cpu", Quantity::units(10)));
    let mut cluster = cluster.node("a", "p", "eight", [running("x", 3)]).node("b", "p", "two", [running("y", 2)]);
    cluster.snapshot.pools[0].usage.set("cpu", Quantity::units(10));
    let decided = cluster.drifted("a", 1).with(drifted);
    assert_eq!(
        decided.commands.first().map(|command| command.decision),
        Some(Decision::Replace),
        "{:?}",
        decided.notes
    );
}

/// DIS-144, DIS-143, DIS-147, X10, DC-123: what no longer holds is not started, and costs only that command.
#[test]
fn dc_123_validation_is_of_now() {
    let before = sizes().pool("p", |_| ());
    let before =
        ["a", "b", "c"].iter().fold(before, |cluster, name| cluster.node(name, "p", "huge", [running(name, 1)]));
    let command = before.multi().commands.remove(0);
    let after = sizes().pool("p", |_| ()).node("a", "p", "huge", [running("a", 64)]);
    let after =
        after.node("b", "p", "huge", [running("b", 31), running("b2", 31)]).node("c", "p", "huge", [running("c", 1)]);
    let checked = after.with(|look, simulator| validation::validate(&command, look, simulator));
    assert!(checked.outcome.is_err());
    assert_eq!(checked.failed, command.going.len());
    assert_eq!(texts(&after.single()), ["delete: [c]"], "the third still goes by itself");
}

/// DIS-58, DIS-59: a node that is not ready takes its part of the budget; nothing goes below nothing.
#[test]
fn nodes_that_are_not_ready() {
    let cluster = sizes().pool("p", |pool| pool.budgets = budget("1")).node("a", "p", "small", []);
    let sick = cluster.node("b", "p", "small", [running("x", 1)]).change("b", |node| node.ready = false);
    assert!(empty(&sick.look()).commands.is_empty());
}

/// DIS-81, DIS-82, DIS-83: nodes that are going take nobody.
#[test]
fn going_nodes_take_nobody() {
    let mut cluster = sizes().pool("p", |_| ()).node("a", "p", "nano", [running("x", 1)]).node("b", "p", "huge", []);
    assert_eq!(texts(&cluster.single()), ["delete: [a]"]);
    cluster.snapshot.nodes[1].marked = true;
    assert!(cluster.single().commands.is_empty());
}

/// DIS-190: room that a buffer keeps is room that is taken.
#[test]
fn buffers_take_room() {
    let cluster = sizes().pool("p", |_| ()).node("a", "p", "small", [running("x", 3)]).node("b", "p", "large", []);
    let virtual_pod = waiting("buffer", 14).but(|pod| {
        pod.buffer = Some(PodId::new("default", "spare"));
    });
    let kept = cluster.waiting(virtual_pod);
    assert!(kept.single().commands.is_empty(), "the pod would need the room of the buffer");
}

/// DIS-132, DIS-133, DIS-137: what a pool costs, with all of its nodes in what moving its pods would.
#[test]
fn totals_of_pools() {
    let mut cluster = sizes().pool("p", |_| ()).pool("q", |_| ()).node("a", "p", "small", [running("x", 1)]);
    cluster = cluster.node("b", "p", "small", [running("y", 1)]).change("b", |node| {
        node.annotations.insert("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned());
    });
    let look = cluster.look();
    let found = look.candidates(Class::Graceful, &mut Vec::new());
    let totals = look.totals(&found);
    assert_eq!(totals.keys().collect::<Vec<_>>(), ["p"], "only pools that have a candidate");
    assert!((totals["p"].cost - 0.4).abs() < 1e-9 && (totals["p"].disruption - 4.0).abs() < 1e-9, "{totals:?}");
    assert!((cost::PER_NODE - 1.0).abs() < 1e-9);
    cluster.pool_costs.insert("p".to_owned(), 7.0);
    let look = cluster.look();
    assert!((look.totals(&look.candidates(Class::Graceful, &mut Vec::new()))["p"].cost - 7.0).abs() < 1e-9);
}

/// DIS-57: instances that are being terminated no longer count.
#[test]
fn terminating_instances_do_not_count() {
    let cluster = sizes().pool("p", |_| ()).node("a", "p", "small", []).node("b", "p", "small", []);
    let cluster = cluster.claim("b", |claim| {
        claim.instance_terminating =
            Some(ConditionView { status: karpenter_model::claim::Status::True, since: time(1) });
    });
    assert_eq!(cluster.look().allowances(DisruptionReason::Empty, &mut Vec::new())["p"].nodes, 1);
}
