//! What the provider knows and its controllers change, and what they ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{ApiError, InstanceInfo, ReservationInfo, SubnetInfo};
use karpenter_aws::instance_types::Evaluated;
use karpenter_aws::launch::failures::Effect;
use karpenter_aws::launch::templates::Template;
use karpenter_aws::provider::{OfferingRow, TypeRow};
use karpenter_aws::zonal_shift::ShiftInfo;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_platform::{BoxError, CallError};

/// The provider, as its controllers see it. What does not wait is a change of memory only.
#[async_trait]
pub trait Shared: Debug + Send + Sync {
    /// The range of service addresses, asked for once; `None` when EKS says nothing of it (AWS-102).
    async fn service_cidr(&self) -> Result<Option<String>, ApiError>;

    /// Every type with its offerings for the class as its status is given here, ready or not.
    async fn instance_types(&self, class: &NodeClass) -> Result<Arc<Vec<InstanceType>>, BoxError>;

    /// What expressions in the class come to for these types, by name (AWS-101).
    fn evaluated(&self, class: &NodeClass, types: &[InstanceType]) -> BTreeMap<String, Evaluated>;
    /// Whether they hold for every type; `None` while no type is known (AWS-99).
    fn expressions_hold(&self, class: &NodeClass) -> Option<Result<(), String>>;

    /// The launch template exists afterwards; a launch of the same shape uses it (AWS-160).
    async fn ensure_template(&self, class: &str, template: &Template) -> Result<(), ApiError>;
    /// All that were made for a class that goes (AWS-41).
    async fn delete_class_templates(&self, class: &str) -> Result<(), CallError>;

    /// This process leads from now on: it takes over what its predecessor left (AWS-161).
    async fn lead(&self) -> Result<(), CallError>;
    /// Keeps types and prices up to date and tidies up, for as long as it is polled (AWS-114, AWS-161, AWS-212).
    async fn run(&self);

    /// EC2 has just said how many addresses are free (AWS-62).
    fn subnets_described(&self, subnets: &[SubnetInfo]);
    /// EC2 has just said what is left of reservations (AWS-77).
    fn reservations_described(&self, reservations: &[ReservationInfo]);
    /// An offering or a reservation is not worth a try for a while (AWS-220).
    fn refused(&self, effect: &Effect);
    /// What ARC has just said; answers with the ids of zones that are shifted away from now (AWS-226).
    fn zonal_shifts_described(&self, shifts: &[ShiftInfo]) -> BTreeSet<String>;

    /// Every instance of the cluster (AWS-198).
    async fn listed_instances(&self) -> Result<Vec<InstanceInfo>, CallError>;
    /// Adds the tags that the claim's instance lacks; false when there is no such instance any more (AWS-157).
    async fn tag_instance(&self, claim: &ClaimView) -> Result<bool, CallError>;

    /// What dashboards show of types (AWS-236).
    fn type_rows(&self) -> Vec<TypeRow> {
        Vec::new()
    }
    /// The same of offerings, for all of these pools.
    async fn offering_rows(&self, pools: &[PoolView]) -> Vec<OfferingRow> {
        let _ = pools;
        Vec::new()
    }

    /// Prices by type that overlays give (AWS-135).
    fn overlay_prices_read(&self, prices: BTreeMap<String, Price>);

    /// A node of the type and the class's images has so much memory (AWS-120).
    fn memory_seen(&self, class: &NodeClass, instance_type: &str, memory: Quantity);
    /// Its driver attaches so many volumes (AWS-313).
    fn attachments_seen(&self, class: &NodeClass, instance_type: &str, limit: u32);
}
