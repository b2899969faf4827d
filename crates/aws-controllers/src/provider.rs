//! The provider as its controllers see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{ApiError, InstanceInfo, ReservationInfo, SubnetInfo};
use karpenter_aws::instance_types::Evaluated;
use karpenter_aws::launch::failures::Effect;
use karpenter_aws::launch::templates::Template;
use karpenter_aws::provider::{AwsProvider, Observation, OfferingRow, Tagged, TypeRow};
use karpenter_aws::zonal_shift::ShiftInfo;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_platform::{BoxError, CallError};

use crate::Shared;

#[async_trait]
impl Shared for AwsProvider {
    async fn service_cidr(&self) -> Result<Option<String>, ApiError> {
        self.service_cidr().await
    }

    async fn instance_types(&self, class: &NodeClass) -> Result<Arc<Vec<InstanceType>>, BoxError> {
        Ok(self.types_of_class(class).await?)
    }

    fn evaluated(&self, class: &NodeClass, types: &[InstanceType]) -> BTreeMap<String, Evaluated> {
        self.evaluated(class, types)
    }

    fn expressions_hold(&self, class: &NodeClass) -> Option<Result<(), String>> {
        self.expressions_hold(class)
    }

    async fn ensure_template(&self, class: &str, template: &Template) -> Result<(), ApiError> {
        self.ensure_template(class, template).await
    }

    async fn delete_class_templates(&self, class: &str) -> Result<(), CallError> {
        self.delete_class_templates(class).await
    }

    async fn lead(&self) -> Result<(), CallError> {
        self.lead().await
    }

    async fn run(&self) {
        self.run().await;
    }

    fn subnets_described(&self, subnets: &[SubnetInfo]) {
        self.subnets_described(subnets);
    }

    fn reservations_described(&self, reservations: &[ReservationInfo]) {
        self.reservations_described(reservations);
    }

    fn refused(&self, effect: &Effect) {
        self.refused(effect);
    }

    fn zonal_shifts_described(&self, shifts: &[ShiftInfo]) -> BTreeSet<String> {
        self.zonal_shifts_described(shifts)
    }

    async fn listed_instances(&self) -> Result<Vec<InstanceInfo>, CallError> {
        self.listed_instances().await
    }

    async fn tag_instance(&self, claim: &ClaimView) -> Result<bool, CallError> {
        Ok(self.tag_instance(claim).await? == Tagged::Done)
    }

    fn overlay_prices_read(&self, prices: BTreeMap<String, Price>) {
        self.overlay_prices_read(prices);
    }

    fn memory_seen(&self, class: &NodeClass, instance_type: &str, memory: Quantity) {
        self.observed(class, instance_type, Observation::Memory(memory));
    }

    fn attachments_seen(&self, class: &NodeClass, instance_type: &str, limit: u32) {
        self.observed(class, instance_type, Observation::Attachments(limit));
    }

    fn type_rows(&self) -> Vec<TypeRow> {
        self.type_rows()
    }

    async fn offering_rows(&self, pools: &[PoolView]) -> Vec<OfferingRow> {
        self.offering_rows(pools).await
    }
}
