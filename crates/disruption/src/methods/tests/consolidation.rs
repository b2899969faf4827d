use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use karpenter_model::pool::{ConsolidationPolicy, PoolView};
use karpenter_model::protection::Protection;
use karpenter_model::requirements::Requirement;
use karpenter_model::scheduling::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;
use karpenter_model::taints::{Effect, Taint};

use crate::look::Gates;
use crate::methods::{Consolidation, Decided, Method, Seen, drifted, empty};
use crate::report::Note;
use crate::testing::{Cluster, instance_type, running, texts, time, waiting};

/// nano 1, small 4, large 16, huge 64 CPUs at 0.1 per CPU; on demand only.
fn sizes() -> Cluster {
    Cluster::new([
        instance_type("nano", 1, 0.1, &[]),
        instance_type("small", 4, 0.4, &[]),
        instance_type("large", 16, 1.6, &[]),
        instance_type("huge", 64, 6.4, &[]),
    ])
}

fn one_pool() -> Cluster {
    sizes().pool("p", |_| ())
}

fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

fn unconsolidatable(decided: &Decided) -> Vec<&str> {
    decided
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Unconsolidatable { why, .. } => Some(why.as_str()),
            _ => None,
        })
        .collect()
}

/// DIS-109, DC-88: a dear node with a small pod gives way to the types that are cheaper.
#[test]
fn a_cheaper_node_takes_its_place() {
    let decided = one_pool().node("a", "p", "huge", [running("x", 3)]).single();
    assert_eq!(texts(&decided), ["replace: [a] -> [1 replacement] small|large"]);
    assert!((decided.commands[0].savings - 6.0).abs() < 1e-9);
    let considered = decided.notes.iter().filter(|note| matches!(note, Note::Considered { .. })).count();
    assert_eq!(considered, 1, "DIS-111");
}

/// DIS-105, DC-109, DC-110: pods that fit elsewhere need no node.
#[test]
fn nodes_go_when_pods_fit_elsewhere() {
    let decided = one_pool()
        .node("a", "p", "small", [running("x", 1), running("y", 1)])
        .node("b", "p", "small", [running("z", 1)])
        .single();
    assert_eq!(texts(&decided), ["delete: [b]"]);
    assert_eq!(decided.commands[0].receiving.iter().collect::<Vec<_>>(), ["a"]);
}

/// API-176, DIS-97, DIS-99, DC-84 … DC-87: what keeps a node is on it, once per method.
#[test]
fn what_is_not_looked_at() {
    let with = |change: fn(&mut PoolView)| sizes().pool("p", change).node("a", "p", "huge", [running("x", 1)]);
    let without = |key: &'static str| with(|_| ()).change("a", |node| drop(node.labels.remove(key)));
    for (case, cluster, want) in [
        ("DC-84", with(|pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty), "only nodes that are empty"),
        ("DC-85", with(|pool| pool.consolidate_after = NillableDuration::Never), "disabled"),
        ("DC-86, type", without(labels::INSTANCE_TYPE), "Instance type"),
        ("DC-86, capacity type", without(labels::CAPACITY_TYPE), labels::CAPACITY_TYPE),
        ("DC-86, zone", without(labels::ZONE), labels::ZONE),
    ] {
        for decided in [cluster.single()].into_iter().chain(cluster.both()) {
            assert!(decided.commands.is_empty(), "{case}");
            assert!(
                matches!(unconsolidatable(&decided)[..], [why] if why.contains(want)),
                "{case}: {:?}",
                decided.notes
            );
        }
    }
    assert!(unconsolidatable(&with(|_| ()).single()).is_empty(), "DC-87");
    let noisy = with(|_| ()).claim("a", |claim| claim.consolidatable = false).single();
    assert!(noisy.commands.is_empty() && noisy.eligible == 0, "DIS-97");
}

/// Nodes of `dear` at `price` on demand, and one other type.
fn against(price: f64, other: f64, spot: &[f64], pool: impl FnOnce(&mut PoolView)) -> Decided {
    let types = [instance_type("dear", 4, price, &[]), instance_type("other", 4, other, spot)];
    Cluster::new(types).pool("p", pool).node("a", "p", "dear", [running("x", 1)]).single()
}

/// DIS-79, DIS-80, DIS-110, DC-89 … DC-91: the dearest zone that could be launched has to be cheaper.
#[test]
fn the_worst_launch_price_decides() {
    let spot = [1.0, 0.2, 0.4];
    let types = [instance_type("dear", 4, 0.5, &[]), instance_type("other", 4, 9.0, &spot)];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "dear", [running("x", 1)]);
    assert!(cluster.specified().single().commands.is_empty(), "DC-89");
    let on_demand = |pool: &mut PoolView| {
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"]));
    };
    assert!(against(0.5, 0.6, &[0.2; 3], on_demand).commands.is_empty(), "DC-90, DC-138");
    let decided = against(1.5, 9.0, &spot, |_| ());
    let claim = &decided.commands[0].replacements[0];
    assert_eq!(*claim.instance_types, ["other"], "DC-91");
    assert_eq!(claim.requirements.get(labels::CAPACITY_TYPE).unwrap().single_value(), Some("spot"), "DC-91");
}

/// X8: a type that is too dear in one zone is bought in the others, and only there.
#[test]
fn x8_dear_zones_are_left_out() {
    let decided = against(0.5, 9.0, &[1.0, 0.2, 0.4], |_| ());
    let claim = &decided.commands[0].replacements[0];
    assert_eq!(*claim.instance_types, ["other"]);
    let zones = claim.requirements.get(labels::ZONE).unwrap();
    assert_eq!(["z1", "z2", "z3"].map(|zone| zones.has(zone)), [false, true, true]);
    assert!((decided.commands[0].savings - 0.3).abs() < 1e-9);
    let mut wanted = Requirement::exists(labels::ZONE);
    wanted.set_min_values(Some(3));
    assert!(against(0.5, 9.0, &[1.0, 0.2, 0.4], |pool| pool.requirements.add(wanted)).commands.is_empty());
}

/// X9: where there are few types, a spot node gives way to one at half its price or less, and to no other.
#[test]
fn x9_few_types_need_a_gap() {
    let priced = |prices: &[f64]| {
        let types = prices.iter().zip(["dear", "b", "c"]);
        let types = types.map(|(price, name)| instance_type(name, 4, 50.0, &[*price; 3]));
        let mut cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "dear spot", [running("x", 1)]);
        cluster.gates = Gates { spot_to_spot: true, ..Gates::default() };
        cluster
    };
    for (prices, want) in [
        (&[1.0, 0.5, 0.9][..], &["replace: [a] -> [1 replacement] b"][..]),
        (&[1.0, 0.51, 0.9], &[]),
        (&[1.0, 0.2, 0.3], &["replace: [a] -> [1 replacement] b|c"]),
    ] {
        let cluster = priced(prices);
        assert_eq!(texts(&cluster.single()), want, "{prices:?}");
        let specified = cluster.specified().single();
        assert!(specified.commands.is_empty() && unconsolidatable(&specified)[0].contains("got 2"), "DIS-115");
    }
}

/// X7, DIS-129: the node that saves most for its pods goes, not the first that would save anything.
#[test]
fn x7_the_best_goes_first() {
    let types = [
        instance_type("small", 4, 0.4, &[]),
        instance_type("medium", 14, 1.5, &[]),
        instance_type("large", 16, 1.6, &[]),
    ];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "large", [running("x", 13)]).node(
        "b",
        "p",
        "large",
        [running("y", 2), running("z", 2)],
    );
    assert_eq!(texts(&cluster.specified().single()), ["replace: [a] -> [1 replacement] medium"]);
    assert_eq!(texts(&cluster.single()), ["replace: [b] -> [1 replacement] small|medium"]);
}

/// X23, DIS-77: of two nodes that are alike, the one goes whose pods would soon have to move anyway.
#[test]
fn x23_age_counts() {
    let cluster = one_pool()
        .node("a", "p", "small", [running("x", 1)])
        .node("b", "p", "small", [running("y", 1)])
        .claim("b", |claim| claim.expire_after = NillableDuration::After(GoDuration::from_secs(10_100)));
    assert_eq!(texts(&cluster.specified().single()), ["delete: [a]"]);
    assert_eq!(texts(&cluster.single()), ["delete: [b]"]);
    assert_eq!(texts(&cluster.multi()), ["delete: [b]"]);
}

/// API-176, DIS-106, DC-93: two nodes for one is not a saving that the specification makes.
#[test]
fn one_replacement_at_most() {
    let types = [instance_type("whole", 8, 9.0, &[]), instance_type("half", 4, 1.0, &[])];
    let only = Requirement::any_of(labels::INSTANCE_TYPE, ["half"]);
    let cluster = Cluster::new(types).pool("p", |pool| pool.requirements.add(only));
    let decided = cluster.node("a", "p", "whole", [running("x", 4), running("y", 4)]).single();
    assert!(decided.commands.is_empty());
    assert_eq!(unconsolidatable(&decided), ["Can't remove without creating 2 nodes"]);
}

/// DIS-80, DC-94: cheaper types must still offer the values that the pool wants.
#[test]
fn min_values_hold() {
    let mut wanted = Requirement::exists(labels::INSTANCE_TYPE);
    wanted.set_min_values(Some(3));
    let cluster = sizes().pool("p", |pool| pool.requirements.add(wanted));
    let decided = cluster.node("a", "p", "huge", [running("x", 3)]).single();
    assert!(decided.commands.is_empty());
    assert!(unconsolidatable(&decided)[0].contains("minValues"), "{:?}", decided.notes);
}

/// Types s00 … s19 with spot prices 1.0, 1.1, …, and one at a thousandth.
fn spot_types(count: usize) -> Vec<karpenter_model::instance_type::InstanceType> {
    (0..count)
        .map(|at| {
            let tenths = u32::try_from(at).unwrap();
            let price = if at == 3 { 0.001 } else { 1.0 + f64::from(tenths) / 10.0 };
            instance_type(&format!("s{at:02}"), 4, 50.0, &[price; 3])
        })
        .collect()
}

fn spot(count: usize, node: &str, gate: bool, pool: impl FnOnce(&mut PoolView)) -> Decided {
    let mut cluster = Cluster::new(spot_types(count)).pool("p", pool).node("a", "p", node, [running("x", 1)]);
    cluster.gates = Gates { spot_to_spot: gate, ..Gates::default() };
    cluster.single()
}

/// API-176, DIS-112 … DIS-116, DC-102 … DC-106.
#[test]
fn spot_to_spot() {
    let off = spot(18, "s17 spot", false, |_| ());
    assert!(off.commands.is_empty() && unconsolidatable(&off)[0].contains("disabled"), "DC-102");
    let few = |mut cluster: Cluster| {
        cluster.gates = Gates { spot_to_spot: true, specified_search: true, ..Gates::default() };
        cluster.single()
    };
    let few = few(Cluster::new(spot_types(5)).pool("p", |_| ()).node("a", "p", "s00 spot", [running("x", 1)]));
    assert!(few.commands.is_empty(), "DC-103");
    assert!(unconsolidatable(&few)[0].contains("15") && unconsolidatable(&few)[0].ends_with("got 1"), "DC-103");
    let mut cheapest = Cluster::new(spot_types(20)).pool("p", |_| ()).node("a", "p", "s00 spot", [running("x", 1)]);
    cheapest.gates = Gates { spot_to_spot: true, specified_search: true, ..Gates::default() };
    assert!(cheapest.single().commands.is_empty(), "DC-104");
    let wanted = |count| {
        move |pool: &mut PoolView| {
            let mut wanted = Requirement::exists(labels::INSTANCE_TYPE);
            wanted.set_min_values(Some(count));
            pool.requirements.add(wanted);
        }
    };
    for (case, decided, types) in [
        ("DC-105", spot(18, "s17 spot", true, |_| ()), 15),
        ("DC-106, 16", spot(18, "s17 spot", true, wanted(16)), 16),
        ("DC-106, 10", spot(18, "s17 spot", true, wanted(10)), 15),
    ] {
        let claim = &decided.commands[0].replacements[0];
        assert_eq!(claim.instance_types.len(), types, "{case}");
        assert_eq!(claim.instance_types[0], "s03", "{case}");
    }
}

/// DIS-112, DC-102: a spot node that nobody needs goes without the gate.
#[test]
fn spot_deletes_need_no_gate() {
    let cluster = Cluster::new(spot_types(2)).pool("p", |_| ());
    let cluster = cluster.node("a", "p", "s00 spot", [running("x", 1)]).node("b", "p", "s00 spot", [running("y", 1)]);
    assert_eq!(texts(&cluster.single()), ["delete: [a]"]);
}

/// DIS-114, DC-107, DC-108: several spot nodes need no choice of fifteen; a mix goes the ordinary way.
#[test]
fn several_spot_nodes() {
    let types = || [instance_type("s", 2, 9.0, &[1.0; 3]), instance_type("m", 8, 9.0, &[1.5; 3])];
    let three = |kinds: [&str; 3]| {
        let mut cluster = Cluster::new(types()).pool("p", |_| ());
        cluster.gates = Gates { spot_to_spot: true, ..Gates::default() };
        kinds
            .iter()
            .zip(["a", "b", "c"])
            .fold(cluster, |cluster, (kind, name)| cluster.node(name, "p", kind, [running(name, 2)]))
    };
    for decided in three(["s spot"; 3]).both() {
        assert_eq!(texts(&decided), ["replace: [a, b, c] -> [1 replacement] m"], "DC-107");
    }
    for mixed in three(["s", "s", "s spot"]).both() {
        assert_eq!(mixed.commands[0].going.len(), 3, "DC-108");
    }
}

/// DIS-85, DC-111: nobody is sent to a node that has not come up yet.
#[test]
fn starting_nodes_take_nobody() {
    let cluster = one_pool()
        .node("a", "p", "small", [running("x", 3)])
        .node("b", "p", "small", [])
        .change("b", |node| drop(node.labels.remove(labels::INITIALIZED)))
        .claim("b", |claim| claim.initialized.status = karpenter_model::claim::Status::False);
    let decided = cluster.single();
    assert!(decided.commands.is_empty());
    assert!(unconsolidatable(&decided)[0].contains("not initialized"), "{:?}", decided.notes);
}

/// DIS-87, DIS-88, DC-78, DC-112: pods that wait take room, but do not stop anything by being hopeless.
#[test]
fn pods_that_wait() {
    let cluster = one_pool().node("a", "p", "huge", [running("x", 1)]);
    assert!(!cluster.single().commands.is_empty());
    let needed = one_pool().node("a", "p", "huge", [running("x", 1)]).waiting(waiting("big", 62));
    assert!(needed.single().commands.is_empty(), "DC-78");
    let mut hopeless = waiting("hopeless", 1);
    hopeless.scheduling.node_selector.add(Requirement::any_of("disk", ["none"]));
    let two = one_pool().node("a", "p", "small", [running("x", 1)]).node("b", "p", "small", [running("y", 2)]);
    assert_eq!(texts(&two.waiting(hopeless).single()), ["delete: [a]"], "DC-112");
}

/// DIS-70, DC-97, DC-113, DC-114: a node that pods just came to is left alone, unless its pool has no window.
#[test]
fn unsettled_nodes_take_nobody() {
    let minute = NillableDuration::After(GoDuration::from_secs(60));
    let pair = |event: i64, after: NillableDuration| {
        let cluster = sizes().pool("p", |_| ()).pool("q", |pool| pool.consolidate_after = after);
        let cluster = cluster.node("a", "p", "nano", [running("x", 1)]).node("b", "q", "small", [running("y", 1)]);
        cluster.claim("b", |claim| {
            claim.last_pod_event = Some(time(event));
            claim.consolidatable = false;
        })
    };
    assert!(pair(9_990, minute).single().commands.is_empty(), "DC-113");
    assert_eq!(texts(&pair(9_800, minute).single()), ["delete: [a]"], "DC-113");
    assert_eq!(texts(&pair(9_990, NillableDuration::Never).single()), ["delete: [a]"], "DC-114");
    let replaced = sizes().pool("p", |pool| pool.consolidate_after = minute).node("a", "p", "huge", [running("x", 1)]);
    assert!(!replaced.single().commands.is_empty(), "DC-97");
}

/// DC-116, DC-117: who has no owner is moved; who is protected is not, grace period or not.
#[test]
fn protected_pods_stay() {
    let protected = running("x", 1).but(|pod: &mut PodView| pod.protection = Protection::Always);
    let cluster = one_pool().node("a", "p", "huge", [protected]);
    let cluster = cluster.claim("a", |claim| claim.termination_grace_period = Some(GoDuration::from_secs(1)));
    assert!(cluster.single().commands.is_empty());
}

/// DIS-119, DIS-120, DC-118: three dear nodes become one.
#[test]
fn several_nodes_become_one() {
    let cluster = one_pool().node("a", "p", "huge", [running("x", 3)]).node("b", "p", "huge", [running("y", 3)]).node(
        "c",
        "p",
        "huge",
        [running("z", 3)],
    );
    for decided in cluster.both() {
        assert_eq!(texts(&decided), ["replace: [a, b, c] -> [1 replacement] large"]);
    }
}

/// DIS-122, DC-119, DC-120: no type that one of the nodes has, and none as dear as it.
#[test]
fn no_replacement_by_their_own_type() {
    let filled = |types: &[&str]| {
        let types = types.iter().map(|name| match *name {
            "n" => instance_type("n", 8, 0.1, &[]),
            "s" => instance_type("s", 8, 0.4, &[]),
            "x" => instance_type("x", 8, 1.0, &[]),
            _ => instance_type("xx", 8, 2.0, &[]),
        });
        let taint = Taint { key: "old".to_owned(), value: String::new(), effect: Effect::NoSchedule };
        let mut cluster = Cluster::new(types).pool("p", |_| ());
        for (name, kind) in [("a", "xx"), ("b", "xx"), ("c", "s")] {
            let taint = taint.clone();
            cluster = cluster.node(name, "p", kind, [running(name, 2)]).change(name, |node| node.taints.push(taint));
        }
        cluster.both()
    };
    for decided in filled(&["s", "x", "xx"]) {
        assert!(decided.commands.iter().all(|command| command.going.len() < 3), "DC-120");
    }
    for decided in filled(&["n", "s", "x", "xx"]) {
        assert_eq!(texts(&decided), ["replace: [a, b, c] -> [1 replacement] n"], "DC-120");
    }
}

/// DIS-117, DC-55: no more nodes than the budget lets go.
#[test]
fn budgets_hold() {
    let cluster = sizes().pool("p", |pool| pool.budgets = budget("30%"));
    let cluster = (0..10).fold(cluster, |cluster, at| {
        let name = format!("n{at}");
        cluster.node(&name, "p", "large", [running(&name, 1)])
    });
    for decided in cluster.both() {
        assert_eq!(decided.commands.iter().map(|command| command.going.len()).sum::<usize>(), 3);
    }
    let closed = sizes().pool("p", |pool| pool.budgets = budget("0"));
    let closed = closed.node("a", "p", "huge", [running("x", 1)]).node("b", "p", "huge", [running("y", 1)]);
    assert!(closed.both().iter().all(|decided| !decided.settled) && !closed.single().settled, "DC-59");
}

/// DIS-123, X5, DC-122: a search that was stopped is not the end of it.
#[test]
fn stopped_searches() {
    let cluster = one_pool().node("a", "p", "huge", [running("x", 1)]).node("b", "p", "huge", [running("y", 1)]);
    for cluster in [cluster.specified(), cluster.clone()] {
        let decided =
            cluster.with(|look, simulator| Consolidation::new(look, simulator, Method::Multi).multi(&mut || true));
        assert!(decided.commands.is_empty() && decided.timed_out && !decided.settled);
    }
    let mut seen = Seen::default();
    let decided = cluster
        .with(|look, simulator| Consolidation::new(look, simulator, Method::Single).single(&mut seen, &mut || true));
    assert!(decided.timed_out && !decided.settled);
    assert_eq!(seen.unseen.iter().collect::<Vec<_>>(), ["p"], "DC-126");
}

/// DIS-100, DIS-103, DIS-118: nothing to find is remembered.
#[test]
fn nothing_found_is_settled() {
    let cluster = one_pool().node("a", "p", "nano", [running("x", 1)]);
    assert!(cluster.single().settled && cluster.both().iter().all(|decided| decided.settled));
}

/// DIS-126, DC-125, DC-195: one of each pool in turn, those not reached last time first.
#[test]
fn pools_take_turns() {
    let mut cluster = sizes();
    for pool in ["a", "b"] {
        cluster = cluster.pool(pool, |_| ());
        for at in 0..2 {
            let name = format!("{pool}{at}");
            // Full nodes of the cheapest type: nothing can be done about any of them.
            cluster = cluster.node(&name, pool, "nano", [running(&name, 1)]);
        }
    }
    let order = |seen: &mut Seen| -> Vec<String> {
        let decided = cluster
            .with(|look, simulator| Consolidation::new(look, simulator, Method::Single).single(seen, &mut || false));
        let nodes = decided.notes.into_iter().filter_map(|note| match note {
            Note::Unconsolidatable { subject, .. } => subject.node,
            _ => None,
        });
        nodes.collect()
    };
    let mut seen = Seen::default();
    assert_eq!(order(&mut seen), ["a0", "b0", "a1", "b1"]);
    seen.unseen.insert("b".to_owned());
    assert_eq!(order(&mut seen), ["b0", "a0", "b1", "a1"]);
    assert!(seen.unseen.is_empty(), "DIS-130");
}

/// DIS-127, DIS-128: what was not reached is remembered when the time is over; what no budget lets go is not looked at.
#[test]
fn single_searches_that_stop() {
    let mut cluster = sizes();
    for pool in ["a", "b"] {
        cluster = cluster.pool(pool, |_| ()).node(pool, pool, "nano", [running(pool, 1)]);
    }
    let (mut seen, mut asked) = (Seen::default(), 0);
    let decided = cluster.with(|look, simulator| {
        Consolidation::new(look, simulator, Method::Single).single(&mut seen, &mut || {
            asked += 1;
            asked > 1
        })
    });
    assert!(decided.timed_out && !decided.settled && decided.commands.is_empty(), "DIS-127");
    assert_eq!(seen.unseen.iter().collect::<Vec<_>>(), ["b"], "DIS-127");
    let closed =
        sizes().pool("p", |pool| pool.budgets = budget("0")).node("x", "p", "huge", [running("x", 1)]).single();
    assert!(closed.commands.is_empty() && unconsolidatable(&closed).is_empty() && !closed.settled, "DIS-128");
}

/// DIS-134, DIS-138, DIS-139, DC-140: a Balanced pool lets a node go only where the saving is worth it.
#[test]
fn balanced_pools_judge() {
    let pool = |cost: f64| {
        let mut cluster = sizes().pool("p", |pool| pool.consolidation_policy = ConsolidationPolicy::Balanced);
        cluster.pool_costs.insert("p".to_owned(), cost);
        cluster.node("a", "p", "small", [running("x", 1)]).node("b", "p", "small", [running("y", 2)])
    };
    let approved = pool(0.8).single();
    assert_eq!(approved.commands.len(), 1);
    assert!(approved.notes.iter().any(|note| matches!(note, Note::Approved { subject: Some(_), .. })), "DC-140");
    let rejected = pool(800.0).single();
    assert!(rejected.commands.is_empty() && rejected.settled, "DIS-138, DIS-103");
    assert!(!rejected.notes.iter().any(|note| matches!(note, Note::Approved { .. })), "DC-140");
}

/// X4: the two nodes that save most for their pods cannot merge, and others can. The specified search finds nothing.
#[test]
fn x4_others_than_the_first_two() {
    let pinned = |name: &str| {
        let mut pod = running(name, 1);
        pod.scheduling.node_selector.add(Requirement::any_of(labels::HOSTNAME, [name]));
        pod
    };
    let cluster = one_pool()
        .node("a", "p", "huge", [pinned("a")])
        .node("b", "p", "huge", [pinned("b")])
        .node("c", "p", "small", [running("x", 2)])
        .node("d", "p", "small", [running("y", 2)])
        .change("a", |node| node.taints.push(old()))
        .change("b", |node| node.taints.push(old()));
    let [ours, specified] = cluster.both();
    assert_eq!(texts(&ours), ["delete: [c]"]);
    assert!(specified.commands.is_empty());
}

fn old() -> Taint {
    Taint { key: "old".to_owned(), value: String::new(), effect: Effect::NoSchedule }
}

/// No node is bought for pods that fit on nodes which are only left alone for a moment: it would go again, and they would move a
/// second time. The specification would buy it (DIS-70, DIS-71, DIS-109), so its search does.
#[test]
fn nothing_is_bought_for_a_moment() {
    let minute = NillableDuration::After(GoDuration::from_secs(60));
    let at = |event: i64| {
        let cluster = sizes().pool("p", |_| ()).pool("q", |pool| pool.consolidate_after = minute);
        cluster.node("a", "p", "huge", [running("x", 1)]).node("b", "q", "small", [running("y", 1)]).claim(
            "b",
            |claim| {
                claim.last_pod_event = Some(time(event));
                claim.consolidatable = false;
            },
        )
    };
    let waits = at(9_990).single();
    assert!(waits.commands.is_empty());
    assert!(unconsolidatable(&waits)[0].contains("would go again"), "{:?}", waits.notes);
    assert!(at(9_990).multi().commands.is_empty());
    assert_eq!(texts(&at(9_800).single()), ["delete: [a]"], "and when it has come to rest, nothing is bought");
    assert_eq!(texts(&at(9_990).specified().single()), ["replace: [a] -> [1 replacement] nano|small|large"]);
}

/// No node gives way to one of the same type and price, nor for what adding up prices in another order makes of equal ones.
#[test]
fn nothing_is_exchanged_for_the_same() {
    let types = || [instance_type("dear", 8, 9.0, &[]), instance_type("half", 4, 1.0, &[])];
    let only = |pool: &mut PoolView| {
        pool.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, ["half"]));
        pool.budgets = budget("100%");
    };
    let cluster = Cluster::new(types())
        .pool("p", only)
        .node("a", "p", "dear", [running("x", 4), running("y", 4)])
        .node("b", "p", "half", [running("z", 4)]);
    for command in cluster.multi().commands {
        assert!(command.going.iter().all(|going| going.node != "b"), "{}", command.text());
    }
    let noise = 0.1 + 0.2;
    let types = [instance_type("a", 4, noise, &[]), instance_type("b", 4, 0.3, &[])];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("n", "p", "a", [running("x", 4)]);
    assert!(noise > 0.3 && cluster.single().commands.is_empty());
}

/// DC-100: what takes the place of a node stays in its zone where the pods are spread over zones.
#[test]
fn dc_100_zonal_spread_keeps_the_zone() {
    let spread = |name: &str, cpu: i64| {
        running(name, cpu).but(|pod| {
            pod.labels.insert("app".to_owned(), "web".to_owned());
            pod.scheduling.spread.push(SpreadConstraint {
                key: labels::ZONE.to_owned(),
                max_skew: 1,
                when: WhenUnsatisfiable::DoNotSchedule,
                selector: Some(Selector::labels([("app", "web")])),
                min_domains: None,
                node_affinity_policy: NodePolicy::Honor,
                node_taints_policy: NodePolicy::Ignore,
            });
        })
    };
    let zone = |node: &mut NodeView, zone: &str| drop(node.labels.insert(labels::ZONE.to_owned(), zone.to_owned()));
    let cluster = one_pool()
        .node("a", "p", "huge", [spread("x", 1)])
        .node("b", "p", "nano", [spread("y", 1)])
        .node("c", "p", "nano", [spread("z", 1)])
        .change("a", |node| zone(node, "z2"))
        .change("c", |node| zone(node, "z3"));
    let decided = cluster.single();
    assert_eq!(texts(&decided), ["replace: [a] -> [1 replacement] nano|small|large"]);
    let claim = &decided.commands[0].replacements[0];
    assert_eq!(claim.requirements.get(labels::ZONE).unwrap().single_value(), Some("z2"));
}

/// X28, DIS-6, DIS-124: drift that can simulate nothing, since no pool is ready, keeps no other method from its work.
#[test]
fn x28_methods_go_on_without_each_other() {
    let unready = sizes().pool("p", |pool| pool.ready = false);
    let cluster = unready.node("a", "p", "large", [running("x", 10)]).drifted("a", 1).node("b", "p", "small", []).node(
        "c",
        "p",
        "small",
        [running("y", 1)],
    );
    assert!(cluster.snapshot.pools.is_empty());
    assert!(cluster.with(drifted).commands.is_empty(), "x would have no place");
    assert_eq!(texts(&empty(&cluster.look())), ["delete: [b]"]);
    assert_eq!(texts(&cluster.single()), ["delete: [c]"], "its pod fits on another node");
}

/// DC-192, X29, DIS-139: of two pools one would let its node go and the other not. Both hear that nothing comes of it, and neither
/// that it was approved.
#[test]
fn dc_192_x29_pools_that_disagree() {
    let balanced = |pool: &mut PoolView| {
        pool.consolidation_policy = ConsolidationPolicy::Balanced;
        pool.budgets = budget("100%");
    };
    let mut cluster = sizes()
        .pool("p", balanced)
        .pool("q", balanced)
        .pool("r", |pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty)
        .node("a", "p", "small", [running("x", 1)])
        .node("b", "q", "small", [running("y", 1)])
        .node("c", "r", "huge", [running("z", 1)]);
    cluster.pool_costs = [("p".to_owned(), 0.4 / 0.9), ("q".to_owned(), 0.4 / 0.2)].into();
    let decided = cluster.specified().multi();
    assert!(decided.commands.is_empty());
    let judged: Vec<(&str, bool, String)> = decided
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Judged { pool, approved, score, .. } => {
                Some((pool.as_str(), *approved, format!("{:.1}", score.map_or(0.0, |score| score.value))))
            }
            _ => None,
        })
        .collect();
    assert_eq!(judged, [("p", false, "0.9".to_owned()), ("q", false, "0.2".to_owned())], "DC-192");
    assert!(!decided.notes.iter().any(|note| matches!(note, Note::Approved { .. })), "X29");
}

/// DIS-119, DIS-121, X22: the specified search takes a hundred nodes at a time, not one more; ours all that can go.
#[test]
fn x22_a_hundred_at_a_time() {
    let types = [instance_type("small", 4, 0.4, &[]), instance_type("vast", 400, 4.0, &[])];
    let mut cluster = Cluster::new(types)
        .pool("p", |pool| pool.budgets = budget("100%"))
        .pool("r", |pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty)
        .node("y", "r", "vast", [running("y", 1)])
        .node("z", "r", "vast", [running("z", 1)]);
    for at in 0..120 {
        let name = format!("n{at:03}");
        cluster = cluster.node(&name, "p", "small", [running(&name, 1)]);
    }
    let [ours, specified] = cluster.both();
    assert_eq!(specified.commands[0].going.len(), 100, "DIS-121, X22");
    assert_eq!(ours.commands.iter().map(|command| command.going.len()).sum::<usize>(), 120);
}

/// X18, DIS-133: pods of a node that may not go now weigh as much as all others in what a pool has to lose.
#[test]
fn x18_nodes_that_stay_count_in_full() {
    let shy = running("shy", 1).but(|pod| pod.protection = Protection::Always);
    let cluster = one_pool().node("a", "p", "small", [running("x", 1)]).node(
        "b",
        "p",
        "small",
        [running("y", 1), running("z", 1), shy],
    );
    let totals = cluster.with(|look, _| {
        let candidates = look.candidates(Method::Multi.class(), &mut Vec::new());
        assert_eq!(candidates.len(), 1);
        look.totals(&candidates)
    });
    assert!((totals["p"].disruption - 6.0).abs() < 1e-9, "{totals:?}");
}
