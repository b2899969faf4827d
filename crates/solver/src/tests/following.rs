//! One compiled snapshot that follows a cluster: it answers as one that was compiled for what the cluster is now.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::pod::{PodPhase, PodView};
use karpenter_model::snapshot::Snapshot;
use proptest::prelude::*;

use super::build::{Pod, app, near, pod, pool, spread};
use super::cluster::{Cluster, Launched, with};
use super::fixtures::f2;
use super::random::{Overrides, any_cluster, any_pod, text};
use super::what_if::{active, ask, from_scratch, moves, what_if};
use crate::{Asking, Placement, Plan, Trace, WhatIf};

/// What happens to a node.
#[derive(Debug, Clone)]
enum Event {
    /// One of its pods ends.
    Ends(usize, usize),
    /// A pod moves to another node.
    Moves(usize, usize, usize),
    Comes(usize, Pod),
    Unsettled(usize),
    /// Another object that says the same.
    Touched(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..8_usize, 0..4_usize).prop_map(|(node, pod)| Event::Ends(node, pod)),
        4 => (0..8_usize, 0..4_usize, 0..8_usize).prop_map(|(node, pod, to)| Event::Moves(node, pod, to)),
        2 => (0..8_usize, any_pod()).prop_map(|(node, pod)| Event::Comes(node, pod)),
        1 => (0..8_usize).prop_map(Event::Unsettled),
        1 => (0..8_usize).prop_map(Event::Touched),
    ]
}

fn put(snapshot: &mut Snapshot, node: usize, pod: PodView) {
    let node = &mut snapshot.nodes[node];
    node.requested.add(&pod.requests);
    let node_name = Some(node.name().into());
    node.pods.push(Arc::new(PodView { node_name, phase: PodPhase::Running, unschedulable: false, ..pod }));
}

fn take(snapshot: &mut Snapshot, node: usize, pod: usize) -> Option<Arc<PodView>> {
    let node = &mut snapshot.nodes[node];
    let at = pod.checked_rem(node.pods.len())?;
    let gone = node.pods.remove(at);
    node.requested.subtract(&gone.requests);
    Some(gone)
}

fn happens(snapshot: &mut Snapshot, event: &Event, turn: usize) {
    let count = snapshot.nodes.len();
    if count == 0 {
        return;
    }
    match event {
        Event::Ends(node, pod) => drop(take(snapshot, node % count, *pod)),
        Event::Moves(node, pod, to) => {
            if let Some(pod) = take(snapshot, node % count, *pod) {
                put(snapshot, to % count, PodView::clone(&pod));
            }
        }
        Event::Comes(node, pod) => {
            let mut pod = pod.0.clone();
            pod.id.name = format!("later-{turn}").into();
            pod.uid = format!("later-{turn}").into();
            put(snapshot, node % count, pod);
        }
        Event::Unsettled(node) => {
            let node = &mut snapshot.nodes[node % count];
            node.unsettled = !node.unsettled;
        }
        Event::Touched(node) => {
            let node = &mut snapshot.nodes[node % count];
            node.node = node.node.as_ref().map(|view| Arc::new(view.as_ref().clone()));
            node.claim = node.claim.as_ref().map(|view| Arc::new(view.as_ref().clone()));
        }
    }
}

fn unsettled(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.nodes.iter().filter(|node| node.unsettled).map(|node| node.name().to_owned()).collect()
}

fn follow(known: &mut WhatIf, snapshot: &Snapshot) -> Option<usize> {
    known.follow(snapshot, moves, &unsettled(snapshot), false)
}

const ASKING: Asking = Asking { leave_unsettled_alone: true, packed: false, only_existing: false };

/// What is said of each node, with what that depends on.
type Said = Vec<(String, Trace, String)>;

/// Every node by itself: as from nothing; and where there is said to be room, there is.
fn same_answers(cluster: &Cluster, snapshot: &Snapshot, known: &mut WhatIf) -> Said {
    let mut said = Vec::new();
    for name in active(snapshot) {
        let want = from_scratch(cluster, snapshot, &[name], ASKING);
        assert_eq!(text(&ask(known, &[name], ASKING)), text(&want), "without {name}");
        let node = known.node(name).unwrap();
        if known.has_room_for(node) {
            assert!(finds_room(snapshot, &want), "without {name}: {}", text(&want));
        }
        let trace = known.without(&[node], ASKING, |answer| answer.trace()).unwrap();
        said.push((name.to_owned(), trace, text(&want)));
    }
    said
}

/// Everybody goes to a node that is there and initialized.
fn finds_room(snapshot: &Snapshot, plan: &Plan) -> bool {
    let is_up = |name: &str| snapshot.nodes.iter().any(|node| node.name() == name && node.is_initialized());
    let on_node = |place: &Placement| matches!(place, Placement::Existing(name) if is_up(name));
    plan.claims.is_empty() && plan.unplaced.is_empty() && plan.untried.is_empty() && plan.placed.values().all(on_node)
}

proptest! {
    /// G14, DIS-81 … DIS-88: whatever happens to a random cluster, with every kind of constraint that pods can have.
    #[test]
    fn what_follows_answers_as_from_nothing(
        mut cluster in any_cluster(Overrides::Some),
        launched in 0..3_usize,
        events in prop::collection::vec(any_event(), 1..6),
    ) {
        cluster.devices = None;
        cluster.launched = [Launched::ClaimOnly, Launched::InFlight, Launched::Initialized][launched];
        if cluster.options.reserved == crate::Reserved::Strict {
            cluster.pass();
        }
        cluster.pending.clear();
        let mut snapshot = cluster.snapshot();
        let mut known = what_if(&cluster, &snapshot);
        let mut said = same_answers(&cluster, &snapshot, &mut known);
        for (turn, event) in events.iter().enumerate() {
            happens(&mut snapshot, event, turn);
            if follow(&mut known, &snapshot).is_some() {
                for (name, trace, before) in &said {
                    let node = known.node(name).unwrap();
                    if known.stands(node, trace) {
                        let want = from_scratch(&cluster, &snapshot, &[name], ASKING);
                        prop_assert_eq!(before, &text(&want), "without {} after {:?}", name, event);
                    }
                }
            } else {
                known = what_if(&cluster, &snapshot);
            }
            said = same_answers(&cluster, &snapshot, &mut known);
        }
    }
}

fn settled(pods: impl IntoIterator<Item = Pod>) -> Cluster {
    let mut cluster = with(pool("p"), f2(8));
    cluster.launched = Launched::Initialized;
    for pod in pods {
        // One at a time, so that there are several nodes.
        cluster.run([pod]);
    }
    cluster.pending.clear();
    cluster
}

/// G14: pods that come and go are followed, whatever they ask for, as long as nobody asks for something new.
#[test]
fn pods_that_come_and_go_are_followed() {
    for (case, make) in [
        ("plain", pod as fn() -> Pod),
        ("zones", || app().spread(spread("zone"))),
        ("hosts", || app().spread(spread("host"))),
        ("apart", || app().apart(near("host", "app=test"))),
        ("apart in zones", || app().apart(near("zone", "app=test"))),
        ("near", || app().near(near("zone", "app=test"))),
        ("wishes", || app().prefers_apart(1, near("host", "app=test")).prefers_apart(2, near("zone", "app=test"))),
    ] {
        let sizes = ["cpu=900m", "cpu=700m", "cpu=1500m", "cpu=300m"];
        let cluster = settled((0..9).map(|turn| make().asks(sizes[turn % sizes.len()])));
        let mut snapshot = cluster.snapshot();
        let mut known = what_if(&cluster, &snapshot);
        assert_eq!(follow(&mut known, &snapshot), Some(0), "{case}");
        let last = snapshot.nodes.len() - 1;
        for (turn, event) in [
            Event::Ends(0, 0),
            Event::Moves(last, 0, 0),
            Event::Comes(last, make().asks("cpu=100m")),
            Event::Ends(0, 0),
        ]
        .iter()
        .enumerate()
        {
            happens(&mut snapshot, event, turn);
            let changed = follow(&mut known, &snapshot);
            assert!(changed.is_some_and(|changed| changed <= 2), "{case}: {changed:?} after {event:?}");
            same_answers(&cluster, &snapshot, &mut known);
        }
    }
}

type Change<'c> = &'c dyn Fn(&mut Snapshot);

/// G14: where more has changed than what runs on nodes, all is compiled anew.
#[test]
fn other_changes_are_not_followed() {
    let cluster = settled((0..4).map(|_| pod().asks("cpu=1500m")));
    let snapshot = cluster.snapshot();
    let changed = |change: Change<'_>| {
        let mut known = what_if(&cluster, &snapshot);
        let mut now = snapshot.clone();
        change(&mut now);
        follow(&mut known, &now)
    };
    assert_eq!(changed(&|_| ()), Some(0));
    let label = |now: &mut Snapshot| {
        let node = now.nodes[0].node.as_mut().unwrap();
        Arc::make_mut(node).labels.insert("rack".to_owned(), "r9".to_owned());
    };
    let spreads = |now: &mut Snapshot| put(now, 0, app().spread(spread("zone")).0);
    let asks = |now: &mut Snapshot| put(now, 0, pod().require("rack In r1").0);
    let keeps_away = |now: &mut Snapshot| put(now, 0, pod().apart(near("zone", "tier=db")).0);
    let more = |now: &mut Snapshot| put(now, 0, pod().asks("example.com/gpu=1").0);
    let waits = |now: &mut Snapshot| {
        let pod = Arc::new(pod().0);
        now.pending.insert(pod.id.clone(), pod);
    };
    let all: [(&str, Change<'_>); 9] = [
        ("node gone", &|now| drop(now.nodes.pop())),
        ("node going", &|now| now.nodes[0].marked = true),
        ("label", &label),
        ("somebody spreads", &spreads),
        ("somebody asks for a label", &asks),
        ("somebody keeps others away", &keeps_away),
        ("another resource", &more),
        ("somebody waits", &waits),
        ("other pool", &|now| now.pools[0].pool = Arc::new(now.pools[0].pool.as_ref().clone())),
    ];
    for (case, change) in all {
        assert_eq!(changed(change), None, "{case}");
    }
}

/// G14: an answer that a change has nothing to do with is not asked for again, one that it has is.
#[test]
fn answers_that_stand() {
    let cluster = settled((0..4).map(|_| pod().asks("cpu=2500m")));
    let mut snapshot = cluster.snapshot();
    assert_eq!(snapshot.nodes.len(), 4, "none has room for two");
    let mut known = what_if(&cluster, &snapshot);
    let said = same_answers(&cluster, &snapshot, &mut known);
    let stands = |known: &mut WhatIf| -> Vec<bool> {
        said.iter().map(|(name, trace, _)| known.node(name).is_some_and(|node| known.stands(node, trace))).collect()
    };
    assert_eq!(follow(&mut known, &snapshot), Some(0));
    assert_eq!(stands(&mut known), [true; 4], "nothing has happened");
    put(&mut snapshot, 3, pod().asks("cpu=100m").0);
    assert_eq!(follow(&mut known, &snapshot), Some(1));
    assert_eq!(stands(&mut known), [true, true, true, false], "only one of them is about that node");
    // The first node is empty: all would go there.
    while take(&mut snapshot, 0, 0).is_some() {}
    assert_eq!(follow(&mut known, &snapshot), Some(1));
    assert_eq!(stands(&mut known), [false; 4]);
}
