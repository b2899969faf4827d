//! Whether a claim has waited too long for its instance, its node, or its node's readiness.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::ClaimView;

/// How long each step may take. Providers may ask for another launch timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub launch: SignedDuration,
    pub registration: SignedDuration,
    /// Longer than anything that is still going to work: drivers are built at boot, images of many gigabytes pulled.
    pub initialization: SignedDuration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            launch: SignedDuration::from_mins(5),
            registration: SignedDuration::from_mins(15),
            initialization: SignedDuration::from_hours(1),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Nothing to wait for.
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
    Initialization,
}

impl Timeout {
    /// As metrics name it (LIF-34).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch_timeout",
            Self::Registration => "registration_timeout",
            Self::Initialization => "initialization_timeout",
        }
    }
}

/// Whether anything runs on the node that would have to move. A node in use is not given up (Y6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Idle,
    InUse,
}

/// LIF-31 to LIF-33, with one verdict per look (Y23), a registration clock that starts at the launch (Y7) and an end to
/// nodes that never become usable (Y6).
pub fn liveness(claim: &ClaimView, used: Use, timeouts: &Timeouts, now: Timestamp) -> Liveness {
    let (since, allowed, timeout) = if !claim.launched.is_true() {
        (claim.launched.since, timeouts.launch, Timeout::Launch)
    } else if !claim.registered.is_true() {
        (claim.registered.since.max(claim.launched.since), timeouts.registration, Timeout::Registration)
    } else if !claim.initialized.is_true() && !claim.rebooting {
        let since = claim.initialized.since.max(claim.registered.since);
        (since, timeouts.initialization, Timeout::Initialization)
    } else {
        return Liveness::Alive;
    };
    let until = since.saturating_add(allowed).unwrap_or(Timestamp::MAX);
    match (now >= until, timeout, used) {
        (false, _, _) => Liveness::Waiting { until },
        (true, Timeout::Initialization, Use::InUse) => Liveness::Alive,
        (true, timeout, _) => Liveness::Expired(timeout),
    }
}
