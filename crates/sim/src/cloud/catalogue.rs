//! What the cloud sells: the fake types of the kwok provider, or EC2's.

use std::collections::BTreeMap;

use karpenter_api::instance_types::{Catalogue, CatalogueError, OfferingEntry, RequirementEntry, TypeEntry};
use karpenter_model::instance_type::Overhead;
use karpenter_model::labels;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use crate::chance::Chance;

/// Which instance types there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Range {
    /// The 144 types of the kwok provider in four zones.
    #[default]
    Kwok,
    /// Every EC2 type with a price in us-east-1, in four zones.
    Ec2,
}

const TABLE: &str = include_str!("../../data/ec2_instance_types.csv");
const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

pub(super) fn catalogue(range: Range) -> Result<Catalogue, CatalogueError> {
    match range {
        Range::Kwok => Catalogue::built_in(),
        Range::Ec2 => ec2(TABLE),
    }
}

/// A row of the table, by column name.
struct Row<'a>(BTreeMap<&'a str, &'a str>);

impl Row<'_> {
    fn text(&self, column: &str) -> &str {
        self.0.get(column).copied().unwrap_or_default()
    }

    fn number(&self, column: &str) -> i64 {
        self.text(column).parse().unwrap_or(0)
    }
}

fn ec2(table: &str) -> Result<Catalogue, CatalogueError> {
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let rows: Vec<Row<'_>> = lines.map(|line| Row(columns.iter().copied().zip(line.split(',')).collect())).collect();
    let sold: Vec<&Row<'_>> = rows.iter().filter(|row| !row.text("price_us_east_1").is_empty()).collect();
    let entries: Vec<TypeEntry> = sold.iter().map(|row| entry(row)).collect();
    let mut catalogue = Catalogue::from_entries(&entries)?;
    for (instance_type, row) in catalogue.types.iter_mut().zip(sold) {
        // The table says what is left for pods, so the difference is what is not.
        let allocatable = Resources::new()
            .with(CPU, Quantity::milli(row.number("alloc_cpu_milli")))
            .with(MEMORY, Quantity::bytes(row.number("alloc_memory_mib") << 20))
            .with(EPHEMERAL_STORAGE, Quantity::bytes(row.number("alloc_ephemeral_mib") << 20));
        let mut reserved = instance_type.capacity.clone();
        reserved.subtract(&allocatable);
        let reserved = reserved.iter().filter(|(name, _)| allocatable.get(name).is_some());
        let kube_reserved = reserved.map(|(name, amount)| (name.to_owned(), amount)).collect();
        instance_type.overhead = Overhead { kube_reserved, ..Overhead::default() };
    }
    Ok(catalogue)
}

fn entry(row: &Row<'_>) -> TypeEntry {
    let name = row.text("instance_type");
    let mut resources = BTreeMap::from([
        (CPU.to_owned(), Quantity::units(row.number("vcpu"))),
        (MEMORY.to_owned(), Quantity::bytes(row.number("memory_mib") << 20)),
        (PODS.to_owned(), Quantity::units(row.number("alloc_pods"))),
        (EPHEMERAL_STORAGE.to_owned(), Quantity::bytes(20 << 30)),
    ]);
    if !row.text("accel_resource").is_empty() {
        resources.insert(row.text("accel_resource").to_owned(), Quantity::units(row.number("accel_count")));
    }
    let on_demand: f64 = row.text("price_us_east_1").parse().unwrap_or(0.0);
    let zones = ZONES.iter().filter(|zone| is_sold_in(name, zone));
    let offerings = zones.flat_map(|zone| {
        [
            offering(zone, labels::CAPACITY_TYPE_ON_DEMAND, on_demand),
            offering(zone, labels::CAPACITY_TYPE_SPOT, on_demand * spot_share(row.text("family"), name, zone)),
        ]
    });
    TypeEntry {
        name: name.to_owned(),
        offerings: offerings.collect(),
        architecture: row.text("arch").to_owned(),
        operating_systems: vec!["linux".to_owned()],
        resources,
    }
}

/// Not every zone has every type: about one pair in twelve is missing, though never all of a type's.
fn is_sold_in(name: &str, zone: &str) -> bool {
    let always = Chance::about(EC2_SEED, &["home", name]).below(4);
    ZONES.iter().position(|z| *z == zone) == usize::try_from(always).ok()
        || !Chance::about(EC2_SEED, &["zone", name, zone]).happens(1.0 / 9.0)
}

/// The share of the on-demand price that spot costs at rest: between 30 % and 70 % by family, up to a tenth more or less
/// by type and zone. Real prices lie in this range; which family lies where is made up.
fn spot_share(family: &str, name: &str, zone: &str) -> f64 {
    let of_family = 0.3 + 0.4 * Chance::about(EC2_SEED, &["spot", family]).fraction();
    of_family * (0.9 + 0.2 * Chance::about(EC2_SEED, &["spot", name, zone]).fraction())
}

/// The table is the same in every world, whatever its seed.
const EC2_SEED: u64 = 0xec2;

fn offering(zone: &str, capacity_type: &str, price: f64) -> OfferingEntry {
    let requirement = |key: &str, value: &str| RequirementEntry {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: vec![value.to_owned()],
    };
    OfferingEntry {
        price,
        available: true,
        requirements: vec![requirement(labels::CAPACITY_TYPE, capacity_type), requirement(labels::ZONE, zone)],
        reservation_capacity: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_ec2() {
        let catalogue = catalogue(Range::Ec2).unwrap();
        assert_eq!(catalogue.types.len(), 1345);
        let large = catalogue.types.iter().find(|t| t.name == "m5.large").unwrap();
        assert_eq!(large.allocatable().to_string(), "cpu: 1930m, ephemeral-storage: 17Gi, memory: 6903Mi, pods: 29");
        let gpus = catalogue.types.iter().find(|t| t.name == "p4d.24xlarge").unwrap();
        assert_eq!(gpus.capacity.amount("nvidia.com/gpu"), Quantity::units(8));
        for instance_type in &catalogue.types {
            let of = |capacity_type: &str| -> Vec<f64> {
                let offerings = instance_type.offerings.iter().filter(|o| o.capacity_type() == Some(capacity_type));
                offerings.map(|o| o.price.per_hour()).collect()
            };
            let (spot, on_demand) = (of("spot"), of("on-demand"));
            assert!(!spot.is_empty() && spot.len() == on_demand.len(), "{}", instance_type.name);
            assert!(spot.iter().zip(&on_demand).all(|(spot, full)| (0.27..0.77).contains(&(spot / full))));
        }
        let pairs: usize = catalogue.types.iter().map(|t| t.offerings.len()).sum();
        assert!((9500..10100).contains(&pairs), "{pairs} offerings of 1,345 types in four zones");
    }
}
