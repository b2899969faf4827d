//! Amounts of named resources.

use std::collections::BTreeMap;
use std::fmt;

use crate::quantity::Quantity;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const PODS: &str = "pods";
/// Exists in pool limits and usage only (API-130).
pub const NODES: &str = "nodes";
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// A list of resources, ordered by name. A missing entry counts as zero where amounts are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or(Quantity::ZERO)
    }

    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: Quantity) -> Self {
        self.set(name, amount);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            *self.0.entry(name.clone()).or_default() += *amount;
        }
    }

    /// Keeps exactly the keys of `self` (SCH-66).
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount -= other.amount(name);
        }
    }

    /// Element-wise maximum over the union of keys (SCH-67).
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let entry = self.0.entry(name.clone()).or_insert(*amount);
            *entry = (*entry).max(*amount);
        }
    }

    /// Whether these needs fit what is available (SCH-64). A negative entry on the available side fits nothing.
    pub fn fits(&self, available: &Self) -> bool {
        !available.0.values().any(|amount| amount.is_negative()) && self.first_shortage(available).is_none()
    }

    /// The first resource of which there is too little, with the amount that is missing.
    pub fn first_shortage(&self, available: &Self) -> Option<(&str, Quantity)> {
        self.iter().find_map(|(name, need)| {
            let have = available.amount(name);
            (need > have).then(|| (name, need - have))
        })
    }
}

impl FromIterator<(String, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            write!(f, "{}{name}: {amount}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(text: &str) -> Resources {
        text.split_whitespace()
            .map(|entry| entry.split_once('=').unwrap())
            .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
            .collect()
    }

    /// SCH-64, SCH-65, API-261: exact comparison, missing counts as zero, a negative entry fits nothing.
    #[test]
    fn fitting() {
        for (need, have, fits) in [
            ("cpu=1", "cpu=1 memory=1Gi", true),
            ("cpu=1001m", "cpu=1", false),
            ("gpu=1", "cpu=1", false),
            ("gpu=0", "cpu=1", true),
            ("cpu=1", "cpu=2 memory=-1", false),
            ("", "", true),
        ] {
            assert_eq!(resources(need).fits(&resources(have)), fits, "{need} into {have}");
        }
        let need = resources("cpu=3500m");
        assert_eq!(need.first_shortage(&resources("cpu=500m")), Some(("cpu", "3".parse().unwrap())));
    }

    /// SC-100: the largest of each, and keys that only some lists have.
    #[test]
    fn maximum_of_lists() {
        let mut most = Resources::new();
        for list in ["cpu=1 memory=4Gi", "cpu=3 memory=2Gi", "cpu=2 memory=8Gi gpu=1"] {
            most.raise_to(&resources(list));
        }
        assert_eq!(most, resources("cpu=3 memory=8Gi gpu=1"));
    }

    /// SCH-66, SCH-67.
    #[test]
    fn arithmetic_keeps_the_right_keys() {
        let mut left = resources("cpu=2 memory=1Gi");
        left.subtract(&resources("cpu=500m gpu=1"));
        assert_eq!(left, resources("cpu=1500m memory=1Gi"));
        left.raise_to(&resources("cpu=1 gpu=2"));
        assert_eq!(left, resources("cpu=1500m memory=1Gi gpu=2"));
        left.add(&resources("cpu=500m pods=1"));
        assert_eq!(left.to_string(), "cpu: 2, gpu: 2, memory: 1Gi, pods: 1");
    }
}
