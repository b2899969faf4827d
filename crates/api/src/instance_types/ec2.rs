//! Instance types of EC2 from a table that is built in, as the AWS provider would describe them to a node class with
//! AL2023 and default block devices.
//!
//! The table has no spot prices, no zones and not every label. Spot is estimated as a share of the price on demand
//! ([`SPOT_SHARE`]); three zones sell everything; what nobody knows is absent ([`labels_of`]).

use std::collections::BTreeMap;

use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::{Catalogue, CatalogueError};
use crate::names::{LabelPolicy, aws};

const TABLE: &str = include_str!("ec2.csv");

/// What spot is taken to cost of the price on demand. It is usually less, so that a plan rather says too much.
pub const SPOT_SHARE: f64 = 0.7;

/// Regions that the table has prices of, in the order of its columns, with the beginning of their zone ids.
pub const REGIONS: [(&str, &str); 4] =
    [("us-east-1", "use1"), ("us-gov-west-1", "usgw1"), ("us-gov-east-1", "usge1"), ("cn-north-1", "cnn1")];

/// The letters and numbers of the zones that a region is taken to have.
const ZONES: [(&str, &str); 3] = [("a", "1"), ("b", "2"), ("c", "3")];

/// The driver whose volumes count against the slots of an instance (AWS-312).
const EBS_DRIVER: &str = "ebs.csi.aws.com";

const MI: i64 = 1 << 20;
const GI: i64 = 1 << 30;

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Ec2Type {
    pub name: &'static str,
    pub architecture: &'static str,
    pub cpu_manufacturer: &'static str,
    /// Empty for bare metal.
    pub hypervisor: &'static str,
    pub vcpus: i64,
    pub memory_mib: i64,
    /// By the addresses of its default network card (AWS-123).
    pub pods: i64,
    /// Zero for those that give out a part of one (AWS-117).
    pub accelerators: i64,
    pub accelerator_name: Option<&'static str>,
    pub accelerator_memory_mib: Option<i64>,
    pub local_nvme_gb: Option<i64>,
    pub network_mbps: Option<i64>,
    pub ebs_mbps: Option<i64>,
    /// In the order of [`REGIONS`]; `None` where it is not sold.
    pub on_demand: [Option<Price>; REGIONS.len()],
}

/// What runs on an accelerator, by the family of the type.
struct Neuron {
    name: &'static str,
    cores: i64,
}

impl Ec2Type {
    /// The letters that the name begins with.
    pub fn category(&self) -> &'static str {
        let end = self.name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(self.name.len());
        &self.name[..end]
    }

    /// The number after the category; the size of a high memory type (`u-6tb1`) is not part of it.
    pub fn generation(&self) -> Option<&'static str> {
        let rest = &self.family()[self.category().len()..];
        let rest = rest.strip_prefix('-').and_then(|size| Some(size.split_once("tb")?.1)).unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|digits| !digits.is_empty())
    }

    pub fn family(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(family, _)| family)
    }

    pub fn size(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, size)| size)
    }

    fn neuron(&self) -> Option<Neuron> {
        let (name, cores) = match self.family() {
            "inf1" => ("inferentia", 4),
            "inf2" => ("inferentia2", 2),
            "trn1" | "trn1n" => ("trainium", 2),
            "trn2" => ("trainium2", 8),
            _ => return None,
        };
        Some(Neuron { name, cores })
    }

    fn gpu_manufacturer(&self) -> Option<&'static str> {
        let name = self.accelerator_name?;
        Some(if name.starts_with("radeon") { "amd" } else { "nvidia" })
    }

    /// High memory types are rented for long, never as spot.
    fn sold_as_spot(&self) -> bool {
        self.category() != "u"
    }

    /// AL2023 has no image for the first generation of arm64 (AWS-136).
    fn is_bootable(&self) -> bool {
        self.category() != "a"
    }

    /// AWS-118, AWS-119, AWS-121, AWS-122, AWS-126, AWS-127. Interfaces for EFA and for pods are not in the table.
    fn capacity(&self) -> Resources {
        let memory = self.memory_mib - if self.architecture == "arm64" { 64 } else { 0 };
        // What the hypervisor keeps, 7.5 %, rounded up.
        let memory = memory - (memory * 75).div_euclid(1000) - i64::from((memory * 75).rem_euclid(1000) > 0);
        let mut capacity = Resources::new()
            .with(CPU, Quantity::units(self.vcpus))
            .with(MEMORY, Quantity::bytes(memory * MI))
            .with(EPHEMERAL_STORAGE, Quantity::bytes(20 * GI))
            .with(PODS, Quantity::units(self.pods));
        if self.accelerators > 0 {
            match (self.neuron(), self.gpu_manufacturer()) {
                (Some(neuron), _) => {
                    capacity.set("aws.amazon.com/neuron", Quantity::units(self.accelerators));
                    capacity.set("aws.amazon.com/neuroncore", Quantity::units(self.accelerators * neuron.cores));
                }
                (None, Some(maker)) => capacity.set(format!("{maker}.com/gpu"), Quantity::units(self.accelerators)),
                (None, None) => {}
            }
        }
        capacity
    }

    /// AWS-130, AWS-132.
    fn overhead(&self) -> Overhead {
        // Millicores by slices of the machine: 6 %, 1 %, 0.5 %, then 0.25 %, each cut to whole ones.
        let slice = |from: i64, to: i64| (self.vcpus.min(to) - from).max(0);
        let cpu = slice(0, 1) * 60 + slice(1, 2) * 10 + slice(2, 4) * 5 + slice(4, i64::MAX) * 5 / 2;
        Overhead {
            kube_reserved: Resources::new()
                .with(CPU, Quantity::milli(cpu))
                .with(MEMORY, Quantity::bytes((11 * self.pods + 255) * MI))
                .with(EPHEMERAL_STORAGE, Quantity::bytes(GI)),
            system_reserved: Resources::new(),
            eviction_threshold: Resources::new()
                .with(MEMORY, Quantity::bytes(100 * MI))
                .with(EPHEMERAL_STORAGE, Quantity::bytes(2 * GI)),
        }
    }

    /// AWS-312 with one root device and one interface. How many disks there are is not in the table: one, if any.
    fn attachments(&self) -> u32 {
        match (self.hypervisor, self.local_nvme_gb) {
            ("xen", _) => 38,
            (_, Some(_)) => 25,
            (_, None) => 26,
        }
    }
}

/// The whole table, also what no region sells.
pub fn types() -> Result<Vec<Ec2Type>, CatalogueError> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &'static str) -> Result<Ec2Type, CatalogueError> {
    let mut fields = line.split(',');
    let mut text = || fields.next().unwrap_or_default();
    let name = text();
    let wrong = |problem: String| CatalogueError::Entry { name: name.to_owned(), problem };
    let number = |field: &str| match field {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|error| wrong(format!("{digits}: {error}"))),
    };
    let price = |field: &str| match field {
        "" => Ok(None),
        amount => {
            let parsed = amount.parse::<f64>().map_err(|error| wrong(format!("{amount}: {error}")))?;
            Price::new(parsed).map(Some).map_err(|error| wrong(error.to_string()))
        }
    };
    let (architecture, cpu_manufacturer, hypervisor) = (text(), text(), text());
    Ok(Ec2Type {
        name,
        architecture,
        cpu_manufacturer,
        hypervisor,
        vcpus: number(text())?.unwrap_or_default(),
        memory_mib: number(text())?.unwrap_or_default(),
        pods: number(text())?.unwrap_or_default(),
        accelerators: number(text())?.unwrap_or_default(),
        accelerator_name: Some(text()).filter(|name| !name.is_empty()),
        accelerator_memory_mib: number(text())?,
        local_nvme_gb: number(text())?,
        network_mbps: number(text())?,
        ebs_mbps: number(text())?,
        on_demand: [price(text())?, price(text())?, price(text())?, price(text())?],
    })
}

impl Catalogue {
    /// What us-east-1 sells.
    pub fn ec2() -> Result<Self, CatalogueError> {
        Self::ec2_of(0)
    }

    /// What the region with this index in [`REGIONS`] sells.
    pub fn ec2_of(region: usize) -> Result<Self, CatalogueError> {
        let sold = types()?.into_iter().filter_map(|row| Some((row.on_demand.get(region).copied()??, row)));
        let types = sold.map(|(on_demand, row)| instance_type(&row, REGIONS[region], on_demand)).collect();
        Ok(Self { types, policy: LabelPolicy::aws() })
    }
}

fn instance_type(row: &Ec2Type, region: (&str, &str), on_demand: Price) -> InstanceType {
    let zones = ZONES.map(|(letter, number)| (format!("{}{letter}", region.0), format!("{}-az{number}", region.1)));
    // Estimated from a valid price, so it is one.
    let spot = Price::new(on_demand.per_hour() * SPOT_SHARE).unwrap_or(on_demand);
    let mut markets = vec![(labels::CAPACITY_TYPE_ON_DEMAND, on_demand)];
    if row.sold_as_spot() {
        markets.push((labels::CAPACITY_TYPE_SPOT, spot));
    }
    let mut requirements = labels_of(row);
    requirements.add(Requirement::any_of(labels::REGION, [region.0]));
    requirements.add(Requirement::any_of(labels::ZONE, zones.iter().map(|(name, _)| name.as_str())));
    requirements.add(Requirement::any_of(aws::ZONE_ID, zones.iter().map(|(_, id)| id.as_str())));
    requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, markets.iter().map(|(name, _)| *name)));
    let offering = |(zone, id): &(String, String), (capacity_type, price): (&str, Price)| Offering {
        requirements: [(labels::ZONE, zone.as_str()), (aws::ZONE_ID, id), (labels::CAPACITY_TYPE, capacity_type)]
            .into_iter()
            .map(|(key, value)| Requirement::any_of(key, [value]))
            .chain(RESERVATION.map(Requirement::does_not_exist))
            .collect(),
        price,
        available: row.is_bootable(),
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    InstanceType {
        name: row.name.to_owned(),
        requirements,
        offerings: zones.iter().flat_map(|zone| markets.iter().map(|market| offering(zone, *market))).collect(),
        capacity: row.capacity(),
        overhead: row.overhead(),
        attachment_limits: BTreeMap::from([(EBS_DRIVER.to_owned(), row.attachments())]),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

/// Labels of reserved offerings, which the others say they do not have (AWS-134).
const RESERVATION: [&str; 3] =
    [aws::CAPACITY_RESERVATION_ID, aws::CAPACITY_RESERVATION_TYPE, aws::CAPACITY_RESERVATION_INTERRUPTIBLE];

/// The labels of section 3.2 of the provider's description but zones, region and capacity type. Clock speeds and
/// encryption in transit are not in the table.
fn labels_of(row: &Ec2Type) -> Requirements {
    let text = |value: Option<i64>| value.map(|number| number.to_string());
    let owned = |value: &str| Some(value.to_owned());
    let gpu = row.gpu_manufacturer();
    let neuron = row.neuron();
    let table: [(&str, Option<String>); 28] = [
        (labels::INSTANCE_TYPE, owned(row.name)),
        (labels::ARCH, owned(row.architecture)),
        (labels::OS, owned("linux")),
        (labels::WINDOWS_BUILD, None),
        (aws::INSTANCE_CATEGORY, owned(row.category())),
        (aws::INSTANCE_GENERATION, row.generation().map(ToOwned::to_owned)),
        (aws::INSTANCE_FAMILY, owned(row.family())),
        (aws::INSTANCE_SIZE, owned(row.size())),
        (aws::INSTANCE_CPU, Some(row.vcpus.to_string())),
        (aws::INSTANCE_CPU_MANUFACTURER, owned(row.cpu_manufacturer)),
        (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, owned("0")),
        (aws::INSTANCE_MEMORY, Some(row.memory_mib.to_string())),
        (aws::INSTANCE_EBS_BANDWIDTH, text(row.ebs_mbps)),
        (aws::INSTANCE_NETWORK_BANDWIDTH, text(row.network_mbps)),
        (aws::INSTANCE_LOCAL_NVME, text(row.local_nvme_gb)),
        (aws::INSTANCE_HYPERVISOR, owned(row.hypervisor)),
        (aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, None),
        (aws::INSTANCE_CAPABILITY_FLEX, Some(row.family().contains("-flex").to_string())),
        (aws::INSTANCE_GPU_NAME, gpu.and(row.accelerator_name).map(ToOwned::to_owned)),
        (aws::INSTANCE_GPU_MANUFACTURER, gpu.map(ToOwned::to_owned)),
        (aws::INSTANCE_GPU_COUNT, gpu.map(|_| row.accelerators.to_string())),
        (aws::INSTANCE_GPU_MEMORY, gpu.and(text(row.accelerator_memory_mib))),
        (aws::INSTANCE_ACCELERATOR_NAME, neuron.as_ref().map(|neuron| neuron.name.to_owned())),
        (aws::INSTANCE_ACCELERATOR_MANUFACTURER, neuron.as_ref().map(|_| "aws".to_owned())),
        (aws::INSTANCE_ACCELERATOR_COUNT, neuron.as_ref().map(|_| row.accelerators.to_string())),
        (aws::CAPACITY_RESERVATION_ID, None),
        (aws::CAPACITY_RESERVATION_TYPE, None),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, None),
    ];
    let known = table.into_iter().map(|(key, value)| match value {
        Some(value) => Requirement::any_of(key, [value]),
        None => Requirement::does_not_exist(key),
    });
    known.chain([Requirement::any_of(aws::INSTANCE_TENANCY, aws::TENANCIES)]).collect()
}

#[cfg(test)]
mod tests;
