//! Nodes and claims as entries, and what pools have of them.

use karpenter_model::claim::{ConditionView, Status};
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodOwner;
use karpenter_model::protection::Protection;
use karpenter_model::selector::Selector;

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn apply<T>(state: &mut ClusterState, change: impl Fn(Arc<T>) -> Change, view: T) {
    state.apply(change(Arc::new(view)));
}

/// A node of the pool, registered and initialized.
fn pool_node(name: &str, provider_id: &str, pool: &str, units: i64) -> NodeView {
    let mut node =
        NodeView { provider_id: Some(provider_id.into()), capacity: cpu(units).into(), ..example::node(name) };
    for (key, value) in [
        (labels::NODEPOOL, pool),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
        (labels::INSTANCE_TYPE, "std"),
    ] {
        node.labels.insert(key.into(), value.into());
    }
    node
}

fn names(state: &ClusterState) -> Vec<String> {
    state.nodes().iter().map(|entry| entry.name().to_owned()).collect()
}

/// LIF-115, LC-113, SC-340, SC-341, SC-342: usage follows pods, whatever the order of events.
#[test]
fn usage_follows_pods() {
    let mut state = state([Change::Pod(Arc::new(pod("early", Some("n"))))]);
    apply(&mut state, Change::Node, node("n", "1"));
    apply(&mut state, Change::Node, node("m", "2"));
    let requested = |state: &ClusterState| -> Vec<Resources> {
        state.nodes().into_iter().map(|entry| entry.requested.into_inner()).collect()
    };
    assert_eq!(requested(&state), [Resources::new(), cpu(1)], "bound before its node was known");
    apply(&mut state, Change::Pod, PodView { uid: "again".into(), ..pod("early", Some("m")) });
    assert_eq!(requested(&state), [cpu(1), Resources::new()], "the name is bound elsewhere");
    state.apply(Change::NodeGone("n".into()));
    assert_eq!(names(&state), ["m"]);
}

/// SC-343: at every step usage is the sum of the pods that live.
#[test]
fn usage_is_always_the_sum() {
    let mut state = state([Change::Node(Arc::new(node("n", "1")))]);
    let mut living = 0;
    for step in 0_i64..100 {
        let name = format!("pod-{}", step * 37 % 100);
        apply(&mut state, Change::Pod, pod(&name, Some("n")));
        apply(&mut state, Change::Pod, pod(&name, Some("n")));
        living += 1;
        if step % 3 == 0 {
            state.apply(Change::PodGone(pod(&name, None).id));
            living -= 1;
        }
        let want = if living == 0 { Resources::new() } else { cpu(living) };
        assert_eq!(state.nodes()[0].requested, want, "step {step}");
    }
}

/// LIF-111, LIF-116, LC-116, LC-143, SC-347, SC-348, SCH-228, Y25.
#[test]
fn nodes_are_tracked_once_they_can_be_told_apart() {
    let unmanaged = example::node("a");
    let mut state = state([Change::Node(Arc::new(unmanaged.clone()))]);
    assert_eq!(names(&state), ["a"], "by its name");
    apply(&mut state, Change::Node, NodeView { provider_id: Some("1".into()), ..unmanaged.clone() });
    assert_eq!(names(&state), ["a"], "one entry, under its new key");

    let mut owned = NodeView { name: "b".into(), ..unmanaged };
    owned.labels.insert(labels::NODEPOOL.into(), "pool".into());
    apply(&mut state, Change::Node, owned.clone());
    assert_eq!(names(&state), ["a"], "of a pool, without an ID");
    owned.provider_id = Some("2".into());
    apply(&mut state, Change::Node, owned.clone());
    assert_eq!(names(&state), ["a"], "of a pool, of no known type");
    owned.labels.insert(labels::INSTANCE_TYPE.into(), "std".into());
    apply(&mut state, Change::Node, owned);
    assert_eq!(names(&state), ["a", "b"]);
    for source in Source::ALL {
        let known = state.nodes.keys().cloned().collect();
        state.apply(Change::Listed(source, if source == Source::Nodes { known } else { BTreeSet::new() }));
    }
    assert_eq!(state.unsynced(), None, "a node that cannot be told apart keeps nobody waiting");
}

/// LC-123, SC-346, SCH-230, API-306: both halves have to go, also under one name.
#[test]
fn an_entry_ends_with_its_second_half() {
    let mut state = state([Change::Claim(Arc::new(claim("x", Some("1")))), Change::Node(Arc::new(node("x", "1")))]);
    assert_eq!(state.nodes().len(), 1);
    state.apply(Change::ClaimGone("x".into()));
    assert_eq!(state.nodes().len(), 1);
    state.apply(Change::NodeGone("x".into()));
    assert_eq!(state.nodes().len(), 0);
    assert!(state.nodes_by_provider_id("1").is_empty() && state.claims_by_provider_id("1").is_empty());
}

/// LIF-114, LC-114, SC-349, SCH-232.
#[test]
fn what_is_going() {
    let going = |state: &ClusterState| state.nodes()[0].is_going();
    let deleting = |node: NodeView| NodeView { deleting_since: Some(time(1)), ..node };
    let mut alone = state([Change::Node(Arc::new(deleting(node("n", "1"))))]);
    assert!(going(&alone));
    apply(&mut alone, Change::Claim, claim("c", Some("1")));
    assert!(!going(&alone), "its claim stays");
    let terminating = Some(ConditionView { status: Status::True, since: time(1) });
    apply(&mut alone, Change::Claim, ClaimView { instance_terminating: terminating, ..claim("c", Some("1")) });
    assert!(going(&alone));
    apply(&mut alone, Change::Claim, ClaimView { deleting_since: Some(time(1)), ..claim("c", Some("1")) });
    assert!(going(&alone));
}

/// LIF-119, LC-119, SC-358, SC-359, SC-360, SC-361, SC-362, SCH-239: sums per pool, change by change.
#[test]
fn pools_are_summed_up() {
    let mut state = state([
        Change::Node(Arc::new(pool_node("a", "1", "blue", 1))),
        Change::Node(Arc::new(pool_node("b", "2", "blue", 2))),
        Change::Node(Arc::new(pool_node("c", "3", "green", 3))),
    ]);
    let usage = |state: &ClusterState, pool: &str| state.usage(pool).to_string();
    assert_eq!((usage(&state, "blue"), usage(&state, "green")), ("cpu: 3, nodes: 2".into(), "cpu: 3, nodes: 1".into()));
    apply(&mut state, Change::Node, pool_node("a", "1", "green", 1));
    assert_eq!((usage(&state, "blue"), usage(&state, "green")), ("cpu: 2, nodes: 1".into(), "cpu: 4, nodes: 2".into()));
    apply(&mut state, Change::Node, pool_node("b", "9", "blue", 4));
    assert_eq!(usage(&state, "blue"), "cpu: 4, nodes: 1", "under its new ID, once");

    let blue = ClaimView { labels: [(labels::NODEPOOL.into(), "blue".into())].into(), ..claim("claim", Some("9")) };
    apply(&mut state, Change::Claim, blue.clone());
    assert_eq!(usage(&state, "blue"), "cpu: 4, nodes: 1", "an initialized node is what it reports");
    state.mark("claim", true);
    assert_eq!(usage(&state, "blue"), "");
    assert!(state.nodes().iter().any(|node| node.marked && node.is_going()), "SCH-232: nobody is sent there any more");
    state.mark("claim", false);
    assert_eq!(usage(&state, "blue"), "cpu: 4, nodes: 1");
    state.mark("claim", true);
    apply(&mut state, Change::Claim, ClaimView { deleting_since: Some(time(1)), ..blue.clone() });
    assert_eq!(usage(&state, "blue"), "", "subtracted once");
    state.mark("claim", false);
    assert_eq!(usage(&state, "blue"), "", "it is terminating all the same");
    apply(&mut state, Change::Claim, blue);
    state.apply(Change::NodeGone("b".into()));
    assert_eq!(usage(&state, "blue"), "cpu: 8, nodes: 1", "SC-361: what the claim promised");
    state.apply(Change::ClaimGone("claim".into()));
    assert_eq!(usage(&state, "blue"), "", "forgotten");
    state.apply(Change::Listed(Source::Nodes, BTreeSet::new()));
    assert_eq!(usage(&state, "green"), "");
}

/// LC-118, SC-351, SC-352, SC-353, SC-355: a gate that opens once for nodes, and for every claim anew.
#[test]
fn the_gate_knows_claims_and_nodes() {
    let mut state = ClusterState::default();
    for number in 0..1000 {
        apply(&mut state, Change::Node, node(&format!("n{number}"), &format!("id{number}")));
        apply(&mut state, Change::Claim, claim(&format!("c{number}"), Some(&format!("id{number}"))));
    }
    assert_eq!(state.unsynced(), Some(Unsynced::NotListed(Source::Pods)));
    for source in Source::ALL {
        let known = match source {
            Source::Nodes => state.nodes.keys().cloned().collect(),
            Source::Claims => state.claims.keys().cloned().collect(),
            _ => BTreeSet::new(),
        };
        state.apply(Change::Listed(source, known));
    }
    assert_eq!((state.unsynced(), state.nodes().len()), (None, 1000));
    apply(&mut state, Change::Node, example::node("late"));
    assert_eq!(state.unsynced(), None);
    apply(&mut state, Change::Claim, claim("new", None));
    assert!(state.unsynced().is_some());
    state.apply(Change::ClaimGone("new".into()));
    assert_eq!(state.unsynced(), None);
}

/// LIF-104, LIF-109, LC-105, LC-112, LC-144, SC-364, SC-365, VC-137, V15-80, Y28, Y30, Y34.
#[test]
fn the_ledger_of_a_static_pool() {
    let mut state = ClusterState::default();
    let of_pool = |name: &str, id| ClaimView { pool: Some("pool".into()), ..claim(name, id) };
    let counts = |state: &ClusterState| {
        let counts = state.counts("pool");
        (counts.active, counts.deleting, counts.pending, counts.reserved)
    };
    assert_eq!([(3, 3), (2, 2), (1, 0)].map(|(wanted, _)| state.reserve("pool", wanted, Some(5))), [3, 2, 0]);
    state.release("pool", 4);
    assert_eq!(state.reserve("pool", 9, Some(5)), 4);
    state.release("pool", 99);
    state.release("unknown", 1);
    assert_eq!(counts(&state), (0, 0, 0, 0));
    assert_eq!((0..100).map(|_| state.reserve("pool", 1, Some(10))).sum::<u64>(), 10);
    state.release("pool", 10);

    apply(&mut state, Change::Claim, of_pool("a", Some("1")));
    apply(&mut state, Change::Claim, of_pool("b", None));
    apply(&mut state, Change::Claim, ClaimView { pool: None, ..of_pool("standalone", Some("3")) });
    assert_eq!(counts(&state), (2, 0, 0, 0));
    apply(&mut state, Change::Claim, ClaimView { deleting_since: Some(time(1)), ..of_pool("b", None) });
    assert_eq!(counts(&state), (1, 1, 0, 0), "also one that was never launched");
    assert_eq!(state.reserve("pool", 5, Some(5)), 3);
    state.set_pending("a", true);
    assert_eq!(counts(&state), (0, 1, 1, 3));
    apply(&mut state, Change::Claim, ClaimView { node_name: Some("n".into()), ..of_pool("a", Some("1")) });
    assert_eq!(counts(&state), (0, 1, 1, 3), "an event undoes no mark");
    state.mark("a", true);
    assert_eq!(counts(&state), (0, 2, 0, 3));
    state.mark("a", false);
    state.apply(Change::ClaimGone("a".into()));
    state.apply(Change::ClaimGone("b".into()));
    assert_eq!(counts(&state), (0, 0, 0, 3), "what is reserved stays so");
}

/// LC-115, SC-26, SCH-24, SCH-233: a nomination stays with the claim when its node takes over the name.
#[test]
fn nominations_follow_the_claim() {
    let mut state = state([Change::Claim(Arc::new(claim("c", Some("1"))))]);
    state.nominate("c", time(20));
    apply(&mut state, Change::Node, pool_node("n", "1", "pool", 1));
    let entry = &state.nodes()[0];
    assert_eq!((entry.name(), entry.nominated_until), ("n", Some(time(20))));
    assert!(time(10) < time(20) && time(21) > time(20));
}

/// LC-121, SC-367, DIS-191.
#[test]
fn buffer_pods_are_replaced_as_a_whole() {
    let mut state = ClusterState::default();
    state.set_buffer_pods(BTreeMap::from([("a".to_owned(), 3)]));
    assert_eq!((state.buffer_pods("a"), state.buffer_pods("b")), (3, 0));
    state.set_buffer_pods(BTreeMap::new());
    assert_eq!(state.buffer_pods("a"), 0);
}

/// SCH-10, SCH-14, SC-31, SC-32, SC-33: who has to find another node.
#[test]
fn pods_of_going_nodes_move() {
    let going = ClaimView { deleting_since: Some(time(1)), ..claim("c", Some("1")) };
    let mut state = state([Change::Claim(Arc::new(going)), Change::Node(Arc::new(node("n", "1")))]);
    let running = |name: &str| PodView { phase: PodPhase::Running, ..pod(name, Some("n")) };
    let leaving = |name: &str| PodView { deleting_since: Some(time(100).into()), ..running(name) };
    let mut blocked = running("blocked");
    blocked.labels.insert("app".into(), "web".into());
    for one in [
        running("web"),
        leaving("replica"),
        PodView { owner: PodOwner::StatefulSet, ..leaving("stateful") },
        PodView { owner: PodOwner::DaemonSet, ..running("daemon") },
        running("protected").but(|pod| pod.protection = Protection::Always),
        blocked,
        PodView { node_name: Some("elsewhere".into()), ..running("other") },
    ] {
        apply(&mut state, Change::Pod, one);
    }
    let moving = |state: &ClusterState| -> Vec<String> {
        state.moving_pods(time(50)).into_keys().map(|id| id.name.into()).collect()
    };
    assert_eq!(moving(&state), ["blocked", "stateful", "web"]);
    apply(
        &mut state,
        Change::Pdb,
        PdbView {
            id: pod("budget", None).id,
            selector: Some(Selector::labels([("app", "web")])),
            disruptions_allowed: 0,
            never_allows: true,
            lets_unready_go: false,
        },
    );
    assert_eq!(moving(&state), ["stateful", "web"]);
    state.apply(Change::PdbGone(pod("budget", None).id));
    assert_eq!(moving(&state).len(), 3);
}

/// What a pod that fits nowhere depends on: everything, or only what gives room.
#[test]
fn the_world_changes_when_something_does() {
    let mut state = ClusterState::default();
    let mut last = state.world();
    let mut room = state.world().room;
    let mut changes = |state: &mut ClusterState, change: Change| {
        state.apply(change);
        std::mem::replace(&mut last, state.world()) != state.world()
    };
    let mut makes_room = |state: &mut ClusterState, change: Change| {
        state.apply(change);
        std::mem::replace(&mut room, state.world().room) != state.world().room
    };
    let a_node = Arc::new(node("n", "1"));
    assert!(changes(&mut state, Change::Node(a_node.clone())));
    assert!(!changes(&mut state, Change::Node(a_node)), "the same again");
    assert!(!changes(&mut state, Change::Pod(Arc::new(pod("waits", None)))), "another pod that waits");
    assert!(changes(&mut state, Change::Pod(Arc::new(pod("waits", Some("n"))))));
    assert!(changes(&mut state, Change::PodGone(pod("waits", None).id)));
    assert!(changes(&mut state, Change::Claim(Arc::new(claim("c", None)))));
    assert!(changes(&mut state, Change::ClaimGone("c".into())));
    assert!(changes(&mut state, Change::Pool(Arc::new(example::pool("p")))));
    assert!(!changes(&mut state, Change::Pool(Arc::new(example::pool("p")))));

    makes_room(&mut state, Change::Node(Arc::new(node("n", "1"))));
    let bound = pod("web", Some("n"));
    assert!(!makes_room(&mut state, Change::Pod(Arc::new(bound.clone()))), "a pod takes room");
    let running = PodView { phase: PodPhase::Running, ..bound.clone() };
    assert!(!makes_room(&mut state, Change::Pod(Arc::new(running.clone()))), "it runs");
    let stamped = ClaimView { last_pod_event: Some(time(5)), ..claim("c", Some("1")) };
    assert!(makes_room(&mut state, Change::Claim(Arc::new(claim("c", Some("1"))))), "a machine comes");
    assert!(!makes_room(&mut state, Change::Claim(Arc::new(stamped))), "somebody wrote on the claim");
    let ended = PodView { phase: PodPhase::Succeeded, ..running };
    assert!(makes_room(&mut state, Change::Pod(Arc::new(ended))), "a pod ended");
    assert!(makes_room(&mut state, Change::PodGone(bound.id.clone())));
}

/// SCH-243, SC-366, LC-120: the stamp stays for five minutes, unless something changes.
#[test]
fn the_consolidation_stamp() {
    let mut state = ClusterState::default();
    assert_eq!(state.consolidation_stamp(time(0)), time(0));
    assert_eq!(state.consolidation_stamp(time(60)), time(0));
    assert_eq!(state.consolidation_stamp(time(299)), time(0));
    assert_eq!(state.consolidation_stamp(time(300)), time(300), "old enough to look again");
    let mut second = 300;
    let mut advances = |state: &mut ClusterState, change: Change| {
        state.apply(change);
        second += 10;
        state.consolidation_stamp(time(second)) == time(second)
    };
    assert!(advances(&mut state, Change::Pool(Arc::new(example::pool("p")))));
    assert!(!advances(&mut state, Change::Pool(Arc::new(example::pool("p")))), "the same again");
    assert!(advances(&mut state, Change::Pool(Arc::new(PoolView { weight: 7, ..example::pool("p") }))));
    let new = pool_node("n", "1", "p", 4);
    let mut starting = new.clone();
    starting.labels.remove(labels::INITIALIZED);
    assert!(advances(&mut state, Change::Node(Arc::new(starting.clone()))));
    starting.annotations.insert("a".into(), "b".into());
    assert!(!advances(&mut state, Change::Node(Arc::new(starting))), "nothing that matters");
    assert!(advances(&mut state, Change::Node(Arc::new(new))), "it is initialized");
    assert!(!advances(&mut state, Change::Pod(Arc::new(pod("web", None)))), "a pod waits");
    assert!(advances(&mut state, Change::Pod(Arc::new(pod("web", Some("n"))))), "it is bound");
    let running = PodView { phase: PodPhase::Running, ..pod("web", Some("n")) };
    assert!(!advances(&mut state, Change::Pod(Arc::new(running))));
    assert!(advances(&mut state, Change::PodGone(pod("web", None).id)));
    assert!(advances(&mut state, Change::Claim(Arc::new(claim("c", Some("1"))))));
    let going = ClaimView { deleting_since: Some(time(1)), ..claim("c", Some("1")) };
    assert!(advances(&mut state, Change::Claim(Arc::new(going))));
    assert!(advances(&mut state, Change::ClaimGone("c".into())));
    assert!(advances(&mut state, Change::NodeGone("n".into())));
    state.note_overlays_published();
    assert_eq!(state.consolidation_stamp(time(1000)), time(1000));
}

/// Y14, DIS-192: whose node it is nobody knows after a start, until a pass has looked.
#[test]
fn nobody_is_expected_before_the_first_pass() {
    let mut state = ClusterState::default();
    assert!(!state.knows_who_is_expected());
    state.note_pass();
    assert!(state.knows_who_is_expected());
}

/// Y18, SCH-14, SCH-87: pods of a claim that is about to expire are planned for elsewhere, and it still counts.
#[test]
fn expiring_claims_are_replaced_beforehand() {
    let mut state = state([
        Change::Claim(Arc::new(claim("c", Some("1")))),
        Change::Node(Arc::new(pool_node("n", "1", "pool", 8))),
        Change::Pod(Arc::new(PodView { phase: PodPhase::Running, ..pod("web", Some("n")) })),
    ]);
    let usage = state.usage("pool");
    assert!(state.moving_pods(time(0)).is_empty() && !state.nodes()[0].is_going());
    state.mark_expiring("c");
    assert_eq!(state.moving_pods(time(0)).len(), 1);
    assert!(state.nodes()[0].is_going(), "and nobody else goes there");
    assert_eq!(state.usage("pool"), usage, "limits hold at every moment");
    state.apply(Change::ClaimGone("c".into()));
    apply(&mut state, Change::Claim, claim("c", Some("1")));
    assert!(state.moving_pods(time(0)).is_empty(), "another claim of the name is not meant");
}

/// LC-148, SC-345, SCH-229, Q39, Y27: a claim that is written to keeps everything that its node's pods mean.
#[test]
fn writing_to_a_claim_changes_nothing_about_its_pods() {
    let mut state = state([
        Change::Claim(Arc::new(claim("c", Some("1")))),
        Change::Node(Arc::new(pool_node("n", "1", "pool", 8))),
        Change::Pod(Arc::new(PodView { disruption_cost: 7, priority: 3, ..pod("web", Some("n")) })),
    ]);
    state.nominate("c", time(100));
    let meaning = |state: &ClusterState| {
        let entry = state.nodes().remove(0);
        let costs: Vec<f64> = entry.pods.iter().map(|pod| pod.eviction_cost()).collect();
        (entry.requested.into_inner(), costs, entry.nominated_until)
    };
    let before = meaning(&state);
    assert_eq!(before.1.len(), 1);
    apply(&mut state, Change::Claim, ClaimView { last_pod_event: Some(time(9)), ..claim("c", Some("1")) });
    assert_eq!(meaning(&state), before);
}

/// SCH-246: what a reader holds does not change under its hands.
#[test]
fn readers_keep_what_they_were_given() {
    let mut state = state([Change::Node(Arc::new(node("n", "1"))), Change::Pod(Arc::new(pod("web", Some("n"))))]);
    let (nodes, waiting) = (state.nodes(), state.pending_pods());
    state.apply(Change::PodGone(pod("web", None).id));
    apply(&mut state, Change::Pod, pod("late", None));
    assert_eq!((Resources::clone(&nodes[0].requested), nodes[0].pods.len(), waiting.len()), (cpu(1), 1, 0));
}

/// SC-363: one node, whichever half speaks.
#[test]
fn capacity_always_counts_one_node() {
    let of = |changes: Vec<Change>| state(changes).nodes()[0].capacity().amount("nodes").value();
    let claim = || Change::Claim(Arc::new(claim("c", Some("1"))));
    assert_eq!(of(vec![Change::Node(Arc::new(pool_node("n", "1", "pool", 4)))]), 1);
    assert_eq!(of(vec![claim()]), 1);
    assert_eq!(of(vec![claim(), Change::Node(Arc::new(node("n", "1")))]), 1);
}

/// SCH-235, SC-344: DaemonSet pods are part of the whole and told apart.
#[test]
fn daemons_are_counted_in_the_whole() {
    let mut state = state([Change::Node(Arc::new(node("n", "1"))), Change::Pod(Arc::new(pod("web", Some("n"))))]);
    apply(&mut state, Change::Pod, PodView { owner: PodOwner::DaemonSet, ..pod("agent", Some("n")) });
    let entry = state.nodes().remove(0);
    assert_eq!(entry.requested, cpu(2));
    let daemons = entry.pods.iter().filter(|pod| pod.owner == PodOwner::DaemonSet);
    assert_eq!(daemons.map(|pod| pod.requests.clone()).collect::<Vec<_>>(), [cpu(1)]);
}

/// SCH-236, SC-350, Q15: who keeps others away counts where it is bound, also while it leaves, and nowhere else.
#[test]
fn anti_affine_pods_count_where_they_are_bound() {
    use karpenter_model::scheduling::{AffinityTerm, Namespaces, PodScheduling};
    let term = AffinityTerm { key: "zone".into(), selector: None, namespaces: Namespaces::only("default") };
    let wishes = PodScheduling { anti_affinity: vec![term], ..PodScheduling::default() };
    let shy = |name: &str, node| pod(name, node).but(|pod| pod.scheduling = wishes.clone());
    let mut state = state([Change::Node(Arc::new(node("n", "1")))]);
    let counted = |state: &ClusterState| {
        let pods = state.nodes().into_iter().flat_map(|entry| entry.pods.into_inner());
        pods.filter(|pod| !pod.scheduling.anti_affinity.is_empty()).count()
    };
    apply(&mut state, Change::Pod, shy("a", None));
    assert_eq!(counted(&state), 0, "not bound");
    apply(&mut state, Change::Pod, shy("a", Some("n")));
    assert_eq!(counted(&state), 1);
    apply(&mut state, Change::Pod, PodView { deleting_since: Some(time(1).into()), ..shy("a", Some("n")) });
    assert_eq!(counted(&state), 1, "Q15: it is still there");
    state.apply(Change::NodeGone("n".into()));
    assert_eq!(counted(&state), 0, "no node");
    apply(&mut state, Change::Node, node("n", "1"));
    state.apply(Change::PodGone(pod("a", None).id));
    assert_eq!(counted(&state), 0, "gone");
}

/// SCH-240, Q23: a pool is not forgotten while a disruption command still has its claims.
#[test]
fn pending_claims_keep_their_pool() {
    let of_pool = |name: &str| ClaimView { pool: Some("pool".into()), ..claim(name, Some(name)) };
    let mut state = state([Change::Claim(Arc::new(of_pool("a"))), Change::Claim(Arc::new(of_pool("b")))]);
    state.set_pending("a", true);
    assert_eq!(state.reserve("pool", 1, Some(3)), 1);
    state.apply(Change::ClaimGone("b".into()));
    let counts = state.counts("pool");
    assert_eq!((counts.active, counts.pending, counts.reserved), (0, 1, 1));
}
