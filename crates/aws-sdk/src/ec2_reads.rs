//! What EC2 describes. Every listing goes to its end, over empty pages, too (AWS-254); what an answer leaves out is left out.

mod instance_types;
mod instances;
mod resources;

use std::fmt;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    Filter as SdkFilter, InstanceTypeOffering, LaunchTemplate, LocationType, SpotPrice as SdkSpotPrice,
};
use jiff::Timestamp;
use karpenter_aws::cloud::{
    ApiError, Ec2Reads, Filter, ImageInfo, ImageQuery, InstanceInfo, InstanceTypeInfo, PlacementGroupInfo,
    ReservationInfo, ReservationQuery, SecurityGroupInfo, SubnetInfo, TemplateRef, TypeOffering,
};
use karpenter_aws::interruption::status::InstanceStatusInfo;
use karpenter_aws::pricing::{SPOT_PRODUCTS, SpotPrice};

use crate::failures::failure;
use crate::times::{date_time, timestamp};

/// Page sizes as they are asked for.
const TYPES: i32 = 100;
const SPOT_PRICES: i32 = 2000;
const TEMPLATES: i32 = 200;
const NETWORK: i32 = 500;
const OTHERS: i32 = 1000;

pub(crate) struct Reads(pub(crate) Client);

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reads")
    }
}

/// Asks for all pages of a listing.
macro_rules! all {
    ($call:expr, $size:expr) => {
        $call.into_paginator().page_size($size).items().send().collect::<Result<Vec<_>, _>>().await.map_err(failure)
    };
}

#[async_trait]
impl Ec2Reads for Reads {
    async fn instance_types(&self) -> Result<Vec<InstanceTypeInfo>, ApiError> {
        // AWS-112.
        let filters = [
            Filter::new("supported-virtualization-type", ["hvm"]),
            Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ];
        let found = all!(self.0.describe_instance_types().set_filters(filters_of(&filters)), TYPES)?;
        Ok(found.into_iter().filter_map(instance_types::info).collect())
    }

    async fn type_offerings(&self) -> Result<Vec<TypeOffering>, ApiError> {
        let call = self.0.describe_instance_type_offerings().location_type(LocationType::AvailabilityZone);
        Ok(all!(call, OTHERS)?.into_iter().filter_map(type_offering).collect())
    }

    async fn spot_prices(&self, since: Timestamp) -> Result<Vec<SpotPrice>, ApiError> {
        let products = SPOT_PRODUCTS.map(str::to_owned).to_vec();
        let call = self.0.describe_spot_price_history().set_product_descriptions(Some(products));
        Ok(all!(call.start_time(date_time(since)), SPOT_PRICES)?.into_iter().map(spot_price).collect())
    }

    async fn images(&self, query: &ImageQuery) -> Result<Vec<ImageInfo>, ApiError> {
        let call = self.0.describe_images().include_deprecated(true).set_filters(filters_of(&query.filters));
        let owners = Some(query.owners.clone()).filter(|owners| !owners.is_empty());
        Ok(all!(call.set_owners(owners), OTHERS)?.into_iter().map(resources::image).collect())
    }

    async fn subnets(&self, filters: &[Filter]) -> Result<Vec<SubnetInfo>, ApiError> {
        let call = self.0.describe_subnets().set_filters(filters_of(filters));
        Ok(all!(call, NETWORK)?.into_iter().map(resources::subnet).collect())
    }

    async fn security_groups(&self, filters: &[Filter]) -> Result<Vec<SecurityGroupInfo>, ApiError> {
        let call = self.0.describe_security_groups().set_filters(filters_of(filters));
        Ok(all!(call, NETWORK)?.into_iter().map(resources::security_group).collect())
    }

    async fn capacity_reservations(&self, query: &ReservationQuery) -> Result<Vec<ReservationInfo>, ApiError> {
        let call = self.0.describe_capacity_reservations().set_filters(filters_of(&query.filters));
        let found = match &query.id {
            // EC2 takes ids or a page size.
            Some(id) => {
                let answer = call.capacity_reservation_ids(id).send().await.map_err(failure)?;
                answer.capacity_reservations.unwrap_or_default()
            }
            None => all!(call, OTHERS)?,
        };
        Ok(found.into_iter().map(resources::reservation).collect())
    }

    async fn placement_groups(&self, filters: &[Filter]) -> Result<Vec<PlacementGroupInfo>, ApiError> {
        // It has no pages.
        let answer =
            self.0.describe_placement_groups().set_filters(filters_of(filters)).send().await.map_err(failure)?;
        Ok(answer.placement_groups.unwrap_or_default().into_iter().map(resources::placement_group).collect())
    }

    async fn instances(&self, filters: &[Filter]) -> Result<Vec<InstanceInfo>, ApiError> {
        let call = self.0.describe_instances().set_filters(filters_of(filters));
        Ok(instances::infos(all!(call, OTHERS)?))
    }

    async fn instances_by_id(&self, ids: &[String]) -> Result<Vec<InstanceInfo>, ApiError> {
        if ids.is_empty() {
            // Else EC2 would take it for all of them.
            return Ok(Vec::new());
        }
        // EC2 takes no page size beside ids, and may send pages all the same.
        let call = self.0.describe_instances().set_instance_ids(Some(ids.to_vec()));
        let found: Result<Vec<_>, _> = call.into_paginator().items().send().collect().await;
        Ok(instances::infos(found.map_err(failure)?))
    }

    async fn instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceStatusInfo>, ApiError> {
        let call = self.0.describe_instance_status().set_filters(filters_of(filters));
        Ok(all!(call, OTHERS)?.into_iter().map(instances::status).collect())
    }

    async fn launch_templates(&self, filters: &[Filter]) -> Result<Vec<TemplateRef>, ApiError> {
        let call = self.0.describe_launch_templates().set_filters(filters_of(filters));
        Ok(all!(call, TEMPLATES)?.into_iter().map(template).collect())
    }

    async fn launch_template(&self, name: &str) -> Result<Vec<TemplateRef>, ApiError> {
        let answer = self.0.describe_launch_templates().launch_template_names(name).send().await.map_err(failure)?;
        Ok(answer.launch_templates.unwrap_or_default().into_iter().map(template).collect())
    }
}

/// `None` for no filter at all.
fn filters_of(filters: &[Filter]) -> Option<Vec<SdkFilter>> {
    let given =
        |filter: &Filter| SdkFilter::builder().name(&filter.name).set_values(Some(filter.values.clone())).build();
    Some(filters.iter().map(given).collect::<Vec<_>>()).filter(|filters| !filters.is_empty())
}

fn type_offering(offering: InstanceTypeOffering) -> Option<TypeOffering> {
    Some(TypeOffering { instance_type: offering.instance_type?.as_str().to_owned(), zone: offering.location? })
}

fn spot_price(price: SdkSpotPrice) -> SpotPrice {
    SpotPrice {
        instance_type: price.instance_type.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        zone: price.availability_zone.unwrap_or_default(),
        price: price.spot_price.unwrap_or_default(),
        timestamp: price.timestamp.as_ref().and_then(timestamp),
    }
}

pub(crate) fn template(template: LaunchTemplate) -> TemplateRef {
    TemplateRef {
        id: template.launch_template_id.unwrap_or_default(),
        name: template.launch_template_name.unwrap_or_default(),
    }
}
