//! The provider, as its controllers see it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{ApiError, InstanceInfo, ReservationInfo, SubnetInfo};
use karpenter_aws::launch::failures::Effect;
use karpenter_aws::launch::templates::Template;
use karpenter_aws::provider::{AwsProvider, Observation, Tagged};
use karpenter_aws::zonal_shift::ShiftInfo;
use karpenter_aws_controllers::Shared;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::quantity::Quantity;
use karpenter_platform::{BoxError, CallError};

#[derive(Debug)]
pub(super) struct SharedProvider(pub(super) Arc<AwsProvider>);

#[async_trait]
impl Shared for SharedProvider {
    async fn service_cidr(&self) -> Result<Option<String>, ApiError> {
        self.0.service_cidr().await
    }

    async fn instance_types(&self, class: &NodeClass) -> Result<Arc<Vec<InstanceType>>, BoxError> {
        Ok(self.0.types_of_class(class).await?)
    }

    async fn ensure_template(&self, class: &str, template: &Template) -> Result<(), ApiError> {
        self.0.ensure_template(class, template).await
    }

    async fn delete_class_templates(&self, class: &str) -> Result<(), CallError> {
        self.0.delete_class_templates(class).await
    }

    async fn lead(&self) -> Result<(), CallError> {
        self.0.lead().await
    }

    async fn run(&self) {
        self.0.run().await;
    }

    fn subnets_described(&self, subnets: &[SubnetInfo]) {
        self.0.subnets_described(subnets);
    }

    fn reservations_described(&self, reservations: &[ReservationInfo]) {
        self.0.reservations_described(reservations);
    }

    fn refused(&self, effect: &Effect) {
        self.0.refused(effect);
    }

    fn zonal_shifts_described(&self, shifts: &[ShiftInfo]) -> BTreeSet<String> {
        self.0.zonal_shifts_described(shifts)
    }

    async fn listed_instances(&self) -> Result<Vec<InstanceInfo>, CallError> {
        self.0.listed_instances().await
    }

    async fn tag_instance(&self, claim: &ClaimView) -> Result<bool, CallError> {
        Ok(self.0.tag_instance(claim).await? == Tagged::Done)
    }

    fn memory_seen(&self, class: &NodeClass, instance_type: &str, memory: Quantity) {
        self.0.observed(class, instance_type, Observation::Memory(memory));
    }

    fn attachments_seen(&self, class: &NodeClass, instance_type: &str, limit: u32) {
        self.0.observed(class, instance_type, Observation::Attachments(limit));
    }
}
