use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodOwner, PodPhase, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::PodScheduling;
use karpenter_model::taints::{Effect, Taint, Toleration, TolerationOperator};
use karpenter_model::{example, labels};

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn condition(status: Status) -> ConditionView {
    ConditionView { status, since: time(0) }
}

/// Launched and waiting for its node.
fn claim() -> ClaimView {
    ClaimView {
        has_finalizer: true,
        labels: BTreeMap::from([("team".into(), "a".into())]),
        requests: Resources::new().with("cpu", Quantity::units(1)),
        taints: vec![Taint::new("dedicated", "x", Effect::NoSchedule)],
        startup_taints: vec![Taint::new("boot", "", Effect::NoExecute)],
        provider_id: Some("cloud://1".into()),
        launched: condition(Status::True),
        ..example::claim("pool-1")
    }
}

/// As it joins: guarded and not ready.
fn node() -> NodeView {
    NodeView {
        provider_id: Some("cloud://1".into()),
        labels: BTreeMap::from([("team".into(), "other".into()), ("os".into(), "linux".into())]),
        taints: vec![Taint::unregistered(), Taint::new("dedicated", "kept", Effect::NoSchedule)],
        allocatable: Resources::new().with("cpu", Quantity::units(2)),
        ..example::node("node-1")
    }
}

fn pod(name: &str) -> PodView {
    PodView { phase: PodPhase::Running, node_name: Some("node-1".into()), ..example::pod(name) }
}

/// LIF-11, LIF-14: the finalizer comes first, and a launch that has a verdict is not repeated.
#[test]
fn launching() {
    for (has_finalizer, launched, want) in [
        (false, Status::Unknown, Launch::AddFinalizerFirst),
        (true, Status::Unknown, Launch::AskProvider),
        (true, Status::True, Launch::Done),
        (true, Status::False, Launch::Done),
    ] {
        assert_eq!(launch(&ClaimView { has_finalizer, launched: condition(launched), ..claim() }), want);
    }
}

/// LIF-20, LIF-21.
#[test]
fn registration_waits_for_exactly_one_node() {
    let (one, two) = (node(), node());
    for (nodes, want) in [
        (vec![], Registration::NotYet(NotRegistered::NodeNotFound)),
        (vec![&one, &two], Registration::NotYet(NotRegistered::MultipleNodes)),
    ] {
        assert_eq!(registration(&claim(), &nodes), want);
    }
    let unlaunched = ClaimView { provider_id: None, ..claim() };
    assert_eq!(registration(&unlaunched, &[&one]), Registration::NotYet(NotRegistered::NodeNotFound));
    for status in [Status::True, Status::False] {
        let decided = ClaimView { registered: condition(status), ..claim() };
        assert_eq!(registration(&decided, &[&one]), Registration::Done);
    }
}

/// LIF-22, LIF-23, LIF-25, API-139, API-140: claim wins, existing taints stay, the guard goes.
#[test]
fn a_registered_node_takes_over_the_claim() {
    let Registration::Register(registered) = registration(&claim(), &[&node()]) else { panic!("not registered") };
    assert_eq!(registered.labels["team"], "a");
    assert_eq!(registered.labels["os"], "linux");
    assert_eq!(registered.labels[labels::REGISTERED], "true");
    let taints: Vec<String> = registered.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["dedicated=kept:NoSchedule", "boot:NoExecute"]);
    assert!(!registered.guard_was_missing);

    let mut opted_out = node();
    opted_out.labels.insert(labels::DO_NOT_SYNC_TAINTS.into(), "true".into());
    opted_out.taints.clear();
    let Registration::Register(registered) = registration(&claim(), &[&opted_out]) else { panic!("not registered") };
    assert_eq!(registered.taints, []);
    assert!(registered.guard_was_missing, "API-147");
}

/// LIF-27, API-350: the checks in their order.
#[test]
fn initialization_names_the_first_obstacle() {
    let registered = ClaimView { registered: condition(Status::True), ..claim() };
    let ready = NodeView { ready: true, taints: vec![], ..node() };
    let blocked = |node: &NodeView, claim: &ClaimView| match initialization(claim, &[node]) {
        Initialization::NotYet(why) => format!("{}: {}", why.reason(), why.message()),
        other => format!("{other:?}"),
    };
    assert_eq!(initialization(&claim(), &[&ready]), Initialization::NotRegistered);
    assert_eq!(initialization(&registered, &[]), Initialization::NotYet(NotInitialized::NodeNotFound));
    assert_eq!(blocked(&node(), &registered), "NodeNotReady: Node status is NotReady");
    let starting = NodeView { taints: vec![Taint::new("boot", "v", Effect::NoExecute)], ..ready.clone() };
    assert_eq!(blocked(&starting, &registered), "StartupTaintsExist: StartupTaint \"boot=v:NoExecute\" still exists");
    let taint = Taint::new("node.kubernetes.io/not-ready", "", Effect::NoSchedule);
    let not_ready = NodeView { taints: vec![taint], ..ready.clone() };
    assert_eq!(
        blocked(&not_ready, &registered),
        "KnownEphemeralTaintsExist: KnownEphemeralTaint \"node.kubernetes.io/not-ready:NoSchedule\" still exists"
    );
    let asks = Resources::new().with("gpu", Quantity::units(1)).with("zero", Quantity::ZERO);
    let wants_gpu = ClaimView { requests: asks, ..registered.clone() };
    assert_eq!(blocked(&ready, &wants_gpu), "ResourceNotRegistered: Resource \"gpu\" was requested but not registered");
    assert_eq!(initialization(&registered, &[&ready]), Initialization::Initialize { node: "node-1".into() });
    let done = ClaimView { initialized: condition(Status::True), ..registered };
    assert_eq!(initialization(&done, &[&node()]), Initialization::Done, "LIF-30: a later NotReady does not revert it");
}

/// LIF-31, LIF-32, LIF-33: one verdict per look, also after a long outage.
#[test]
fn liveness_gives_up_once() {
    let unlaunched = ClaimView { launched: condition(Status::Unknown), ..claim() };
    for (name, claim, now, want) in [
        ("launching", &unlaunched, 299, Liveness::Waiting { until: time(300) }),
        ("launch timeout", &unlaunched, 300, Liveness::Expired(Timeout::Launch)),
        ("long outage", &unlaunched, 100_000, Liveness::Expired(Timeout::Launch)),
        ("registering", &claim(), 899, Liveness::Waiting { until: time(900) }),
        ("registration timeout", &claim(), 900, Liveness::Expired(Timeout::Registration)),
        ("clock went back", &claim(), -5, Liveness::Waiting { until: time(900) }),
        ("registered", &ClaimView { registered: condition(Status::True), ..claim() }, 1_000_000, Liveness::Alive),
    ] {
        assert_eq!(liveness(claim, time(now)), want, "{name}");
    }
}

/// LIF-38, LIF-40, LIF-41, LIF-42, LIF-43.
#[test]
fn finalization_goes_from_nodes_to_instance_to_finalizer() {
    let deleting = ClaimView { deleting_since: Some(time(5)), ..claim() };
    let registered = ClaimView { registered: condition(Status::True), ..deleting.clone() };
    let going = NodeView { deleting_since: Some(time(6)), ..node() };
    for (name, claim, nodes, want) in [
        ("not deleted", claim(), vec![], Finalization::NotOurs),
        ("no finalizer", ClaimView { has_finalizer: false, ..deleting.clone() }, vec![], Finalization::NotOurs),
        (
            "registered",
            registered.clone(),
            vec![node(), going.clone()],
            Finalization::DeleteNodes(vec!["node-1".into()]),
        ),
        ("draining", registered.clone(), vec![going], Finalization::WaitForNodes),
        ("nodes gone", registered, vec![], Finalization::TerminateInstance),
        ("never registered", deleting.clone(), vec![node()], Finalization::TerminateInstance),
        ("never launched", ClaimView { provider_id: None, ..deleting }, vec![], Finalization::RemoveFinalizer),
    ] {
        let nodes: Vec<&NodeView> = nodes.iter().collect();
        assert_eq!(finalization(&claim, &nodes), want, "{name}");
    }
}

/// LIF-45, LIF-46, LIF-49, LIF-50, LIF-52, LIF-68.
#[test]
fn termination_takes_one_step_at_a_time() {
    let now = time(100);
    let deleting_claim = ClaimView { deleting_since: Some(time(90)), ..claim() };
    let draining = |since, status| ClaimView {
        drained: Some(ConditionView { status, since: time(since) }),
        ..deleting_claim.clone()
    };
    let going = NodeView { deleting_since: Some(time(90)), has_finalizer: true, ..node() };
    let tainted = NodeView { taints: vec![Taint::disrupted()], ..going.clone() };
    let web = pod("web");
    for (name, node, claim, pods, want) in [
        ("alive", &node(), Some(claim()), vec![], Termination::NotOurs),
        ("claim first", &going, Some(claim()), vec![], Termination::DeleteClaim("pool-1".into())),
        ("untainted", &going, Some(deleting_claim.clone()), vec![], Termination::Taint),
        ("drain not begun", &tainted, Some(deleting_claim.clone()), vec![], Termination::BeginDrain),
        (
            "pods left",
            &tainted,
            Some(draining(90, Status::Unknown)),
            vec![&web],
            Termination::Drain(Drain::Evict { pods: vec![web.id.clone()], waiting: 1 }),
        ),
        (
            "too young",
            &tainted,
            Some(draining(96, Status::Unknown)),
            vec![],
            Termination::Drain(Drain::Wait { waiting: 0 }),
        ),
        ("empty", &tainted, Some(draining(95, Status::Unknown)), vec![], Termination::TerminateInstance),
        ("drained before", &tainted, Some(draining(90, Status::True)), vec![&web], Termination::TerminateInstance),
        ("no claim", &tainted, None, vec![], Termination::RemoveFinalizer),
    ] {
        assert_eq!(termination(node, claim.as_ref(), &pods, now), want, "{name}");
    }
}

/// LIF-53, LIF-54, LIF-55, LIF-56, API-149: four tiers, and pods that nobody waits for.
#[test]
fn drain_tiers() {
    let daemon = PodView { owner: PodOwner::DaemonSet, ..pod("daemon") };
    let critical = PodView { critical: true, ..pod("critical") };
    let critical_daemon = PodView { critical: true, owner: PodOwner::DaemonSet, ..pod("critical-daemon") };
    let leaving = PodView { deleting_since: Some(time(95)), ..pod("leaving") };
    let stuck = PodView { deleting_since: Some(time(30)), ..pod("stuck") };
    let mirror = PodView { owner: PodOwner::Node, ..pod("mirror") };
    let ended = PodView { phase: PodPhase::Succeeded, ..pod("ended") };
    let tolerates = Toleration {
        key: "karpenter.sh/disrupted".into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
    };
    let scheduling = PodScheduling { tolerations: vec![tolerates], ..PodScheduling::default() };
    let tolerant = PodView { scheduling, ..pod("tolerant") };
    let web = pod("web");
    let evict =
        |names: &[&str], waiting| Drain::Evict { pods: names.iter().map(|name| pod(name).id).collect(), waiting };
    let began = Some(time(0));
    for (pods, want) in [
        (vec![&critical_daemon, &critical, &daemon, &web], evict(&["web"], 4)),
        (vec![&critical_daemon, &critical, &daemon, &leaving], Drain::Wait { waiting: 4 }),
        (vec![&critical_daemon, &critical, &daemon], evict(&["daemon"], 3)),
        (vec![&critical_daemon, &critical], evict(&["critical"], 2)),
        (vec![&critical_daemon], evict(&["critical-daemon"], 1)),
        (vec![&stuck, &mirror, &ended, &tolerant], Drain::Done),
    ] {
        assert_eq!(drain(&pods, began, time(100)), want);
    }
    let young = Some(time(100).checked_sub(MINIMUM_DRAIN - SignedDuration::from_secs(1)).unwrap());
    assert_eq!(drain(&[], young, time(100)), Drain::Wait { waiting: 0 });
    assert_eq!(drain(&[], None, time(100)), Drain::Done, "without a claim nobody remembers when it began");
}
