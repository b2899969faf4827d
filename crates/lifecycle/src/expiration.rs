//! When a claim has lived long enough (LIF-73 … LIF-75).

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::NillableDuration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiration {
    Never,
    At(Timestamp),
    Due,
}

pub fn expiration(claim: &ClaimView, now: Timestamp) -> Expiration {
    let NillableDuration::After(lifetime) = claim.expire_after else { return Expiration::Never };
    if claim.deleting_since.is_some() {
        return Expiration::Never;
    }
    let at = claim.created_at.saturating_add(lifetime.as_signed()).unwrap_or(Timestamp::MAX);
    if now >= at { Expiration::Due } else { Expiration::At(at) }
}
