use karpenter_model::claim::ConditionView;
use karpenter_model::example;
use karpenter_model::labels;

use super::*;
use crate::testing::time;

/// Asked for at second 1000.
struct World {
    claim: ClaimView,
    node: Option<NodeView>,
    pods: usize,
}

fn requested() -> World {
    let reboot = RebootView {
        status: Status::True,
        reason: "RebootRequested".to_owned(),
        message: "rebooting for Bad/Why".to_owned(),
        since: time(1000),
    };
    let claim = ClaimView { rebooting: true, reboot: Some(reboot), ..example::claim("c") };
    let node = NodeView { boot_id: "one".to_owned(), ..example::node("n") };
    World { claim, node: Some(node), pods: 0 }
}

impl World {
    fn noted(mut self, key: &str, value: &str) -> Self {
        self.claim.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn grace(self, text: &str) -> Self {
        self.noted(REBOOT_TERMINATION_GRACE_PERIOD, text)
    }

    fn fenced(mut self) -> Self {
        self.node.as_mut().unwrap().taints.push(Taint::rebooting());
        self
    }

    fn pods(mut self, pods: usize) -> Self {
        self.pods = pods;
        self
    }

    fn node(mut self, change: impl FnOnce(&mut NodeView)) -> Self {
        change(self.node.as_mut().unwrap());
        self
    }

    fn without_node(mut self) -> Self {
        self.node = None;
        self
    }

    /// Accepted at second 1100.
    fn issued(mut self) -> Self {
        self.claim.reboot.as_mut().unwrap().reason = ISSUED.to_owned();
        self.claim.initialized = ConditionView { status: Status::Unknown, since: time(1100) };
        self.noted(REBOOT_PRE_BOOT_ID, "one").noted(REBOOT_ISSUED_AT, &time(1100).to_string())
    }

    fn asks(&self, second: i64, options: RebootOptions) -> Step {
        let facts = Facts { claim: &self.claim, node: self.node.as_ref(), waiting_pods: self.pods, now: time(second) };
        next(&facts, &options)
    }

    /// As specified.
    fn at(&self, second: i64) -> Step {
        self.asks(second, RebootOptions::SPECIFIED)
    }
}

fn drains(step: &Step) -> bool {
    matches!(step, Step::Drain { again, .. } if *again <= POLL)
}

fn calls(step: &Step) -> bool {
    matches!(step, Step::Ask { .. })
}

fn fails(step: &Step) -> Option<Outcome> {
    if let Step::Fail { outcome, .. } = step { Some(*outcome) } else { None }
}

/// V15-56: only while it is asked for and the claim stays.
#[test]
fn nothing_to_do() {
    let mut world = requested();
    world.claim.deleting_since = Some(time(1));
    assert_eq!(world.at(1000), Step::Nothing);
    let mut ended = requested();
    ended.claim.reboot.as_mut().unwrap().status = Status::False;
    assert_eq!(ended.at(1000), Step::Nothing);
    ended.claim.reboot = None;
    assert_eq!(ended.at(1000), Step::Nothing);
}

/// VC-59, VC-65, VC-66, VC-67, VC-68, V15-60, V15-61: the fence at once, the call when pods have left or their time is up.
#[test]
fn vc_59_vc_65_to_vc_68_drains() {
    assert_eq!(requested().at(1000), Step::Fence, "VC-59");
    let empty = requested().grace("1m").fenced();
    let left = SignedDuration::from_secs(2);
    assert_eq!(empty.at(1003), Step::Drain { until: Some(time(1060)), again: left }, "VC-59: not before five seconds");
    assert!(calls(&empty.at(1005)), "VC-59");
    let busy = requested().grace("1m").fenced().pods(2);
    assert!(drains(&busy.at(1045)), "VC-65, VC-66");
    assert!(calls(&busy.at(1075)), "VC-66: both ride along");
    assert!(calls(&requested().grace("0s").fenced().pods(2).at(1000)), "VC-67");
    let short = requested().grace("1s").fenced().pods(1);
    assert!(drains(&short.at(1004)) && calls(&short.at(1005)), "five seconds at least");
    let unbounded = requested().fenced().pods(1);
    assert!(drains(&unbounded.at(1000 + 24 * 3600)), "VC-68");
    assert!(calls(&unbounded.pods(0).at(1001 + 24 * 3600)), "VC-68");
}

/// Z36: a drain without end is given up after a while, and repair replaces the node.
#[test]
fn z36_drains_end() {
    let unbounded = requested().fenced().pods(1);
    let options = RebootOptions { longest_drain: Some(SignedDuration::from_mins(30)), ..RebootOptions::default() };
    assert!(drains(&unbounded.asks(1000 + 1800, options)));
    let given_up = unbounded.asks(1001 + 1800, options);
    assert!(matches!(given_up, Step::Fail { then: Aftermath::HandBack { .. }, .. }), "{given_up:?}");
}

/// VC-60, VC-61, VC-62, VC-64, V15-62, V15-64: what the provider is asked, under which name, and when it need not be.
#[test]
fn vc_61_vc_64_calls() {
    let world = requested().grace("0s").fenced();
    let Step::Ask { operation_id, pre_boot_id, asked_at } = world.at(1010) else { panic!("no call") };
    assert_eq!(operation_id, "uid-of-c-1000000000000-one");
    assert_eq!((pre_boot_id.as_str(), asked_at), ("one", time(1010)));
    let retried = world.noted(REBOOT_PRE_BOOT_ID, "one").noted(REBOOT_ASKED_AT, &time(1010).to_string());
    let again = retried.at(1100);
    assert_eq!(again, Step::Ask { operation_id, pre_boot_id, asked_at: time(1010) }, "the same after a restart");
    let already = retried.node(|node| node.boot_id = "two".to_owned());
    assert_eq!(already.at(1100), Step::Issue { issued_at: time(1100) }, "VC-64");
    let mut second = requested().grace("0s").fenced();
    second.claim.reboot.as_mut().unwrap().since = time(5000);
    second.node.as_mut().unwrap().boot_id = "two".to_owned();
    let Step::Ask { operation_id, .. } = second.at(5000) else { panic!("no call") };
    assert_eq!(operation_id, "uid-of-c-5000000000000-two", "VC-61");
}

/// V15-60: what the provider has accepted is not asked for again, though the condition does not say so yet; what it accepted in an
/// earlier episode does not count.
#[test]
fn what_was_accepted_is_not_asked_for_again() {
    let asked = || {
        let world = requested().grace("0s").fenced().noted(REBOOT_PRE_BOOT_ID, "one");
        world.noted(REBOOT_ASKED_AT, &time(1010).to_string())
    };
    assert!(matches!(asked().at(1012), Step::Ask { .. }), "nobody knows whether it was");
    let accepted = asked().noted(REBOOT_ISSUED_AT, &time(1011).to_string());
    assert_eq!(accepted.at(1012), Step::Issue { issued_at: time(1012) });
    assert!(matches!(asked().noted(REBOOT_ISSUED_AT, &time(900).to_string()).at(1012), Step::Ask { .. }));
}

/// VC-63, VC-69, V15-57, V15-58, V15-59, Z2: the provider has five minutes from the first call, which a restart does not forget.
#[test]
fn vc_63_vc_69_z2_issuance_times_out() {
    let asked = requested().fenced().noted(REBOOT_PRE_BOOT_ID, "one").noted(REBOOT_ASKED_AT, &time(2000).to_string());
    assert!(calls(&asked.at(2300)));
    assert_eq!(fails(&asked.at(2301)), Some(Outcome::ProviderError), "VC-63");
    let lost = requested().without_node();
    assert_eq!(lost.at(1295), Step::Wait { again: SignedDuration::from_secs(5) });
    assert_eq!(fails(&lost.at(1301)), Some(Outcome::ProviderError), "VC-69");
    let gone = requested().issued().without_node();
    assert!(matches!(gone.at(1100 + 1200), Step::Wait { .. }), "VC-69");
    assert_eq!(fails(&gone.at(1101 + 1200)), Some(Outcome::RecoveryTimeout), "VC-69");
}

/// VC-70, V15-69: a request that cannot be read is dropped, and the claim stays.
#[test]
fn vc_70_invalid_requests() {
    for text in ["soon", "-1s", ""] {
        let step = requested().grace(text).at(1000);
        assert_eq!(step, Step::Fail { outcome: Outcome::InvalidRequest, then: Aftermath::Release }, "{text:?}");
        assert_eq!(requested().grace(text).asks(1000, RebootOptions::default()), step, "{text:?}");
    }
}

/// VC-71, VC-72, VC-73, V15-64, V15-65: what is seen of an issued reboot.
#[test]
fn vc_71_vc_72_vc_73_recovery() {
    let issued = || requested().fenced().issued();
    let label = |node: &mut NodeView| drop(node.labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned()));
    assert_eq!(issued().node(label).at(1110), Step::Unlabel, "VC-71");
    assert_eq!(issued().at(1110), Step::Wait { again: POLL });
    let back = |node: &mut NodeView| node.boot_id = "two".to_owned();
    assert_eq!(issued().node(back).at(1110), Step::Observe, "VC-72");
    let seen = requested().issued().node(back);
    assert_eq!(seen.at(1110), Step::Wait { again: POLL }, "VC-72: once");
    let ready = issued().node(back).node(|node| node.ready = true);
    assert_eq!(ready.at(1110), Step::Succeed, "VC-73");
    let not_rebooted = issued().node(|node| node.ready = true);
    assert_eq!(not_rebooted.at(1110), Step::Wait { again: POLL });
    let silent = issued().node(|node| node.boot_id.clear());
    assert_eq!(silent.at(1110), Step::Wait { again: POLL }, "a kubelet that says nothing has not come back");
}

/// VC-74, VC-75, VC-62, V15-68: a node that does not come back is deleted with the earlier of two deadlines.
#[test]
fn vc_74_vc_75_failures() {
    let delete = |world: World| match world.at(1101 + 1200) {
        Step::Fail { outcome: Outcome::RecoveryTimeout, then: Aftermath::Delete { deadline } } => deadline,
        other => panic!("{other:?}"),
    };
    let issued = || requested().issued();
    assert!(matches!(issued().at(1100 + 1200), Step::Wait { .. }), "VC-74");
    assert_eq!(delete(issued().grace("5m0s")), Some(time(1101 + 1500)), "VC-75");
    assert_eq!(delete(issued().grace("5m").noted(TERMINATION_TIMESTAMP, &time(5).to_string())), None, "VC-75: earlier");
    assert_eq!(delete(issued()), None, "VC-75: unbounded");
}

/// Z20, Z1: a failed reboot goes back to repair, which then replaces the node; a new leader knows that too.
#[test]
fn z20_failed_reboots_are_handed_back() {
    let world = requested().issued().noted(REBOOT_HISTORY, &time(1000).to_string());
    let step = world.asks(9999, RebootOptions::default());
    let Step::Fail { outcome: Outcome::RecoveryTimeout, then: Aftermath::HandBack { history } } = step else {
        panic!("{step:?}")
    };
    let claim = requested().noted(REBOOT_HISTORY, &history).claim;
    assert!(History::of(&claim).gave_up() && History::of(&claim).is_exhausted(time(9999)));
}

/// VC-158, Z27: the window begins when the reboot was issued, also for a node that never was initialized.
#[test]
fn vc_158_z27_observation_begins_at_issuance() {
    let mut world = requested().fenced().issued();
    world.claim.initialized = ConditionView { status: Status::Unknown, since: time(-3600) };
    assert_eq!(world.at(1110), Step::Wait { again: POLL });
    assert_eq!(fails(&world.at(1101 + 1200)), Some(Outcome::RecoveryTimeout));
}

/// VC-159, Z28: an empty boot ID is recorded too: no second drain, and the first one that is not empty is a new boot.
#[test]
fn vc_159_z28_empty_boot_ids() {
    let silent = requested().grace("0s").fenced().node(|node| node.boot_id.clear());
    assert!(matches!(silent.at(1000), Step::Ask { ref pre_boot_id, .. } if pre_boot_id.is_empty()));
    let restarted = requested().fenced().pods(3).noted(REBOOT_PRE_BOOT_ID, "").node(|node| node.boot_id.clear());
    assert!(calls(&restarted.at(1020)), "no second drain");
    let spoke = restarted.node(|node| node.boot_id = "one".to_owned());
    assert_eq!(spoke.at(1020), Step::Issue { issued_at: time(1020) });
}

fn commits(claim: &ClaimView, bound: Option<i64>, second: i64) -> Result<Commitment, Refused> {
    commitment(claim, bound.map(SignedDuration::from_secs), ("Bad", "Why"), time(second))
}

/// VC-54, VC-55, V15-53: what a commitment writes.
#[test]
fn vc_54_vc_55_commitments() {
    let plain = example::claim("c");
    let own = ClaimView { termination_grace_period: Some(GoDuration::from_secs(420)), ..plain.clone() };
    let grace = |claim: &ClaimView, bound| commits(claim, bound, 5).unwrap().grace;
    assert_eq!(grace(&plain, Some(300)).as_deref(), Some("5m0s"), "VC-54");
    assert_eq!(grace(&plain, None), None, "VC-55");
    assert_eq!(grace(&own, None).as_deref(), Some("7m0s"), "VC-55");
    let stale = requested().grace("9m").claim;
    let stale = ClaimView { rebooting: false, ..stale };
    assert_eq!(grace(&stale, None), None, "VC-55: removed");
    assert_eq!(commits(&plain, None, 5).unwrap().message, "rebooting for Bad/Why");
    let going = ClaimView { deleting_since: Some(time(1)), ..plain.clone() };
    assert_eq!(commits(&going, None, 5), Err(Refused::Going));
    assert_eq!(commits(&ClaimView { rebooting: true, ..plain }, None, 5), Err(Refused::Rebooting), "VC-54");
}

/// VC-56, VC-57, VC-58, V15-44, Z1: two a day, remembered on the claim, whoever commits.
#[test]
fn vc_56_vc_57_vc_58_z1_history() {
    let day = 24 * 3600;
    let mut claim = example::claim("c");
    for second in [1000, 2000] {
        assert!(!History::of(&claim).is_exhausted(time(second)));
        let written = commits(&claim, None, second).unwrap().history;
        claim.annotations.insert(REBOOT_HISTORY.to_owned(), written);
    }
    assert!(History::of(&claim).is_exhausted(time(3000)), "VC-56");
    assert_eq!(commits(&claim, None, 3000), Err(Refused::Exhausted), "VC-58: whoever comes third is refused");
    assert!(!History::of(&claim).is_exhausted(time(2000 + day + 3600)), "VC-57");
    let again = commits(&claim, None, 1000 + day).unwrap().history;
    assert_eq!(again, format!("{},{}", time(2000), time(1000 + day)), "a sliding day");
    assert!(!History::of(&example::claim("d")).is_exhausted(time(3000)), "VC-58: another claim");
    claim.annotations.insert(REBOOT_HISTORY.to_owned(), "rubbish,,gave-up@never".to_owned());
    assert_eq!(History::of(&claim), History::default());
}

/// V15-18.
#[test]
fn outcomes_by_name() {
    use Outcome::{InvalidRequest, ProviderError, RecoveryTimeout, Succeeded};
    let names = [Succeeded, ProviderError, RecoveryTimeout, InvalidRequest].map(Outcome::as_str);
    assert_eq!(names, ["succeeded", "provider_error", "recovery_timeout", "invalid_request"]);
}
