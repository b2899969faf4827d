//! Events that arrive through the queue (AWS-216, AWS-217).

use jiff::Timestamp;
use serde::Deserialize;

/// What a message is about, by the name it has in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    SpotInterrupted,
    RebalanceRecommendation,
    InstanceStopped,
    InstanceTerminated,
    CapacityReservationInterrupted,
    ScheduledChange,
    /// The three that come from instance status instead of the queue.
    InstanceStatus,
    SystemStatus,
    EventStatus,
    /// Nothing that concerns us.
    NoOp,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::NoOp => "no_op",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    pub instance_ids: Vec<String>,
    /// When the event happened, for the latency of the queue.
    pub at: Option<Timestamp>,
}

/// The body is no event: it is logged and deleted, or it would come again for ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("message is not an event: {0}")]
pub struct MessageError(String);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Envelope {
    version: String,
    source: String,
    #[serde(rename = "detail-type")]
    detail_type: String,
    time: Option<String>,
    detail: Detail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    #[serde(rename = "instance-id")]
    instance_id: String,
    state: String,
    service: String,
    #[serde(rename = "eventTypeCategory")]
    category: String,
    #[serde(rename = "affectedEntities")]
    entities: Vec<Entity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entity {
    #[serde(rename = "entityValue")]
    value: String,
}

/// Reads a message. What is not for us, or says nothing, is a [`Kind::NoOp`].
pub fn parse(body: &str) -> Result<Message, MessageError> {
    let nothing = Message { kind: Kind::NoOp, instance_ids: Vec::new(), at: None };
    if body.trim().is_empty() {
        return Ok(nothing);
    }
    // Details of events that are not for us may have any form, so they are read only for those that are.
    let value: serde_json::Value = serde_json::from_str(body).map_err(|error| MessageError(error.to_string()))?;
    if !value.is_object() {
        return Err(MessageError("it is not an object".to_owned()));
    }
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    if !is_for_us(text("version"), text("source"), text("detail-type")) {
        return Ok(nothing);
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(|error| MessageError(error.to_string()))?;
    let at = envelope.time.as_deref().and_then(|time| time.parse().ok());
    let kind = kind(&envelope);
    let instance_ids = match kind {
        Kind::NoOp => Vec::new(),
        Kind::ScheduledChange => envelope.detail.entities.into_iter().map(|entity| entity.value).collect(),
        _ => vec![envelope.detail.instance_id],
    };
    Ok(Message { kind, instance_ids: instance_ids.into_iter().filter(|id| !id.is_empty()).collect(), at })
}

const SPOT: &str = "EC2 Spot Instance Interruption Warning";
const REBALANCE: &str = "EC2 Instance Rebalance Recommendation";
const STATE: &str = "EC2 Instance State-change Notification";
const RESERVATION: &str = "EC2 Capacity Reservation Instance Interruption Warning";
const HEALTH: &str = "AWS Health Event";

fn is_for_us(version: &str, source: &str, detail_type: &str) -> bool {
    let known = match source {
        "aws.ec2" => [SPOT, REBALANCE, STATE, RESERVATION].contains(&detail_type),
        "aws.health" => detail_type == HEALTH,
        _ => false,
    };
    version == "0" && known
}

fn kind(envelope: &Envelope) -> Kind {
    let detail = &envelope.detail;
    match envelope.detail_type.as_str() {
        SPOT => Kind::SpotInterrupted,
        REBALANCE => Kind::RebalanceRecommendation,
        RESERVATION => Kind::CapacityReservationInterrupted,
        // The split is by the exact spelling, as it always was; which states count at all is not.
        STATE => match (detail.state.as_str(), detail.state.to_lowercase().as_str()) {
            ("stopping" | "stopped", _) => Kind::InstanceStopped,
            (_, "stopping" | "stopped" | "shutting-down" | "terminated") => Kind::InstanceTerminated,
            _ => Kind::NoOp,
        },
        HEALTH if detail.service == "EC2" && detail.category == "scheduledChange" => Kind::ScheduledChange,
        _ => Kind::NoOp,
    }
}
