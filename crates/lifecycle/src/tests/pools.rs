//! What concerns pools as a whole.

use std::sync::Arc;

use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::pod::PodOwner;
use karpenter_model::pool::{ClaimCounts, PoolView, TemplateHash};
use karpenter_model::protection::Protection;

use super::*;
use crate::*;

/// LIF-94, LIF-95, API-227, API-228, LC-96: old claims get the version, undrifted ones the hash too.
#[test]
fn migrating_hashes() {
    let current = TemplateHash { value: 7, version: "v3".into() };
    let at = |name: &str, version: &str| {
        let claim = ClaimView { name: name.into(), ..claim() };
        with_annotation(claim, "karpenter.sh/nodepool-hash-version", version)
    };
    let drift = ConditionView { status: Status::True, since: Timestamp::UNIX_EPOCH };
    let drifted = ClaimView { drifted: Some(drift), ..at("drifted", "test") };
    let claims = [at("old", "test"), drifted, at("current", "v3"), ClaimView { name: "none".into(), ..claim() }];
    let want = [("old", Some(7)), ("drifted", None), ("none", Some(7))];
    let want = want.map(|(claim, hash)| Rehash { claim: claim.into(), hash });
    assert_eq!(rehashes(&current, &claims), want);

    for (hash, version, stamped, known) in
        [("7", "v3", true, true), ("8", "v3", false, true), ("7", "v2", false, false), ("", "", false, false)]
    {
        let annotation = |key: &str| Some(if key.ends_with("version") { version } else { hash }.to_owned());
        assert_eq!((is_stamped(&current, annotation), is_current(&current, annotation)), (stamped, known));
    }
}

fn ring(outcomes: &[bool]) -> Ring {
    let mut ring = Ring::default();
    for outcome in outcomes {
        ring.record(*outcome);
    }
    ring
}

/// LIF-98, LIF-99, LIF-102, LC-99, LC-101.
#[test]
fn registration_health() {
    for (outcomes, want) in [
        (&[][..], Status::Unknown),
        (&[true], Status::True),
        (&[false], Status::True),
        (&[false, false], Status::False),
        (&[false, false, true], Status::False),
        (&[false, false, true, true, true], Status::True),
        (&[true, false], Status::True),
    ] {
        assert_eq!(ring(outcomes).health(), want, "{outcomes:?}");
    }
    let before = ring(&[true, false]);
    assert_eq!(before.with(false).health(), Status::False);
    assert_eq!(before, ring(&[true, false]), "asking changes nothing");
    assert!(Ring::from_condition(None).is_empty());
    assert_eq!(Ring::from_condition(Some(Status::True)).health(), Status::True);
    assert_eq!(Ring::from_condition(Some(Status::False)).health(), Status::False);
}

/// LIF-100, LC-34, LC-39, LC-100.
#[test]
fn outcomes_change_the_condition_when_they_decide() {
    let (yes, no, unknown) = (Some(Status::True), Some(Status::False), Some(Status::Unknown));
    for (name, before, outcome, condition, want) in [
        ("first success", &[][..], true, unknown, yes),
        ("success again", &[true], true, yes, None),
        ("first failure", &[], false, unknown, None),
        ("second failure", &[false], false, unknown, no),
        ("second failure of a healthy pool", &[false], false, yes, no),
        ("third failure", &[false, false], false, no, None),
        ("success of an unhealthy pool, fresh ring", &[], true, no, yes),
        ("success after two failures", &[false, false], true, no, None),
    ] {
        assert_eq!(health_after(&ring(before), outcome, condition), want, "{name}");
    }
}

/// LIF-101, LC-101.
#[test]
fn changes_make_old_outcomes_worthless() {
    let at = |pool, class| Generations { pool, class };
    assert!(is_outdated(None, at(1, Some(1))));
    assert!(is_outdated(Some(at(1, Some(1))), at(1, Some(2))));
    assert!(is_outdated(Some(at(1, Some(1))), at(2, Some(1))));
    assert!(!is_outdated(Some(at(2, Some(1))), at(2, Some(1))));
}

fn static_pool(replicas: u64) -> PoolView {
    PoolView { replicas: Some(replicas), ..example::pool("static") }
}

/// LIF-105, LIF-106, LIF-109, LC-102, LC-103, LC-104, LC-111, LC-112, Y15, Y28, Y34.
#[test]
fn how_many_nodes_a_static_pool_lacks() {
    let counts = |active, deleting, pending, reserved| ClaimCounts { active, deleting, pending, reserved };
    for (name, replicas, counts, want) in [
        ("none yet", 2, counts(0, 0, 0, 0), (2, 0)),
        ("some", 3, counts(1, 0, 0, 0), (2, 0)),
        ("enough", 1, counts(1, 0, 0, 0), (0, 0)),
        ("too many", 1, counts(2, 0, 0, 0), (0, 1)),
        ("going ones are replaced", 2, counts(1, 1, 0, 0), (1, 0)),
        ("going ones are not in excess", 2, counts(2, 2, 0, 0), (0, 0)),
        ("about to be replaced", 2, counts(1, 0, 1, 0), (0, 0)),
        ("on their way", 5, counts(0, 0, 0, 5), (0, 0)),
    ] {
        assert_eq!((lacking(&static_pool(replicas), counts), excess(&static_pool(replicas), counts)), want, "{name}");
    }
    for pool in [
        PoolView { ready: false, ..static_pool(3) },
        PoolView { deleting: true, ..static_pool(3) },
        example::pool("dynamic"),
    ] {
        assert_eq!(lacking(&pool, ClaimCounts::default()), 0);
    }
    for (name, counts, wanted, limit, want) in [
        ("no limit", counts(1, 0, 0, 0), 9, None, 9),
        ("at the limit", counts(1, 0, 0, 0), 2, Some(1), 0),
        ("up to the limit", counts(3, 0, 0, 0), 12, Some(10), 7),
        ("everything counts", counts(1, 1, 1, 1), 9, Some(5), 1),
        ("above the limit", counts(9, 0, 0, 0), 1, Some(5), 0),
    ] {
        assert_eq!(counts.grant(wanted, limit), want, "{name}");
    }
}

fn member(name: &str, pods: Vec<PodView>) -> Member {
    let claim = ClaimView { name: name.into(), ..claim() };
    Member { claim: Arc::new(claim), pods: pods.into_iter().map(Arc::new).collect() }
}

fn chosen(members: &[Member], count: u64) -> Vec<String> {
    victims(members, count, time(100)).iter().map(|claim| claim.name.clone()).collect()
}

/// LIF-107, LC-109, LC-110, LC-144.
#[test]
fn whom_a_static_pool_gives_up_first() {
    let daemon = || PodView { owner: PodOwner::DaemonSet, ..pod("daemon") };
    let guarded = || pod("guarded").but(|pod| pod.protection = Protection::Always);
    let mut members = vec![
        member("guarded-a", vec![guarded()]),
        member("guarded-b", vec![guarded()]),
        member("two-a", vec![pod("1"), pod("2")]),
        member("two-b", vec![pod("1"), pod("2")]),
        member("one-a", vec![pod("1")]),
        member("one-b", vec![pod("1"), daemon()]),
        member("empty-a", vec![daemon()]),
        member("empty-b", vec![]),
    ];
    assert_eq!(chosen(&members, 2), ["empty-a", "empty-b"]);
    assert_eq!(chosen(&members, 3)[2], "one-a");
    assert_eq!(chosen(&members, 6)[4..], ["two-a", "two-b"]);
    assert_eq!(chosen(&members, 9).len(), 8);
    assert_eq!(chosen(&members, 8)[6..], ["guarded-a", "guarded-b"]);

    let unlaunched = ClaimView { provider_id: None, name: "z-unlaunched".into(), ..claim() };
    members.push(Member { claim: Arc::new(unlaunched.clone()), pods: vec![] });
    assert_eq!(chosen(&members, 1), ["z-unlaunched"]);
    let going = ClaimView { deleting_since: Some(time(1)), ..unlaunched };
    members.pop();
    members.push(Member { claim: Arc::new(going), pods: vec![] });
    assert_eq!(chosen(&members, 1), ["empty-a"], "who goes already is nobody's victim");
    let guarded_daemon = daemon().but(|pod| pod.protection = Protection::Always);
    assert_eq!(chosen(&[member("a", vec![guarded_daemon]), member("b", vec![pod("1")])], 1), ["b"]);
}

/// DIS-77, LIF-107: of equal nodes the one that expires soonest.
#[test]
fn little_life_left_is_cheap() {
    let lives =
        |seconds| ClaimView { expire_after: NillableDuration::After(GoDuration::from_secs(seconds)), ..claim() };
    for (claim, want) in [(lives(200), 0.5), (lives(50), 0.0), (lives(0), 0.0), (claim(), 1.0)] {
        assert!((lifetime_remaining(&claim, time(100)) - want).abs() < 1e-9);
    }
    let mut old = member("z-old", vec![pod("1")]);
    old.claim = Arc::new(ClaimView { name: "z-old".into(), ..lives(120) });
    assert_eq!(chosen(&[member("a", vec![pod("1")]), old], 1), ["z-old"]);
}
