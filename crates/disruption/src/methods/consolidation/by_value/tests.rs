use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::pool::{ConsolidationPolicy, PoolView};
use karpenter_model::requirements::Requirement;
use proptest::prelude::*;

use super::{Outlook, Searched};
use crate::look::Look;
use crate::methods::validation::validate;
use crate::methods::{Consolidation, Economics, Method};
use crate::option::spot_only_goes;
use crate::simulation::Simulator;
use crate::testing::{Cluster, instance_type, running, texts, with_reservation};
use crate::verdicts::tests::any_cluster;

fn search(look: &Look<'_>, simulator: &mut Simulator<'_>) -> Searched {
    Consolidation::new(look, simulator, Method::Multi).by_value(&mut || false)
}

fn searched(cluster: &Cluster) -> Searched {
    cluster.with(search)
}

fn sizes(change: impl FnOnce(&mut PoolView)) -> Cluster {
    Cluster::new([
        instance_type("small", 4, 0.4, &[]),
        instance_type("large", 16, 1.2, &[]),
        instance_type("huge", 64, 6.4, &[]),
    ])
    .pool("p", change)
}

fn everything(pool: &mut PoolView) {
    pool.budgets = Budgets::Parsed(vec![Budget { nodes: "100%".parse().unwrap(), reasons: None, window: None }]);
}

/// G10: no window of a hundred nodes, no prefix; one pass finds what the specified search needs several for.
#[test]
fn many_nodes_in_one_pass() {
    let mut cluster = sizes(everything);
    for at in 0..240 {
        cluster = cluster.node(&format!("n{at:03}"), "p", "small", [running(&format!("x{at}"), 1)]);
    }
    let found = searched(&cluster);
    let gone: usize = found.decided.commands.iter().map(|command| command.going.len()).sum();
    assert!(gone >= 170, "{gone} of 240 nodes, of which 60 are enough");
    assert!(found.decided.commands.iter().all(|command| command.going.len() <= 100));
    assert!(cluster.specified().multi().commands[0].going.len() <= 100, "DIS-119");
    assert!(found.outlook.found <= found.outlook.most + 1e-9, "{:?}", found.outlook);
}

/// G10: nodes of the wrong shape go all at once, for new ones that are full; what was packed stands the second look.
#[test]
fn nodes_of_the_wrong_shape_are_dissolved() {
    let types = [instance_type("dear", 8, 1.0, &[]), instance_type("fair", 16, 1.0, &[])];
    let mut cluster = Cluster::new(types).pool("p", everything);
    for at in 0..20 {
        let pods = [running(&format!("x{at:02}"), 3), running(&format!("y{at:02}"), 3)];
        cluster = cluster.node(&format!("n{at:02}"), "p", "dear", pods);
    }
    let found = searched(&cluster);
    assert!(found.outlook.found > 12.0 - 1e-9, "40 pods on 8 nodes that hold 5 each: {:?}", texts(&found.decided));
    cluster.with(|look, simulator| {
        let checked = validate(&found.decided.commands[0], look, simulator);
        assert!(checked.outcome.is_ok(), "DIS-144: {:?}", checked.outcome);
    });
}

/// DIS-106 does not bind here: three nodes give way to two others, since that is much cheaper (G10).
#[test]
fn several_replacements_where_cheaper() {
    let types = [instance_type("dear", 8, 9.0, &[]), instance_type("half", 4, 1.0, &[])];
    let only = Requirement::any_of(labels::INSTANCE_TYPE, ["half"]);
    let cluster = Cluster::new(types)
        .pool("p", |pool| {
            everything(pool);
            pool.requirements.add(only);
        })
        .node("a", "p", "dear", [running("x", 4), running("y", 4)])
        .node("b", "p", "dear", [running("z", 4)]);
    let found = searched(&cluster);
    let types: Vec<String> = texts(&found.decided);
    assert!(found.decided.commands.iter().any(|command| command.replacements.len() > 1), "{types:?}");
    let cost: f64 =
        found.decided.commands.iter().flat_map(|command| &command.replacements).map(|one| one.price.per_hour()).sum();
    assert!((18.0 - cost - found.outlook.found).abs() < 1e-9, "what is said to be saved is saved: {types:?}");
    let economics = found.decided.commands[0].economics().to_string();
    assert!(economics.starts_with("saves $") && economics.contains("new nodes cost less"), "{economics}");
    cluster.with(|look, simulator| {
        let checked = validate(&found.decided.commands[0], look, simulator);
        assert!(checked.outcome.is_ok(), "DIS-144: {:?}", checked.outcome);
    });
}

/// DIS-112, DIS-115, DIS-136: nodes that have nothing to do with each other do not pay for each other. The one that is worth it goes,
/// as a command of its own; a spot node without a choice and a pool that finds too little in it keep theirs.
#[test]
fn unrelated_nodes_are_judged_by_themselves() {
    let sized = |pool: &mut PoolView, types: &[&str], capacity_type: &str| {
        everything(pool);
        pool.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, types.iter().copied()));
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]));
    };
    let of_pool = |pool: &str, cpu: i64| {
        running(pool, cpu).but(|pod| pod.scheduling.node_selector.add(Requirement::any_of(labels::NODEPOOL, [pool])))
    };
    let types = [
        instance_type("tiny", 2, 0.2, &[20.0; 3]),
        instance_type("wide", 64, 60.0, &[30.0; 3]),
        instance_type("two-thirds", 6, 0.8, &[]),
        instance_type("whole", 9, 1.2, &[]),
    ];
    let mut cluster = Cluster::new(types)
        .pool("dear", |pool| sized(pool, &["tiny", "wide"], "on-demand"))
        .pool("spot", |pool| sized(pool, &["tiny", "wide"], "spot"))
        .pool("balanced", |pool| {
            sized(pool, &["two-thirds", "whole"], "on-demand");
            pool.consolidation_policy = ConsolidationPolicy::Balanced;
        })
        .node("a", "dear", "wide", [of_pool("dear", 1)])
        .node("b", "spot", "wide spot", [of_pool("spot", 1)])
        .node("c", "balanced", "whole", [of_pool("balanced", 5)]);
    cluster.gates.spot_to_spot = true;
    let found = searched(&cluster);
    let gone: Vec<Vec<&str>> = found
        .decided
        .commands
        .iter()
        .map(|command| command.going.iter().map(|going| going.node.as_str()).collect())
        .collect();
    assert_eq!(gone, [["a"]], "{:?}", texts(&found.decided));
    assert_eq!(found.decided.commands[0].method, Method::Single, "DC-178");
}

/// DIS-117, DIS-61: a budget is taken once, whatever the commands.
#[test]
fn budgets_hold_over_all_commands() {
    let three = |pool: &mut PoolView| {
        pool.budgets = Budgets::Parsed(vec![Budget { nodes: "3".parse().unwrap(), reasons: None, window: None }]);
    };
    let mut cluster = sizes(three);
    for at in 0..12 {
        cluster = cluster.node(&format!("n{at:02}"), "p", "small", [running(&format!("x{at}"), 1)]);
    }
    let found = searched(&cluster);
    let gone: usize = found.decided.commands.iter().map(|command| command.going.len()).sum();
    assert_eq!(gone, 3);
    assert!(found.outlook.left() > 0.0, "and says that more could be saved: {:?}", found.outlook);
    let mut closed = sizes(|pool| {
        pool.budgets = Budgets::Parsed(vec![Budget { nodes: "0".parse().unwrap(), reasons: None, window: None }]);
    });
    closed = closed.node("a", "p", "small", [running("x", 1)]).node("b", "p", "small", [running("y", 1)]);
    let found = searched(&closed);
    assert!(found.decided.commands.is_empty() && !found.decided.settled, "DIS-103");
}

/// A full cluster is left alone, and the bound says that there is nothing to gain.
#[test]
fn nothing_to_save() {
    let cluster = sizes(everything).node("a", "p", "large", [running("x", 8), running("y", 8)]).node(
        "b",
        "p",
        "large",
        [running("z", 16)],
    );
    let found = searched(&cluster);
    assert!(found.decided.commands.is_empty() && found.decided.settled);
    assert!(found.outlook.left() < 1e-6, "{:?}", found.outlook);
    assert!(Outlook { most: 1.0, found: 2.0 }.left() < 1e-9);
}

/// DIS-186 has the text of a command; this is what it is worth.
#[test]
fn economics_in_words() {
    let none = Economics { saved_per_hour: 0.5, evictions: 0, nodes_gone: 1, nodes_new: 0, nodes_receiving: 0 };
    for (economics, want) in [
        (none, "saves $0.50 per hour, evicts 0 pods, 1 nodes go; nobody has to find another place"),
        (
            Economics { evictions: 3, nodes_receiving: 2, ..none },
            "saves $0.50 per hour, evicts 3 pods, 1 nodes go; all pods fit on 2 nodes that exist",
        ),
        (
            Economics { evictions: 3, nodes_new: 1, ..none },
            "saves $0.50 per hour, evicts 3 pods, 1 nodes go; 1 new nodes cost less at any price of their lists",
        ),
    ] {
        assert_eq!(economics.to_string(), want);
    }
}

proptest! {
    /// G10, DIS-61, DIS-136: commands share no node, nobody who receives goes, budgets hold, each saves something, and together they
    /// save no more than the bound; the first stands a second look by a pass of its own.
    #[test]
    fn commands_stand_by_themselves(cluster in any_cluster(), balanced in any::<bool>()) {
        let mut cluster = cluster;
        if balanced {
            for facts in cluster.pools.values_mut() {
                let mut view = PoolView::clone(&facts.view);
                view.consolidation_policy = ConsolidationPolicy::Balanced;
                facts.view = view.into();
            }
        }
        let look = cluster.look();
        let new = || Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options);
        let found = search(&look, &mut new());
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        let mut by_pool: BTreeMap<&str, u32> = BTreeMap::new();
        for command in &found.decided.commands {
            prop_assert!(command.savings > 0.0);
            for going in &command.going {
                prop_assert!(gone.insert(&going.node), "{} goes twice", going.node);
                *by_pool.entry(&going.pool).or_default() += 1;
            }
            let dearest: f64 = command.going.iter().map(|going| going.price.per_hour()).sum();
            let new: f64 = command.replacements.iter().map(|claim| claim.price.per_hour()).sum();
            prop_assert!((dearest - new - command.savings).abs() < 1e-9);
        }
        for command in &found.decided.commands {
            prop_assert!(command.receiving.iter().all(|node| !gone.contains(node.as_str())));
        }
        let allowances = look.allowances(Method::Multi.reason(), &mut Vec::new());
        for (pool, count) in by_pool {
            prop_assert!(count <= allowances[pool].remaining());
        }
        prop_assert!(found.outlook.found <= found.outlook.most + 1e-6, "{:?}", found.outlook);
        if let Some(first) = found.decided.commands.first() {
            // New nodes are packed only on a compiled snapshot.
            let mut simulator = if first.replacements.is_empty() { new().uncompiled() } else { new() };
            let checked = validate(first, &look, &mut simulator);
            prop_assert!(checked.outcome.is_ok(), "{:?}: {:?}", checked.outcome, texts(&found.decided));
        }
    }
}

/// DIS-108, DIS-112: with the gate off nothing takes the place of spot nodes, unless a pool sells no spot or something is reserved; others
/// are exchanged as ever.
#[test]
fn spot_nodes_are_replaced_where_that_is_allowed() {
    let [huge, small] = [instance_type("huge", 64, 6.4, &[5.0; 3]), instance_type("small", 4, 0.4, &[0.2; 3])];
    let cluster = |small: InstanceType, pool: &dyn Fn(&mut PoolView)| {
        let cluster = Cluster::new([huge.clone(), small]).reservations().pool("p", |view| {
            everything(view);
            pool(view);
        });
        cluster.node("a", "p", "huge spot", [running("x", 3)]).node("b", "p", "huge spot", [running("y", 62)])
    };
    let on_demand = |pool: &mut PoolView| {
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"]));
    };
    let gone = |cluster: &Cluster| searched(cluster).decided.commands.iter().map(|one| one.going.len()).sum::<usize>();
    let spot = cluster(small.clone(), &|_| {});
    let mut gate = spot.clone();
    gate.gates.spot_to_spot = true;
    let reserved = cluster(with_reservation(small.clone(), "cr-1", Some(2)), &|_| {});
    for (what, cluster, only_goes, nodes) in [
        ("a small one would do, but might be spot", spot.clone(), true, 0),
        ("with the gate, since it is far cheaper", gate, false, 1),
        ("a small one of a pool without spot", cluster(small.clone(), &on_demand), false, 1),
        ("a small one that is reserved", reserved, false, 1),
        ("one that is no spot is exchanged", spot.node("c", "p", "huge", [running("z", 62)]), true, 1),
    ] {
        assert_eq!(spot_only_goes(&cluster.look()), only_goes, "{what}");
        assert_eq!(gone(&cluster), nodes, "{what}: {:?}", texts(&searched(&cluster).decided));
    }
}
