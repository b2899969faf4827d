//! What DescribeInstanceTypes and DescribeInstanceTypeOfferings say (AWS-112).

/// A type as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InstanceTypeInfo {
    pub name: String,
    /// `x86_64`, `arm64`, …; the first one counts.
    pub architectures: Vec<String>,
    /// `on-demand`, `spot`, `capacity-block`, ….
    pub usage_classes: Vec<String>,
    /// `nitro` or `xen`; none for bare metal.
    pub hypervisor: Option<String>,
    pub bare_metal: bool,
    pub vcpus: i64,
    pub memory_mib: i64,
    pub processor: Option<Processor>,
    /// The greatest bandwidth, only if optimisation for EBS is on by default.
    pub default_ebs_mbps: Option<i64>,
    pub ebs_attachments: Option<AttachmentLimit>,
    pub storage: Option<InstanceStorage>,
    pub network: NetworkInfo,
    pub gpus: Vec<Gpu>,
    pub inference_accelerators: Vec<Accelerator>,
    /// `None` when EC2 says nothing about Neuron, which differs from an empty list.
    pub neuron_devices: Option<Vec<NeuronDevice>>,
    /// `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Processor {
    pub manufacturer: Option<String>,
    pub sustained_clock_ghz: Option<f64>,
    /// Such as `nested-virtualization`.
    pub features: Vec<String>,
}

/// How many volumes can be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachmentLimit {
    pub maximum: u32,
    /// Not shared with interfaces and local disks.
    pub dedicated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceStorage {
    pub total_gb: i64,
    pub disks: u32,
    /// `required`, `supported` or `unsupported`.
    pub nvme: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkInfo {
    pub encryption_in_transit: bool,
    /// `required`, `supported` or `unsupported`.
    pub ena: Option<String>,
    pub ipv4_per_interface: i64,
    /// The index of the card that has the primary interface.
    pub default_card: usize,
    pub cards: Vec<NetworkCard>,
    /// Zero for types without EFA.
    pub maximum_efa: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkCard {
    pub index: i32,
    pub maximum_interfaces: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpu {
    pub name: String,
    pub manufacturer: String,
    /// Zero where a part of one is given out (AWS-117).
    pub count: i64,
    /// Of each.
    pub memory_mib: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accelerator {
    pub name: String,
    pub manufacturer: String,
    pub count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NeuronDevice {
    pub name: String,
    pub count: i64,
    /// Of each device.
    pub cores: i64,
}

/// A zone where a type can be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeOffering {
    pub instance_type: String,
    pub zone: String,
}

impl InstanceTypeInfo {
    pub fn is_arm(&self) -> bool {
        self.architectures.first().is_some_and(|first| first == "arm64")
    }

    /// How many interfaces the card with the primary one takes.
    pub fn default_card_interfaces(&self) -> i64 {
        self.network.cards.get(self.network.default_card).map_or(0, |card| card.maximum_interfaces)
    }

    pub fn is_nitro(&self) -> bool {
        self.hypervisor.as_deref() == Some("nitro")
    }
}
