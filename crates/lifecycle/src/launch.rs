//! Whether the cloud has to be asked for an instance.

use karpenter_model::claim::{ClaimView, Status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// Nothing is launched before the finalizer is stored: without it a deleted claim would leave its instance behind.
    AddFinalizerFirst,
    AskProvider,
    Done,
}

/// LIF-11, LIF-14.
pub fn launch(claim: &ClaimView) -> Launch {
    match (claim.has_finalizer, claim.launched.status) {
        (false, _) => Launch::AddFinalizerFirst,
        (true, Status::Unknown) => Launch::AskProvider,
        (true, Status::True | Status::False) => Launch::Done,
    }
}
