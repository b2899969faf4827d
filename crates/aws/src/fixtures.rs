//! Types as EC2 describes them and node classes, for tests.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use karpenter_api::instance_types::ec2;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_model::instance_type::InstanceType;
use serde_json::{Value, json};

use crate::class::NodeClass;
use crate::cloud::{Gpu, InstanceStorage, InstanceTypeInfo, NetworkCard, NetworkInfo, NeuronDevice, Processor};
use crate::instance_types::offerings::{Market, offerings_of};
use crate::instance_types::{Sizing, TypeFacts, resolve};
use crate::pricing::PriceBook;
use crate::reservations::ReservationCounts;
use crate::unavailable::Unavailable;

/// One row of the reference of what AL2023 nodes leave for pods.
#[derive(Debug)]
pub struct CatalogueRow {
    pub info: InstanceTypeInfo,
    /// Millicores, MiB, pods and MiB of storage.
    pub allocatable: [i64; 4],
}

/// Every type that the reference knows, with interfaces on one card but for those that are named below.
pub static CATALOGUE: LazyLock<Vec<CatalogueRow>> = LazyLock::new(catalogue);

fn catalogue() -> Vec<CatalogueRow> {
    let known = ec2::types().unwrap();
    let rows = include_str!("fixtures/catalogue.csv").lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<i64>().unwrap();
        let row = known.iter().find(|row| row.name == fields[0]).unwrap();
        let info = described(row, number(4), number(5));
        assert_eq!((info.vcpus, info.memory_mib), (number(2), number(3)), "{line}");
        CatalogueRow { info, allocatable: [6, 7, 8, 9].map(number) }
    })
    .collect()
}

/// A type of the catalogue, or one that only tests know.
pub fn type_info(name: &str) -> InstanceTypeInfo {
    if name == "dl1.24xlarge" {
        let mut info = type_info("p4d.24xlarge");
        name.clone_into(&mut info.name);
        info.gpus = vec![gpu("Gaudi HL-205", "Habana", 8, 32768)];
        return info;
    }
    CATALOGUE.iter().map(|row| &row.info).find(|info| info.name == name).unwrap().clone()
}

fn gpu(name: &str, manufacturer: &str, count: i64, memory_mib: i64) -> Gpu {
    Gpu { name: name.to_owned(), manufacturer: manufacturer.to_owned(), count, memory_mib }
}

fn described(row: &ec2::Ec2Type, interfaces: i64, ipv4: i64) -> InstanceTypeInfo {
    let cores = match row.family() {
        "inf1" => Some(4),
        "inf2" | "trn1" | "trn1n" => Some(2),
        "trn2" => Some(8),
        _ => None,
    };
    let maker = row.accelerator_name.map(|name| if name.starts_with("radeon") { "AMD" } else { "NVIDIA" });
    let gpus = maker.filter(|_| cores.is_none()).map(|maker| {
        gpu(row.accelerator_name.unwrap(), maker, row.accelerators, row.accelerator_memory_mib.unwrap_or_default())
    });
    let (cards, efa, disks) = match row.name {
        "m6idn.32xlarge" => (2, 2, 4),
        "p5.48xlarge" => (32, 32, 8),
        "trn1.32xlarge" => (8, 8, 4),
        "p4d.24xlarge" => (4, 4, 8),
        "g4dn.8xlarge" => (1, 1, 1),
        _ => (1, 0, 1),
    };
    InstanceTypeInfo {
        name: row.name.to_owned(),
        architectures: vec![if row.architecture == "amd64" { "x86_64" } else { "arm64" }.to_owned()],
        usage_classes: ["on-demand", "spot"].map(str::to_owned).to_vec(),
        hypervisor: Some(row.hypervisor.to_owned()).filter(|name| !name.is_empty()),
        bare_metal: row.size().contains("metal"),
        vcpus: row.vcpus,
        memory_mib: row.memory_mib,
        processor: Some(Processor {
            manufacturer: Some(row.cpu_manufacturer.to_uppercase()),
            sustained_clock_ghz: Some(3.1),
            features: Vec::new(),
        }),
        default_ebs_mbps: row.ebs_mbps,
        ebs_attachments: None,
        storage: row.local_nvme_gb.map(|total_gb| InstanceStorage {
            total_gb,
            disks,
            nvme: Some("required".to_owned()),
        }),
        network: NetworkInfo {
            encryption_in_transit: true,
            ena: Some("required".to_owned()),
            ipv4_per_interface: ipv4,
            default_card: 0,
            cards: (0..cards).map(|index| NetworkCard { index, maximum_interfaces: interfaces }).collect(),
            maximum_efa: efa,
        },
        gpus: gpus.into_iter().collect(),
        inference_accelerators: Vec::new(),
        neuron_devices: cores
            .map(|cores| vec![NeuronDevice { name: "Inferentia".to_owned(), count: row.accelerators, cores }]),
        placement_strategies: ["cluster", "partition", "spread"].map(str::to_owned).to_vec(),
    }
}

/// The zones of AWS-255, with their ids.
pub const ZONES: [(&str, &str); 4] = [
    ("test-zone-1a", "tstz1-1a"),
    ("test-zone-1b", "tstz1-1b"),
    ("test-zone-1c", "tstz1-1c"),
    ("test-zone-1a-local", "tstz1-1alocal"),
];

/// A ready class of AL2023 with a subnet in each of three zones; members of `spec` replace its own.
pub fn class(spec: &Value) -> NodeClass {
    class_with(spec, &json!({}))
}

pub fn class_with(spec: &Value, status: &Value) -> NodeClass {
    NodeClass::read(&class_object(spec, status)).unwrap()
}

/// The same as the object that the API server has.
pub fn class_object(spec: &Value, status: &Value) -> EC2NodeClass {
    let subnets: Vec<Value> = ZONES[..3]
        .iter()
        .enumerate()
        .map(|(at, (zone, id))| json!({"id": format!("subnet-test{}", at + 1), "zone": zone, "zoneID": id}))
        .collect();
    let mut object = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "class-uid", "generation": 1},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"*": "*"}}],
            "securityGroupSelectorTerms": [{"tags": {"*": "*"}}],
            "role": "test-role",
        },
        "status": {
            "subnets": subnets,
            "securityGroups": [{"id": "sg-test1"}, {"id": "sg-test2"}],
            "instanceProfile": "test-profile",
        },
    });
    for (part, changes) in [("spec", spec), ("status", status)] {
        for (key, value) in changes.as_object().unwrap() {
            object[part][key] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

/// A class of this family, which goes by an alias of its own where it can.
pub fn class_of(family: &str, more: &Value) -> NodeClass {
    let mut spec = json!({"amiFamily": family, "amiSelectorTerms": [{"id": "ami-1"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    class(&spec)
}

pub fn sizing() -> Sizing {
    Sizing { region: "us-west-2".to_owned(), vm_memory_overhead_percent: 0.075, reserved_enis: 0 }
}

/// The type as pools of the class see it, in the first three zones.
pub fn resolved(info: &InstanceTypeInfo, class: &NodeClass, sizing: &Sizing) -> InstanceType {
    let zones: BTreeSet<String> = ZONES[..3].iter().map(|(zone, _)| (*zone).to_owned()).collect();
    let facts = TypeFacts {
        class,
        sizing,
        placement_group: None,
        zones: &zones,
        observed_memory: None,
        observed_attachments: None,
        expressions: None,
    };
    resolve(info, &facts).unwrap()
}

/// Types with offerings in three zones, at the built-in prices. Spot costs half, the reservations have so much left.
pub fn sold(names: &[&str], class: &NodeClass, left: &[(&str, u32)]) -> Vec<InstanceType> {
    let zones: BTreeSet<String> = ZONES[..3].iter().map(|(zone, _)| (*zone).to_owned()).collect();
    let (sizing, unavailable, shifted) = (sizing(), Unavailable::default(), BTreeSet::new());
    let mut counts = ReservationCounts::default();
    for (id, count) in left {
        counts.synced(id, *count, Timestamp::UNIX_EPOCH);
    }
    let mut prices = PriceBook::built_in("us-east-1");
    let half = |name: &str| {
        prices.on_demand(name).map(|price| karpenter_model::instance_type::Price::new(price.per_hour() / 2.0).unwrap())
    };
    let spot: Vec<_> = names
        .iter()
        .filter_map(|name| Some((name, half(name)?)))
        .flat_map(|(name, price)| zones.iter().map(move |zone| ((*name).to_owned(), zone.clone(), price)))
        .collect();
    prices.merge_spot(spot).unwrap();
    let facts = TypeFacts {
        class,
        sizing: &sizing,
        placement_group: None,
        zones: &zones,
        observed_memory: None,
        observed_attachments: None,
        expressions: None,
    };
    let market = Market {
        zones: &zones,
        prices: &prices,
        overlay_prices: None,
        unavailable: &unavailable,
        shifted_zones: &shifted,
        reservations: Some(&counts),
        now: Timestamp::UNIX_EPOCH,
    };
    let sold = names.iter().map(|name| {
        let info = type_info(name);
        let offerings = offerings_of(&info, &facts, &market);
        InstanceType { offerings, ..resolve(&info, &facts).unwrap() }
    });
    sold.collect()
}
