//! What nodes were seen to have, in place of what was estimated (AWS-120, AWS-313).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::quantity::Quantity;

const KEPT: SignedDuration = SignedDuration::from_hours(60 * 24);

/// Observations by type and by what else they depend on, a hash of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered<T> {
    seen: BTreeMap<(String, u64), (T, Timestamp)>,
}

impl<T> Default for Discovered<T> {
    fn default() -> Self {
        Self { seen: BTreeMap::new() }
    }
}

impl<T: Copy + PartialOrd> Discovered<T> {
    pub fn get(&self, instance_type: &str, depends_on: u64, now: Timestamp) -> Option<T> {
        let (value, until) = self.seen.get(&(instance_type.to_owned(), depends_on))?;
        (now < *until).then_some(*value)
    }

    fn put(&mut self, instance_type: &str, depends_on: u64, value: T, now: Timestamp) {
        self.seen.retain(|_, (_, until)| now < *until);
        let until = now.saturating_add(KEPT).unwrap_or(Timestamp::MAX);
        self.seen.insert((instance_type.to_owned(), depends_on), (value, until));
    }
}

/// Memory by type and images: the least that was seen.
pub type DiscoveredMemory = Discovered<Quantity>;

impl DiscoveredMemory {
    /// Whether something new is known, so that lists made from it are out of date.
    pub fn observe(&mut self, instance_type: &str, images: u64, memory: Quantity, now: Timestamp) -> bool {
        match self.get(instance_type, images, now) {
            Some(known) if memory > known => false,
            known => {
                self.put(instance_type, images, memory, now);
                known != Some(memory)
            }
        }
    }
}

/// Volumes by type and shape of the class: what was seen last.
pub type DiscoveredAttachments = Discovered<u32>;

impl DiscoveredAttachments {
    pub fn observe(&mut self, instance_type: &str, shape: u64, limit: u32, now: Timestamp) -> bool {
        let known = self.get(instance_type, shape, now);
        self.put(instance_type, shape, limit, now);
        known != Some(limit)
    }
}
