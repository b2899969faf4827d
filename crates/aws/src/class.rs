//! An EC2NodeClass, read once: names become families, texts become amounts.

mod kubelet;

use std::collections::BTreeMap;

use karpenter_api::hash::ami_family;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::kinds::ec2nodeclass::{
    BlockDeviceMapping, EC2NodeClassSpec, EC2NodeClassStatus, NetworkInterface, Subnet,
};
use karpenter_model::quantity::{Quantity, QuantityError};

use crate::family::AmiFamily;

pub use kubelet::{EvictionThreshold, Kubelet, MANAGED};

/// The interface type of a device that carries no addresses (AWS-14).
pub const EFA_ONLY: &str = "efa-only";

/// What of a class has no meaning; the API server refuses all of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    #[error("spec.amiFamily: {0:?} is not a family of images")]
    Family(String),
    #[error("{field}: {source}")]
    Quantity { field: String, source: QuantityError },
    #[error("{field}: {text:?} is neither a quantity nor a percentage")]
    Threshold { field: String, text: String },
    #[error("spec.kubelet.{0}: the value is of the wrong type")]
    KubeletType(String),
    /// Of one type, which is as good as of all: no defaults are made up instead (AWS-115).
    #[error("spec.kubelet.maxPods for {instance_type}: {why}")]
    MaxPods { instance_type: String, why: String },
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeClass {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub annotations: BTreeMap<String, String>,
    pub family: AmiFamily,
    /// The parts of the kubelet's settings that arithmetic needs.
    pub kubelet: Kubelet,
    pub spec: EC2NodeClassSpec,
    pub status: EC2NodeClassStatus,
}

impl NodeClass {
    pub fn read(object: &EC2NodeClass) -> Result<Self, ClassError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let family = ami_family(spec);
        Ok(Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            family: AmiFamily::parse(family).ok_or_else(|| ClassError::Family(family.to_owned()))?,
            kubelet: spec.kubelet.as_ref().map(Kubelet::read).transpose()?.unwrap_or_default(),
            spec: spec.clone(),
            status: object.status.clone().unwrap_or_default(),
        })
    }

    pub fn subnets(&self) -> &[Subnet] {
        self.status.subnets.as_deref().unwrap_or_default()
    }

    /// The id of a zone, known only where the class has a subnet.
    pub fn zone_id(&self, zone: &str) -> Option<&str> {
        self.subnets().iter().find(|subnet| subnet.zone == zone)?.zone_id.as_deref()
    }

    pub fn block_devices(&self) -> &[BlockDeviceMapping] {
        self.spec.block_device_mappings.as_deref().unwrap_or_default()
    }

    pub fn interfaces(&self) -> &[NetworkInterface] {
        self.spec.network_interfaces.as_deref().unwrap_or_default()
    }

    pub fn efa_only_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        self.interfaces().iter().filter(|interface| interface.interface_type == EFA_ONLY)
    }

    pub fn joins_disks(&self) -> bool {
        self.spec.instance_store_policy.as_deref() == Some("RAID0")
    }

    /// How large a device is, if the class says so.
    pub fn volume_size(&self, at: usize) -> Result<Option<Quantity>, ClassError> {
        let ebs = self.block_devices().get(at).and_then(|device| device.ebs.as_ref());
        let size = ebs.and_then(|ebs| ebs.volume_size.as_ref()).map(|size| {
            let field = || format!("spec.blockDeviceMappings[{at}].ebs.volumeSize");
            size.parse().map_err(|source| ClassError::Quantity { field: field(), source })
        });
        size.transpose()
    }
}
