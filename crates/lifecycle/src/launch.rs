//! Whether the cloud has to be asked for an instance.

use karpenter_model::claim::{ClaimView, Status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// Nothing is launched before the finalizer is stored: without it a deleted claim would leave its instance behind.
    AddFinalizerFirst,
    AskProvider,
    Done,
}

/// LIF-11, LIF-14. A claim that says launched and does not know its instance was written to by somebody else; the provider
/// knows the instance and answers with the same one.
pub fn launch(claim: &ClaimView) -> Launch {
    match (claim.has_finalizer, claim.launched.status) {
        (false, _) => Launch::AddFinalizerFirst,
        (true, Status::Unknown) => Launch::AskProvider,
        (true, Status::True) if claim.provider_id.is_none() => Launch::AskProvider,
        (true, Status::True | Status::False) => Launch::Done,
    }
}

/// Errors of a cloud can be pages long; conditions and events are for people (V15-110).
const LONGEST_MESSAGE: usize = 1024;

/// The text, or as much of it as fits with an ellipsis, never ending within a character.
pub fn clipped(text: &str) -> String {
    if text.len() <= LONGEST_MESSAGE {
        return text.to_owned();
    }
    let end = (0..=LONGEST_MESSAGE - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &text[..end])
}
