//! By when a claim's node has to be empty (LIF-39, LIF-48, LIF-69).

use jiff::Timestamp;
use karpenter_model::annotations::TERMINATION_TIMESTAMP;
use karpenter_model::claim::ClaimView;

/// What is written on the claim; a value that cannot be read counts as absent, it must not block a node for ever (Y9).
fn written(claim: &ClaimView) -> Option<Timestamp> {
    claim.annotations.get(TERMINATION_TIMESTAMP)?.parse().ok()
}

/// What the claim's own grace period comes to.
fn own(claim: &ClaimView) -> Option<Timestamp> {
    let grace = claim.termination_grace_period?.as_signed();
    claim.deleting_since?.saturating_add(grace).ok()
}

/// `None`: as long as it takes. What is written counts, also where it is later than the grace period says; a claim that
/// has not been written to yet is treated as it will be.
pub fn deadline(claim: &ClaimView) -> Option<Timestamp> {
    written(claim).or_else(|| own(claim))
}

/// What to write, once, and never over a readable value (LIF-39).
pub fn deadline_to_write(claim: &ClaimView) -> Option<Timestamp> {
    own(claim).filter(|_| written(claim).is_none())
}
