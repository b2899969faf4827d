//! Instances, and how they are.

use aws_sdk_ec2::types::{Instance, InstanceStatus, InstanceStatusSummary, Reservation, StatusType};
use karpenter_aws::cloud::InstanceInfo;
use karpenter_aws::interruption::status::{InstanceStatusInfo, StatusFailure};

use crate::times::timestamp;

pub(super) fn infos(reservations: Vec<Reservation>) -> Vec<InstanceInfo> {
    reservations.into_iter().flat_map(|reservation| reservation.instances.unwrap_or_default()).map(info).collect()
}

fn info(instance: Instance) -> InstanceInfo {
    let placement = instance.placement.unwrap_or_else(|| aws_sdk_ec2::types::Placement::builder().build());
    let interfaces = instance.network_interfaces.unwrap_or_default();
    let efa = |kind: &str| kind == "efa" || kind == "efa-only";
    InstanceInfo {
        id: instance.instance_id.unwrap_or_default(),
        state: instance.state.and_then(|state| state.name).map(|name| name.as_str().to_owned()).unwrap_or_default(),
        image_id: instance.image_id.unwrap_or_default(),
        instance_type: instance.instance_type.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        zone: placement.availability_zone.unwrap_or_default(),
        subnet_id: instance.subnet_id.unwrap_or_default(),
        security_groups: instance.security_groups.into_iter().flatten().filter_map(|group| group.group_id).collect(),
        launched: instance.launch_time.as_ref().and_then(timestamp),
        tags: instance
            .tags
            .into_iter()
            .flatten()
            .filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default())))
            .collect(),
        // An empty text is what some answers have instead of nothing.
        spot_request_id: instance.spot_instance_request_id.filter(|id| !id.is_empty()),
        reservation_id: instance.capacity_reservation_id.filter(|id| !id.is_empty()),
        reservation_preference: instance
            .capacity_reservation_specification
            .and_then(|specification| specification.capacity_reservation_preference)
            .map(|name| name.as_str().to_owned()),
        lifecycle: instance.instance_lifecycle.map(|name| name.as_str().to_owned()).filter(|name| !name.is_empty()),
        tenancy: placement.tenancy.map(|name| name.as_str().to_owned()),
        has_efa: interfaces.iter().any(|interface| interface.interface_type.as_deref().is_some_and(efa)),
        partition: placement.partition_number.and_then(|number| number.try_into().ok()),
    }
}

pub(super) fn status(status: InstanceStatus) -> InstanceStatusInfo {
    InstanceStatusInfo {
        instance_id: status.instance_id.unwrap_or_default(),
        instance_failures: failures(status.instance_status),
        system_failures: failures(status.system_status),
        events: status.events.into_iter().flatten().map(|event| event.description.unwrap_or_default()).collect(),
    }
}

fn failures(summary: Option<InstanceStatusSummary>) -> Vec<StatusFailure> {
    let details = summary.and_then(|summary| summary.details).unwrap_or_default();
    let failed = details.into_iter().filter(|detail| detail.status == Some(StatusType::Failed));
    failed.map(|detail| StatusFailure { since: detail.impaired_since.as_ref().and_then(timestamp) }).collect()
}
