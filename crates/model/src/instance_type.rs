//! What a cloud offers: instance types and their purchasable variants.

use std::collections::BTreeMap;
use std::fmt;

use crate::devices::TypeDevices;
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
    /// The provider would sell it at all: it exists, is healthy, and nobody was just refused it. A reservation that is
    /// healthy but full stays available (V15-82); whether one can be had right now is [`Offering::is_launchable`].
    pub available: bool,
    /// Instances left in the reservation; `None` for offerings that are not reserved.
    pub reservation_capacity: Option<u32>,
    pub overrides: Overrides,
}

/// Where an offering differs from its type: these keys replace or add to the type's (API-262).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    pub capacity: Resources,
    /// Of the total overhead, whichever of its three lists a key comes from.
    pub overhead: Resources,
}

impl Offering {
    pub fn zone(&self) -> Option<&str> {
        self.requirements.get(labels::ZONE).and_then(Requirement::single_value)
    }

    pub fn capacity_type(&self) -> Option<&str> {
        self.requirements.get(labels::CAPACITY_TYPE).and_then(Requirement::single_value)
    }

    /// The reservation that the instance would be taken from, if it is a reserved one (SCH-110).
    pub fn reservation<'a>(&'a self, rules: &LabelRules) -> Option<&'a str> {
        let reserved = self.capacity_type() == Some(labels::CAPACITY_TYPE_RESERVED);
        rules.reservation_key().filter(|_| reserved).and_then(|key| self.requirements.get(key)?.single_value())
    }

    /// An instance could be had from it now: it is available and, if reserved, not full (V15-82).
    pub fn is_launchable(&self) -> bool {
        self.available && self.reservation_capacity != Some(0)
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
    /// How many volumes a node of this type can attach, by CSI driver; a driver not named here is not limited (V15-101).
    pub attachment_limits: BTreeMap<String, u32>,
    /// What a node of this type will publish once it runs (SCH-201).
    pub devices: TypeDevices,
}

/// Available offerings that leave pods the same resources (API-263).
#[derive(Debug, Clone, PartialEq)]
pub struct AllocatableGroup<'a> {
    pub allocatable: Resources,
    pub offerings: Vec<&'a Offering>,
}

impl InstanceType {
    /// Capacity less overhead, and memory less the huge pages carved out of it (API-260). Overrides of offerings are not
    /// in it; see [`InstanceType::allocatable_with`].
    pub fn allocatable(&self) -> Resources {
        self.allocatable_with(&Overrides::default())
    }

    /// What pods can have on an instance of an offering with these overrides (API-262).
    pub fn allocatable_with(&self, overrides: &Overrides) -> Resources {
        let capacity = self.capacity_with(overrides);
        let mut overhead = self.overhead.total();
        replace_keys(&mut overhead, &overrides.overhead);
        let mut allocatable = capacity.clone();
        allocatable.subtract(&overhead);
        let huge: Quantity =
            capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX)).map(|(_, amount)| amount).sum();
        if !huge.is_zero()
            && let Some(memory) = allocatable.get(MEMORY)
        {
            allocatable.set(MEMORY, (memory - huge).max(Quantity::ZERO));
        }
        allocatable
    }

    pub fn capacity_with(&self, overrides: &Overrides) -> Resources {
        let mut capacity = self.capacity.clone();
        replace_keys(&mut capacity, &overrides.capacity);
        capacity
    }

    /// Available offerings grouped by what they leave for pods. The first group is the one without overrides, even when
    /// it is empty; the others come in the order of their first offering (API-263).
    pub fn allocatable_groups(&self) -> Vec<AllocatableGroup<'_>> {
        let none = Overrides::default();
        let mut groups: Vec<(&Overrides, Vec<&Offering>)> = vec![(&none, Vec::new())];
        for offering in self.offerings.iter().filter(|offering| offering.available) {
            match groups.iter_mut().find(|(overrides, _)| **overrides == offering.overrides) {
                Some((_, offerings)) => offerings.push(offering),
                None => groups.push((&offering.overrides, vec![offering])),
            }
        }
        groups
            .into_iter()
            .map(|(overrides, offerings)| AllocatableGroup { allocatable: self.allocatable_with(overrides), offerings })
            .collect()
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

    /// Like [`InstanceType::usable_offerings`], without reservations that are full (V15-83).
    pub fn launchable_offerings(&self, asked: &Requirements, rules: &LabelRules) -> Vec<&Offering> {
        let mut launchable = self.usable_offerings(asked, rules);
        launchable.retain(|offering| offering.is_launchable());
        launchable
    }

    /// The sort key of API-273: the lowest price the claim could get, or [`Price::MAX`] when it can get none.
    pub fn cheapest_price(&self, asked: &Requirements, rules: &LabelRules) -> Price {
        self.launchable_offerings(asked, rules).first().map_or(Price::MAX, |offering| offering.price)
    }

    /// The most a launch could cost: of the first capacity type in the order reserved, spot, on-demand that can be
    /// launched, the highest price (API-271); [`Price::MAX`] when nothing can be launched.
    pub fn worst_launch_price(&self, asked: &Requirements, rules: &LabelRules) -> Price {
        let launchable = self.launchable_offerings(asked, rules);
        [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND]
            .iter()
            .find_map(|capacity_type| {
                let of_type = launchable.iter().filter(|offering| offering.capacity_type() == Some(*capacity_type));
                of_type.map(|offering| offering.price).max()
            })
            .unwrap_or(Price::MAX)
    }

    /// The price of a node that runs in this zone with this capacity type, whether or not another one could be had
    /// (API-272); `None` when it is not on offer.
    pub fn running_price(&self, zone: &str, capacity_type: &str) -> Option<Price> {
        let same =
            |offering: &&Offering| offering.zone() == Some(zone) && offering.capacity_type() == Some(capacity_type);
        self.offerings.iter().find(same).map(|offering| offering.price)
    }
}

fn replace_keys(amounts: &mut Resources, replacements: &Resources) {
    for (name, amount) in replacements.iter() {
        amounts.set(name, amount);
    }
}

#[cfg(test)]
mod tests;
