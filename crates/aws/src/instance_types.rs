//! What EC2 sells to a node class: labels, capacity, overhead and offerings of every type (AWS section 3).
//!
//! [`resolve`] makes a type without offerings, which change more often than the rest; [`offerings::offerings_of`] makes
//! those. Both are plain functions of what EC2 says, what the class says and the settings.

pub mod attachments;
mod capacity;
pub mod catalogue;
pub mod compatibility;
mod discovered;
mod evaluated;
mod labels;
mod names;
pub mod offerings;
mod overhead;
mod pods;
mod storage;
mod vpc_limits;

use std::collections::BTreeSet;

use karpenter_api::kinds::ec2nodeclass::CapacityReservation;
use karpenter_model::devices::TypeDevices;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::quantity::Quantity;

use crate::class::{ClassError, NodeClass};
use crate::cloud::InstanceTypeInfo;

pub use discovered::{Discovered, DiscoveredAttachments, DiscoveredMemory};
pub use evaluated::{Evaluated, Programs, expression_texts};
pub use names::TypeName;
pub use pods::interface_limited_pods;

/// What holds for every type of a region (§7).
#[derive(Debug, Clone, PartialEq)]
pub struct Sizing {
    pub region: String,
    /// The share of memory that the hypervisor keeps (AWS-119).
    pub vm_memory_overhead_percent: f64,
    /// Interfaces that are not for pods (AWS-123).
    pub reserved_enis: i64,
}

/// The placement group that the class's instances are launched into (AWS-84).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    pub id: String,
    pub name: String,
    /// `cluster`, `partition`, `spread`.
    pub strategy: String,
    /// Of a partition group.
    pub partitions: u32,
}

impl PlacementGroup {
    /// Empty for groups without partitions.
    pub fn partition_names(&self) -> Vec<String> {
        let partitions = if self.strategy == "partition" { self.partitions } else { 0 };
        (1..=partitions).map(|partition| partition.to_string()).collect()
    }
}

/// What of a region and a class concerns one type.
#[derive(Debug, Clone, Copy)]
pub struct TypeFacts<'a> {
    pub class: &'a NodeClass,
    pub sizing: &'a Sizing,
    pub placement_group: Option<&'a PlacementGroup>,
    /// Zones where EC2 offers the type.
    pub zones: &'a BTreeSet<String>,
    /// What nodes of this type and the class's images were seen to have (AWS-120).
    pub observed_memory: Option<Quantity>,
    /// What nodes of this type and the class's shape were seen to attach (AWS-313).
    pub observed_attachments: Option<u32>,
    /// Of the class, if the gate is on; without it they count for nothing (AWS-94).
    pub expressions: Option<&'a Programs>,
}

impl TypeFacts<'_> {
    /// Zones that offer the type and have a subnet of the class.
    pub fn usable_zones(&self) -> BTreeSet<&str> {
        self.class
            .subnets()
            .iter()
            .map(|subnet| subnet.zone.as_str())
            .filter(|zone| self.zones.contains(*zone))
            .collect()
    }

    /// The class's reservations of this type.
    pub fn reservations(&self, name: &str) -> impl Iterator<Item = &CapacityReservation> {
        let all = self.class.status.capacity_reservations.iter().flatten();
        all.filter(move |reservation| reservation.instance_type == name)
    }
}

/// The type as pools see it, without offerings.
pub fn resolve(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Result<InstanceType, ClassError> {
    let estimated = capacity::capacity(info, facts)?;
    let overhead = overhead::overhead(info, facts, &estimated);
    let mut capacity = estimated;
    if let Some(memory) = facts.observed_memory {
        // Overhead and percentages keep to the estimate (AWS-120).
        capacity.set(karpenter_model::resources::MEMORY, memory);
    }
    Ok(InstanceType {
        name: info.name.clone(),
        requirements: labels::requirements(info, facts),
        offerings: Vec::new(),
        capacity,
        overhead,
        attachment_limits: [(attachments::EBS_DRIVER.to_owned(), attachments::limit(info, facts))].into(),
        devices: TypeDevices::default(),
    })
}

#[cfg(test)]
mod tests;
