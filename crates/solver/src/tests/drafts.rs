//! Drafts and planners that are used again: nothing is looked at twice, and what is taken back leaves no trace.

use std::sync::Arc;

use karpenter_model::labels;
use karpenter_model::snapshot::Snapshot;

use super::build::{app, near, pod, pool, spread, unmanaged};
use super::cluster::{Cluster, cluster, with};
use super::fixtures::f2;
use super::random::text;
use crate::check::violations;
use crate::{Options, Solver, Work, plan};

/// Sixty nodes and sixty pods of a few kinds.
fn busy() -> Cluster {
    let mut cluster = cluster();
    for at in 0..60 {
        let name = format!("n{at:02}");
        cluster.node(unmanaged(&name, "cpu=2 memory=2Gi pods=5", &format!("zone=z{}", at % 3 + 1)));
        cluster.bound(app().asks("cpu=1"), &name);
    }
    for at in 0..60 {
        let pod = app().asks("cpu=500m").label(&format!("n={at}"));
        cluster.add(match at % 3 {
            0 => pod.spread(spread("zone")),
            1 => pod.apart(near("host", "app=test")),
            _ => pod,
        });
    }
    cluster
}

/// G14: what stays the same object is not compiled again, and the plan is that of a planner that starts from nothing.
#[test]
fn a_change_compiles_what_changed() {
    let cluster = busy();
    let options = Options::default();
    let mut planner = Solver::new(&cluster.rules);
    let mut snapshot = cluster.snapshot();
    planner.plan(&snapshot, &options);
    let first = planner.work();
    assert_eq!(first, Work { pods: 60, nodes: 60, catalogues: 1 });
    planner.plan(&snapshot, &options);
    assert_eq!(planner.work(), first, "nothing changed");

    let (name, changed) = snapshot.pending.iter().nth(7).map(|(name, pod)| (name.clone(), pod.clone())).unwrap();
    let mut changed = Arc::unwrap_or_clone(changed);
    changed.requests.set("cpu", "300m".parse().unwrap());
    snapshot.pending.insert(name, Arc::new(changed));
    let gone = snapshot.nodes[11].pods.pop().unwrap();
    snapshot.nodes[11].requested.subtract(&gone.requests);
    snapshot.nodes.remove(30);
    let plan_again = planner.plan(&snapshot, &options);
    assert_eq!(planner.work(), Work { pods: 61, nodes: 61, catalogues: 1 });
    assert_eq!(text(&plan_again), text(&plan(&snapshot, &cluster.rules, &options)));
}

/// What if a node went: its pods wait, and nothing but that node is looked at again; the answer is that of a planner that
/// never knew the node.
#[test]
fn what_if_a_node_went() {
    let cluster = busy();
    let options = Options::default();
    let snapshot = cluster.snapshot();
    let mut planner = Solver::new(&cluster.rules);
    planner.plan(&snapshot, &options);
    let before = planner.work();
    for gone in [3, 40, 17] {
        let mut without = snapshot.clone();
        let node = without.nodes.remove(gone);
        without.pending.extend(node.pods.iter().map(|pod| (pod.id.clone(), pod.clone())));
        let answer = planner.plan(&without, &options);
        assert_eq!(text(&answer), text(&plan(&without, &cluster.rules, &options)));
        assert_eq!(answer.placed.len() + answer.unplaced.len(), 61);
    }
    let after = planner.work();
    // Each pod that moved was looked at, and each node when it came back.
    assert_eq!((after.pods - before.pods, after.nodes - before.nodes), (3, 2));
    assert_eq!(after.catalogues, 1);
}

/// Pods that are to move are not counted where they run: such a node is looked at again, and only that.
#[test]
fn pods_that_move_change_their_node_only() {
    let cluster = busy();
    let options = Options::default();
    let mut snapshot = cluster.snapshot();
    let mut planner = Solver::new(&cluster.rules);
    planner.plan(&snapshot, &options);
    let before = planner.work();
    let moves = snapshot.nodes[5].pods[0].clone();
    snapshot.pending.insert(moves.id.clone(), moves);
    let answer = planner.plan(&snapshot, &options);
    assert_eq!(text(&answer), text(&plan(&snapshot, &cluster.rules, &options)));
    assert_eq!(planner.work().nodes - before.nodes, 1);
}

/// What is gone from the cluster does not stay for ever, however many passes there are.
#[test]
fn tables_do_not_only_grow() {
    let mut planner = Solver::new(&cluster().rules);
    let (mut most, mut shrunk, mut last) = (0, 0, 0);
    for turn in 0..300 {
        let mut cluster = cluster();
        for size in [100, 200] {
            cluster
                .add(app().asks(&format!("cpu={}m", size + turn)).label(&format!("app={turn}")).spread(spread("zone")));
        }
        let snapshot = cluster.snapshot();
        let answer = planner.plan(&snapshot, &cluster.options);
        assert_eq!(text(&answer), text(&plan(&snapshot, &cluster.rules, &cluster.options)));
        let kept = planner.kept();
        most = most.max(kept);
        shrunk += usize::from(kept < std::mem::replace(&mut last, kept));
    }
    // Three hundred times two classes, two shapes and a badge would be 1,500.
    assert!(most < 500 && shrunk >= 3, "{most} kept at most, compiled anew {shrunk} times");
    assert_eq!(planner.work().pods, 600);
}

/// A selector that reads a label nobody read before tells pods apart that were alike.
#[test]
fn new_selectors_split_classes() {
    let mut cluster = busy();
    let mut planner = Solver::new(&cluster.rules);
    planner.plan(&cluster.snapshot(), &cluster.options);
    cluster.add(pod().apart(near("zone", "n=7")));
    let snapshot = cluster.snapshot();
    let again = planner.plan(&snapshot, &cluster.options);
    assert_eq!(text(&again), text(&plan(&snapshot, &cluster.rules, &cluster.options)));
}

/// Whatever a draft did before the mark is rolled back to, the rest is planned as if it had not.
#[test]
fn what_is_rolled_back_leaves_no_trace() {
    let cluster = busy();
    let snapshot = cluster.snapshot();
    let mut planner = Solver::new(&cluster.rules);
    let mut draft = planner.draft(&snapshot, &cluster.options);
    let mark = draft.mark();
    for _ in 0..3 {
        let classes: Vec<_> = draft.classes().iter().map(|class| class.id).collect();
        let (pool, _) = draft.pools().next().unwrap();
        for class in classes {
            if let Some(claim) = draft.open(class, pool) {
                draft.add(class, 3, claim);
            }
            draft.add_to_nodes(class, 2);
        }
        draft.place_rest(&mut || false);
        draft.roll_back(&mark);
    }
    draft.place_rest(&mut || false);
    assert_eq!(text(&draft.finish()), text(&plan(&snapshot, &cluster.rules, &cluster.options)));
}

/// A guided plan keeps every rule, and its claims cost what their cheapest type does.
#[test]
fn guided_plans_are_valid() {
    let mut cluster = with(pool("p"), f2(20));
    for at in 0..40 {
        let pod = app().asks(&format!("cpu={}m memory={}Mi", 300 + at % 4 * 250, 200 + at % 3 * 400));
        cluster.add(if at % 4 == 0 { pod.spread(spread("zone")) } else { pod });
    }
    let snapshot: Snapshot = cluster.snapshot();
    let mut planner = Solver::new(&cluster.rules);
    let mut draft = planner.draft(&snapshot, &cluster.options);
    let classes: Vec<_> = draft.classes().iter().map(|class| (class.id, class.waiting)).collect();
    let (pool, _) = draft.pools().next().unwrap();
    let choices: Vec<_> =
        draft.choices(classes[0].0, pool).iter().map(|choice| (choice.price, choice.room.amount("cpu"))).collect();
    assert!(choices.len() > 10 && choices.is_sorted(), "{choices:?}");
    let mut prices = Vec::new();
    for (class, waiting) in &classes {
        let claim = draft.open(*class, pool).unwrap();
        let taken = 1 + draft.add(*class, waiting / 2, claim);
        assert!(taken <= *waiting && draft.requests(claim).amount("pods").value() == i64::try_from(taken).unwrap());
        draft.seal(claim);
        prices.push(draft.price(claim));
    }
    draft.place_rest(&mut || false);
    let guided = draft.finish();
    assert_eq!(violations(&snapshot, &cluster.rules, &guided), []);
    assert_eq!(guided.placed.len(), 40);
    let of_claims: Vec<_> = guided.claims.iter().take(prices.len()).map(|claim| claim.price).collect();
    assert_eq!(of_claims, prices);
    assert!(guided.claims.iter().all(|claim| claim.requirements.has_key(labels::INSTANCE_TYPE)));
}
