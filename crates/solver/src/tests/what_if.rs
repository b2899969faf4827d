//! Nodes that go: what one compiled snapshot says is what a pass over the cluster without them says.

use std::sync::Arc;

use karpenter_model::pod::PodView;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use proptest::prelude::*;

use super::build::{Pod, app, near, pod, pool, spread};
use super::cluster::{Cluster, Launched, with};
use super::fixtures::f2;
use super::random::{Overrides, any_cluster, any_pod, text};
use crate::{Asking, NodeId, Plan, WhatIf, plan};

/// Some pods stay where they are whatever happens to their node.
pub(super) fn moves(_: &ExistingNode, pod: &Arc<PodView>) -> Option<Arc<PodView>> {
    (pod.is_reschedulable() && !pod.uid.to_string().ends_with('7')).then(|| pod.clone())
}

/// The cluster without the nodes, planned from nothing (DIS-81, DIS-82, DIS-193).
pub(super) fn from_scratch(cluster: &Cluster, snapshot: &Snapshot, going: &[&str], asking: Asking) -> Plan {
    let mut world = snapshot.clone();
    for node in &mut world.nodes {
        node.leaving = going.contains(&node.name());
        node.unsettled &= asking.leave_unsettled_alone;
    }
    for node in snapshot.nodes.iter().filter(|node| going.contains(&node.name())) {
        if let Some(offer) = world.pools.iter_mut().find(|offer| Some(offer.pool.name.as_str()) == node.pool()) {
            offer.usage.subtract(&node.capacity());
        }
        for pod in node.pods.iter().filter_map(|pod| moves(node, pod)) {
            world.pending.entry(pod.id.clone()).or_insert(pod);
        }
    }
    plan(&world, &cluster.rules, &cluster.options)
}

pub(super) fn what_if(cluster: &Cluster, snapshot: &Snapshot) -> WhatIf {
    WhatIf::new(snapshot, &cluster.rules, &cluster.options, moves, |node| node.unsettled).unwrap()
}

pub(super) fn ask(known: &mut WhatIf, going: &[&str], asking: Asking) -> Plan {
    let nodes: Vec<NodeId> = going.iter().map(|name| known.node(name).unwrap()).collect();
    known
        .without(&nodes, asking, |answer| {
            let plan = answer.plan();
            assert_eq!(answer.claims(), plan.claims.len() + usize::from(plan.claims.len() < answer.claims()));
            plan
        })
        .unwrap()
}

pub(super) fn active(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.iter().filter(|node| !node.is_going()).map(ExistingNode::name).collect()
}

/// DIS-81, DIS-82: every node by itself, neighbours together, all at once; and once more, since questions leave no trace.
fn same_answers(cluster: &Cluster) {
    let snapshot = cluster.snapshot();
    let mut known = what_if(cluster, &snapshot);
    let nodes = active(&snapshot);
    let mut questions: Vec<&[&str]> = nodes.windows(1).chain(nodes.windows(2)).chain(nodes.chunks(3)).collect();
    questions.push(&nodes);
    questions.push(&[]);
    questions.extend(nodes.windows(1));
    for (turn, going) in questions.into_iter().enumerate() {
        let asking = Asking { leave_unsettled_alone: turn % 3 != 0, ..Asking::default() };
        let want = from_scratch(cluster, &snapshot, going, asking);
        assert_eq!(text(&ask(&mut known, going, asking)), text(&want), "without {going:?}");
    }
}

proptest! {
    /// DIS-81 … DIS-88, SCH-98: random clusters, with every kind of constraint that pods can have.
    #[test]
    fn a_question_is_answered_as_by_a_pass_of_its_own(
        mut cluster in any_cluster(Overrides::Some),
        launched in 0..3_usize,
        waiting in prop::collection::vec(any_pod(), 0..4),
    ) {
        cluster.devices = None;
        cluster.launched = [Launched::ClaimOnly, Launched::InFlight, Launched::Initialized][launched];
        if cluster.options.reserved == crate::Reserved::Strict {
            cluster.pass();
        }
        for pod in waiting {
            cluster.add(pod);
        }
        same_answers(&cluster);
    }

    /// New nodes that are packed cost no more than those in the specified order, nobody loses his place for it, and the question
    /// leaves no trace.
    #[test]
    fn packed_answers_cost_no_more(mut cluster in any_cluster(Overrides::Some)) {
        cluster.devices = None;
        cluster.launched = Launched::Initialized;
        if cluster.options.reserved == crate::Reserved::Strict {
            cluster.pass();
        }
        let snapshot = cluster.snapshot();
        let mut known = what_if(&cluster, &snapshot);
        let nodes = active(&snapshot);
        for going in nodes.windows(1).chain(nodes.chunks(3)).chain([&nodes[..]]) {
            let before = ask(&mut known, going, Asking::default());
            let packed = ask(&mut known, going, Asking { packed: true, ..Asking::default() });
            prop_assert!(packed.cost_per_hour() <= before.cost_per_hour() + 1e-9);
            prop_assert!(packed.placed.len() >= before.placed.len());
            prop_assert_eq!(text(&ask(&mut known, going, Asking::default())), text(&before));
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
    cluster
}

/// DIS-81: counts, hosts that others keep free, domains that only the node had.
#[test]
fn topology_without_a_node() {
    let sizes = ["cpu=900m", "cpu=700m", "cpu=1500m", "cpu=300m"];
    let sized = |turn: usize, pod: Pod| pod.asks(sizes[turn % sizes.len()]);
    for (case, make) in [
        ("zones", (|| app().spread(spread("zone"))) as fn() -> Pod),
        ("hosts", || app().spread(spread("host"))),
        ("apart", || app().apart(near("host", "app=test"))),
        ("apart in zones", || app().apart(near("zone", "app=test"))),
        ("near", || app().near(near("zone", "app=test"))),
        ("wishes", || app().prefers_apart(1, near("host", "app=test")).prefers_apart(2, near("zone", "app=test"))),
        ("plain", pod),
    ] {
        let cluster = settled((0..9).map(|turn| sized(turn, make())));
        assert!(cluster.nodes.len() > 1 || case == "near" || case == "plain" || case == "zones", "{case}");
        same_answers(&cluster);
    }
}

/// DIS-193: what goes no longer counts against the limits of its pool.
#[test]
fn limits_without_a_node() {
    let mut cluster = with(pool("p").limits("cpu=6 nodes=3"), f2(4));
    cluster.launched = Launched::Initialized;
    for _ in 0..3 {
        cluster.run([app().apart(near("host", "app=test")).asks("cpu=1")]);
    }
    cluster.add(app().apart(near("host", "app=test")).asks("cpu=1"));
    same_answers(&cluster);
}

/// An answer that is kept is the cluster that later questions are asked of: its pods are where it said, its node is gone.
#[test]
fn questions_after_an_answer_was_kept() {
    for make in [pod as fn() -> Pod, || app().spread(spread("zone")), || app().spread(spread("host"))] {
        let mut cluster = settled((0..9).map(|turn| make().asks(["cpu=1500m", "cpu=700m", "cpu=200m"][turn % 3])));
        // Some go, so that there is room.
        cluster.remove_pods(|_, pod| pod.uid.to_string().ends_with('3') || pod.uid.to_string().ends_with('6'));
        let snapshot = cluster.snapshot();
        let mut known = what_if(&cluster, &snapshot);
        let asking = Asking::default();
        let goes = active(&snapshot).into_iter().map(str::to_owned).find(|name| {
            let plan = from_scratch(&cluster, &snapshot, &[name.as_str()], asking);
            let all = snapshot.nodes.iter().find(|node| node.name() == name).map_or(0, |node| node.pods.len());
            plan.claims.is_empty() && plan.unplaced.is_empty() && plan.placed.len() == all && all > 0
        });
        let Some(goes) = goes else { continue };
        let node = known.node(&goes).unwrap();
        let plan = known
            .without(&[node], asking, |answer| {
                answer.keep();
                answer.plan()
            })
            .unwrap();
        let gone = cluster.nodes.iter().find(|node| node.name() == goes).unwrap();
        let pods: Vec<PodView> = gone.pods.iter().map(|pod| PodView::clone(pod)).collect();
        cluster.nodes.retain(|node| node.name() != goes);
        for (id, place) in &plan.placed {
            let crate::Placement::Existing(name) = place else { panic!("nothing new") };
            let pod = pods.iter().find(|pod| pod.id == *id).unwrap();
            cluster.bind(pod.clone(), name);
        }
        let after = cluster.snapshot();
        for name in active(&after) {
            let node = known.node(name).unwrap();
            if known.has_guests(node) {
                assert!(known.without(&[node], asking, |_| ()).is_none());
                continue;
            }
            assert_eq!(text(&ask(&mut known, &[name], asking)), text(&from_scratch(&cluster, &after, &[name], asking)));
        }
    }
}
