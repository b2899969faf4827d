//! When a claim has lived long enough (LIF-73 … LIF-75).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::NillableDuration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiration {
    Never,
    /// Nothing to do before then.
    NotBefore(Timestamp),
    /// Its pods are planned for elsewhere from now on, so that nodes for them are there when it goes (Y18).
    Soon(Timestamp),
    Due,
}

/// How long before its end a claim's pods are planned for elsewhere: about what a node takes to come up.
const LEAD: SignedDuration = SignedDuration::from_mins(2);
/// Shorter lives are not spent on waiting for the next.
const LONG_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// A claim goes exactly at its end, however many others do (LC-78, LC-149); that it does so without a gap is due to
/// what is launched before.
pub fn expiration(claim: &ClaimView, now: Timestamp) -> Expiration {
    let NillableDuration::After(lifetime) = claim.expire_after else { return Expiration::Never };
    if claim.deleting_since.is_some() {
        return Expiration::Never;
    }
    let lifetime = lifetime.as_signed();
    let at = claim.created_at.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let lead = if lifetime >= LONG_LIFE { LEAD } else { SignedDuration::ZERO };
    let soon = at.saturating_sub(lead).unwrap_or(at);
    if now >= at {
        Expiration::Due
    } else if now >= soon {
        Expiration::Soon(at)
    } else {
        Expiration::NotBefore(soon)
    }
}
