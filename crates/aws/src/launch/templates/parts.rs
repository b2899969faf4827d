//! Disks, metadata service and placement of a launch template.

use karpenter_api::kinds::ec2nodeclass::BlockDevice;
use karpenter_api::names::aws;
use karpenter_model::quantity::Quantity;

use super::LaunchFacts;
use crate::class::{ClassError, NodeClass};
use crate::cloud::{BlockDeviceSpec, EbsSpec, MetadataSpec, PlacementSpec};

const GI: i64 = 1 << 30;

/// Regions whose API does not know the member.
const WITHOUT_IPV6_METADATA: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

/// Those of the class, or what the family's images expect.
pub(super) fn block_devices(class: &NodeClass) -> Result<Vec<BlockDeviceSpec>, ClassError> {
    if class.spec.block_device_mappings.is_none() {
        let default = class.family.default_devices().iter().map(|device| BlockDeviceSpec {
            device_name: Some(device.name.to_owned()),
            ebs: Some(EbsSpec {
                encrypted: Some(true),
                volume_type: Some("gp3".to_owned()),
                size_gib: Some(device.gib),
                ..EbsSpec::default()
            }),
        });
        return Ok(default.collect());
    }
    let own = class.block_devices().iter().enumerate().map(|(at, device)| {
        let size = class.volume_size(at)?.map(Quantity::value);
        let ebs = device.ebs.as_ref().map(|ebs| volume(ebs, size));
        Ok(BlockDeviceSpec { device_name: device.device_name.clone(), ebs })
    });
    own.collect()
}

fn volume(ebs: &BlockDevice, bytes: Option<i64>) -> EbsSpec {
    EbsSpec {
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        volume_type: ebs.volume_type.clone(),
        iops: ebs.iops.filter(|iops| *iops != 0),
        throughput: ebs.throughput.filter(|throughput| *throughput != 0),
        kms_key_id: ebs.kms_key_id.clone(),
        snapshot_id: ebs.snapshot_id.clone(),
        initialization_rate: ebs.volume_initialization_rate,
        size_gib: bytes.map(|bytes| bytes.div_euclid(GI) + i64::from(bytes.rem_euclid(GI) != 0)),
    }
}

pub(super) fn metadata(class: &NodeClass, region: &str, ipv6: bool) -> MetadataSpec {
    let switch = |on: bool| if on { "enabled" } else { "disabled" }.to_owned();
    let or = |value: &Option<String>, default: &str| value.clone().unwrap_or_else(|| default.to_owned());
    let mut spec = match &class.spec.metadata_options {
        Some(own) => MetadataSpec {
            endpoint: or(&own.http_endpoint, "enabled"),
            ipv6: Some(or(&own.http_protocol_ipv6, "disabled")),
            hop_limit: own.http_put_response_hop_limit.unwrap_or(1),
            tokens: or(&own.http_tokens, "required"),
            instance_tags: "disabled",
        },
        None => MetadataSpec {
            endpoint: switch(false),
            ipv6: Some(switch(ipv6)),
            hop_limit: 2,
            tokens: "required".to_owned(),
            instance_tags: "disabled",
        },
    };
    if WITHOUT_IPV6_METADATA.contains(&region) {
        spec.ipv6 = None;
    }
    spec
}

pub(super) fn placement(facts: &LaunchFacts<'_>) -> PlacementSpec {
    PlacementSpec {
        tenancy: facts.tenancy.to_owned(),
        group_id: facts.placement_group.map(|group| group.id.clone()),
        partition: partition(facts),
    }
}

/// The lowest that the claim allows; none where it leaves that open, EC2 then spreads by itself (AC-237).
fn partition(facts: &LaunchFacts<'_>) -> Option<u32> {
    let asked = facts.claim.requirements.get(aws::PLACEMENT_GROUP_PARTITION)?;
    let names = facts.placement_group?.partition_names();
    names.iter().filter(|name| asked.has(name)).filter_map(|name| name.parse().ok()).min()
}
