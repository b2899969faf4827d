//! What is asked of EC2 to launch an instance: launch templates and fleets.
//!
//! Written out in full before anything is sent, so that a request can be compared, hashed and shown.

use std::collections::BTreeMap;

use serde::Serialize;

pub type Tags = BTreeMap<String, String>;

/// Tags for what a call creates, by the kind of thing: `instance`, `volume`, ….
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TagSpecification {
    pub resource_type: &'static str,
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaunchTemplateRequest {
    pub name: String,
    pub data: LaunchTemplateData,
    /// Of the template itself.
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaunchTemplateData {
    pub image_id: String,
    pub instance_profile: String,
    pub block_devices: Vec<BlockDeviceSpec>,
    /// In base64.
    pub user_data: String,
    pub detailed_monitoring: bool,
    pub metadata: MetadataSpec,
    pub interfaces: Vec<InterfaceSpec>,
    pub placement: PlacementSpec,
    pub enclave: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationSpec>,
    /// `capacity-block` or `interruptible-capacity-reservation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub market: Option<&'static str>,
    pub tags: Vec<TagSpecification>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockDeviceSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<EbsSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct EbsSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization_rate: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetadataSpec {
    pub endpoint: String,
    /// Absent where the region does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    pub hop_limit: i64,
    pub tokens: String,
    pub instance_tags: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct InterfaceSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_card: Option<i32>,
    pub device: i32,
    /// `interface`, `efa` or `efa-only`; absent for an ordinary one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub security_groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_prefixes: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_prefixes: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_ipv6: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_addresses: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTrackingSpec>,
}

/// Timeouts in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConnectionTrackingSpec {
    pub tcp_established: Option<i32>,
    pub udp_stream: Option<i32>,
    pub udp: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacementSpec {
    pub tenancy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReservationSpec {
    pub preference: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A CreateFleet request of the type `instant`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetRequest {
    pub target_capacity: u32,
    pub default_capacity_type: &'static str,
    /// Allocation strategy of on-demand instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand_strategy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_strategy: Option<&'static str>,
    /// Reservation types, for reserved capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation_types: Option<&'static str>,
    pub configs: Vec<FleetConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    pub tags: Vec<TagSpecification>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetConfig {
    pub template_name: String,
    /// Always `$Latest`.
    pub version: &'static str,
    pub overrides: Vec<FleetOverride>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetOverride {
    pub instance_type: String,
    pub subnet_id: String,
    pub image_id: String,
    pub zone: String,
    pub priority: f64,
}

/// What an instant fleet answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetAnswer {
    pub instances: Vec<FleetInstance>,
    pub errors: Vec<FleetError>,
}

/// A launched instance and the override it came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetInstance {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: String,
    pub template_name: String,
}

/// Why one override, or the whole fleet, could not be had. Members are empty where EC2 says nothing (AWS-292).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetError {
    pub code: String,
    pub message: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: String,
    pub template_name: String,
}
