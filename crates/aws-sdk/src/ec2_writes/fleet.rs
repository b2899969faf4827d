//! Instant fleets (AWS-184).

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types::{
    CreateFleetError, CreateFleetInstance, DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
    FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy,
    FleetReservationType, FleetType, InstanceType, LaunchTemplateAndOverridesResponse, OnDemandOptionsRequest,
    ReservedCapacityOptionsRequest, SpotAllocationStrategy, SpotOptionsRequest, TargetCapacitySpecificationRequest,
};
use karpenter_aws::cloud::{FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetRequest};

use super::tag_specifications;

pub(super) fn call(client: &Client, request: &FleetRequest) -> CreateFleetFluentBuilder {
    let target = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(request.target_capacity).unwrap_or(i32::MAX))
        .default_target_capacity_type(DefaultTargetCapacityType::from(request.default_capacity_type));
    let on_demand = request.on_demand_strategy.map(|strategy| {
        let strategy = FleetOnDemandAllocationStrategy::from(strategy);
        OnDemandOptionsRequest::builder().allocation_strategy(strategy).build()
    });
    let spot = request.spot_strategy.map(|strategy| {
        SpotOptionsRequest::builder().allocation_strategy(SpotAllocationStrategy::from(strategy)).build()
    });
    let reserved = request.reservation_types.map(|kind| {
        ReservedCapacityOptionsRequest::builder().reservation_types(FleetReservationType::from(kind)).build()
    });
    client
        .create_fleet()
        .r#type(FleetType::Instant)
        .target_capacity_specification(target.build())
        .set_on_demand_options(on_demand)
        .set_spot_options(spot)
        .set_reserved_capacity_options(reserved)
        .set_launch_template_configs(Some(request.configs.iter().map(config).collect()))
        .set_context(request.context.clone())
        .set_tag_specifications(Some(tag_specifications(&request.tags)))
}

fn config(config: &FleetConfig) -> FleetLaunchTemplateConfigRequest {
    let template = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&config.template_name)
        .version(config.version)
        .build();
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(override_of).collect()))
        .build()
}

fn override_of(given: &FleetOverride) -> FleetLaunchTemplateOverridesRequest {
    FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(InstanceType::from(given.instance_type.as_str()))
        .subnet_id(&given.subnet_id)
        .image_id(&given.image_id)
        .availability_zone(&given.zone)
        .priority(given.priority)
        .build()
}

pub(super) fn answer(output: CreateFleetOutput) -> FleetAnswer {
    FleetAnswer {
        instances: output.instances.unwrap_or_default().into_iter().flat_map(launched).collect(),
        errors: output.errors.unwrap_or_default().into_iter().map(refused).collect(),
    }
}

/// The override that something came from; EC2 may leave any part of it out (AWS-292).
#[derive(Default)]
struct Origin {
    instance_type: String,
    zone: String,
    subnet_id: String,
    template_name: String,
}

fn origin(from: Option<LaunchTemplateAndOverridesResponse>) -> Origin {
    let Some(from) = from else { return Origin::default() };
    let template_name = from.launch_template_specification.and_then(|template| template.launch_template_name);
    let template_name = template_name.unwrap_or_default();
    let Some(given) = from.overrides else { return Origin { template_name, ..Origin::default() } };
    Origin {
        instance_type: given.instance_type.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        zone: given.availability_zone.unwrap_or_default(),
        subnet_id: given.subnet_id.unwrap_or_default(),
        template_name,
    }
}

fn launched(group: CreateFleetInstance) -> Vec<FleetInstance> {
    let origin = origin(group.launch_template_and_overrides);
    // What EC2 says of the instances themselves counts before the override.
    let or =
        |said: Option<String>, override_says: String| said.filter(|text| !text.is_empty()).unwrap_or(override_says);
    let instance_type = or(group.instance_type.map(|name| name.as_str().to_owned()), origin.instance_type);
    let zone = or(group.availability_zone, origin.zone);
    let subnet_id = or(group.subnet_id, origin.subnet_id);
    let ids = group.instance_ids.unwrap_or_default().into_iter();
    ids.map(|id| FleetInstance {
        id,
        instance_type: instance_type.clone(),
        zone: zone.clone(),
        subnet_id: subnet_id.clone(),
        template_name: origin.template_name.clone(),
    })
    .collect()
}

fn refused(error: CreateFleetError) -> FleetError {
    let origin = origin(error.launch_template_and_overrides);
    FleetError {
        code: error.error_code.unwrap_or_default(),
        message: error.error_message.unwrap_or_default(),
        instance_type: origin.instance_type,
        zone: origin.zone,
        subnet_id: origin.subnet_id,
        template_name: origin.template_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-292: an error that names no override, and instances that do.
    #[test]
    fn answers_may_leave_things_out() {
        let bare = CreateFleetError::builder().error_code("UnfulfillableCapacity").build();
        let group =
            CreateFleetInstance::builder().instance_ids("i-1").instance_ids("i-2").instance_type(InstanceType::M5Large);
        let output = CreateFleetOutput::builder().errors(bare).instances(group.build()).build();
        let answer = answer(output);
        assert_eq!(answer.errors, [FleetError { code: "UnfulfillableCapacity".to_owned(), ..FleetError::default() }]);
        let one = |id: &str| FleetInstance {
            id: id.to_owned(),
            instance_type: "m5.large".to_owned(),
            ..FleetInstance::default()
        };
        assert_eq!(answer.instances, [one("i-1"), one("i-2")]);
    }
}
