//! Whether a claim has waited too long for its instance or its node.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, ConditionView};

pub const LAUNCH_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
pub const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Registered: nothing to wait for.
    Alive,
    /// Look again then.
    Waiting { until: Timestamp },
    /// Give the claim up.
    Expired(Timeout),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    Launch,
    Registration,
}

/// LIF-31 to LIF-33, with one verdict per look: a claim that was never launched has one failure, not two.
pub fn liveness(claim: &ClaimView, now: Timestamp) -> Liveness {
    if claim.registered.is_true() {
        return Liveness::Alive;
    }
    let (condition, allowed, timeout): (ConditionView, _, _) = if claim.launched.is_true() {
        (claim.registered, REGISTRATION_TIMEOUT, Timeout::Registration)
    } else {
        (claim.launched, LAUNCH_TIMEOUT, Timeout::Launch)
    };
    let until = condition.since.saturating_add(allowed).unwrap_or(Timestamp::MAX);
    if now >= until { Liveness::Expired(timeout) } else { Liveness::Waiting { until } }
}
