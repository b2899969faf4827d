//! From launch to expiry.

use std::collections::BTreeSet;

use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::labels;
use karpenter_model::pod::PodOwner;

use super::*;
use crate::*;

/// LIF-11, LIF-14, LC-1, LC-7: the finalizer comes first, and a launch that has a verdict is not repeated.
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

/// LIF-19, V15-110, VC-131, LC-6: long texts are cut, but not within a character.
#[test]
fn error_texts_are_clipped() {
    assert_eq!(clipped("short"), "short");
    assert_eq!(clipped(&"x".repeat(1024)).len(), 1024);
    let long = clipped(&"x".repeat(2000));
    assert_eq!((long.len(), long.ends_with("x...")), (1024, true));
    let wide = clipped(&"ü".repeat(1000));
    assert_eq!((wide.len(), wide.ends_with("ü...")), (1023, true));
}

/// LIF-20, LIF-21, LC-15, Y7, LIF-3: exactly one node registers; too many of them may become one again.
#[test]
fn registration_waits_for_exactly_one_node() {
    let (one, two) = (node(), node());
    for (nodes, want) in [
        (vec![], Registration::NotYet(NotRegistered::NodeNotFound)),
        (vec![&one, &two], Registration::NotYet(NotRegistered::MultipleNodes)),
    ] {
        assert_eq!(registration(&claim(), &nodes, Hooks::Satisfied), want);
    }
    let unlaunched = ClaimView { provider_id: None, ..claim() };
    let not_found = Registration::NotYet(NotRegistered::NodeNotFound);
    assert_eq!(registration(&unlaunched, &[&one], Hooks::Satisfied), not_found);
    let registered = ClaimView { registered: condition(Status::True), ..claim() };
    assert_eq!(registration(&registered, &[&one], Hooks::Satisfied), Registration::Done, "LC-14, LIF-26");
    let duplicate = ClaimView { registered: condition(Status::False), ..claim() };
    assert!(matches!(registration(&duplicate, &[&one], Hooks::Satisfied), Registration::Write(_)), "Y7");
}

fn synced(claim: &ClaimView, node: &NodeView, hooks: Hooks) -> SyncedNode {
    let Registration::Write(synced) = registration(claim, &[node], hooks) else { panic!("nothing to write") };
    synced
}

fn texts(taints: &[Taint]) -> Vec<String> {
    taints.iter().map(ToString::to_string).collect()
}

/// LIF-22, LIF-23, LIF-25, API-139, API-140, LC-9, LC-11, LC-12: claim wins, existing taints stay, the guard goes.
#[test]
fn a_registered_node_takes_over_the_claim() {
    let registered = synced(&with_annotation(claim(), "note", "mine"), &node(), Hooks::Satisfied);
    assert_eq!((&*registered.labels["team"], &*registered.labels["os"]), ("a", "linux"));
    assert_eq!(registered.labels[labels::REGISTERED], "true");
    assert_eq!(registered.annotations["note"], "mine");
    assert_eq!(texts(&registered.taints), ["dedicated=kept:NoSchedule", "boot:NoExecute"]);
    assert!(!registered.guard_was_missing);

    let mut unguarded = node();
    unguarded.taints.clear();
    assert!(synced(&claim(), &unguarded, Hooks::Satisfied).guard_was_missing, "API-147");
    unguarded.labels.insert(labels::REGISTERED.into(), "true".into());
    assert!(!synced(&claim(), &unguarded, Hooks::Satisfied).guard_was_missing, "it was registered before");
}

/// LIF-23, LC-13: only the exact value `true` keeps the claim's taints off.
#[test]
fn taints_may_be_left_alone() {
    for (value, want) in
        [("true", vec!["dedicated=kept:NoSchedule"]), ("false", vec!["dedicated=kept:NoSchedule", "boot:NoExecute"])]
    {
        let mut node = node();
        node.labels.insert(labels::DO_NOT_SYNC_TAINTS.into(), value.into());
        assert_eq!(texts(&synced(&claim(), &node, Hooks::Satisfied).taints), want, "{value}");
    }
}

/// LIF-24, LC-16: while a hook waits, the node has everything but the permission.
#[test]
fn hooks_hold_the_permission_back() {
    let waiting = synced(&claim(), &node(), Hooks::Pending);
    assert_eq!(waiting.labels["team"], "a");
    assert!(!waiting.labels.contains_key(labels::REGISTERED));
    assert!(waiting.taints.contains(&Taint::unregistered()));
    assert!(waiting.taints.iter().any(|taint| taint.key == "boot"));
}

fn registered() -> ClaimView {
    ClaimView { registered: condition(Status::True), ..claim() }
}

fn ready() -> NodeView {
    NodeView { ready: true, taints: vec![], ..node() }
}

/// LIF-27, LIF-28, LIF-30, API-350, LC-21, LC-22, LC-23, LC-24, LC-25, LC-26, LC-27, LC-33, V15-67: the checks in
/// their order.
#[test]
fn initialization_names_the_first_obstacle() {
    let blocked = |node: &NodeView, claim: &ClaimView| match initialization(claim, &[node], None) {
        Initialization::NotYet(why) => format!("{}: {}", why.reason(), why.message()),
        other => format!("{other:?}"),
    };
    assert_eq!(initialization(&claim(), &[&ready()], None), Initialization::NotConcerned);
    let rebooting = ClaimView { rebooting: true, ..registered() };
    assert_eq!(initialization(&rebooting, &[&ready()], None), Initialization::NotConcerned);
    assert_eq!(initialization(&registered(), &[], None), Initialization::NotYet(NotInitialized::NodeNotFound));
    assert_eq!(blocked(&node(), &registered()), "NodeNotReady: Node status is NotReady");
    let tainted = |key: &str, effect| NodeView { taints: vec![Taint::new(key, "v", effect)], ..ready() };
    assert_eq!(
        blocked(&tainted("boot", Effect::NoExecute), &registered()),
        "StartupTaintsExist: StartupTaint \"boot=v:NoExecute\" still exists"
    );
    assert_eq!(
        blocked(&tainted("node.kubernetes.io/not-ready", Effect::NoSchedule), &registered()),
        "KnownEphemeralTaintsExist: KnownEphemeralTaint \"node.kubernetes.io/not-ready=v:NoSchedule\" still exists"
    );
    for key in ["node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized"] {
        assert!(blocked(&tainted(key, Effect::NoSchedule), &registered()).starts_with("KnownEphemeral"), "{key}");
    }
    let network = tainted("readiness.k8s.io/network", Effect::NoSchedule);
    assert!(blocked(&network, &registered()).starts_with("KnownEphemeral"));
    let asks = Resources::new().with("gpu", Quantity::units(1)).with("zero", Quantity::ZERO);
    let wants_gpu = ClaimView { requests: asks, ..registered() };
    assert_eq!(
        blocked(&ready(), &wants_gpu),
        "ResourceNotRegistered: Resource \"gpu\" was requested but not registered"
    );
    let has_gpu = NodeView { allocatable: Resources::new().with("gpu", Quantity::units(1)).into(), ..ready() };
    assert_eq!(initialization(&wants_gpu, &[&has_gpu], None), Initialization::Initialize { node: "node-1".into() });
    assert_eq!(initialization(&registered(), &[&ready()], None), Initialization::Initialize { node: "node-1".into() });
    let done = ClaimView { initialized: condition(Status::True), ..registered() };
    assert_eq!(initialization(&done, &[&node()], None), Initialization::Done, "a later NotReady does not revert it");
}

/// LIF-29, LC-28, LC-29, LC-30, LC-31, LC-32: every requested driver has a complete pool of slices.
#[test]
fn drivers_have_to_publish_their_devices() {
    let slice = |driver: &str, pool: &str, generation, slices_in_pool| SliceView {
        driver: driver.into(),
        pool: pool.into(),
        generation,
        slices_in_pool,
    };
    for (name, drivers, slices, missing) in [
        ("none published", "a", vec![], Some("a")),
        ("one of one", "a", vec![slice("a", "p", 1, 1)], None),
        ("one of two", "a", vec![slice("a", "p", 1, 2)], Some("a")),
        ("two of two", "a", vec![slice("a", "p", 1, 2), slice("a", "p", 1, 2)], None),
        ("newer one incomplete", "a", vec![slice("a", "p", 1, 1), slice("a", "p", 2, 2)], Some("a")),
        ("one complete pool suffices", "a", vec![slice("a", "p", 1, 2), slice("a", "q", 1, 1)], None),
        ("declares none", "a", vec![slice("a", "p", 1, 0)], Some("a")),
        ("second driver", "a, b,", vec![slice("a", "p", 1, 1)], Some("b")),
        ("blanks", " , ", vec![], None),
    ] {
        let claim = with_annotation(registered(), "karpenter.sh/requested-dra-drivers", drivers);
        let want = match missing {
            Some(driver) => Initialization::NotYet(NotInitialized::DriverNotPublished(driver.into())),
            None => Initialization::Initialize { node: "node-1".into() },
        };
        assert_eq!(initialization(&claim, &[&ready()], Some(&slices)), want, "{name}");
        let ignored = initialization(&claim, &[&ready()], None);
        assert_eq!(ignored, Initialization::Initialize { node: "node-1".into() }, "{name}: LC-32");
    }
    assert!(matches!(initialization(&registered(), &[&ready()], Some(&[])), Initialization::Initialize { .. }));
    let missing = NotInitialized::DriverNotPublished("a".into());
    assert_eq!(missing.message(), "DRA driver \"a\" has not published a complete resource pool");
}

/// LIF-31, LIF-32, LIF-33, LC-34, LC-35, LC-36, LC-37, LC-38, LC-139, Y6, Y7, Y23: one verdict per look, also after a
/// long outage.
#[test]
fn liveness_gives_up_once() {
    let unlaunched = ClaimView { launched: condition(Status::Unknown), ..claim() };
    let slow = ClaimView { launched: since(Status::True, 250), ..claim() };
    let moved = ClaimView { registered: since(Status::Unknown, 600), ..claim() };
    let registered = ClaimView { registered: since(Status::True, 100), ..claim() };
    let initialized = ClaimView { initialized: condition(Status::True), ..registered.clone() };
    let rebooting = ClaimView { rebooting: true, ..registered.clone() };
    for (name, claim, used, now, want) in [
        ("launching", &unlaunched, Use::Idle, 299, Liveness::Waiting { until: time(300) }),
        ("launch timeout", &unlaunched, Use::Idle, 300, Liveness::Expired(Timeout::Launch)),
        ("long outage", &unlaunched, Use::Idle, 100_000, Liveness::Expired(Timeout::Launch)),
        ("registering", &claim(), Use::Idle, 899, Liveness::Waiting { until: time(900) }),
        ("registration timeout", &claim(), Use::Idle, 900, Liveness::Expired(Timeout::Registration)),
        ("a slow launch does not count", &slow, Use::Idle, 1149, Liveness::Waiting { until: time(1150) }),
        ("transition moved ahead", &moved, Use::Idle, 960, Liveness::Waiting { until: time(1500) }),
        ("clock went back", &claim(), Use::Idle, -5, Liveness::Waiting { until: time(900) }),
        ("registered", &registered, Use::Idle, 1200, Liveness::Waiting { until: time(3700) }),
        ("never usable", &registered, Use::Idle, 3700, Liveness::Expired(Timeout::Initialization)),
        ("used all the same", &registered, Use::InUse, 3700, Liveness::Alive),
        ("rebooting", &rebooting, Use::Idle, 100_000, Liveness::Alive),
        ("initialized", &initialized, Use::Idle, 100_000, Liveness::Alive),
    ] {
        assert_eq!(liveness(claim, used, &Timeouts::default(), time(now)), want, "{name}");
    }
    let short = Timeouts { launch: jiff::SignedDuration::from_secs(45), ..Timeouts::default() };
    let at = |second| liveness(&unlaunched, Use::Idle, &short, time(second));
    assert_eq!((at(30), at(60)), (Liveness::Waiting { until: time(45) }, Liveness::Expired(Timeout::Launch)), "LC-37");
    assert_eq!(Timeout::Registration.as_str(), "registration_timeout");
}

/// LIF-73, LIF-74, LC-78, LC-80, Y18: by the claim's age, once; a long life's end is prepared for.
#[test]
fn expiring() {
    let lives =
        |seconds| ClaimView { expire_after: NillableDuration::After(GoDuration::from_secs(seconds)), ..claim() };
    assert_eq!(expiration(&lives(30), time(60)), Expiration::Due);
    assert_eq!(expiration(&lives(60), time(60)), Expiration::Due);
    assert_eq!(expiration(&lives(200), time(100)), Expiration::NotBefore(time(200)));
    let day = 24 * 3600;
    for (second, want) in [
        (day - 121, Expiration::NotBefore(time(day - 120))),
        (day - 120, Expiration::Soon(time(day))),
        (day - 1, Expiration::Soon(time(day))),
        (day, Expiration::Due),
    ] {
        assert_eq!(expiration(&lives(day), time(second)), want, "{second}");
    }
    assert_eq!(expiration(&claim(), time(1_000_000_000)), Expiration::Never);
    let going = ClaimView { deleting_since: Some(time(50)), ..lives(30) };
    assert_eq!(expiration(&going, time(60)), Expiration::Never, "it is going already");
}

/// LIF-76, LIF-77, LC-81, Y3, Y4: an instance has to be missing twice, and a ready node proves it.
#[test]
fn claims_that_lost_their_instance() {
    let lost = registered();
    let unregistered = ClaimView { uid: "u2".into(), name: "unregistered".into(), ..claim() };
    let deleting =
        ClaimView { uid: "u3".into(), name: "deleting".into(), deleting_since: Some(time(1)), ..registered() };
    let (dead, alive) = (node(), ready());
    let none = BTreeSet::new();
    let all = BTreeSet::from(["cloud://1".to_owned()]);
    let mut collector = Collector::default();
    let mut round = |nodes: &[&NodeView], listed: &BTreeSet<String>| {
        let claims = [&lost, &unregistered, &deleting].map(|claim| ClaimAndNodes { claim, nodes });
        collector.lost_claims(&claims, listed)
    };
    assert_eq!(round(&[&dead], &none), Vec::<String>::new(), "once is not enough");
    assert_eq!(round(&[&dead], &none), ["pool-1"]);
    assert_eq!(round(&[&dead], &none), ["pool-1"], "until somebody acts on it");
    assert_eq!(round(&[&dead], &all), Vec::<String>::new(), "it was there all along");
    assert_eq!(round(&[], &none), Vec::<String>::new(), "counting begins anew");
    assert_eq!(round(&[], &none), ["pool-1"], "no node at all");
    assert_eq!(round(&[&alive], &none), Vec::<String>::new(), "it answers");
    assert_eq!(round(&[&alive, &dead], &none), Vec::<String>::new());
    assert_eq!(round(&[&alive, &dead], &none), ["pool-1"], "two nodes prove nothing");
}

/// LIF-79, LC-132: an instance that no claim knows goes after a while.
#[test]
fn instances_without_a_claim() {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    let mut collector = Collector::default();
    let mut round = |listed: &[&str], claimed: &[&str], now| collector.orphans(&ids(listed), &ids(claimed), time(now));
    assert_eq!(round(&["a", "b"], &["b"], 0), Vec::<String>::new());
    assert_eq!(round(&["a", "b"], &["b"], 29), Vec::<String>::new());
    assert_eq!(round(&["a", "b"], &["b"], 30), ["a"]);
    assert_eq!(round(&["b"], &["b"], 40), Vec::<String>::new());
    assert_eq!(round(&["a", "b"], &["b"], 50), Vec::<String>::new(), "counting begins anew");
    assert_eq!(round(&["a", "b"], &["a", "b"], 90), Vec::<String>::new());
}

/// LIF-82, LIF-83, API-349, LC-83, LC-142, Y24.
#[test]
fn nodes_smaller_than_promised() {
    let gib = |number: i64| Quantity::bytes(number * (1 << 30));
    let memory = |number| Resources::new().with("memory", gib(number)).with("cpu", Quantity::units(4));
    let asks = Resources::new().with("memory", gib(64));
    let claim = ClaimView {
        initialized: condition(Status::True),
        capacity: memory(128).into(),
        requests: asks,
        ..registered()
    };
    let with = |amounts: Resources| NodeView { capacity: amounts.into(), ..ready() };
    let Consistency::Checked(issues) = consistency(&claim, &[&with(memory(64))]) else { panic!("not checked") };
    let messages: Vec<String> = issues.iter().map(ShapeIssue::message).collect();
    assert_eq!(messages, ["expected 128Gi of resource memory, but found 64Gi (50.0% of expected)"]);
    for (name, amounts) in [
        ("equal", memory(128)),
        ("90.6 %", memory(116)),
        ("cpu was not asked for", Resources::new().with("memory", gib(128))),
    ] {
        assert_eq!(consistency(&claim, &[&with(amounts)]), Consistency::Checked(vec![]), "{name}");
    }
    let small = with(memory(64));
    assert_eq!(consistency(&claim, &[]), Consistency::NotYet);
    assert_eq!(consistency(&claim, &[&small, &small]), Consistency::NotYet);
    assert_eq!(consistency(&registered(), &[&small]), Consistency::NotYet, "not initialized: nothing was checked");
    let going = ClaimView { deleting_since: Some(time(1)), ..claim };
    assert_eq!(consistency(&going, &[&small]), Consistency::NotYet);
}

/// LIF-35, LIF-36, LC-91, Y5, API-77: what happens to pods is stamped; a list of old pods is not news.
#[test]
fn pod_events() {
    let now = time(1000);
    let bound = PodView { started_at: Some(time(400).into()), ..pod("a") };
    let pending = PodView { node_name: None, ..bound.clone() };
    let ended = PodView { phase: PodPhase::Failed, ..bound.clone() };
    let leaving = PodView { deleting_since: Some(time(1030).into()), ..bound.clone() };
    let daemon = PodView { owner: PodOwner::DaemonSet, ..bound.clone() };
    for (name, pod, seen, want) in [
        ("unbound", &pending, Seen::New, None),
        ("new", &bound, Seen::New, Some(1000)),
        ("listed", &bound, Seen::Listed, Some(400)),
        ("listed, leaving", &leaving, Seen::Listed, Some(400)),
        ("bound", &bound, Seen::Changed(&pending), Some(1000)),
        ("ended", &ended, Seen::Changed(&bound), Some(1000)),
        ("leaves", &leaving, Seen::Changed(&bound), Some(1000)),
        ("nothing new", &bound, Seen::Changed(&bound), None),
        ("still leaving", &leaving, Seen::Changed(&leaving), None),
        ("daemon", &daemon, Seen::New, None),
    ] {
        assert_eq!(pod_event(pod, seen, now), want.map(time), "{name}");
    }
    for (event, last, want) in
        [(1000, None, Some(1000)), (1000, Some(995), None), (1000, Some(990), Some(1000)), (400, Some(990), None)]
    {
        assert_eq!(pod_event_stamp(time(event), last.map(time)), want.map(time), "{event} after {last:?}");
    }
}
