mod entries;

use std::collections::BTreeMap;

use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::pod::PodPhase;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::taints::{Effect, Taint};

use super::*;

fn cpu(units: i64) -> Resources {
    Resources::new().with("cpu", Quantity::units(units))
}

fn pod(name: &str, node: Option<&str>) -> PodView {
    PodView { node_name: node.map(Into::into), unschedulable: node.is_none(), ..example::pod(name) }
        .but(|pod| pod.requests = cpu(1))
}

fn node(name: &str, provider_id: &str) -> NodeView {
    NodeView { provider_id: Some(provider_id.into()), taints: vec![Taint::unregistered()], ..example::node(name) }
}

fn claim(name: &str, provider_id: Option<&str>) -> ClaimView {
    ClaimView {
        labels: [(labels::NODEPOOL.into(), "pool".into())].into(),
        taints: vec![Taint::new("dedicated", "", Effect::NoSchedule)],
        provider_id: provider_id.map(ToOwned::to_owned),
        capacity: cpu(8).into(),
        allocatable: cpu(7).into(),
        ..example::claim(name)
    }
}

fn state(changes: impl IntoIterator<Item = Change>) -> ClusterState {
    let mut state = ClusterState::default();
    changes.into_iter().for_each(|change| state.apply(change));
    state
}

/// SCH-12, SCH-234, API-306: a pod waits until it is bound, and its requests follow it.
#[test]
fn pods_move_from_pending_to_their_node() {
    let mut state = state([Change::Node(Arc::new(node("n", "id"))), Change::Pod(Arc::new(pod("a", None)))]);
    assert_eq!(state.pending_pods().len(), 1);
    state.apply(Change::Pod(Arc::new(pod("a", Some("n")))));
    assert!(state.pending_pods().is_empty());
    assert_eq!(state.nodes()[0].requested, cpu(1));
    state.apply(Change::Pod(Arc::new(PodView { phase: PodPhase::Succeeded, ..pod("a", Some("n")) })));
    assert_eq!(state.nodes()[0].requested, Resources::new());
    state.apply(Change::Pod(Arc::new(pod("b", Some("n")))));
    state.apply(Change::PodGone(pod("b", None).id));
    assert!(state.pods_on("n").is_empty());
}

/// SCH-228, SCH-231, SCH-57, SCH-83: claim and node become one entry; the claim speaks until the node is registered.
#[test]
fn a_claim_and_its_node_are_one_entry() {
    let mut state = state([Change::Claim(Arc::new(claim("pool-1", Some("id"))))]);
    let entry = |state: &ClusterState| state.nodes().remove(0);
    assert_eq!((entry(&state).name(), entry(&state).available()), ("pool-1", cpu(7)));

    state.apply(Change::Node(Arc::new(node("n", "id"))));
    assert_eq!(state.nodes().len(), 1);
    assert_eq!(entry(&state).name(), "pool-1");
    let taints: Vec<String> = entry(&state).taints().iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["dedicated:NoSchedule"]);
    assert_eq!(entry(&state).allocatable(), cpu(7), "what the node does not report yet is filled from the claim");

    let mut registered = node("n", "id");
    registered.labels.insert(labels::REGISTERED.into(), "true".into());
    registered.taints.push(Taint::new("node.kubernetes.io/not-ready", "", Effect::NoSchedule));
    state.apply(Change::Node(Arc::new(registered.clone())));
    assert_eq!(entry(&state).name(), "n");
    assert_eq!(entry(&state).taints(), [], "a starting node sheds its ephemeral taints by itself");

    registered.labels.insert(labels::INITIALIZED.into(), "true".into());
    state.apply(Change::Node(Arc::new(registered)));
    assert_eq!(entry(&state).taints().len(), 2);
    assert_eq!(entry(&state).allocatable(), Resources::new(), "an initialized node is what it reports");
}

/// SCH-239: nodes that go away are not counted.
#[test]
fn usage_counts_what_stays() {
    let mut state =
        state([Change::Claim(Arc::new(claim("a", Some("1")))), Change::Claim(Arc::new(claim("b", Some("2"))))]);
    assert_eq!(state.usage("pool").to_string(), "cpu: 16, nodes: 2");
    state.apply(Change::Claim(Arc::new(ClaimView {
        deleting_since: Some(Timestamp::UNIX_EPOCH),
        ..claim("b", Some("2"))
    })));
    assert_eq!(state.usage("pool").to_string(), "cpu: 8, nodes: 1");
    assert!(state.usage("other").is_empty());
}

/// SCH-241: nothing is decided before every list is in and every claim has its instance.
#[test]
fn the_gate_opens_when_everything_is_known() {
    let mut state = ClusterState::default();
    for source in Source::ALL {
        assert_eq!(state.unsynced(), Some(Unsynced::NotListed(source)));
        state.apply(Change::Listed(source, BTreeSet::new()));
    }
    assert_eq!(state.unsynced(), None);
    state.apply(Change::Claim(Arc::new(claim("a", None))));
    assert_eq!(state.unsynced(), Some(Unsynced::ClaimNotLaunched("a".into())));
    state.apply(Change::Claim(Arc::new(claim("a", Some("id")))));
    assert_eq!(state.unsynced(), None);
}

#[test]
fn a_list_drops_what_is_not_on_it() {
    let mut state = state([
        Change::Claim(Arc::new(claim("a", Some("1")))),
        Change::Claim(Arc::new(claim("b", Some("2")))),
        Change::Pod(Arc::new(pod("p", None))),
    ]);
    state.apply(Change::Listed(Source::Claims, BTreeSet::from(["b".to_owned()])));
    assert!(state.claim("a").is_none() && state.claim("b").is_some());
    state.apply(Change::Listed(Source::Pods, BTreeSet::from(["default/other".to_owned()])));
    assert!(state.pending_pods().is_empty());
    assert!(state.nodes_by_provider_id("").is_empty(), "LIF-2: empty IDs match nothing");
}

/// A pod is without a node until it is bound, ends or goes.
#[test]
fn pods_without_a_node_are_counted() {
    let mut state = ClusterState::default();
    let pod = |name: &str| example::pod(name);
    let mut seen = Vec::new();
    let changes = [
        Change::Pod(Arc::new(pod("a"))),
        Change::Pod(Arc::new(pod("b"))),
        Change::Pod(Arc::new(PodView { node_name: Some("n".into()), ..pod("a") })),
        Change::Pod(Arc::new(PodView { phase: PodPhase::Failed, ..pod("b") })),
        Change::Pod(Arc::new(pod("c"))),
        Change::PodGone(pod("c").id),
        Change::PodGone(pod("a").id),
    ];
    for change in changes {
        state.apply(change);
        seen.push(state.has_unbound_pods());
    }
    assert_eq!(seen, [true, true, true, false, true, false, false]);
}

/// SCH-24, SCH-233.
#[test]
fn nominations_last_until_replaced() {
    let mut state = state([Change::Claim(Arc::new(claim("a", Some("1"))))]);
    let until = Timestamp::from_second(20).unwrap();
    state.nominate("a", until);
    assert_eq!(state.nodes()[0].nominated_until, Some(until));
}

/// LIF-113, LC-117: what a starting node of ours sheds by itself keeps nobody off; on other nodes everything does.
#[test]
fn taints_of_starting_nodes_are_hidden() {
    let taints = vec![
        Taint::new("node.kubernetes.io/not-ready", "", Effect::NoSchedule),
        Taint::new("readiness.k8s.io/network", "", Effect::NoSchedule),
        Taint::new("boot", "", Effect::NoExecute),
        Taint::new("dedicated", "", Effect::NoSchedule),
    ];
    let startup_taints = vec![Taint::new("boot", "", Effect::NoExecute)];
    let owner = ClaimView { startup_taints, ..claim("c", Some("id")) };
    let mut starting = NodeView { taints, ..node("n", "id") };
    starting.labels.insert(labels::REGISTERED.into(), "true".into());
    let count = |changes: Vec<Change>| state(changes).nodes()[0].taints().len();
    assert_eq!(count(vec![Change::Node(Arc::new(starting.clone()))]), 4, "not ours");
    let owner = Change::Claim(Arc::new(owner));
    assert_eq!(count(vec![owner.clone(), Change::Node(Arc::new(starting.clone()))]), 1);
    starting.labels.insert(labels::INITIALIZED.into(), "true".into());
    assert_eq!(count(vec![owner, Change::Node(Arc::new(starting))]), 4, "it has started");
}

/// LIF-118, LC-122, Y33: a set that was made anew under its name is not spoken for by pods of the old one.
#[test]
fn a_new_daemon_set_has_its_own_pods() {
    let daemon =
        |uid: &str| DaemonView { id: pod("agent", None).id, uid: Some(uid.into()), template: pod("agent", None) };
    let of = |name: &str, uid: &str, second| {
        let created_at = Timestamp::from_second(second).unwrap();
        let one = PodView { created_at: created_at.into(), ..pod(name, Some("n")) };
        let one = one.but(|pod| (pod.daemon_set, pod.daemon_set_uid) = (Some("agent".into()), Some(uid.into())));
        Change::Pod(Arc::new(one))
    };
    let speaks = |state: &ClusterState| state.daemons()[0].id.name.clone();
    let mut state =
        state([Change::Daemon(Arc::new(daemon("old"))), of("old-1", "old", 10), of("other", "another", 99)]);
    assert_eq!(speaks(&state), "old-1");
    state.apply(Change::Daemon(Arc::new(daemon("new"))));
    assert_eq!(speaks(&state), "agent", "its template");
    state.apply(of("new-1", "new", 5));
    assert_eq!(speaks(&state), "new-1", "older than those of the old set");
}

/// SCH-71, SCH-238, SC-123, SC-125, SC-357: the newest live pod speaks for its DaemonSet, with the template's affinity.
#[test]
fn a_live_pod_speaks_for_its_daemon_set() {
    let pinned = |value: &str| vec![Requirements::from_iter([Requirement::any_of("node", [value])])];
    let daemon = |name: &str| DaemonView { id: pod(name, None).id, uid: None, template: pod(name, None) };
    let mut agent = daemon("agent");
    agent.template.scheduling.required_terms = pinned("template");
    agent.template.requests = cpu(4);
    let mut state = state([Change::Daemon(Arc::new(agent)), Change::Daemon(Arc::new(daemon("other")))]);
    assert_eq!(state.daemons()[0].requests, cpu(4), "no pod yet");

    let live = |name: &str, second, units| {
        let mut one = PodView { created_at: Timestamp::from_second(second).unwrap().into(), ..pod(name, Some("n")) };
        one.daemon_set = Some("agent".into());
        one.requests = cpu(units);
        one.scheduling.required_terms = pinned("n");
        Change::Pod(Arc::new(one))
    };
    state.apply(live("agent-a", 10, 2));
    state.apply(live("agent-b", 20, 3));
    let daemons = state.daemons();
    assert_eq!((daemons[0].id.name.as_str(), &daemons[0].requests), ("agent-b", &cpu(3)));
    assert_eq!(daemons[0].scheduling.required_terms, pinned("template"));
    assert_eq!(daemons[1].id.name, "other");
    state.apply(Change::DaemonGone(pod("agent", None).id));
    assert_eq!(state.daemons().len(), 1);
}
