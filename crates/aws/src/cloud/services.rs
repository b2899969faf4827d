//! The calls that the provider makes, as narrow as they are needed. Listings go to the end, over empty pages, too (AWS-254);
//! page sizes are the adapter's business.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    ApiError, Filter, FleetAnswer, FleetRequest, ImageInfo, ImageQuery, InstanceInfo, InstanceTypeInfo,
    LaunchTemplateRequest, PlacementGroupInfo, ReservationInfo, ReservationQuery, SecurityGroupInfo, SubnetInfo, Tags,
    TypeOffering,
};
use crate::interruption::status::InstanceStatusInfo;
use crate::pricing::{ProductQuery, SpotPrice};
use crate::zonal_shift::ShiftInfo;

type Answer<T> = Result<T, ApiError>;

/// What EC2 has on offer and what an account has in it.
#[async_trait]
pub trait Ec2Reads: Debug + Send + Sync {
    async fn instance_types(&self) -> Answer<Vec<InstanceTypeInfo>>;
    async fn type_offerings(&self) -> Answer<Vec<TypeOffering>>;
    async fn spot_prices(&self, since: Timestamp) -> Answer<Vec<SpotPrice>>;
    async fn images(&self, query: &ImageQuery) -> Answer<Vec<ImageInfo>>;
    async fn subnets(&self, filters: &[Filter]) -> Answer<Vec<SubnetInfo>>;
    async fn security_groups(&self, filters: &[Filter]) -> Answer<Vec<SecurityGroupInfo>>;
    async fn capacity_reservations(&self, query: &ReservationQuery) -> Answer<Vec<ReservationInfo>>;
    async fn placement_groups(&self, filters: &[Filter]) -> Answer<Vec<PlacementGroupInfo>>;
    async fn instances(&self, filters: &[Filter]) -> Answer<Vec<InstanceInfo>>;
    async fn instances_by_id(&self, ids: &[String]) -> Answer<Vec<InstanceInfo>>;
    async fn instance_status(&self, filters: &[Filter]) -> Answer<Vec<InstanceStatusInfo>>;
    async fn launch_templates(&self, filters: &[Filter]) -> Answer<Vec<TemplateRef>>;
    async fn launch_template(&self, name: &str) -> Answer<Vec<TemplateRef>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRef {
    pub id: String,
    pub name: String,
}

/// Whether a call is carried out, or only whether it would be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    Real,
    /// Without retries (AWS-252).
    Dry,
}

/// What changes the account.
#[async_trait]
pub trait Ec2Writes: Debug + Send + Sync {
    async fn create_launch_template(&self, request: &LaunchTemplateRequest) -> Answer<TemplateRef>;
    async fn delete_launch_template(&self, id: &str) -> Answer<()>;
    /// The same token stands for the same request, however often it is sent.
    async fn create_fleet(&self, request: &FleetRequest, token: &str, run: Run) -> Answer<FleetAnswer>;
    /// Only ever dry.
    async fn run_instances(&self, template: &LaunchTemplateRequest, instance_type: &str, subnet: &str) -> Answer<()>;
    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> Answer<()>;
    /// The ids that are on their way out now.
    async fn terminate_instances(&self, ids: &[String]) -> Answer<Vec<String>>;
    async fn reboot_instance(&self, id: &str) -> Answer<()>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceProfileInfo {
    pub name: String,
    /// Names without paths.
    pub roles: Vec<String>,
}

#[async_trait]
pub trait Iam: Debug + Send + Sync {
    async fn instance_profile(&self, name: &str) -> Answer<InstanceProfileInfo>;
    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> Answer<()>;
    async fn add_role(&self, profile: &str, role: &str) -> Answer<()>;
    async fn remove_role(&self, profile: &str, role: &str) -> Answer<()>;
    async fn delete_instance_profile(&self, name: &str) -> Answer<()>;
    async fn instance_profiles(&self, path_prefix: &str) -> Answer<Vec<InstanceProfileInfo>>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterInfo {
    pub arn: String,
    pub endpoint: String,
    pub version: String,
    /// Of services: IPv4 first, else IPv6 (AC-86).
    pub service_cidr: Option<String>,
}

/// The small ones: parameters, the price list, the cluster, zonal shifts.
#[async_trait]
pub trait Lookups: Debug + Send + Sync {
    async fn parameter(&self, name: &str) -> Answer<String>;
    /// Texts of JSON objects.
    async fn products(&self, query: &ProductQuery) -> Answer<Vec<String>>;
    async fn cluster(&self, name: &str) -> Answer<ClusterInfo>;
    async fn zonal_shifts(&self, cluster_arn: &str) -> Answer<Vec<ShiftInfo>>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMessage {
    pub body: String,
    pub receipt: String,
}

#[async_trait]
pub trait Queue: Debug + Send + Sync {
    /// Waits up to 20 s for up to ten messages, which nobody else sees for 20 s (AWS-215).
    async fn receive(&self) -> Answer<Vec<QueueMessage>>;
    async fn delete(&self, message: &QueueMessage) -> Answer<()>;
}
