//! Instances as DescribeInstances says.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Tags;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceInfo {
    pub id: String,
    pub state: String,
    pub image_id: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: String,
    pub security_groups: BTreeSet<String>,
    pub launched: Option<Timestamp>,
    pub tags: Tags,
    pub spot_request_id: Option<String>,
    pub reservation_id: Option<String>,
    /// `capacity-reservations-only`, `open`, `none`.
    pub reservation_preference: Option<String>,
    /// `spot`, `capacity-block`, `interruptible-capacity-reservation`; none for the ordinary ones.
    pub lifecycle: Option<String>,
    pub tenancy: Option<String>,
    pub has_efa: bool,
    pub partition: Option<u32>,
}
