//! The labels of a type (§3.2): every well-known one, absent where the source says nothing.

use karpenter_api::names::aws;
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};

use super::names::TypeName;
use super::{TypeFacts, vpc_limits};
use crate::cloud::InstanceTypeInfo;

pub(super) fn requirements(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Requirements {
    let single = of_hardware(info, facts).into_iter().map(|(key, value)| match value {
        Some(value) => Requirement::any_of(key, [value]),
        None => Requirement::does_not_exist(key),
    });
    let mut all: Requirements = single.chain(of_place(info, facts)).collect();
    all.add_all(&of_reservations(info, facts));
    if let Some(group) = facts.placement_group {
        all.add(Requirement::any_of(aws::PLACEMENT_GROUP_ID, [group.id.as_str()]));
        let partitions = group.partition_names();
        if !partitions.is_empty() {
            all.add(Requirement::any_of(aws::PLACEMENT_GROUP_PARTITION, partitions));
        }
    }
    all
}

/// `x86_64` as Kubernetes calls it; other architectures keep their name.
fn architecture(info: &InstanceTypeInfo) -> Option<String> {
    info.architectures.first().map(|first| if first == "x86_64" { "amd64".to_owned() } else { first.clone() })
}

fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

fn of_hardware(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Vec<(&'static str, Option<String>)> {
    let (name, family) = (TypeName(&info.name), facts.class.family);
    let arch = architecture(info);
    let os = match (family.is_windows(), arch.as_deref()) {
        (false, _) => Some("linux"),
        (true, Some("amd64")) => Some("windows"),
        (true, _) => None,
    };
    let processor = info.processor.as_ref();
    let mhz = processor.map(|processor| mhz(processor.sustained_clock_ghz.unwrap_or_default()));
    let storage = info.storage.as_ref().filter(|storage| storage.nvme.as_deref() != Some("unsupported"));
    // Labels speak of one kind of device; a type with several has none.
    let gpu = if let [only] = &info.gpus[..] { Some(only) } else { None };
    let text = |text: Option<&str>| text.map(ToOwned::to_owned);
    let mut table = vec![
        (labels::INSTANCE_TYPE, Some(info.name.clone())),
        (labels::ARCH, arch),
        (labels::OS, text(os)),
        (labels::WINDOWS_BUILD, text(family.windows_build())),
        (labels::REGION, Some(facts.sizing.region.clone())),
        (aws::INSTANCE_CATEGORY, text(name.category())),
        (aws::INSTANCE_GENERATION, text(name.generation())),
        (aws::INSTANCE_FAMILY, text(name.family())),
        (aws::INSTANCE_SIZE, text(name.size())),
        (aws::INSTANCE_CPU, Some(info.vcpus.to_string())),
        (aws::INSTANCE_CPU_MANUFACTURER, processor.and_then(|p| p.manufacturer.as_deref()).map(kebab)),
        (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, mhz),
        (aws::INSTANCE_MEMORY, Some(info.memory_mib.to_string())),
        (aws::INSTANCE_EBS_BANDWIDTH, info.default_ebs_mbps.map(|mbps| mbps.to_string())),
        (aws::INSTANCE_NETWORK_BANDWIDTH, vpc_limits::network_mbps(&info.name).map(|mbps| mbps.to_string())),
        (aws::INSTANCE_LOCAL_NVME, storage.map(|storage| storage.total_gb.to_string())),
        (aws::INSTANCE_HYPERVISOR, Some(info.hypervisor.clone().unwrap_or_default())),
        (aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, Some(info.network.encryption_in_transit.to_string())),
        (aws::INSTANCE_CAPABILITY_FLEX, Some(name.is_flex().to_string())),
        (aws::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name))),
        (aws::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer))),
        (aws::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count.to_string())),
        (aws::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib.to_string())),
    ];
    let accelerator = accelerator(info);
    let keys =
        [aws::INSTANCE_ACCELERATOR_NAME, aws::INSTANCE_ACCELERATOR_MANUFACTURER, aws::INSTANCE_ACCELERATOR_COUNT];
    for (at, key) in keys.into_iter().enumerate() {
        table.push((key, accelerator.as_ref().map(|values| values[at].clone())));
    }
    table
}

/// Name, maker and count of the one accelerator that is not a GPU.
fn accelerator(info: &InstanceTypeInfo) -> Option<[String; 3]> {
    match (&info.neuron_devices, &info.inference_accelerators[..]) {
        (None, [only]) => Some([kebab(&only.name), kebab(&only.manufacturer), only.count.to_string()]),
        (Some(devices), _) => match &devices[..] {
            [only] => Some([kebab(&only.name), "aws".to_owned(), only.count.to_string()]),
            _ => None,
        },
        _ => None,
    }
}

fn mhz(ghz: f64) -> String {
    format!("{:.0}", (ghz * 1000.0).round().max(0.0))
}

fn of_place(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Vec<Requirement> {
    let zones = facts.usable_zones();
    let ids: Vec<&str> = zones.iter().filter_map(|zone| facts.class.zone_id(zone)).collect();
    let reserved = facts.reservations(&info.name).next().map(|_| labels::CAPACITY_TYPE_RESERVED);
    let capacity_types = base_capacity_types(info).into_iter().chain(reserved);
    vec![
        Requirement::any_of(labels::CAPACITY_TYPE, capacity_types),
        Requirement::any_of(aws::INSTANCE_TENANCY, aws::TENANCIES),
        Requirement::any_of(aws::ZONE_ID, ids),
        Requirement::any_of(labels::ZONE, zones),
    ]
}

/// How the type can be bought without a reservation.
pub(super) fn base_capacity_types(info: &InstanceTypeInfo) -> Vec<&'static str> {
    let known = [labels::CAPACITY_TYPE_ON_DEMAND, labels::CAPACITY_TYPE_SPOT];
    known.into_iter().filter(|class| info.usage_classes.iter().any(|usage| usage == class)).collect()
}

fn of_reservations(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Requirements {
    let values = |value: fn(&karpenter_api::kinds::ec2nodeclass::CapacityReservation) -> String| {
        facts.reservations(&info.name).map(value).collect::<Vec<_>>()
    };
    [
        Requirement::any_of(aws::CAPACITY_RESERVATION_ID, values(|one| one.id.clone())),
        Requirement::any_of(aws::CAPACITY_RESERVATION_TYPE, values(|one| one.reservation_type.clone())),
        Requirement::any_of(
            aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
            values(|one| one.interruptible.unwrap_or_default().to_string()),
        ),
    ]
    .into_iter()
    .collect()
}
