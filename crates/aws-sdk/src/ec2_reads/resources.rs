//! What classes select.

use aws_sdk_ec2::types::{CapacityReservation, Image, PlacementGroup, SecurityGroup, Subnet};
use karpenter_aws::cloud::{ImageInfo, PlacementGroupInfo, ReservationInfo, SecurityGroupInfo, SubnetInfo};

use crate::times::{parsed, timestamp};

pub(super) fn image(image: Image) -> ImageInfo {
    ImageInfo {
        id: image.image_id.unwrap_or_default(),
        name: image.name.unwrap_or_default(),
        architecture: image.architecture.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        created: parsed(image.creation_date.as_deref()),
        deprecated: parsed(image.deprecation_time.as_deref()),
    }
}

pub(super) fn subnet(subnet: Subnet) -> SubnetInfo {
    SubnetInfo {
        id: subnet.subnet_id.unwrap_or_default(),
        zone: subnet.availability_zone.unwrap_or_default(),
        zone_id: subnet.availability_zone_id,
        free_addresses: subnet.available_ip_address_count.unwrap_or_default().into(),
    }
}

pub(super) fn security_group(group: SecurityGroup) -> SecurityGroupInfo {
    SecurityGroupInfo { id: group.group_id.unwrap_or_default(), name: group.group_name }
}

pub(super) fn reservation(reservation: CapacityReservation) -> ReservationInfo {
    ReservationInfo {
        id: reservation.capacity_reservation_id.unwrap_or_default(),
        zone: reservation.availability_zone.unwrap_or_default(),
        instance_type: reservation.instance_type.unwrap_or_default(),
        owner_id: reservation.owner_id.unwrap_or_default(),
        match_criteria: reservation.instance_match_criteria.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        kind: reservation.reservation_type.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        interruptible: reservation.interruptible,
        ends: reservation.end_date.as_ref().and_then(timestamp),
        available: reservation.available_instance_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
    }
}

pub(super) fn placement_group(group: PlacementGroup) -> PlacementGroupInfo {
    PlacementGroupInfo {
        id: group.group_id.unwrap_or_default(),
        name: group.group_name.unwrap_or_default(),
        strategy: group.strategy.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        partitions: group.partition_count.and_then(|count| count.try_into().ok()),
    }
}
