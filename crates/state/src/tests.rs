use std::collections::BTreeMap;

use karpenter_model::claim::{ConditionView, Status};
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels;
use karpenter_model::pod::{PodOwner, PodPhase};
use karpenter_model::pool::NodeClassRef;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::PodScheduling;
use karpenter_model::taints::{Effect, Taint};

use super::*;

fn cpu(units: i64) -> Resources {
    Resources::new().with("cpu", Quantity::units(units))
}

fn pod(name: &str, node: Option<&str>) -> PodView {
    PodView {
        id: PodId { namespace: "default".into(), name: name.into() },
        uid: name.into(),
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        phase: PodPhase::Running,
        owner: PodOwner::Other,
        node_name: node.map(ToOwned::to_owned),
        nominated_node_name: None,
        unschedulable: node.is_none(),
        requests: cpu(1),
        labels: BTreeMap::new(),
        scheduling: PodScheduling::default(),
        critical: false,
        termination_grace_seconds: None,
        unplannable: None,
    }
}

fn node(name: &str, provider_id: &str) -> NodeView {
    NodeView {
        name: name.into(),
        uid: name.into(),
        provider_id: Some(provider_id.into()),
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        has_finalizer: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: vec![Taint::unregistered()],
        capacity: Resources::new(),
        allocatable: Resources::new(),
        ready: true,
    }
}

fn claim(name: &str, provider_id: Option<&str>) -> ClaimView {
    let condition = ConditionView { status: Status::Unknown, since: Timestamp::UNIX_EPOCH };
    ClaimView {
        name: name.into(),
        uid: name.into(),
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        has_finalizer: true,
        labels: BTreeMap::from([(labels::NODEPOOL.into(), "pool".into())]),
        annotations: BTreeMap::new(),
        pool: Some("pool".into()),
        node_class: NodeClassRef { group: "g".into(), kind: "K".into(), name: "n".into() },
        requirements: Requirements::new(),
        requests: Resources::new(),
        taints: vec![Taint::new("dedicated", "", Effect::NoSchedule)],
        startup_taints: vec![],
        expire_after: NillableDuration::Never,
        termination_grace_period: None,
        provider_id: provider_id.map(ToOwned::to_owned),
        node_name: None,
        capacity: cpu(8),
        allocatable: cpu(7),
        launched: condition,
        registered: condition,
        initialized: condition,
        drained: None,
        instance_terminating: None,
    }
}

fn state(changes: impl IntoIterator<Item = Change>) -> ClusterState {
    let mut state = ClusterState::default();
    changes.into_iter().for_each(|change| state.apply(change));
    state
}

/// SCH-12, SCH-234: a pod waits until it is bound, and its requests follow it.
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

/// SCH-24, SCH-233.
#[test]
fn nominations_last_until_replaced() {
    let mut state = state([Change::Claim(Arc::new(claim("a", Some("1"))))]);
    let until = Timestamp::from_second(20).unwrap();
    state.nominate("a", until);
    assert_eq!(state.nodes()[0].nominated_until, Some(until));
}
