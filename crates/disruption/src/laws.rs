//! Laws that hold for every cluster, whatever the methods decide.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::budget::{Budget, BudgetNodes, Budgets};
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodId;
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::check;
use proptest::prelude::*;

use crate::candidates::Class;
use crate::fixpoint::consolidated;
use crate::methods::{Consolidation, Decided, Method, Seen, drifted, empty};
use crate::simulation::Question;
use crate::testing::{Cluster, instance_type, running};

/// A node: which type, and the CPUs of its pods as far as they fit.
type Spec = (usize, Vec<i64>, bool, bool);

const TYPES: [(&str, i64, f64); 4] = [("nano", 1, 0.12), ("small", 4, 0.4), ("large", 16, 1.5), ("huge", 64, 6.4)];

fn nodes() -> impl Strategy<Value = Vec<Spec>> {
    prop::collection::vec((0..4_usize, prop::collection::vec(1..9_i64, 0..4), any::<bool>(), any::<bool>()), 1..9)
}

fn cluster(nodes: &[Spec], budget: &BudgetNodes, policy: ConsolidationPolicy, guarded: bool) -> Cluster {
    let types = TYPES.map(|(name, cpu, price)| instance_type(name, cpu, price, &[price * 0.6; 3]));
    let mut cluster = Cluster::new(types);
    for pool in ["p", "q"] {
        cluster = cluster.pool(pool, |pool| {
            pool.budgets = Budgets::Parsed(vec![Budget { nodes: budget.clone(), reasons: None, window: None }]);
            pool.consolidation_policy = policy;
        });
    }
    for (index, (kind, pods, second, spot)) in nodes.iter().enumerate() {
        let (name, cpus, _) = TYPES[*kind];
        let mut left = cpus;
        let mut fitting = Vec::new();
        for cpu in pods {
            if *cpu <= left {
                left -= cpu;
                fitting.push(running(&format!("pod-{index}-{}", fitting.len()), *cpu));
            }
        }
        let kind = format!("{name} {}", if *spot { "spot" } else { "on-demand" });
        cluster = cluster.node(&format!("n{index}"), if *second { "q" } else { "p" }, &kind, fitting);
        if pods.len() == 1 {
            cluster = cluster.drifted(&format!("n{index}"), 1);
        }
    }
    if guarded {
        // Nobody of the first node may leave.
        cluster = cluster.pdb(PdbView {
            id: PodId::new("default", "guard"),
            selector: Some(Selector::labels([("app", "guarded")])),
            disruptions_allowed: 0,
            never_allows: false,
            lets_unready_go: false,
        });
        for pod in cluster.snapshot.nodes[0].pods.iter_mut() {
            std::sync::Arc::make_mut(pod).labels.insert("app".to_owned(), "guarded".to_owned());
        }
    }
    cluster
}

fn budgets() -> impl Strategy<Value = BudgetNodes> {
    prop_oneof![(0..4_u32).prop_map(BudgetNodes::Count), (0..101_u32).prop_map(BudgetNodes::Percent)]
}

fn policies() -> impl Strategy<Value = ConsolidationPolicy> {
    prop::sample::select(ConsolidationPolicy::ALL.to_vec())
}

/// What every method decides for the cluster.
fn decisions(cluster: &Cluster) -> Vec<(Method, Decided)> {
    let multi = cluster.with(|look, sim| Consolidation::new(look, sim, Method::Multi).multi(&mut || false));
    let mut seen = Seen::default();
    let single =
        cluster.with(|look, sim| Consolidation::new(look, sim, Method::Single).single(&mut seen, &mut || false));
    vec![
        (Method::Multi, cluster.specified().multi()),
        (Method::Emptiness, empty(&cluster.look())),
        (Method::Drift, cluster.with(drifted)),
        (Method::Multi, multi),
        (Method::Single, single),
    ]
}

/// The cluster that a simulation without these nodes looks at.
fn without(cluster: &Cluster, going: &BTreeSet<&str>) -> Snapshot {
    let mut world = cluster.snapshot.clone();
    for node in &mut world.nodes {
        node.leaving = going.contains(node.name());
        if node.leaving {
            let moved = node.pods.iter().filter(|pod| pod.is_reschedulable());
            world.pending.extend(moved.map(|pod| (pod.id.clone(), pod.clone())));
        }
    }
    world
}

proptest! {
    /// DIS-59, DIS-60, DIS-94, DIS-117: the commands of a pass never take more nodes of a pool than its budget allows, nor a
    /// node whose pods may not be evicted.
    #[test]
    fn budgets_are_never_exceeded(nodes in nodes(), budget in budgets(), policy in policies(), guarded: bool) {
        let cluster = cluster(&nodes, &budget, policy, guarded);
        for (method, decided) in decisions(&cluster) {
            let allowed = cluster.look().allowances(method.reason(), &mut Vec::new());
            let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
            for going in decided.commands.iter().flat_map(|command| &command.going) {
                *taken.entry(going.pool.as_str()).or_default() += 1;
                let held = guarded && going.node == "n0" && !cluster.snapshot.nodes[0].pods.is_empty();
                prop_assert!(!held, "{method:?} takes a node that a budget of pods holds");
            }
            for (pool, count) in taken {
                prop_assert!(count <= allowed[pool].remaining(), "{method:?}: {count} of {pool}");
            }
        }
    }

    /// DIS-87, DIS-104: a command frees no node whose pods cannot be placed, by the judgement of somebody who did not plan.
    #[test]
    fn no_node_is_freed_without_places(nodes in nodes(), policy in policies()) {
        let cluster = cluster(&nodes, &BudgetNodes::Percent(100), policy, false);
        for (method, decided) in decisions(&cluster) {
            for command in &decided.commands {
                let names: BTreeSet<&str> = command.going.iter().map(|going| going.node.as_str()).collect();
                let pods: usize = command.going.iter().map(|going| going.pods).sum();
                let found = cluster.with(|look, simulator| {
                    let all = look.candidates(Class::Eventual, &mut Vec::new());
                    let going: Vec<_> = all.iter().filter(|one| names.contains(one.name())).collect();
                    simulator.without(&going, Question::default())
                });
                prop_assert!(found.homeless.is_empty(), "{method:?}: {:?}", found.homeless);
                prop_assert_eq!(found.moved.len(), pods);
                let broken = check::violations(&without(&cluster, &names), cluster.look().rules, &found.plan);
                prop_assert!(broken.is_empty(), "{method:?}: {broken:?}");
            }
        }
    }

    /// DIS-78, X10: consolidation to its end never makes a cluster dearer, loses no pod and fills no node over.
    #[test]
    fn consolidation_never_costs_more(nodes in nodes(), budget in budgets(), policy in policies(), guarded: bool) {
        let cluster = cluster(&nodes, &budget, policy, guarded);
        let look = cluster.look();
        let world = cluster.world();
        let pods = |snapshot: &Snapshot| -> BTreeSet<PodId> {
            snapshot.nodes.iter().flat_map(|node| &node.pods).map(|pod| pod.id.clone()).collect()
        };
        let before = pods(&world.snapshot);
        let found = consolidated(world, look.rules);
        prop_assert!(!found.stopped);
        prop_assert!(found.cost_after <= found.cost_before + 1e-9, "{} -> {}", found.cost_before, found.cost_after);
        prop_assert_eq!(pods(&found.world.snapshot), before);
        let saved: f64 = found.steps.iter().map(|step| step.command.savings).sum();
        prop_assert!((found.cost_before - found.cost_after - saved).abs() < 1e-6, "what is said to be saved is saved");
        for step in &found.steps {
            for new in &step.started {
                let same = step.command.going.iter().any(|going| {
                    going.instance_type.as_ref() == Some(&new.instance_type) && going.price <= new.price
                });
                prop_assert!(!same, "{} comes for one of its own kind", new.name);
            }
        }
        for node in &found.world.snapshot.nodes {
            prop_assert!(node.available().iter().all(|(_, left)| left >= karpenter_model::quantity::Quantity::ZERO));
        }
        if guarded && !cluster.snapshot.nodes[0].pods.is_empty() {
            prop_assert!(found.world.snapshot.nodes.iter().any(|node| node.name() == "n0"), "a held node stays");
        }
        prop_assert!(found.free_bound <= found.free_cost + 1e-6, "{} > {}", found.free_bound, found.free_cost);
    }
}
