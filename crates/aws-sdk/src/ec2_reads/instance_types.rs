//! Instance types (AWS-112). EC2 adds new ones and new kinds of things in them all the time: names are texts (AWS-250).

use aws_sdk_ec2::types::{
    AttachmentLimitType, EbsInfo, EbsOptimizedSupport, GpuDeviceInfo, InferenceDeviceInfo, InstanceStorageInfo,
    InstanceTypeInfo as SdkType, NetworkInfo as SdkNetwork, NeuronDeviceInfo, ProcessorInfo,
};
use karpenter_aws::cloud::{
    Accelerator, AttachmentLimit, Gpu, InstanceStorage, InstanceTypeInfo, NetworkCard, NetworkInfo, NeuronDevice,
    Processor,
};

/// `None` for a type without a name.
pub(super) fn info(given: SdkType) -> Option<InstanceTypeInfo> {
    let architectures = given.processor_info.as_ref().and_then(|processor| processor.supported_architectures.as_ref());
    Some(InstanceTypeInfo {
        name: given.instance_type?.as_str().to_owned(),
        architectures: architectures.into_iter().flatten().map(|name| name.as_str().to_owned()).collect(),
        usage_classes: given
            .supported_usage_classes
            .into_iter()
            .flatten()
            .map(|name| name.as_str().to_owned())
            .collect(),
        hypervisor: given.hypervisor.map(|name| name.as_str().to_owned()).filter(|name| !name.is_empty()),
        bare_metal: given.bare_metal.unwrap_or_default(),
        vcpus: given.v_cpu_info.and_then(|cpus| cpus.default_v_cpus).unwrap_or_default().into(),
        memory_mib: given.memory_info.and_then(|memory| memory.size_in_mib).unwrap_or_default(),
        processor: given.processor_info.map(processor),
        default_ebs_mbps: given.ebs_info.as_ref().and_then(default_bandwidth),
        ebs_attachments: given.ebs_info.as_ref().and_then(attachments),
        storage: given.instance_storage_info.map(storage),
        network: given.network_info.map(network).unwrap_or_default(),
        gpus: given.gpu_info.and_then(|gpus| gpus.gpus).into_iter().flatten().map(gpu).collect(),
        inference_accelerators: given
            .inference_accelerator_info
            .and_then(|accelerators| accelerators.accelerators)
            .into_iter()
            .flatten()
            .map(accelerator)
            .collect(),
        neuron_devices: given
            .neuron_info
            .map(|neuron| neuron.neuron_devices.unwrap_or_default().into_iter().map(neuron_device).collect()),
        placement_strategies: given
            .placement_group_info
            .and_then(|groups| groups.supported_strategies)
            .into_iter()
            .flatten()
            .map(|name| name.as_str().to_owned())
            .collect(),
    })
}

fn processor(processor: ProcessorInfo) -> Processor {
    Processor {
        manufacturer: processor.manufacturer,
        sustained_clock_ghz: processor.sustained_clock_speed_in_ghz,
        features: processor.supported_features.into_iter().flatten().map(|name| name.as_str().to_owned()).collect(),
    }
}

fn default_bandwidth(ebs: &EbsInfo) -> Option<i64> {
    let default = ebs.ebs_optimized_support == Some(EbsOptimizedSupport::Default);
    let bandwidth = ebs.ebs_optimized_info.as_ref()?.maximum_bandwidth_in_mbps?;
    default.then_some(bandwidth.into())
}

fn attachments(ebs: &EbsInfo) -> Option<AttachmentLimit> {
    Some(AttachmentLimit {
        maximum: ebs.maximum_ebs_attachments?.try_into().ok()?,
        dedicated: ebs.attachment_limit_type == Some(AttachmentLimitType::Dedicated),
    })
}

fn storage(storage: InstanceStorageInfo) -> InstanceStorage {
    let disks = storage.disks.unwrap_or_default();
    InstanceStorage {
        total_gb: storage.total_size_in_gb.unwrap_or_default(),
        disks: disks.iter().filter_map(|disk| u32::try_from(disk.count?).ok()).sum(),
        nvme: storage.nvme_support.map(|name| name.as_str().to_owned()),
    }
}

fn network(network: SdkNetwork) -> NetworkInfo {
    let cards = network.network_cards.unwrap_or_default();
    NetworkInfo {
        encryption_in_transit: network.encryption_in_transit_supported.unwrap_or_default(),
        ena: network.ena_support.map(|name| name.as_str().to_owned()),
        ipv4_per_interface: network.ipv4_addresses_per_interface.unwrap_or_default().into(),
        default_card: network.default_network_card_index.and_then(|index| index.try_into().ok()).unwrap_or_default(),
        cards: cards
            .iter()
            .map(|card| NetworkCard {
                index: card.network_card_index.unwrap_or_default(),
                maximum_interfaces: card.maximum_network_interfaces.unwrap_or_default().into(),
            })
            .collect(),
        maximum_efa: network.efa_info.and_then(|efa| efa.maximum_efa_interfaces).unwrap_or_default().into(),
    }
}

fn gpu(gpu: GpuDeviceInfo) -> Gpu {
    Gpu {
        name: gpu.name.unwrap_or_default(),
        manufacturer: gpu.manufacturer.unwrap_or_default(),
        count: gpu.count.unwrap_or_default().into(),
        memory_mib: gpu.memory_info.and_then(|memory| memory.size_in_mib).unwrap_or_default().into(),
    }
}

fn accelerator(accelerator: InferenceDeviceInfo) -> Accelerator {
    Accelerator {
        name: accelerator.name.unwrap_or_default(),
        manufacturer: accelerator.manufacturer.unwrap_or_default(),
        count: accelerator.count.unwrap_or_default().into(),
    }
}

fn neuron_device(device: NeuronDeviceInfo) -> NeuronDevice {
    NeuronDevice {
        name: device.name.unwrap_or_default(),
        count: device.count.unwrap_or_default().into(),
        cores: device.core_info.and_then(|cores| cores.count).unwrap_or_default().into(),
    }
}
