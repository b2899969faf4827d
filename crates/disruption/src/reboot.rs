//! A reboot from the request to its outcome (V15-53 … V15-70), as a function of what is written on the claim and its node.
//!
//! Everything that must survive a restart is on the claim: how often it was rebooted (Z1), when the provider was first
//! asked (Z2) and when it accepted (Z27). [`next`] says one step; whoever carries it out asks again afterwards.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::annotations::{
    REBOOT_ASKED_AT, REBOOT_HISTORY, REBOOT_ISSUED_AT, REBOOT_PRE_BOOT_ID, REBOOT_TERMINATION_GRACE_PERIOD,
    TERMINATION_TIMESTAMP,
};
use karpenter_model::claim::{ClaimView, REBOOT_ISSUED as ISSUED, RebootView, Status};
use karpenter_model::duration::GoDuration;
use karpenter_model::node::NodeView;
use karpenter_model::taints::Taint;

use crate::repair::tightened;

/// How often a reboot is looked at (V15-57).
pub const POLL: SignedDuration = SignedDuration::from_secs(15);
/// From the first call until the provider must have accepted.
pub const ISSUANCE_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// From acceptance until the node must be back.
pub const OBSERVATION_WINDOW: SignedDuration = SignedDuration::from_mins(20);
/// Also an empty node waits that long, so that the fence is seen before the machine goes away.
pub const SHORTEST_DRAIN: SignedDuration = SignedDuration::from_secs(5);
/// So many reboots within the window, then the node is replaced (V15-44).
pub const MOST_REBOOTS: usize = 2;
pub const HISTORY_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// The reboots that a claim has had (Z1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    commits: Vec<Timestamp>,
    gave_up: Option<Timestamp>,
}

const GAVE_UP: &str = "gave-up@";

impl History {
    /// What cannot be read is left out: a reboot too many is better than a node that is replaced on a guess.
    pub fn of(claim: &ClaimView) -> Self {
        let mut history = Self::default();
        for text in claim.annotations.get(REBOOT_HISTORY).into_iter().flat_map(|text| text.split(',')) {
            match text.strip_prefix(GAVE_UP) {
                Some(time) => history.gave_up = time.parse().ok().or(history.gave_up),
                None => history.commits.extend(text.parse::<Timestamp>()),
            }
        }
        history
    }

    fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Timestamp> {
        self.commits.iter().filter(move |commit| now.duration_since(**commit) < HISTORY_WINDOW)
    }

    /// Another reboot would not help (V15-44).
    pub fn is_exhausted(&self, now: Timestamp) -> bool {
        self.gave_up() || self.recent(now).count() >= MOST_REBOOTS
    }

    /// A reboot failed, and repair was asked to replace the node (Z20).
    pub fn gave_up(&self) -> bool {
        self.gave_up.is_some()
    }

    /// The annotation's value with one more commit; those that no longer count are dropped.
    fn committed(&self, now: Timestamp) -> String {
        let kept = self.recent(now).chain([&now]).map(ToString::to_string);
        kept.collect::<Vec<_>>().join(",")
    }

    /// The annotation's value of a claim whose reboot failed.
    fn given_up(&self, now: Timestamp) -> String {
        let kept = self.recent(now).map(ToString::to_string).chain([format!("{GAVE_UP}{now}")]);
        kept.collect::<Vec<_>>().join(",")
    }
}

/// What a commitment writes on the claim, with an optimistic lock, before the conditions `DisruptionReason` and `Rebooting`
/// (V15-53).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// The annotation `reboot-termination-grace-period`: `None` removes a stale one.
    pub grace: Option<String>,
    /// The annotation `reboot-history`.
    pub history: String,
    /// The message of `Rebooting`.
    pub message: String,
}

/// Why a reboot is not committed: the next candidate is tried, or this one replaced at the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Going,
    Rebooting,
    /// It was rebooted often enough by now (V15-44).
    Exhausted,
}

/// `claim` is the one read just now; `condition` names what is wrong, as type and reason.
pub fn commitment(
    claim: &ClaimView,
    bound: Option<SignedDuration>,
    condition: (&str, &str),
    now: Timestamp,
) -> Result<Commitment, Refused> {
    let history = History::of(claim);
    if claim.deleting_since.is_some() {
        return Err(Refused::Going);
    }
    if claim.rebooting {
        return Err(Refused::Rebooting);
    }
    if history.is_exhausted(now) {
        return Err(Refused::Exhausted);
    }
    let bound = bound.map(|bound| GoDuration::from_nanos(i64::try_from(bound.as_nanos()).unwrap_or(i64::MAX)));
    Ok(Commitment {
        grace: bound.or(claim.termination_grace_period).map(|grace| grace.to_string()),
        history: history.committed(now),
        message: format!("rebooting for {}/{}", condition.0, condition.1),
    })
}

/// How a reboot ended, as metrics name it (V15-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    ProviderError,
    RecoveryTimeout,
    InvalidRequest,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::ProviderError => "provider_error",
            Self::RecoveryTimeout => "recovery_timeout",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

/// What becomes of a claim whose reboot failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aftermath {
    /// The request was nonsense: fence and pre-boot ID go, `Rebooting` turns False, the claim stays (V15-69).
    Release,
    /// The claim is deleted with a precondition on its version, after the deadline was written (V15-68).
    Delete { deadline: Option<Timestamp> },
    /// As `Release`, and the history says that repair has to replace the node, replacement first and within budgets (Z20).
    HandBack { history: String },
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// No reboot is under way, or the claim is going: forget it.
    Nothing,
    Wait {
        again: SignedDuration,
    },
    /// Put the fence (`Taint::rebooting`) on the node.
    Fence,
    /// Evict what has to leave, never by force; pods that are left at `until` ride along (V15-61).
    Drain {
        until: Option<Timestamp>,
        again: SignedDuration,
    },
    /// Write these on the claim with an optimistic lock, where they differ, then call the provider.
    Ask {
        operation_id: String,
        pre_boot_id: String,
        asked_at: Timestamp,
    },
    /// `Rebooting` True/`RebootIssued` with its message kept, `Initialized` Unknown/`Rebooting`, and the time of it
    /// (V15-64).
    Issue {
        issued_at: Timestamp,
    },
    /// The node carries the label `karpenter.sh/initialized`, which it must not while it reboots.
    Unlabel,
    /// A new boot was seen: the fence goes, `RebootObserved` (V15-65).
    Observe,
    /// The fence and what was written for the reboot go, `Rebooting` False/`RebootSucceeded` (V15-66).
    Succeed,
    Fail {
        outcome: Outcome,
        then: Aftermath,
    },
}

/// What the specification leaves to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebootOptions {
    /// Failed reboots go back to repair instead of being deleted at once (Z20).
    pub hand_back: bool,
    /// A drain without bound gives up after so long (Z36); `None` waits for ever.
    pub longest_drain: Option<SignedDuration>,
}

impl Default for RebootOptions {
    /// A day is longer than any drain that still gets anywhere.
    fn default() -> Self {
        Self { hand_back: true, longest_drain: Some(SignedDuration::from_hours(24)) }
    }
}

impl RebootOptions {
    /// As specified for the compatibility target.
    pub const SPECIFIED: Self = Self { hand_back: false, longest_drain: None };
}

/// What a reboot looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub claim: &'a ClaimView,
    /// `None` when there is no Node of the claim's provider ID.
    pub node: Option<&'a NodeView>,
    /// Pods of the node that have to leave before it may go (`PodView::is_waiting_eviction`).
    pub waiting_pods: usize,
    pub now: Timestamp,
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Facts<'_> {
    fn time(&self, annotation: &str) -> Option<Timestamp> {
        self.claim.annotations.get(annotation)?.parse().ok()
    }

    fn fail(&self, outcome: Outcome, options: &RebootOptions) -> Step {
        let bound = grace(self.claim).ok().flatten();
        let then = if outcome == Outcome::InvalidRequest {
            Aftermath::Release
        } else if options.hand_back {
            Aftermath::HandBack { history: History::of(self.claim).given_up(self.now) }
        } else {
            let written = self.claim.annotations.get(TERMINATION_TIMESTAMP).map(String::as_str);
            Aftermath::Delete { deadline: bound.and_then(|bound| tightened(written, bound, self.now)) }
        };
        Step::Fail { outcome, then }
    }

    fn wait_until(&self, deadline: Timestamp) -> Step {
        Step::Wait { again: deadline.duration_since(self.now).clamp(SignedDuration::from_secs(1), POLL) }
    }
}

/// The provider has said that it will not reboot the machine (V15-63).
pub fn refused(facts: &Facts<'_>, options: &RebootOptions) -> Step {
    facts.fail(Outcome::ProviderError, options)
}

/// The bound of the drain: `None` without end.
fn grace(claim: &ClaimView) -> Result<Option<SignedDuration>, ()> {
    let Some(text) = claim.annotations.get(REBOOT_TERMINATION_GRACE_PERIOD) else { return Ok(None) };
    let grace: GoDuration = text.parse().map_err(|_| ())?;
    if grace < GoDuration::ZERO { Err(()) } else { Ok(Some(grace.as_signed())) }
}

/// A kubelet that says nothing has not rebooted; one that says something for the first time has (Z28).
fn rebooted(node: &NodeView, pre_boot_id: &str) -> bool {
    !node.boot_id.is_empty() && node.boot_id != pre_boot_id
}

/// One step (V15-56 … V15-69).
pub fn next(facts: &Facts<'_>, options: &RebootOptions) -> Step {
    let reboot = facts.claim.reboot.as_ref().filter(|reboot| reboot.status == Status::True);
    let Some(reboot) = reboot.filter(|_| facts.claim.deleting_since.is_none()) else { return Step::Nothing };
    if reboot.reason == ISSUED { issued(facts, options) } else { requested(facts, reboot, options) }
}

fn requested(facts: &Facts<'_>, reboot: &RebootView, options: &RebootOptions) -> Step {
    let asked_at = facts.time(REBOOT_ASKED_AT);
    let deadline = later(asked_at.unwrap_or(reboot.since), ISSUANCE_TIMEOUT);
    // Before the first call only a node that is gone runs out of time: the drain has its own bound.
    if facts.now > deadline && (asked_at.is_some() || facts.node.is_none()) {
        return facts.fail(Outcome::ProviderError, options);
    }
    let Some(node) = facts.node else { return facts.wait_until(deadline) };
    let Ok(bound) = grace(facts.claim) else { return facts.fail(Outcome::InvalidRequest, options) };
    if !node.taints.iter().any(|taint| taint.is_same(&Taint::rebooting())) {
        return Step::Fence;
    }
    let pre_boot_id = facts.claim.annotations.get(REBOOT_PRE_BOOT_ID);
    // The provider has accepted, and only the condition does not say so yet.
    let accepted = facts.time(REBOOT_ISSUED_AT).zip(asked_at).is_some_and(|(issued, asked)| issued >= asked);
    match pre_boot_id {
        Some(before) if accepted || rebooted(node, before) => Step::Issue { issued_at: facts.now },
        Some(before) => ask(facts, reboot, before, asked_at),
        None => match drain(facts, reboot, bound, options) {
            Some(step) => step,
            None => ask(facts, reboot, &node.boot_id, asked_at),
        },
    }
}

/// V15-62: stable over retries and restarts, another one for each episode.
fn ask(facts: &Facts<'_>, reboot: &RebootView, pre_boot_id: &str, asked_at: Option<Timestamp>) -> Step {
    let operation_id = format!("{}-{}-{pre_boot_id}", facts.claim.uid, reboot.since.as_nanosecond());
    Step::Ask { operation_id, pre_boot_id: pre_boot_id.to_owned(), asked_at: asked_at.unwrap_or(facts.now) }
}

/// `None` when the machine may go down (V15-61).
fn drain(
    facts: &Facts<'_>,
    reboot: &RebootView,
    bound: Option<SignedDuration>,
    options: &RebootOptions,
) -> Option<Step> {
    if bound == Some(SignedDuration::ZERO) {
        return None;
    }
    let earliest = later(reboot.since, SHORTEST_DRAIN);
    let until = bound.map(|bound| later(reboot.since, bound.max(SHORTEST_DRAIN)));
    if facts.now >= earliest && (facts.waiting_pods == 0 || until.is_some_and(|until| facts.now >= until)) {
        return None;
    }
    let longest = options.longest_drain.filter(|_| until.is_none()).map(|longest| later(reboot.since, longest));
    if longest.is_some_and(|longest| facts.now > longest) {
        return Some(facts.fail(Outcome::RecoveryTimeout, options));
    }
    let next = if facts.waiting_pods == 0 { Some(earliest) } else { until };
    let left = next.map_or(POLL, |next| next.duration_since(facts.now));
    // Whoever waits for a moment that is not quite there must not spin.
    Some(Step::Drain { until, again: left.clamp(SignedDuration::from_millis(100), POLL) })
}

fn issued(facts: &Facts<'_>, options: &RebootOptions) -> Step {
    // A reboot that an older version issued has no time of its own (Z27).
    let issued_at = facts.time(REBOOT_ISSUED_AT).unwrap_or(facts.claim.initialized.since);
    let deadline = later(issued_at, OBSERVATION_WINDOW);
    if facts.now > deadline {
        return facts.fail(Outcome::RecoveryTimeout, options);
    }
    let Some(node) = facts.node else { return facts.wait_until(deadline) };
    if node.is_initialized() {
        return Step::Unlabel;
    }
    let before = facts.claim.annotations.get(REBOOT_PRE_BOOT_ID).map_or("", String::as_str);
    match rebooted(node, before) {
        true if node.ready => Step::Succeed,
        true if node.taints.iter().any(|taint| taint.is_same(&Taint::rebooting())) => Step::Observe,
        _ => facts.wait_until(deadline),
    }
}

#[cfg(test)]
mod tests;
