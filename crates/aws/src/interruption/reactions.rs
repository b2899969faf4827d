//! What a message leads to (AWS-218 … AWS-220, AWS-294).

use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;

use super::messages::Kind;
use crate::launch::failures::Effect;
use crate::unavailable::OfferingKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    None,
    /// The claim is deleted; its node is drained as it deserves.
    Delete,
    /// The claim is deleted and its drain is cut short: its time is up now.
    DeleteAtOnce,
}

pub const fn reaction(kind: Kind) -> Reaction {
    match kind {
        Kind::SpotInterrupted
        | Kind::ScheduledChange
        | Kind::InstanceStopped
        | Kind::InstanceTerminated
        | Kind::CapacityReservationInterrupted
        | Kind::EventStatus => Reaction::Delete,
        Kind::InstanceStatus | Kind::SystemStatus => Reaction::DeleteAtOnce,
        Kind::RebalanceRecommendation | Kind::NoOp => Reaction::None,
    }
}

/// An event about the claim, and about its node if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    pub reason: &'static str,
    pub message: &'static str,
    pub warning: bool,
}

pub const fn notice(kind: Kind) -> Option<Notice> {
    let (reason, message, warning) = match kind {
        Kind::SpotInterrupted => ("SpotInterrupted", "Spot interruption warning was triggered", true),
        Kind::CapacityReservationInterrupted => {
            ("CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered", true)
        }
        Kind::RebalanceRecommendation => {
            ("SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", false)
        }
        Kind::InstanceStopped => ("InstanceStopping", "Instance is stopping", true),
        Kind::InstanceTerminated => ("InstanceTerminating", "Instance is terminating", true),
        Kind::ScheduledChange | Kind::InstanceStatus | Kind::SystemStatus | Kind::EventStatus => {
            ("InstanceUnhealthy", "An unhealthy warning was triggered for the instance", true)
        }
        Kind::NoOp => return None,
    };
    Some(Notice { reason, message, warning })
}

/// Said when a claim is deleted because of any of these.
pub const TERMINATING: Notice = Notice {
    reason: "TerminatingOnInterruption",
    message: "Interruption triggered termination for the NodeClaim",
    warning: true,
};
/// The same, about its node.
pub const TERMINATING_NODE: &str = "Interruption triggered termination for the Node";

/// What the next launches should know.
pub fn effects(kind: Kind, claim: &ClaimView) -> Option<Effect> {
    let label = |key: &str| claim.labels.get(key).cloned();
    match kind {
        Kind::SpotInterrupted => Some(Effect::Offering(OfferingKey {
            capacity_type: labels::CAPACITY_TYPE_SPOT.to_owned(),
            instance_type: label(labels::INSTANCE_TYPE)?,
            zone: label(labels::ZONE)?,
            group: None,
        })),
        Kind::CapacityReservationInterrupted => label(aws::CAPACITY_RESERVATION_ID).map(Effect::Reservation),
        _ => None,
    }
}

/// The `termination_mode` of the metric of disrupted claims: a status failure leaves no time, else it is up to the claim
/// (AWS-297, API-191).
pub fn termination_mode(kind: Kind, claim: &ClaimView) -> &'static str {
    match claim.termination_grace_period {
        _ if reaction(kind) == Reaction::DeleteAtOnce => "forceful",
        None => "graceful",
        Some(period) if period.as_nanos() <= 0 => "forceful",
        Some(_) => "eventual",
    }
}
