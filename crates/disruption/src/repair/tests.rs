use std::time::Duration;

use karpenter_model::claim::RebootView;
use karpenter_model::duration::GoDuration;
use karpenter_model::example;

use super::*;
use crate::testing::time;

const MINUTE: i64 = 60;

/// A match of a condition that turned at minute 0.
fn matched(kind: &str, toleration: u64, action: RepairAction) -> RepairMatch {
    RepairMatch {
        condition_type: kind.to_owned(),
        status: Status::True,
        reason: "Why".to_owned(),
        since: Some(time(0)),
        expression: ".*".to_owned(),
        is_fallback: false,
        toleration: Duration::from_mins(toleration),
        termination_grace_period: None,
        priority: 0,
        rank: 0,
        action,
    }
}

fn at(matches: &[RepairMatch], minute: i64) -> Option<Diagnosis<'_>> {
    diagnosis(matches, &example::node("n"), &example::claim("c"), time(minute * MINUTE))
}

fn close(found: f64, want: f64) {
    assert!((found - want).abs() < 1e-9, "{found} instead of {want}");
}

use RepairAction::{RebootNode, ReplaceNode};

/// VC-9, V15-33: two specific policies of one condition come due one after the other; the harder action wins, the score is
/// that of whichever has waited longer.
#[test]
fn vc_9_policies_come_due() {
    let both = [matched("Gpu", 10, RebootNode), matched("Gpu", 30, ReplaceNode)];
    assert_eq!(at(&both, 5), None);
    for minute in [10, 15] {
        assert_eq!(at(&both, minute).unwrap().action, RebootNode, "{minute}");
    }
    let late = at(&both, 35).unwrap();
    assert_eq!((late.action, late.due_since), (ReplaceNode, time(30 * MINUTE)));
    close(late.score, 25.0 / 30.0);
}

/// VC-10: the earlier of two that ask for the same, in any order.
#[test]
fn vc_10_the_shorter_toleration_counts() {
    let (slow, fast) = (matched("Disk", 20, ReplaceNode), matched("Disk", 10, ReplaceNode));
    for matches in [[slow.clone(), fast.clone()], [fast.clone(), slow.clone()]] {
        assert_eq!(at(&matches, 25).unwrap().due_since, time(10 * MINUTE));
    }
}

/// VC-11, VC-45, V15-33: the shortest grace period bounds the drain, whoever sets it; the governing condition is another
/// matter.
#[test]
fn vc_11_vc_45_bounds() {
    let with = |kind: &str, action, priority, grace| RepairMatch {
        priority,
        rank: u32::from(priority > 10),
        termination_grace_period: Some(Duration::from_mins(grace)),
        ..matched(kind, 0, action)
    };
    let five = SignedDuration::from_mins(5);
    let apart = [with("A", RebootNode, 0, 15), with("B", ReplaceNode, 0, 5)];
    assert_eq!(at(&apart, 1).unwrap().bound.unwrap().0, five);
    for (low, high) in [(15, 5), (5, 15)] {
        let two = [with("Low", ReplaceNode, 10, low), with("High", ReplaceNode, 90, high)];
        let found = at(&two, 1).unwrap();
        assert_eq!(found.governing.condition_type, "High");
        assert_eq!(found.bound.unwrap().0, five);
        assert_eq!(termination_mode(drain_bound(&found, &example::claim("c"))), "eventual");
    }
}

/// VC-13, VC-14: the older condition governs, then the smaller name; one that says no time is as old as its node.
#[test]
fn vc_13_vc_14_ties_and_ages() {
    let old = matched("Z", 0, ReplaceNode);
    let young = RepairMatch { since: Some(time(60)), ..matched("A", 0, ReplaceNode) };
    assert_eq!(at(&[young, old.clone()], 5).unwrap().governing.condition_type, "Z");
    let twin = matched("B", 0, ReplaceNode);
    assert_eq!(at(&[old, twin], 5).unwrap().governing.condition_type, "B");
    let node = NodeView { created_at: time(600), ..example::node("n") };
    for since in [None, Some(time(0))] {
        let found = RepairMatch { since, ..matched("A", 10, ReplaceNode) };
        assert_eq!(due_at(&found, &node, &example::claim("c")), time(1200), "{since:?}");
    }
}

/// VC-17, VC-31, VC-32: one step of priority weighs as much as half an hour; what is not due weighs nothing.
#[test]
fn vc_17_vc_31_vc_32_scores() {
    let low = |since: i64| RepairMatch { since: Some(time(since * MINUTE)), ..matched("Low", 0, ReplaceNode) };
    let high = |since: i64| RepairMatch {
        rank: 1,
        priority: 90,
        since: Some(time(since * MINUTE)),
        ..matched("High", 0, ReplaceNode)
    };
    let score = |matches: &[RepairMatch]| at(matches, 150).unwrap().score;
    close(score(&[low(120)]), 1.0);
    close(score(&[high(150)]), 1.0);
    close(score(&[low(0), high(147)]), 5.0);
    close(score(&[high(60)]), 4.0);
    let waiting =
        RepairMatch { toleration: Duration::from_hours(9), termination_grace_period: Some(Duration::ZERO), ..high(0) };
    let matches = [low(120), waiting];
    let found = at(&matches, 150).unwrap();
    close(found.score, 1.0);
    assert_eq!((found.governing.condition_type.as_str(), found.bound), ("Low", None), "VC-32");
}

/// VC-20, VC-22, VC-49, V15-32: tolerations count from the last turn of the condition, not of its reason, and again from the
/// end of a reboot.
#[test]
fn vc_20_vc_22_vc_49_tolerations() {
    let thirty = [matched("Bad", 30, ReplaceNode)];
    assert_eq!(at(&thirty, 10), None, "VC-20");
    assert!(at(&thirty, 30).is_some());
    let reason_changed = [matched("Bad", 10, ReplaceNode)];
    assert!(at(&reason_changed, 60).is_some(), "VC-22: the age stays");
    let rebooted = |ended: i64, reason: &str| ClaimView {
        reboot: Some(RebootView {
            status: Status::False,
            reason: reason.to_owned(),
            message: String::new(),
            since: time(ended * MINUTE),
        }),
        ..example::claim("c")
    };
    let due = |claim: &ClaimView| diagnosis(&thirty, &example::node("n"), claim, time(69 * MINUTE)).is_some();
    assert!(!due(&rebooted(40, "RebootSucceeded")), "VC-49: 29 minutes");
    assert!(due(&rebooted(38, "RebootSucceeded")), "VC-49: 31 minutes");
    assert!(!due(&rebooted(40, "RebootFailed")), "an invalid request alike");
    let mut given_up = rebooted(40, "RebootFailed");
    given_up
        .annotations
        .insert(karpenter_model::annotations::REBOOT_HISTORY.to_owned(), format!("gave-up@{}", time(40 * MINUTE)));
    assert!(due(&given_up), "Z20: a reboot that failed proves that waiting does not help");
}

/// VC-33, VC-34, VC-35, VC-75, V15-45, V15-50, V15-112, LIF-71: deadlines are only ever tightened.
#[test]
fn vc_33_vc_34_vc_35_deadlines() {
    let mut policy = matched("Bad", 0, ReplaceNode);
    let bound = |policy: &RepairMatch, own: Option<i64>| {
        let claim = ClaimView {
            termination_grace_period: own.map(|own| GoDuration::from_secs(own * MINUTE)),
            ..example::claim("c")
        };
        let matches = [policy.clone()];
        drain_bound(&at(&matches, 1).unwrap(), &claim)
    };
    assert_eq!(bound(&policy, Some(5)), None, "nothing said: the claim's own holds by itself");
    policy.termination_grace_period = Some(Duration::from_mins(20));
    assert_eq!(bound(&policy, Some(5)), Some(SignedDuration::from_mins(5)), "VC-34");
    assert_eq!(bound(&policy, None), Some(SignedDuration::from_mins(20)));
    policy.termination_grace_period = Some(Duration::ZERO);
    assert_eq!(bound(&policy, None), Some(SignedDuration::ZERO), "VC-33");
    let five = SignedDuration::from_mins(5);
    let now = time(1000);
    assert_eq!(tightened(None, five, now), Some(time(1300)));
    assert_eq!(tightened(Some(&time(1200).to_string()), five, now), None, "VC-35");
    assert_eq!(tightened(Some(&time(1300).to_string()), five, now), None);
    assert_eq!(tightened(Some(&time(1400).to_string()), five, now), Some(time(1300)));
    assert_eq!(tightened(Some("soon"), five, now), Some(time(1300)));
    assert_eq!(tightened(None, SignedDuration::ZERO, now), Some(now), "VC-33");
}

/// V15-48, DIS-187.
#[test]
fn termination_modes() {
    for (grace, want) in [(None, "graceful"), (Some(0), "forceful"), (Some(-1), "forceful"), (Some(1), "eventual")] {
        assert_eq!(termination_mode(grace.map(SignedDuration::from_secs)), want, "{grace:?}");
    }
}
