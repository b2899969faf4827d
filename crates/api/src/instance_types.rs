//! Instance types from a file, in the form that the kwok provider takes, and the built-in list of that provider.
//!
//! The kwok provider launches them, the command line plans with them, the simulated cloud sells them.

pub mod ec2;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use serde::{Deserialize, Serialize};

use crate::names::{LabelPolicy, kwok};

/// One entry of an instance-type file (API-287). Members other than these are ignored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeEntry {
    pub name: String,
    pub offerings: Vec<OfferingEntry>,
    pub architecture: String,
    pub operating_systems: Vec<String>,
    pub resources: BTreeMap<String, Quantity>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OfferingEntry {
    pub price: f64,
    #[serde(default)]
    pub available: bool,
    pub requirements: Vec<RequirementEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_capacity: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementEntry {
    pub key: String,
    pub operator: String,
    #[serde(default)]
    pub values: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("cannot read instance types from {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a list of instance types")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{path} lists no instance types")]
    Empty { path: PathBuf },
    #[error("instance type {name}: {problem}")]
    Entry { name: String, problem: String },
}

/// What the provider offers, with the label rules that follow from it.
#[derive(Debug, Clone)]
pub struct Catalogue {
    pub types: Vec<InstanceType>,
    pub policy: LabelPolicy,
}

impl Catalogue {
    pub fn built_in() -> Result<Self, CatalogueError> {
        Self::from_entries(&built_in_entries())
    }

    pub fn from_file(path: &Path) -> Result<Self, CatalogueError> {
        let text = std::fs::read(path).map_err(|source| CatalogueError::Read { path: path.to_owned(), source })?;
        let entries: Vec<TypeEntry> =
            serde_json::from_slice(&text).map_err(|source| CatalogueError::Parse { path: path.to_owned(), source })?;
        if entries.is_empty() {
            return Err(CatalogueError::Empty { path: path.to_owned() });
        }
        Self::from_entries(&entries)
    }

    /// From entries that somebody else has read or made.
    pub fn from_entries(entries: &[TypeEntry]) -> Result<Self, CatalogueError> {
        // Keys that offerings use become well-known (API-129), so they are collected before anything is parsed.
        let offering_keys = entries
            .iter()
            .flat_map(|entry| &entry.offerings)
            .flat_map(|offering| offering.requirements.iter().map(|requirement| requirement.key.clone()));
        let policy = LabelPolicy::kwok(offering_keys);
        let types = entries
            .iter()
            .map(|entry| {
                instance_type(entry, policy.rules())
                    .map_err(|problem| CatalogueError::Entry { name: entry.name.clone(), problem })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { types, policy })
    }
}

fn instance_type(entry: &TypeEntry, rules: &LabelRules) -> Result<InstanceType, String> {
    let mut capacity: Resources = entry.resources.iter().map(|(name, amount)| (name.clone(), *amount)).collect();
    for required in [CPU, MEMORY] {
        if capacity.amount(required) <= Quantity::ZERO {
            return Err(format!("resources.{required} is missing or not above zero"));
        }
    }
    if capacity.get(PODS).is_none() {
        capacity.set(PODS, Quantity::units(110));
    }
    let offerings =
        entry.offerings.iter().map(|offering| parse_offering(offering, rules)).collect::<Result<Vec<_>, _>>()?;
    let cpu = capacity.amount(CPU);
    let memory = capacity.amount(MEMORY);
    let values_of = |key: &str| -> Vec<String> {
        let values = offerings.iter().filter_map(|offering| offering.requirements.get(key));
        values.flat_map(|requirement| requirement.values().map(ToOwned::to_owned)).collect()
    };
    let mut requirements: Requirements = [
        Requirement::any_of(labels::INSTANCE_TYPE, [entry.name.as_str()]),
        Requirement::any_of(labels::ARCH, [entry.architecture.as_str()]),
        Requirement::any_of(labels::OS, &entry.operating_systems),
        Requirement::any_of(labels::ZONE, values_of(labels::ZONE)),
        Requirement::any_of(labels::CAPACITY_TYPE, values_of(labels::CAPACITY_TYPE)),
        Requirement::any_of(kwok::INSTANCE_SIZE, [size(&entry.name, cpu)]),
        Requirement::any_of(kwok::INSTANCE_FAMILY, [family(&entry.name)]),
        Requirement::any_of(kwok::INSTANCE_CPU, [cpu.to_string()]),
        Requirement::any_of(kwok::INSTANCE_MEMORY, [memory.to_string()]),
    ]
    .into_iter()
    .collect();
    // Every well-known label is defined on a type, as absent where it does not apply (API-258). Offering keys are the
    // offerings' own, and the pool's name is nothing a type has a say in.
    for key in [labels::REGION, labels::WINDOWS_BUILD] {
        let values = values_of(key);
        requirements.replace(if values.is_empty() {
            Requirement::does_not_exist(key)
        } else {
            Requirement::any_of(key, values)
        });
    }
    Ok(InstanceType {
        name: entry.name.clone(),
        requirements,
        offerings,
        capacity,
        overhead: overhead(),
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    })
}

fn parse_offering(entry: &OfferingEntry, rules: &LabelRules) -> Result<Offering, String> {
    let mut requirements = Requirements::new();
    for requirement in &entry.requirements {
        let operator = Operator::parse(&requirement.operator)
            .ok_or_else(|| format!("operator {:?} of {} is unknown", requirement.operator, requirement.key))?;
        let parsed = Requirement::new(rules, &requirement.key, operator, &requirement.values, None);
        requirements.add(parsed.map_err(|error| format!("{}: {error}", requirement.key))?);
    }
    for key in [labels::ZONE, labels::CAPACITY_TYPE] {
        if requirements.get(key).and_then(Requirement::single_value).is_none() {
            return Err(format!("every offering needs exactly one {key}"));
        }
    }
    Ok(Offering {
        requirements,
        price: Price::new(entry.price).map_err(|error| error.to_string())?,
        // All offerings of the file are taken as available (API-287).
        available: true,
        reservation_capacity: entry.reservation_capacity,
        overrides: Overrides::default(),
    })
}

fn overhead() -> Overhead {
    Overhead {
        kube_reserved: Resources::new().with(CPU, Quantity::milli(100)).with(MEMORY, Quantity::bytes(10 << 20)),
        ..Overhead::default()
    }
}

/// The part after the dot when it is an AWS-style size, else the CPU count (API-288).
fn size(name: &str, cpu: Quantity) -> String {
    let suffix = name.split_once('.').map(|(_, suffix)| suffix);
    let is_size = |suffix: &&str| {
        let multiple = suffix.strip_suffix("xlarge");
        matches!(*suffix, "nano" | "micro" | "small" | "medium" | "large" | "metal")
            || multiple.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    suffix.filter(is_size).map_or_else(|| cpu.to_string(), ToOwned::to_owned)
}

/// The part before the first dot or dash, else the first character (API-288).
fn family(name: &str) -> String {
    match name.split_once(['.', '-']) {
        Some((family, _)) => family.to_owned(),
        None => name.chars().take(1).collect(),
    }
}

/// 144 types: twelve sizes of three families for two systems and two architectures, in four zones (API-157).
pub fn built_in_entries() -> Vec<TypeEntry> {
    let mut entries = Vec::new();
    for cpu in [1_i64, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
        for (family, gib_per_cpu) in [("c", 2), ("s", 4), ("m", 8)] {
            for system in ["linux", "windows"] {
                for architecture in ["amd64", "arm64"] {
                    entries.push(built_in_entry(cpu, family, cpu * gib_per_cpu, system, architecture));
                }
            }
        }
    }
    entries
}

fn built_in_entry(cpu: i64, family: &str, gib: i64, system: &str, architecture: &str) -> TypeEntry {
    #[expect(clippy::cast_precision_loss, reason = "at most 2 TiB, far below the exact range of floats")]
    let on_demand = 0.025 * cpu as f64 + 0.001 * (gib << 30) as f64 / 1e9;
    let offering = |zone: &str, capacity_type: &str, price: f64| OfferingEntry {
        price,
        available: true,
        requirements: [(labels::CAPACITY_TYPE, capacity_type), (labels::ZONE, zone)]
            .map(|(key, value)| RequirementEntry {
                key: key.to_owned(),
                operator: "In".to_owned(),
                values: vec![value.to_owned()],
            })
            .to_vec(),
        reservation_capacity: None,
    };
    let offerings = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"].into_iter().flat_map(|zone| {
        [
            offering(zone, labels::CAPACITY_TYPE_SPOT, on_demand * 0.7),
            offering(zone, labels::CAPACITY_TYPE_ON_DEMAND, on_demand),
        ]
    });
    TypeEntry {
        name: format!("{family}-{cpu}x-{architecture}-{system}"),
        offerings: offerings.collect(),
        architecture: architecture.to_owned(),
        operating_systems: vec![system.to_owned()],
        resources: BTreeMap::from([
            (CPU.to_owned(), Quantity::units(cpu)),
            (MEMORY.to_owned(), Quantity::bytes(gib << 30)),
            (PODS.to_owned(), Quantity::units((16 * cpu).min(1024))),
            (EPHEMERAL_STORAGE.to_owned(), Quantity::bytes(20 << 30)),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-157, API-287, API-288: the built-in list.
    #[test]
    fn built_in_types() {
        let catalogue = Catalogue::built_in().unwrap();
        assert_eq!(catalogue.types.len(), 144);
        let four = catalogue.types.iter().find(|t| t.name == "s-4x-amd64-linux").unwrap();
        assert_eq!(four.allocatable().to_string(), "cpu: 3900m, ephemeral-storage: 20Gi, memory: 16374Mi, pods: 64");
        assert_eq!(four.offerings.len(), 8);
        assert_eq!(
            four.requirements.to_string(),
            "karpenter.kwok.sh/instance-cpu In [4], karpenter.kwok.sh/instance-family In [s], \
             karpenter.kwok.sh/instance-memory In [16Gi], karpenter.kwok.sh/instance-size In [4], \
             karpenter.sh/capacity-type In [on-demand spot], kubernetes.io/arch In [amd64], kubernetes.io/os In [linux], \
             node.kubernetes.io/instance-type In [s-4x-amd64-linux], node.kubernetes.io/windows-build DoesNotExist, \
             topology.kubernetes.io/region DoesNotExist, \
             topology.kubernetes.io/zone In [test-zone-a test-zone-b test-zone-c test-zone-d]"
        );
    }

    /// API-288.
    #[test]
    fn sizes_and_families() {
        for (name, want_size, want_family) in [
            ("m5.large", "large", "m5"),
            ("m5.24xlarge", "24xlarge", "m5"),
            ("m5.xlarge", "xlarge", "m5"),
            ("m5.weird", "3", "m5"),
            ("s-4x-amd64-linux", "3", "s"),
            ("plain", "3", "p"),
        ] {
            assert_eq!((size(name, Quantity::units(3)), family(name)), (want_size.to_owned(), want_family.to_owned()));
        }
    }

    /// API-287: the file form, defaults, and what is wrong with a bad one.
    #[test]
    fn files() {
        let folder = std::env::temp_dir().join(format!("karpenter-catalogue-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("types.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Catalogue::from_file(&path)
        };
        let good = r#"[{"name": "m5.large", "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [{"Price": 0.1, "Available": false, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "example.com/rack", "operator": "In", "values": ["r1"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]}]}]"#;
        let catalogue = read(good).unwrap();
        assert_eq!(catalogue.types[0].capacity.amount(PODS), Quantity::units(110));
        assert!(catalogue.types[0].offerings[0].available);
        assert!(catalogue.policy.rules().is_well_known("example.com/rack"), "API-129");
        for (text, want) in [
            ("{}", "is not a list of instance types"),
            ("[]", "lists no instance types"),
            (&good.replace("\"2\"", "\"0\""), "resources.cpu is missing or not above zero"),
            (&good.replace("0.1", "-1"), "price -1 is not a number"),
            (&good.replace("\"z1\"", "\"z1\", \"z2\""), "every offering needs exactly one topology.kubernetes.io/zone"),
            (&good.replacen("\"In\"", "\"Near\"", 1), "operator \"Near\""),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        assert!(Catalogue::from_file(&folder.join("missing.json")).unwrap_err().to_string().contains("cannot read"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
