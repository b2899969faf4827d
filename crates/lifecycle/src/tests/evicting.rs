//! Drains and evictions.

use jiff::SignedDuration;
use karpenter_model::pod::PodOwner;
use karpenter_model::protection::Protection;
use karpenter_model::taints::{Toleration, TolerationOperator};

use super::*;
use crate::*;

fn tolerating(key: &str, operator: TolerationOperator) -> PodView {
    let toleration = Toleration { key: key.into(), operator, value: String::new(), effect: None };
    pod("tolerant").but(|pod| pod.scheduling.tolerations = vec![toleration])
}

fn graceful(name: &str, seconds: i64) -> PodView {
    pod(name).but(|pod| pod.termination_grace_seconds = Some(seconds))
}

fn names(drain: &Drain) -> Vec<&str> {
    drain.evict.iter().map(|key| key.id.name.as_str()).collect()
}

/// LIF-53, LIF-54, LIF-55, LIF-56, API-149, LC-54, LC-55, LC-56, LC-58, LC-60, DIS-33: four tiers, and pods that
/// nobody waits for.
#[test]
fn drain_tiers() {
    let daemon = PodView { owner: PodOwner::DaemonSet, ..pod("daemon") };
    let critical = PodView { critical: true, ..pod("critical") };
    let critical_daemon = PodView { critical: true, owner: PodOwner::DaemonSet, ..pod("critical-daemon") };
    let leaving = PodView { deleting_since: Some(time(70).into()), ..pod("leaving") };
    let stuck = PodView { deleting_since: Some(time(10).into()), ..pod("stuck") };
    let mirror = PodView { owner: PodOwner::Node, ..pod("mirror") };
    let ended = PodView { phase: PodPhase::Succeeded, ..pod("ended") };
    let equal = tolerating("karpenter.sh/disrupted", TolerationOperator::Equal);
    let exists = tolerating("karpenter.sh/disrupted", TolerationOperator::Exists);
    let other = tolerating("node.kubernetes.io/unschedulable", TolerationOperator::Exists);
    let web = pod("web");
    for (pods, want, waiting) in [
        (vec![&critical_daemon, &critical, &daemon, &web], vec!["web"], 4),
        (vec![&critical_daemon, &critical, &daemon, &leaving], vec![], 4),
        (vec![&critical_daemon, &critical, &daemon], vec!["daemon"], 3),
        (vec![&critical_daemon, &critical], vec!["critical"], 2),
        (vec![&critical_daemon], vec!["critical-daemon"], 1),
        (vec![&other], vec!["tolerant"], 1),
    ] {
        let drain = drain(&pods, None, Some(time(0)), time(100)).unwrap();
        assert_eq!((names(&drain), drain.waiting), (want, waiting));
    }
    assert_eq!(drain(&[&stuck, &mirror, &ended, &equal, &exists], None, Some(time(0)), time(100)), None);
    assert_eq!(drain(&[], None, None, time(100)), None, "without a claim nobody remembers when it began");
    let young = drain(&[], None, Some(time(96)), time(100)).unwrap();
    assert_eq!((young.waiting, young.again_at), (0, Some(time(101))), "LC-62");
}

/// LIF-57, LC-64, LC-65: protected pods hold a drain until they are out of time.
#[test]
fn protected_pods_hold_a_drain() {
    let guarded = |grace| graceful("guarded", grace).but(|pod| pod.protection = Protection::Always);
    let deadline = Some(time(300));
    for (grace, now, evicted) in [(300, 1, true), (60, 90, false), (60, 240, false), (60, 265, true)] {
        let pod = guarded(grace);
        let drain = drain(&[&pod], deadline, Some(time(0)), time(now)).unwrap();
        assert_eq!((!drain.evict.is_empty(), drain.waiting), (evicted, 1), "{grace} s of grace at {now} s");
    }
    let pod = guarded(60);
    let again = drain(&[&pod], deadline, Some(time(0)), time(90)).unwrap().again_at.unwrap();
    assert!(again > time(240) && again < time(241), "just after it is out of time");
    assert_eq!(drain(&[&pod], None, Some(time(0)), time(1_000_000)).unwrap().again_at, None, "for ever");
    let mut until = PodView { started_at: Some(time(0).into()), ..pod };
    until.protection = Protection::For(SignedDuration::from_secs(120));
    let again = drain(&[&until], None, Some(time(0)), time(90)).unwrap().again_at.unwrap();
    assert!(again > time(120) && again < time(121));
    assert_eq!(names(&drain(&[&until], None, Some(time(0)), again).unwrap()), ["guarded"]);
}

/// Y12, LIF-57: who holds a node for long without an end is named, unless a deadline or its own protection ends it.
#[test]
fn long_drains_name_who_holds_them() {
    let protected = pod("kept").but(|pod| pod.protection = Protection::Always);
    let for_a_while = PodView { started_at: Some(time(0).into()), ..pod("kept-for-a-while") };
    let for_a_while = for_a_while.but(|pod| pod.protection = Protection::For(SignedDuration::from_hours(5)));
    let held = |pods: &[&PodView], deadline: Option<i64>, second: i64| {
        drain(pods, deadline.map(time), Some(time(0)), time(second))
            .unwrap()
            .held_by
            .map(|(id, since)| (id.name, since))
    };
    assert_eq!(held(&[&pod("web"), &protected], None, 599), None, "not long yet");
    assert_eq!(held(&[&pod("web"), &protected], None, 600), Some(("kept".into(), time(0))));
    assert_eq!(held(&[&protected], Some(100_000), 600), None, "a deadline will end it");
    assert_eq!(held(&[&for_a_while], None, 600), None, "it ends by itself");
    assert_eq!(held(&[&pod("web")], None, 600), None, "nobody is in the way");
}

/// LIF-54, LIF-61, LC-66, VC-133: who is out of time does not wait for its tier.
#[test]
fn pods_out_of_time_skip_their_tier() {
    let web = graceful("web", 30).but(|pod| pod.protection = Protection::Always);
    let critical = PodView { critical: true, ..graceful("critical", 600) };
    let drain = drain(&[&web, &critical], Some(time(300)), Some(time(0)), time(10)).unwrap();
    assert_eq!((names(&drain), drain.waiting), (vec!["critical"], 2));
}

/// LIF-58, LIF-59, LIF-61, LIF-62, LIF-70, LC-61, LC-67, LC-68, LC-69, LC-73, VC-132, Y31.
#[test]
fn attempts() {
    let plain = graceful("a", 120);
    let key = EvictionKey::of(&plain);
    let leaving = |second| PodView { deleting_since: Some(time(second).into()), ..plain.clone() };
    let guarded = plain.clone().but(|pod| pod.protection = Protection::Always);
    let endless = plain.clone().but(|pod| pod.termination_grace_seconds = None);
    let replaced = PodView { uid: "another".into(), ..plain.clone() };
    let ended = PodView { phase: PodPhase::Succeeded, ..plain.clone() };
    let delete = |second: Option<i64>| Insistence::Delete { deadline: second.map(time) };
    let give_up = |second| Insistence::GiveUp { deadline: time(second) };
    let force = |grace_seconds, second| Attempt::ForceDelete { grace_seconds, deadline: time(second) };
    for (name, pod, insistence, want) in [
        ("no deadline", Some(&plain), delete(None), Attempt::Evict),
        ("far deadline", Some(&plain), delete(Some(1120)), Attempt::Evict),
        ("near deadline", Some(&plain), delete(Some(1060)), force(60, 1060)),
        ("past deadline", Some(&plain), delete(Some(-2600)), force(1, -2600)),
        ("protected", Some(&guarded), delete(None), Attempt::Wait),
        ("protected, near deadline", Some(&guarded), delete(Some(1060)), force(60, 1060)),
        ("no grace period", Some(&endless), delete(Some(1001)), Attempt::Evict),
        ("leaves in time", Some(&leaving(1030)), delete(Some(1210)), Attempt::Drop),
        ("leaves too late", Some(&leaving(7000)), delete(Some(1210)), force(210, 1210)),
        ("ended", Some(&ended), delete(None), Attempt::Drop),
        ("another pod", Some(&replaced), delete(Some(0)), Attempt::Drop),
        ("gone", None, delete(Some(0)), Attempt::Drop),
        ("only asks, in time", Some(&plain), give_up(1001), Attempt::Evict),
        ("only asks, too late", Some(&plain), give_up(1000), Attempt::Drop),
        ("only asks, protected", Some(&guarded), give_up(1001), Attempt::Wait),
    ] {
        assert_eq!(attempt(pod, &key, insistence, time(1000)), want, "{name}");
    }
}

/// LIF-58, V15-113, LC-69, VC-132.
#[test]
fn asking_twice() {
    let delete = |second: Option<i64>| Insistence::Delete { deadline: second.map(time) };
    let give_up = |second| Insistence::GiveUp { deadline: time(second) };
    for (first, second, want) in [
        (delete(None), delete(Some(60)), delete(Some(60))),
        (delete(Some(60)), delete(None), delete(Some(60))),
        (delete(Some(60)), delete(Some(600)), delete(Some(60))),
        (give_up(60), give_up(30), give_up(30)),
        (give_up(60), delete(Some(600)), delete(Some(600))),
        (delete(None), give_up(60), delete(None)),
    ] {
        assert_eq!(first.merged(second), want);
    }
}

/// LIF-60, LC-70, LC-145.
#[test]
fn answers_to_evictions() {
    let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    for (code, message, want) in [
        (404, "", EvictionAnswer::Gone),
        (409, "the UID in the precondition differs", EvictionAnswer::Gone),
        (
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            EvictionAnswer::Blocked(Blocked::Budget),
        ),
        (500, several, EvictionAnswer::Blocked(Blocked::SeveralBudgets)),
        (500, "etcdserver: request timed out", EvictionAnswer::Failed),
        (403, "forbidden", EvictionAnswer::Failed),
    ] {
        assert_eq!(eviction_answer(code, message), want, "{code} {message}");
    }
}
