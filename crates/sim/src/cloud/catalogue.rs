//! What the cloud sells: the fake types of the kwok provider, or EC2's.

use karpenter_api::instance_types::{Catalogue, CatalogueError};
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;

use crate::chance::Chance;

/// Which instance types there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Range {
    /// The 144 types of the kwok provider in four zones.
    #[default]
    Kwok,
    /// Every EC2 type with a price in us-east-1, in three zones.
    Ec2,
}

pub(super) fn catalogue(range: Range) -> Result<Catalogue, CatalogueError> {
    match range {
        Range::Kwok => Catalogue::built_in(),
        Range::Ec2 => {
            let mut catalogue = Catalogue::ec2()?;
            catalogue.types.iter_mut().for_each(vary);
            Ok(catalogue)
        }
    }
}

/// The table sells everything in every zone, and spot at one share of the full price; a cloud does neither.
fn vary(instance_type: &mut InstanceType) {
    let name = instance_type.name.clone();
    let zones: Vec<String> = instance_type.offerings.iter().filter_map(|o| o.zone().map(ToOwned::to_owned)).collect();
    let home = Chance::about(EC2_SEED, &["home", &name]).pick(&zones).cloned();
    instance_type.offerings.retain(|offering| {
        offering.zone() == home.as_deref() || offering.zone().is_some_and(|zone| is_sold_in(&name, zone))
    });
    let full = instance_type.offerings.iter().filter(|o| o.capacity_type() == Some(labels::CAPACITY_TYPE_ON_DEMAND));
    let Some(full) = full.map(|offering| offering.price).max() else { return };
    for offering in &mut instance_type.offerings {
        if offering.capacity_type() == Some(labels::CAPACITY_TYPE_SPOT) {
            let share = spot_share(&name, offering.zone().unwrap_or_default());
            offering.price = Price::new(full.per_hour() * share).unwrap_or(full);
        }
    }
}

/// Not every zone has every type: about one pair in twelve is missing, though never all of a type's.
fn is_sold_in(name: &str, zone: &str) -> bool {
    !Chance::about(EC2_SEED, &["zone", name, zone]).happens(1.0 / 9.0)
}

/// The share of the on-demand price that spot costs at rest: between 30 % and 70 % by family, up to a tenth more or less
/// by type and zone. Real prices lie in this range; which family lies where is made up.
fn spot_share(name: &str, zone: &str) -> f64 {
    let family = name.split('.').next().unwrap_or_default();
    let of_family = 0.3 + 0.4 * Chance::about(EC2_SEED, &["spot", family]).fraction();
    of_family * (0.9 + 0.2 * Chance::about(EC2_SEED, &["spot", name, zone]).fraction())
}

/// The table is the same in every world, whatever its seed.
const EC2_SEED: u64 = 0xec2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_ec2() {
        let catalogue = catalogue(Range::Ec2).unwrap();
        assert_eq!(catalogue.types.len(), 1345);
        let of = |t: &InstanceType, capacity_type: &str| -> Vec<f64> {
            let offerings = t.offerings.iter().filter(|o| o.capacity_type() == Some(capacity_type));
            offerings.map(|o| o.price.per_hour()).collect()
        };
        let mut shares = Vec::new();
        for instance_type in &catalogue.types {
            let (spot, on_demand) = (of(instance_type, "spot"), of(instance_type, "on-demand"));
            assert!(!on_demand.is_empty(), "{} is sold somewhere", instance_type.name);
            assert!(spot.is_empty() || spot.len() == on_demand.len(), "{}", instance_type.name);
            shares.extend(spot.iter().zip(&on_demand).map(|(spot, full)| spot / full));
        }
        assert!(shares.iter().all(|share| (0.27..0.77).contains(share)));
        assert!(shares.iter().any(|share| *share < 0.4) && shares.iter().any(|share| *share > 0.6));
        let pairs: usize = catalogue.types.iter().map(|t| of(t, "on-demand").len()).sum();
        assert!((3_600..3_900).contains(&pairs), "{pairs} of 4,035 pairs of type and zone");
    }
}
