//! How much is left of each capacity reservation (AWS-77, AWS-78, AWS-302).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Rides out an outage of the API.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    left: u32,
    synced_at: Timestamp,
}

/// What EC2 said last, corrected by what was done since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservationCounts(BTreeMap<String, Count>);

impl ReservationCounts {
    /// EC2 says how many are left.
    pub fn synced(&mut self, id: &str, left: u32, now: Timestamp) {
        self.0.insert(id.to_owned(), Count { left, synced_at: now });
    }

    /// Zero for one that EC2 never said anything of.
    pub fn available(&self, id: &str, now: Timestamp) -> u32 {
        let fresh = |count: &&Count| now.duration_since(count.synced_at) < KEPT;
        self.0.get(id).filter(fresh).map_or(0, |count| count.left)
    }

    /// An instance was launched into it at that time; an answer of EC2 that is younger has it counted.
    pub fn launched(&mut self, id: &str, at: Timestamp) {
        if let Some(count) = self.0.get_mut(id).filter(|count| count.synced_at <= at) {
            count.left = count.left.saturating_sub(1);
        }
    }

    /// An instance of it is gone for good.
    pub fn terminated(&mut self, id: &str) {
        if let Some(count) = self.0.get_mut(id) {
            count.left = count.left.saturating_add(1);
        }
    }

    /// EC2 refused an instance of it, or takes one back.
    pub fn exhausted(&mut self, id: &str) {
        if let Some(count) = self.0.get_mut(id) {
            count.left = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// AWS-77, AWS-78, AWS-302, AC-296.
    #[test]
    fn counts_follow_what_was_done() {
        let mut counts = ReservationCounts::default();
        counts.launched("cr-1", at(0));
        assert_eq!(counts.available("cr-1", at(0)), 0, "never synced");
        counts.synced("cr-1", 2, at(10));
        counts.launched("cr-1", at(9));
        assert_eq!(counts.available("cr-1", at(10)), 2, "the answer is younger than the launch");
        for left in [1, 0, 0] {
            counts.launched("cr-1", at(11));
            assert_eq!(counts.available("cr-1", at(11)), left);
        }
        counts.terminated("cr-1");
        assert_eq!(counts.available("cr-1", at(12)), 1);
        counts.exhausted("cr-1");
        assert_eq!(counts.available("cr-1", at(12)), 0);
        counts.synced("cr-1", 3, at(60));
        assert_eq!(counts.available("cr-1", at(60)), 3);
        assert_eq!(counts.available("cr-1", at(60 + 24 * 3600)), 0, "a day without an answer");
        assert_eq!(counts.available("cr-2", at(60)), 0);
    }
}
