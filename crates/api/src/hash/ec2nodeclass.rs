//! The EC2NodeClass hash (AWS-26 … AWS-29, AWS-288).

use std::collections::BTreeMap;

use serde_json::Value;

use super::HashError;
use super::fnv::{Record, boolean, int32, int64, list, map, non_empty, string, string_map};
use crate::kinds::ec2nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, KubeletConfiguration,
    MetadataOptions, NetworkInterface, PlacementGroupSelector,
};
use crate::values::DurationText;

pub const EC2_NODE_CLASS_HASH_VERSION: &str = "v5";

/// Families that an alias can name, with the name of the family.
const ALIAS_FAMILIES: [(&str, &str); 6] = [
    ("al2", "AL2"),
    ("al2023", "AL2023"),
    ("bottlerocket", "Bottlerocket"),
    ("windows2019", "Windows2019"),
    ("windows2022", "Windows2022"),
    ("windows2025", "Windows2025"),
];

/// Hash of a class. `ca_bundle` is the cluster's CA in use, in base64; empty when there is none (AWS-27).
pub fn ec2_node_class_hash(spec: &EC2NodeClassSpec, ca_bundle: &str) -> Result<u64, HashError> {
    Ok(record(spec)? ^ string(ami_family(spec)) ^ string(ca_bundle))
}

/// The number at the end of a managed instance profile's name: of region, class name and (for new ones) a UUID, in that
/// order (AWS-40, AWS-69).
pub fn profile_suffix(parts: &[&str]) -> u64 {
    string(&parts.concat())
}

/// The family in effect: the one set, else the alias's, else `Custom`.
pub fn ami_family(spec: &EC2NodeClassSpec) -> &str {
    if let Some(family) = &spec.ami_family {
        return family;
    }
    let aliases = spec.ami_selector_terms.iter().filter_map(|term| term.alias.as_deref());
    let mut families = aliases.filter_map(|alias| {
        let (family, _) = alias.split_once('@')?;
        ALIAS_FAMILIES.iter().find(|(name, _)| *name == family)
    });
    families.next().map_or("Custom", |(_, family)| family)
}

/// Fields in the published order; selector terms, `amiFamily` and `ipPrefixCount` take no part.
fn record(spec: &EC2NodeClassSpec) -> Result<u64, HashError> {
    let kubelet = spec.kubelet.as_ref().map(kubelet).transpose()?;
    let devices = spec.block_device_mappings.as_ref().map(|devices| block_devices(devices)).transpose()?;
    let interfaces = spec.network_interfaces.as_ref().map(|all| list(all.iter().map(network_interface)));
    let text = |text: &Option<String>| text.as_deref().map(string);
    let record = Record::new("EC2NodeClassSpec")
        .field("PlacementGroupSelector", spec.placement_group_selector.as_ref().map(placement_group))
        .field("AssociatePublicIPAddress", spec.associate_public_ip_address.map(boolean))
        .field("UserData", text(&spec.user_data))
        .field("Role", spec.role.as_deref().and_then(non_empty))
        .field("InstanceProfile", text(&spec.instance_profile))
        .field("Tags", spec.tags.as_ref().map(string_map))
        .field("Kubelet", kubelet)
        .field("BlockDeviceMappings", devices)
        .field("InstanceStorePolicy", text(&spec.instance_store_policy))
        .field("NetworkInterfaces", interfaces)
        .field("DetailedMonitoring", spec.detailed_monitoring.map(boolean))
        .field("MetadataOptions", spec.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", spec.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", text(&spec.context))
        .field("CPUOptions", spec.cpu_options.as_ref().map(cpu_options));
    Ok(record.hash())
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    Record::new("PlacementGroupSelector")
        .field("Name", selector.name.as_deref().map(string))
        .field("ID", selector.id.as_deref().map(string))
        .hash()
}

fn kubelet(kubelet: &KubeletConfiguration) -> Result<u64, HashError> {
    let periods = kubelet.eviction_soft_grace_period.as_ref().map(|periods| {
        let hashed: Result<Vec<_>, _> =
            periods.iter().map(|(signal, text)| Ok((signal, grace_period(signal, text)?))).collect();
        hashed.map(map)
    });
    let record = Record::new("KubeletConfiguration")
        .field("ClusterDNS", kubelet.cluster_dns.as_ref().map(|all| list(all.iter().map(|dns| string(dns)))))
        .field("MaxPods", kubelet.max_pods.map(int32))
        .field("PodsPerCore", kubelet.pods_per_core.map(int32))
        .field("SystemReserved", kubelet.system_reserved.as_ref().map(string_map))
        .field("KubeReserved", kubelet.kube_reserved.as_ref().map(string_map))
        .field("EvictionHard", kubelet.eviction_hard.as_ref().map(string_map))
        .field("EvictionSoft", kubelet.eviction_soft.as_ref().map(string_map))
        .field("EvictionSoftGracePeriod", periods.transpose()?)
        .field("EvictionMaxPodGracePeriod", kubelet.eviction_max_pod_grace_period.map(int32))
        .field("ImageGCHighThresholdPercent", kubelet.image_gc_high_threshold_percent.map(int32))
        .field("ImageGCLowThresholdPercent", kubelet.image_gc_low_threshold_percent.map(int32))
        .field("CPUCFSQuota", kubelet.cpu_cfs_quota.map(boolean))
        // Ours: the version that is kept compatible knows no such members, so a class that it could have has none (AWS-26).
        .field("Other", (!kubelet.other.is_empty()).then(|| open_members(&kubelet.other)));
    Ok(record.hash())
}

/// Each as the text of its JSON, which has one form: members are sorted.
fn open_members(members: &BTreeMap<String, Value>) -> u64 {
    map(members.iter().map(|(name, value)| (name, string(&value.to_string()))))
}

fn grace_period(signal: &str, text: &DurationText) -> Result<u64, HashError> {
    let field = || format!("spec.kubelet.evictionSoftGracePeriod[{signal}]");
    let duration = text.parse().map_err(|source| HashError::Duration { field: field(), source })?;
    let nanos = (!duration.is_zero()).then(|| int64(duration.as_nanos()));
    Ok(Record::new("Duration").field("Duration", nanos).hash())
}

fn block_devices(devices: &[BlockDeviceMapping]) -> Result<u64, HashError> {
    let hashed: Result<Vec<_>, _> = devices.iter().enumerate().map(|(at, device)| block_device(at, device)).collect();
    hashed.map(list)
}

fn block_device(at: usize, device: &BlockDeviceMapping) -> Result<u64, HashError> {
    let record = Record::new("BlockDeviceMapping")
        .field("DeviceName", device.device_name.as_deref().map(string))
        .field("EBS", device.ebs.as_ref().map(|ebs| volume(at, ebs)).transpose()?)
        .field("RootVolume", device.root_volume.filter(|root| *root).map(boolean));
    Ok(record.hash())
}

fn volume(at: usize, ebs: &BlockDevice) -> Result<u64, HashError> {
    let field = || format!("spec.blockDeviceMappings[{at}].ebs.volumeSize");
    let size = ebs.volume_size.as_ref().map(|size| {
        let size = size.parse().map_err(|source| HashError::Quantity { field: field(), source })?;
        Ok(string(&size.to_string()))
    });
    let record = Record::new("BlockDevice")
        .field("DeleteOnTermination", ebs.delete_on_termination.map(boolean))
        .field("Encrypted", ebs.encrypted.map(boolean))
        .field("IOPS", ebs.iops.map(int64))
        .field("KMSKeyID", ebs.kms_key_id.as_deref().map(string))
        .field("SnapshotID", ebs.snapshot_id.as_deref().map(string))
        .field("Throughput", ebs.throughput.map(int64))
        .field("VolumeInitializationRate", ebs.volume_initialization_rate.map(int32))
        .field("VolumeSize", size.transpose()?)
        .field("VolumeType", ebs.volume_type.as_deref().map(string));
    Ok(record.hash())
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| int32(index));
    Record::new("NetworkInterface")
        .field("NetworkCardIndex", index(interface.network_card_index))
        .field("DeviceIndex", index(interface.device_index))
        .field("InterfaceType", non_empty(&interface.interface_type))
        .hash()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    Record::new("MetadataOptions")
        .field("HTTPEndpoint", options.http_endpoint.as_deref().map(string))
        .field("HTTPProtocolIPv6", options.http_protocol_ipv6.as_deref().map(string))
        .field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit.map(int64))
        .field("HTTPTokens", options.http_tokens.as_deref().map(string))
        .hash()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    Record::new("ConnectionTracking")
        .field("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(int32))
        .field("UDPStreamTimeout", tracking.udp_stream_timeout.map(int32))
        .field("UDPTimeout", tracking.udp_timeout.map(int32))
        .hash()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    Record::new("CPUOptions").field("NestedVirtualization", options.nested_virtualization.as_deref().map(string)).hash()
}

#[cfg(test)]
mod tests;
