//! Launch templates, field by field (AWS-158 ff.), and a run of one that never takes place.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, ConnectionTrackingSpecificationRequest,
    InstanceNetworkInterfaceSpecification, InstanceType, LaunchTemplateBlockDeviceMappingRequest,
    LaunchTemplateCapacityReservationSpecificationRequest, LaunchTemplateCpuOptionsRequest,
    LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest, LaunchTemplateHttpTokensState,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMarketOptionsRequest,
    LaunchTemplateInstanceMetadataEndpointState, LaunchTemplateInstanceMetadataOptionsRequest,
    LaunchTemplateInstanceMetadataProtocolIpv6, LaunchTemplateInstanceMetadataTagsState,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, LaunchTemplatePlacementRequest,
    LaunchTemplateSpecification, LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest, MarketType,
    NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType, Tenancy, VolumeType,
};
use karpenter_aws::cloud::{
    BlockDeviceSpec, EbsSpec, InterfaceSpec, LaunchTemplateData, LaunchTemplateRequest, MetadataSpec, PlacementSpec,
    ReservationSpec, TagSpecification,
};

use super::{tag_specification, tags_of};

pub(super) fn data(data: &LaunchTemplateData) -> RequestLaunchTemplateData {
    let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&data.instance_profile).build();
    let cpu = data.nested_virtualization.as_deref().map(|nested| {
        let nested = NestedVirtualizationSpecification::from(nested);
        LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build()
    });
    let market = data.market.map(|market| {
        LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(MarketType::from(market)).build()
    });
    let devices: Vec<_> = data.block_devices.iter().map(block_device).collect();
    RequestLaunchTemplateData::builder()
        .image_id(&data.image_id)
        .iam_instance_profile(profile)
        .set_block_device_mappings(Some(devices).filter(|devices| !devices.is_empty()))
        .user_data(&data.user_data)
        .monitoring(LaunchTemplatesMonitoringRequest::builder().enabled(data.detailed_monitoring).build())
        .metadata_options(metadata(&data.metadata))
        .set_network_interfaces(Some(data.interfaces.iter().map(interface).collect()))
        .placement(placement(&data.placement))
        .enclave_options(LaunchTemplateEnclaveOptionsRequest::builder().enabled(data.enclave).build())
        .set_cpu_options(cpu)
        .set_capacity_reservation_specification(data.reservation.as_ref().map(reservation))
        .set_instance_market_options(market)
        .set_tag_specifications(Some(data.tags.iter().map(tags).collect()))
        .build()
}

fn tags(specification: &TagSpecification) -> LaunchTemplateTagSpecificationRequest {
    LaunchTemplateTagSpecificationRequest::builder()
        .resource_type(ResourceType::from(specification.resource_type))
        .set_tags(Some(tags_of(&specification.tags)))
        .build()
}

fn block_device(device: &BlockDeviceSpec) -> LaunchTemplateBlockDeviceMappingRequest {
    LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(device.device_name.clone())
        .set_ebs(device.ebs.as_ref().map(ebs))
        .build()
}

fn ebs(ebs: &EbsSpec) -> LaunchTemplateEbsBlockDeviceRequest {
    LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(ebs.delete_on_termination)
        .set_encrypted(ebs.encrypted)
        .set_volume_type(ebs.volume_type.as_deref().map(VolumeType::from))
        .set_iops(ebs.iops.map(bounded))
        .set_throughput(ebs.throughput.map(bounded))
        .set_kms_key_id(ebs.kms_key_id.clone())
        .set_snapshot_id(ebs.snapshot_id.clone())
        .set_volume_initialization_rate(ebs.initialization_rate)
        .set_volume_size(ebs.size_gib.map(bounded))
        .build()
}

/// What is too large for the wire is too large for EC2, which says so.
fn bounded(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

fn metadata(metadata: &MetadataSpec) -> LaunchTemplateInstanceMetadataOptionsRequest {
    let ipv6 = metadata.ipv6.as_deref().map(LaunchTemplateInstanceMetadataProtocolIpv6::from);
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(LaunchTemplateInstanceMetadataEndpointState::from(metadata.endpoint.as_str()))
        .set_http_protocol_ipv6(ipv6)
        .http_put_response_hop_limit(bounded(metadata.hop_limit))
        .http_tokens(LaunchTemplateHttpTokensState::from(metadata.tokens.as_str()))
        .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::from(metadata.instance_tags))
        .build()
}

fn interface(interface: &InterfaceSpec) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = interface.connection_tracking.map(|tracking| {
        ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(tracking.tcp_established)
            .set_udp_stream_timeout(tracking.udp_stream)
            .set_udp_timeout(tracking.udp)
            .build()
    });
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(interface.network_card)
        .device_index(interface.device)
        .set_interface_type(interface.kind.clone())
        .set_groups(Some(interface.security_groups.clone()))
        .set_associate_public_ip_address(interface.public_ip)
        .set_ipv4_prefix_count(interface.ipv4_prefixes)
        .set_ipv6_prefix_count(interface.ipv6_prefixes)
        .set_primary_ipv6(interface.primary_ipv6)
        .set_ipv6_address_count(interface.ipv6_addresses)
        .set_connection_tracking_specification(tracking)
        .build()
}

fn placement(placement: &PlacementSpec) -> LaunchTemplatePlacementRequest {
    LaunchTemplatePlacementRequest::builder()
        .tenancy(Tenancy::from(placement.tenancy.as_str()))
        .set_group_id(placement.group_id.clone())
        .set_partition_number(placement.partition.and_then(|number| number.try_into().ok()))
        .build()
}

fn reservation(reservation: &ReservationSpec) -> LaunchTemplateCapacityReservationSpecificationRequest {
    let target = reservation.target.as_ref();
    let target = target.map(|id| CapacityReservationTarget::builder().capacity_reservation_id(id).build());
    LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .capacity_reservation_preference(CapacityReservationPreference::from(reservation.preference))
        .set_capacity_reservation_target(target)
        .build()
}

/// One instance in this subnet, tagged as a real one would be (AWS-106, AWS-241). The template names its interfaces, so that
/// the subnet has to be said of each.
pub(super) fn run(
    client: &Client,
    template: &LaunchTemplateRequest,
    instance_type: &str,
    subnet: &str,
) -> RunInstancesFluentBuilder {
    let name = LaunchTemplateSpecification::builder().launch_template_name(&template.name).version("$Latest").build();
    let interfaces = template.data.interfaces.iter().map(|interface| {
        InstanceNetworkInterfaceSpecification::builder()
            .set_network_card_index(interface.network_card)
            .device_index(interface.device)
            .set_interface_type(interface.kind.clone())
            .set_groups(Some(interface.security_groups.clone()))
            .subnet_id(subnet)
            .build()
    });
    let tags = ["instance", "volume", "network-interface"].map(|kind| tag_specification(kind, &template.tags));
    client
        .run_instances()
        .launch_template(name)
        .instance_type(InstanceType::from(instance_type))
        .min_count(1)
        .max_count(1)
        .set_network_interfaces(Some(interfaces.collect()))
        .set_tag_specifications(Some(tags.to_vec()))
}
