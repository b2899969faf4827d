//! What a cloud offers: instance types and their purchasable variants.

use std::fmt;

use crate::labels::{self, LabelRules};
use crate::quantity::Quantity;
use crate::requirements::{Requirement, Requirements, Undefined};
use crate::resources::{HUGEPAGES_PREFIX, MEMORY, Resources};

/// A price per hour in the provider's currency. Totally ordered; never negative and never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price(f64);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("price {0} is not a number of zero or more")]
pub struct PriceError(f64);

impl Price {
    pub const ZERO: Self = Self(0.0);
    /// What a type without any usable offering sorts as.
    pub const MAX: Self = Self(f64::MAX);

    pub fn new(per_hour: f64) -> Result<Self, PriceError> {
        // Adding zero turns the negative zero into the ordinary one, which the total order would tell apart.
        if per_hour.is_finite() && per_hour >= 0.0 { Ok(Self(per_hour + 0.0)) } else { Err(PriceError(per_hour)) }
    }

    pub const fn per_hour(self) -> f64 {
        self.0
    }
}

impl Eq for Price {}
impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Price {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

/// One purchasable variant of an instance type: a zone and a capacity type, with a price (API-266).
#[derive(Debug, Clone, PartialEq)]
pub struct Offering {
    pub requirements: Requirements,
    pub price: Price,
    pub available: bool,
    /// Instances left in the reservation; `None` for offerings that are not reserved.
    pub reservation_capacity: Option<u32>,
}

impl Offering {
    pub fn zone(&self) -> Option<&str> {
        self.requirements.get(labels::ZONE).and_then(Requirement::single_value)
    }

    pub fn capacity_type(&self) -> Option<&str> {
        self.requirements.get(labels::CAPACITY_TYPE).and_then(Requirement::single_value)
    }

    /// API-267: what the claim asks of well-known keys that it leaves open is up to the offering.
    pub fn is_compatible(&self, asked: &Requirements, rules: &LabelRules) -> bool {
        asked.is_compatible(&self.requirements, Undefined::WellKnownAllowed(rules))
    }
}

/// Resources of a node that pods cannot have (API-259).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overhead {
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    pub eviction_threshold: Resources,
}

impl Overhead {
    pub fn total(&self) -> Resources {
        let mut total = self.kube_reserved.clone();
        total.add(&self.system_reserved);
        total.add(&self.eviction_threshold);
        total
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct InstanceType {
    pub name: String,
    /// Every well-known label, `DoesNotExist` where it does not apply (API-258).
    pub requirements: Requirements,
    pub offerings: Vec<Offering>,
    pub capacity: Resources,
    pub overhead: Overhead,
}

impl InstanceType {
    /// Capacity less overhead, and memory less the huge pages carved out of it (API-260).
    pub fn allocatable(&self) -> Resources {
        let mut allocatable = self.capacity.clone();
        allocatable.subtract(&self.overhead.total());
        let huge: Quantity =
            self.capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX)).map(|(_, amount)| amount).sum();
        if !huge.is_zero()
            && let Some(memory) = allocatable.get(MEMORY)
        {
            allocatable.set(MEMORY, (memory - huge).max(Quantity::ZERO));
        }
        allocatable
    }

    /// Available offerings that the claim could be given, cheapest first; equal prices by zone and capacity type.
    pub fn usable_offerings(&self, asked: &Requirements, rules: &LabelRules) -> Vec<&Offering> {
        let mut usable: Vec<&Offering> = self
            .offerings
            .iter()
            .filter(|offering| offering.available && offering.is_compatible(asked, rules))
            .collect();
        usable.sort_by(|a, b| (a.price, a.zone(), a.capacity_type()).cmp(&(b.price, b.zone(), b.capacity_type())));
        usable
    }

    /// The sort key of API-273: the lowest price the claim could get, or [`Price::MAX`] when it can get none.
    pub fn cheapest_price(&self, asked: &Requirements, rules: &LabelRules) -> Price {
        self.usable_offerings(asked, rules).first().map_or(Price::MAX, |offering| offering.price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(zone: &str, capacity_type: &str, price: f64, available: bool) -> Offering {
        Offering {
            requirements: [
                Requirement::any_of(labels::ZONE, [zone]),
                Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
            ]
            .into_iter()
            .collect(),
            price: Price::new(price).unwrap(),
            available,
            reservation_capacity: None,
        }
    }

    fn resources(entries: &[(&str, &str)]) -> Resources {
        entries.iter().map(|(name, amount)| (name.to_string(), amount.parse().unwrap())).collect()
    }

    /// API-259, API-260, SCH-68: overhead keys absent from the capacity are dropped, huge pages come out of memory.
    #[test]
    fn allocatable_arithmetic() {
        let mut large = InstanceType {
            name: "large".to_owned(),
            requirements: Requirements::new(),
            offerings: vec![],
            capacity: resources(&[("cpu", "4"), ("memory", "8Gi"), ("hugepages-2Mi", "1Gi")]),
            overhead: Overhead {
                kube_reserved: resources(&[("cpu", "100m"), ("pid", "5")]),
                system_reserved: resources(&[("cpu", "50m")]),
                eviction_threshold: resources(&[("memory", "100Mi")]),
            },
        };
        assert_eq!(large.allocatable(), resources(&[("cpu", "3850m"), ("memory", "7068Mi"), ("hugepages-2Mi", "1Gi")]));
        large.capacity.set("hugepages-2Mi", "100Gi".parse().unwrap());
        assert_eq!(large.allocatable().amount("memory"), Quantity::ZERO);
    }

    /// API-267, API-270, API-273: only available and compatible offerings, cheapest first.
    #[test]
    fn usable_offerings_are_sorted() {
        let rules = LabelRules::core();
        let small = InstanceType {
            name: "small".to_owned(),
            requirements: Requirements::new(),
            offerings: vec![
                offering("b", "on-demand", 0.2, true),
                offering("b", "spot", 0.1, true),
                offering("a", "spot", 0.1, true),
                offering("c", "spot", 0.01, false),
            ],
            capacity: Resources::new(),
            overhead: Overhead::default(),
        };
        let shown = |asked: &Requirements| -> Vec<String> {
            small
                .usable_offerings(asked, &rules)
                .iter()
                .map(|o| format!("{}/{}", o.zone().unwrap(), o.capacity_type().unwrap()))
                .collect()
        };
        assert_eq!(shown(&Requirements::new()), ["a/spot", "b/spot", "b/on-demand"]);
        let on_demand = Requirements::from_iter([Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"])]);
        assert_eq!(shown(&on_demand), ["b/on-demand"]);
        assert_eq!(small.cheapest_price(&on_demand, &rules).to_string(), "0.200000");
        let elsewhere = Requirements::from_iter([Requirement::any_of(labels::ZONE, ["z"])]);
        assert_eq!(small.cheapest_price(&elsewhere, &rules), Price::MAX);
    }

    /// API-268: prices are numbers of zero or more.
    #[test]
    fn prices() {
        for bad in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(Price::new(bad).is_err());
        }
        assert_eq!(Price::new(-0.0).unwrap(), Price::ZERO);
        assert!(Price::ZERO < Price::new(0.1).unwrap());
    }
}
