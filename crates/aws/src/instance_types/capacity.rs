//! What a node has (§3.3).

use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::pods::pods;
use super::storage::ephemeral_storage;
use super::vpc_limits::vpc_limits;
use super::{Sizing, TypeFacts};
use crate::class::{ClassError, NodeClass};
use crate::cloud::InstanceTypeInfo;

pub(crate) const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
pub(crate) const PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
pub(crate) const EFA: &str = "vpc.amazonaws.com/efa";
pub(crate) const NEURON: &str = "aws.amazon.com/neuron";
pub(crate) const NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// GPUs by who makes them (AWS-126).
pub(crate) const GPUS: [(&str, &str); 3] =
    [("NVIDIA", "nvidia.com/gpu"), ("AMD", "amd.com/gpu"), ("Habana", "habana.ai/gaudi")];

const MI: i64 = 1 << 20;

/// What images for arm64 lose to the firmware, in MiB (AWS-119).
const ARM_MIB: i64 = 64;

/// Zero where a type has none of a resource, so that a pod that asks for it is refused by name.
pub(super) fn capacity(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Result<Resources, ClassError> {
    let limits = vpc_limits(&info.name);
    let mut capacity = Resources::new()
        .with(CPU, Quantity::units(info.vcpus))
        .with(MEMORY, memory(info, facts.sizing))
        .with(EPHEMERAL_STORAGE, ephemeral_storage(info, facts.class)?)
        .with(PODS, Quantity::units(pods(info, facts)?))
        .with(POD_ENI, Quantity::units(limits.and_then(|limits| limits.branch_interfaces).unwrap_or_default()))
        .with(EFA, Quantity::units(efa(info, facts.class)));
    for (maker, resource) in GPUS {
        let of_maker = info.gpus.iter().filter(|gpu| gpu.manufacturer.eq_ignore_ascii_case(maker));
        capacity.set(resource, Quantity::units(of_maker.map(|gpu| gpu.count).sum()));
    }
    let devices = info.neuron_devices.as_deref().unwrap_or_default();
    let count = devices.iter().map(|device| device.count).sum();
    let cores = devices.first().map_or(0, |first| first.cores);
    capacity.set(NEURON, Quantity::units(count));
    capacity.set(NEURON_CORE, Quantity::units(count.saturating_mul(cores)));
    if facts.class.family.is_windows() {
        let addresses = limits.map_or(0, |limits| limits.ipv4_per_interface - 1);
        capacity.set(PRIVATE_IPV4, Quantity::units(addresses));
    }
    Ok(capacity)
}

/// What the hypervisor leaves, to the mebibyte.
fn memory(info: &InstanceTypeInfo, sizing: &Sizing) -> Quantity {
    let mib = info.memory_mib - if info.is_arm() { ARM_MIB } else { 0 };
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "terabytes are far below 2^52")]
    let kept = ((mib * MI) as f64 * sizing.vm_memory_overhead_percent / MI as f64).ceil() as i64;
    Quantity::bytes((mib - kept) * MI)
}

/// Those that the class asks for, or all that there could be (AWS-128).
fn efa(info: &InstanceTypeInfo, class: &NodeClass) -> i64 {
    if class.interfaces().is_empty() {
        return info.network.maximum_efa;
    }
    i64::try_from(class.efa_only_interfaces().count()).unwrap_or(i64::MAX)
}
