//! What is wrong with a node, what should be done about it, and how soon (V15-32, V15-33, V15-45, V15-50).
//!
//! Whoever reads the cluster finds out which policies the conditions of a node call for (`RepairMatch`); here they are
//! weighed against the time. What the method does with the result is in [`crate::methods`].

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, Status};
use karpenter_model::node::NodeView;
use karpenter_model::repair::{RepairAction, RepairMatch};

use crate::reboot::History;

/// So much longer a condition has to wait to weigh as much as one of the next higher priority.
const STEP: SignedDuration = SignedDuration::from_mins(30);

/// What the matches that are due come to together (V15-33).
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis<'a> {
    pub action: RepairAction,
    /// Names the condition in logs, metrics and the message of a reboot.
    pub governing: &'a RepairMatch,
    /// Since when the governing match has been due.
    pub due_since: Timestamp,
    /// The shortest that any match sets, with the match that does.
    pub bound: Option<(SignedDuration, &'a RepairMatch)>,
    /// The higher, the sooner.
    pub score: f64,
}

/// When a match is due: its toleration counts from the last thing that could have changed the node's health (V15-32).
pub fn due_at(matched: &RepairMatch, node: &NodeView, claim: &ClaimView) -> Timestamp {
    let mut since = matched.since.unwrap_or(node.created_at).max(node.created_at);
    // A reboot that was given up proved that waiting does not help (Z20).
    let ended = claim.reboot.as_ref().filter(|reboot| reboot.status == Status::False);
    if let Some(reboot) = ended.filter(|_| !History::of(claim).gave_up()) {
        since = since.max(reboot.since);
    }
    let toleration = SignedDuration::try_from(matched.toleration).unwrap_or(SignedDuration::MAX);
    since.saturating_add(toleration).unwrap_or(Timestamp::MAX)
}

/// `None` while nothing is due.
pub fn diagnosis<'a>(
    matches: &'a [RepairMatch],
    node: &NodeView,
    claim: &ClaimView,
    now: Timestamp,
) -> Option<Diagnosis<'a>> {
    let due: Vec<(Timestamp, &RepairMatch)> =
        matches.iter().map(|matched| (due_at(matched, node, claim), matched)).filter(|(due, _)| *due <= now).collect();
    let action = due.iter().map(|(_, matched)| matched.action).max()?;
    let (due_since, governing) = due
        .iter()
        .filter(|(_, matched)| matched.action == action)
        .min_by_key(|(due, matched)| (std::cmp::Reverse(matched.priority), *due, &matched.condition_type))?;
    let bound = due
        .iter()
        .filter_map(|(due, matched)| {
            let grace = SignedDuration::try_from(matched.termination_grace_period?).unwrap_or(SignedDuration::MAX);
            Some((grace, *due, *matched))
        })
        .min_by_key(|(grace, due, matched)| (*grace, *due, &matched.condition_type))
        .map(|(grace, _, matched)| (grace, matched));
    let weight = |due: Timestamp, matched: &RepairMatch| {
        f64::from(matched.rank) + now.duration_since(due).as_secs_f64() / STEP.as_secs_f64()
    };
    let score = due.iter().map(|(due, matched)| weight(*due, matched)).fold(0.0, f64::max);
    Some(Diagnosis { action, governing, due_since: *due_since, bound, score })
}

/// How long the node's pods may take to leave, where repair says so; otherwise the claim's own grace period holds
/// (V15-45).
pub fn drain_bound(diagnosis: &Diagnosis<'_>, claim: &ClaimView) -> Option<SignedDuration> {
    let (bound, _) = diagnosis.bound?;
    let own = claim.termination_grace_period.map(karpenter_model::duration::GoDuration::as_signed);
    Some(own.map_or(bound, |own| bound.min(own)))
}

/// The deadline to write on a claim just before it is deleted; `None` when what is written is as early. Deadlines are only
/// ever tightened (V15-50, V15-68, V15-112).
pub fn tightened(written: Option<&str>, bound: SignedDuration, now: Timestamp) -> Option<Timestamp> {
    let wanted = now.saturating_add(bound).unwrap_or(Timestamp::MAX);
    let written: Option<Timestamp> = written.and_then(|text| text.parse().ok());
    written.is_none_or(|written| written > wanted).then_some(wanted)
}

/// The label `termination_mode` (DIS-187, V15-48).
pub fn termination_mode(grace: Option<SignedDuration>) -> &'static str {
    match grace {
        None => "graceful",
        Some(grace) if grace <= SignedDuration::ZERO => "forceful",
        Some(_) => "eventual",
    }
}

#[cfg(test)]
mod tests;
