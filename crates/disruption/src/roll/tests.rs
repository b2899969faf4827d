//! Generated sequences of changes: what is kept from look to look is what somebody finds who looks at everything anew.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_model::annotations::DO_NOT_DISRUPT;
use karpenter_model::budget::DisruptionReason;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodOwner};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::protection::Protection;
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::ExistingNode;
use proptest::prelude::*;

use super::Roll;
use crate::candidates::Class;
use crate::look::Look;
use crate::testing::{Cluster, running};
use crate::verdicts::tests::any_cluster;

/// One thing that happens; numbers choose to whom.
#[derive(Debug, Clone, Copy)]
enum Event {
    Moves(usize, usize),
    Comes(usize, usize),
    Ends(usize, usize),
    /// For so many seconds from its start, which was so long ago; or without end.
    Protected(usize, Option<(i64, i64)>),
    IsDaemon(usize),
    Marked(usize),
    Nominated(usize, i64),
    Annotated(usize),
    Unready(usize),
    Consolidatable(usize),
    Deleted(usize),
    Queued(usize),
    BudgetAllows(usize, i32),
    BudgetComes(usize),
    BudgetGoes(usize),
    BudgetSelects(usize, usize),
    PoolPolicy(usize),
    PoolGoes,
    TypesUnknown,
    NodeGoes(usize),
    NodeComes(usize),
    Passes(i64),
    ClockBack(i64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let some = || 0..50_usize;
    prop_oneof![
        4 => (some(), some()).prop_map(|(pod, node)| Event::Moves(pod, node)),
        3 => (some(), some()).prop_map(|(app, node)| Event::Comes(app, node)),
        2 => (some(), some()).prop_map(|(pod, node)| Event::Ends(pod, node)),
        3 => (some(), prop::option::of((1..100_i64, 0..100_i64))).prop_map(|(pod, how)| Event::Protected(pod, how)),
        1 => some().prop_map(Event::IsDaemon),
        1 => some().prop_map(Event::Marked),
        2 => (some(), 1..60_i64).prop_map(|(node, long)| Event::Nominated(node, long)),
        1 => some().prop_map(Event::Annotated),
        1 => some().prop_map(Event::Unready),
        1 => some().prop_map(Event::Consolidatable),
        1 => some().prop_map(Event::Deleted),
        1 => some().prop_map(Event::Queued),
        3 => (some(), 0..2_i32).prop_map(|(budget, allowed)| Event::BudgetAllows(budget, allowed)),
        2 => some().prop_map(Event::BudgetComes),
        1 => some().prop_map(Event::BudgetGoes),
        1 => (some(), some()).prop_map(|(budget, app)| Event::BudgetSelects(budget, app)),
        1 => some().prop_map(Event::PoolPolicy),
        1 => Just(Event::PoolGoes),
        1 => Just(Event::TypesUnknown),
        1 => some().prop_map(Event::NodeGoes),
        1 => some().prop_map(Event::NodeComes),
        4 => (1..80_i64).prop_map(Event::Passes),
        1 => (1..80_i64).prop_map(Event::ClockBack),
    ]
}

const APPS: [&str; 3] = ["web", "db", "batch"];

fn selector(app: usize) -> Selector {
    Selector::labels([("app", APPS[app % APPS.len()])])
}

/// The node that has a pod, of those that have some.
fn with_pods(cluster: &mut Cluster, at: usize) -> Option<&mut ExistingNode> {
    let mut some: Vec<&mut ExistingNode> =
        cluster.snapshot.nodes.iter_mut().filter(|node| !node.pods.is_empty()).collect();
    if some.is_empty() { None } else { Some(some.swap_remove(at % some.len())) }
}

fn happen(cluster: &mut Cluster, event: Event, turn: usize) {
    let now = cluster.now;
    let count = cluster.snapshot.nodes.len();
    let seconds = SignedDuration::from_secs;
    match event {
        Event::Moves(from, to) => {
            let Some(pod) = with_pods(cluster, from).and_then(|node| node.pods.pop()) else { return };
            let nodes = &mut cluster.snapshot.nodes;
            let node = &mut nodes[to % count];
            node.pods.push(pod);
            node.pods.sort_by(|a, b| a.id.cmp(&b.id));
        }
        Event::Comes(app, to) => {
            let mut pod = running(&format!("new-{turn}"), 1);
            pod.labels.insert("app".to_owned(), APPS[app % APPS.len()].to_owned());
            cluster.snapshot.nodes[to % count].pods.push(Arc::new(pod));
        }
        Event::Ends(from, at) => {
            if let Some(node) = with_pods(cluster, from) {
                let at = at % node.pods.len();
                node.pods.remove(at);
            }
        }
        Event::Protected(at, how) => {
            let Some(node) = with_pods(cluster, at) else { return };
            let pod = Arc::make_mut(&mut node.pods[0]);
            pod.protection = how.map_or(Protection::Always, |(long, _)| Protection::For(seconds(long)));
            pod.started_at = how.map(|(_, ago)| (now - seconds(ago)).into());
        }
        Event::IsDaemon(at) => {
            if let Some(node) = with_pods(cluster, at) {
                Arc::make_mut(&mut node.pods[0]).owner = PodOwner::DaemonSet;
            }
        }
        Event::Marked(at) => {
            let node = &mut cluster.snapshot.nodes[at % count];
            node.marked = !node.marked;
        }
        Event::Nominated(at, long) => {
            cluster.snapshot.nodes[at % count].nominated_until = Some(now + seconds(long));
        }
        Event::Annotated(at) => {
            if let Some(view) = &mut cluster.snapshot.nodes[at % count].node {
                Arc::make_mut(view).annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
            }
        }
        Event::Unready(at) => {
            if let Some(view) = &mut cluster.snapshot.nodes[at % count].node {
                let view = Arc::make_mut(view);
                view.ready = !view.ready;
            }
        }
        Event::Consolidatable(at) | Event::Deleted(at) => {
            let Some(claim) = &mut cluster.snapshot.nodes[at % count].claim else { return };
            let claim = Arc::make_mut(claim);
            match event {
                Event::Deleted(_) => claim.deleting_since = Some(now),
                _ => claim.consolidatable = !claim.consolidatable,
            }
        }
        Event::Queued(at) => {
            let Some(claim) = &cluster.snapshot.nodes[at % count].claim else { return };
            if !cluster.queued.remove(&claim.name) {
                cluster.queued.insert(claim.name.clone());
            }
        }
        Event::BudgetAllows(..) | Event::BudgetGoes(_) | Event::BudgetSelects(..) | Event::BudgetComes(_) => {
            budgets_change(&mut cluster.pdbs, event, turn);
        }
        Event::PoolPolicy(at) => {
            let Some(pool) = cluster.pools.get_mut("p") else { return };
            Arc::make_mut(&mut pool.view).consolidation_policy =
                ConsolidationPolicy::ALL[at % ConsolidationPolicy::ALL.len()];
        }
        Event::PoolGoes => _ = cluster.pools.remove("q"),
        Event::TypesUnknown => {
            if let Some(pool) = cluster.pools.get_mut("q") {
                pool.instance_types = None;
            }
        }
        Event::NodeGoes(at) if count > 1 => _ = cluster.snapshot.nodes.remove(at % count),
        Event::NodeGoes(_) => {}
        Event::NodeComes(at) => {
            let name = format!("n{}-{turn}", at % 9);
            let pods = [running(&format!("{name}-pod"), 1)];
            *cluster = cluster.clone().node(&name, "p", "small", pods);
            cluster.snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
        }
        Event::Passes(long) => cluster.now = now + seconds(long),
        Event::ClockBack(long) => cluster.now = now - seconds(long),
    }
}

fn budgets_change(budgets: &mut Vec<Arc<PdbView>>, event: Event, turn: usize) {
    let count = budgets.len();
    match event {
        Event::BudgetComes(app) => budgets.push(Arc::new(PdbView {
            id: PodId::new("default", format!("new-{turn}")),
            selector: Some(selector(app)),
            disruptions_allowed: 1,
            never_allows: false,
            lets_unready_go: false,
        })),
        Event::BudgetAllows(at, allowed) if count > 0 => {
            Arc::make_mut(&mut budgets[at % count]).disruptions_allowed = allowed;
        }
        Event::BudgetSelects(at, app) if count > 0 => {
            Arc::make_mut(&mut budgets[at % count]).selector = Some(selector(app));
        }
        Event::BudgetGoes(at) if count > 0 => _ = budgets.remove(at % count),
        _ => {}
    }
}

/// All that is decided by: who may go for whom, what keeps the others, what is allowed and what it is weighed by.
fn seen(look: &Look<'_>) -> String {
    let mut lines = Vec::new();
    for class in [Class::Graceful, Class::Eventual, Class::Repair] {
        let mut notes = Vec::new();
        let candidates = look.candidates(class, &mut notes);
        for one in &candidates {
            let instance_type = one.instance_type.map(|known| &known.name);
            lines.push(format!(
                "{class:?} {} of {}: {instance_type:?} {:?} {} {} {} {:?}\n",
                one.name(),
                one.pool_name(),
                one.price,
                one.reschedule_cost,
                one.has_blockers,
                one.is_empty,
                one.consolidation
            ));
        }
        lines.push(format!("{notes:?}\n{:?}\n", look.totals(&candidates)));
    }
    for reason in DisruptionReason::ALL {
        let mut notes = Vec::new();
        let allowances = look.allowances(reason, &mut notes);
        lines.push(format!("{reason:?} {allowances:?} {notes:?}\n"));
    }
    lines.concat()
}

proptest! {
    /// DIS-10 … DIS-26, DIS-41 … DIS-44, DIS-57, DIS-97: whatever happens between looks, and however much of it at once.
    #[test]
    fn what_is_kept_is_what_is_found_anew(
        cluster in any_cluster(),
        rounds in prop::collection::vec(prop::collection::vec(any_event(), 0..4), 1..12),
    ) {
        let mut cluster = cluster;
        let mut roll = Roll::default();
        let mut turn = 0;
        for events in rounds {
            for event in &events {
                turn += 1;
                happen(&mut cluster, *event, turn);
            }
            let anew = cluster.look();
            roll.refresh(&anew.snapshot.nodes, &anew.facts);
            let kept = Look { roll: Some(&roll), ..anew.clone() };
            prop_assert_eq!(seen(&kept), seen(&anew), "{:?}", events);
        }
    }
}

/// Nothing is looked at that nothing has happened to.
#[test]
fn only_what_has_changed_is_looked_at() {
    let budget = |name: &str, app: usize, allowed: i32| PdbView {
        id: PodId::new("default", name),
        selector: Some(selector(app)),
        disruptions_allowed: allowed,
        never_allows: false,
        lets_unready_go: false,
    };
    let of = |app: usize, name: &str| {
        let mut pod = running(name, 1);
        pod.labels.insert("app".to_owned(), APPS[app].to_owned());
        pod
    };
    let mut cluster = Cluster::new([crate::testing::instance_type("small", 4, 0.4, &[])]).pool("p", |_| ());
    for (node, app) in [("a", 0), ("b", 0), ("c", 1), ("d", 2)] {
        cluster = cluster.node(node, "p", "small", [of(app, &format!("{node}-pod"))]);
    }
    cluster = cluster.pdb(budget("web", 0, 1)).pdb(budget("db", 1, 1));
    let mut roll = Roll::default();
    let mut looked_at = |cluster: &Cluster| {
        let look = cluster.look();
        roll.refresh(&look.snapshot.nodes, &look.facts)
    };
    assert_eq!(looked_at(&cluster), 4);
    assert_eq!(looked_at(&cluster), 0);
    cluster.now += SignedDuration::from_hours(1);
    assert_eq!(looked_at(&cluster), 0, "nobody is protected for a time");
    Arc::make_mut(&mut cluster.pdbs[0]).disruptions_allowed = 0;
    assert_eq!(looked_at(&cluster), 2, "the budget of web");
    happen(&mut cluster, Event::Protected(3, Some((60, 0))), 1);
    assert_eq!(looked_at(&cluster), 1);
    cluster.now += SignedDuration::from_secs(59);
    assert_eq!(looked_at(&cluster), 0);
    cluster.now += SignedDuration::from_secs(1);
    assert_eq!(looked_at(&cluster), 1, "its time is over");
    cluster.snapshot.nodes[0].nominated_until = Some(cluster.now + SignedDuration::from_secs(9));
    cluster.snapshot.nodes[1].marked = true;
    assert_eq!(looked_at(&cluster), 0, "that is read from the node");
    cluster.snapshot.nodes.remove(1);
    assert_eq!(looked_at(&cluster), 0, "the others are what they were");
    cluster.pdbs.remove(0);
    assert_eq!(looked_at(&cluster), 3);
}
