//! Amounts of named resources.

use std::cmp::Ordering;
use std::fmt;

use crate::quantity::Quantity;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const PODS: &str = "pods";
/// Exists in pool limits and usage only (API-130).
pub const NODES: &str = "nodes";
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// A resource's name. Those that nearly every pod and node has take no memory of their own.
#[derive(Debug, Clone)]
enum Name {
    Common(&'static str),
    Other(Box<str>),
}

impl Name {
    const COMMON: [&'static str; 5] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES];

    fn of(name: &str) -> Self {
        match Self::COMMON.into_iter().find(|common| *common == name) {
            Some(common) => Self::Common(common),
            None => Self::Other(name.into()),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Common(name) => name,
            Self::Other(name) => name,
        }
    }
}

/// A list of resources, ordered by name. A missing entry counts as zero where amounts are compared.
#[derive(Clone, Default)]
pub struct Resources(Vec<(Name, Quantity)>);

impl Resources {
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the name is, or where it would be. There are few, so looking through them is quickest.
    fn position(&self, name: &str) -> Result<usize, usize> {
        for (at, (known, _)) in self.0.iter().enumerate() {
            match known.as_str().cmp(name) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(at),
                Ordering::Greater => return Err(at),
            }
        }
        Err(self.0.len())
    }

    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.position(name).ok().map(|at| self.0[at].1)
    }

    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or(Quantity::ZERO)
    }

    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        *self.entry(&name.into(), amount) = amount;
    }

    /// The amount of this name, `missing` where there was none.
    fn entry(&mut self, name: &str, missing: Quantity) -> &mut Quantity {
        let at = self.position(name).unwrap_or_else(|at| {
            self.0.insert(at, (Name::of(name), missing));
            at
        });
        &mut self.0[at].1
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: Quantity) -> Self {
        self.set(name, amount);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Those that the other list has, too, however much of them.
    #[must_use]
    pub fn named_in(&self, other: &Self) -> Self {
        let named = self.iter().filter(|(name, _)| other.get(name).is_some());
        named.map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// For a list that is kept for long.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            *self.entry(name, Quantity::ZERO) += amount;
        }
    }

    /// Keeps exactly the keys of `self` (SCH-66).
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount -= other.amount(name.as_str());
        }
    }

    /// Element-wise maximum over the union of keys (SCH-67).
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let entry = self.entry(name, amount);
            *entry = (*entry).max(amount);
        }
    }

    /// Whether these needs fit what is available (SCH-64). A negative entry on the available side fits nothing.
    pub fn fits(&self, available: &Self) -> bool {
        !available.0.iter().any(|(_, amount)| amount.is_negative()) && self.first_shortage(available).is_none()
    }

    /// The first resource of which there is too little, with the amount that is missing.
    pub fn first_shortage(&self, available: &Self) -> Option<(&str, Quantity)> {
        self.iter().find_map(|(name, need)| {
            let have = available.amount(name);
            (need > have).then(|| (name, need - have))
        })
    }

    /// The resource of which the largest share of the need is missing, with that amount: the one to look at first.
    pub fn worst_shortage(&self, available: &Self) -> Option<(&str, Quantity)> {
        let missing = self.iter().filter_map(|(name, need)| {
            let have = available.amount(name);
            (need > have).then(|| (name, need - have, (need - have).as_f64() / need.as_f64()))
        });
        let worst = missing.reduce(|worst, next| if next.2 > worst.2 { next } else { worst });
        worst.map(|(name, short, _)| (name, short))
    }
}

impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Resources {}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of a name that comes several times the last one counts.
impl<N: AsRef<str>> FromIterator<(N, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(entries: I) -> Self {
        let mut resources = Self::new();
        for (name, amount) in entries {
            *resources.entry(name.as_ref(), amount) = amount;
        }
        resources
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
        let need = resources("cpu=2 gpu=1 memory=4Gi");
        assert_eq!(need.worst_shortage(&resources("cpu=1900m memory=1Gi")), Some(("gpu", "1".parse().unwrap())));
        assert_eq!(need.worst_shortage(&resources("cpu=2 gpu=1 memory=1Gi")), Some(("memory", "3Gi".parse().unwrap())));
        assert_eq!(need.worst_shortage(&need), None);
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
