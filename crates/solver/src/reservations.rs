//! Who holds how much of which reservation during a pass.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::Snapshot;

/// Instances left of each reservation, and the hosts that hold one (SCH-111).
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    left: BTreeMap<String, u32>,
    credits: BTreeMap<String, u32>,
    held: BTreeSet<(String, String)>,
}

/// A mistake of ours: whoever reserves has asked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReservationError {
    Unknown,
    NothingLeft,
}

impl Reservations {
    /// The smallest count that any type of any pool reports, offerings that are unavailable included.
    pub(crate) fn new(snapshot: &Snapshot, rules: &LabelRules) -> Self {
        let mut left: BTreeMap<String, u32> = BTreeMap::new();
        if rules.reservation_key().is_none() {
            return Self::default();
        }
        let types = snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter());
        for offering in types.flat_map(|known| &known.offerings) {
            let Some(id) = offering.reservation(rules) else { continue };
            let count = offering.reservation_capacity.unwrap_or(0);
            left.entry(id.to_owned()).and_modify(|known| *known = count.min(*known)).or_insert(count);
        }
        let mut credits = snapshot.reservation_credits.clone();
        credits.retain(|id, _| left.contains_key(id));
        for (id, credit) in &credits {
            *left.entry(id.clone()).or_default() += credit;
        }
        Self { left, credits, held: BTreeSet::new() }
    }

    pub(crate) fn has_credit(&self, id: &str) -> bool {
        self.credits.get(id).is_some_and(|credit| *credit > 0)
    }

    fn holds(&self, host: &str, id: &str) -> bool {
        self.held.contains(&(host.to_owned(), id.to_owned()))
    }

    pub(crate) fn can_reserve(&self, host: &str, id: &str) -> bool {
        self.holds(host, id) || self.left.get(id).is_some_and(|left| *left > 0)
    }

    fn reserve(&mut self, host: &str, id: &str) -> Result<(), ReservationError> {
        let left = self.left.get_mut(id).ok_or(ReservationError::Unknown)?;
        if self.held.contains(&(host.to_owned(), id.to_owned())) {
            return Ok(());
        }
        *left = left.checked_sub(1).ok_or(ReservationError::NothingLeft)?;
        self.held.insert((host.to_owned(), id.to_owned()));
        Ok(())
    }

    fn release(&mut self, host: &str, id: &str) -> Result<(), ReservationError> {
        let left = self.left.get_mut(id).ok_or(ReservationError::Unknown)?;
        if self.held.remove(&(host.to_owned(), id.to_owned())) {
            *left += 1;
        }
        Ok(())
    }

    /// The host now holds exactly these (SCH-112).
    pub(crate) fn hold(&mut self, host: &str, before: &BTreeSet<String>, now: &BTreeSet<String>) {
        for id in before.difference(now) {
            self.release(host, id).expect("what is held is known");
        }
        for id in now {
            self.reserve(host, id).expect("asked for while evaluating");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-161.
    #[test]
    fn sc_161_reserving_and_releasing() {
        let left = [("small", 3), ("medium", 2), ("large", 1)].map(|(id, count)| (id.to_owned(), count));
        let mut all = Reservations { left: BTreeMap::from(left), ..Reservations::default() };
        all.reserve("h1", "large").unwrap();
        assert_eq!(all.left["large"], 0);
        assert!(all.can_reserve("h1", "large") && !all.can_reserve("h2", "large"));
        assert_eq!(all.reserve("h2", "large"), Err(ReservationError::NothingLeft));
        assert_eq!(all.reserve("h1", "unknown"), Err(ReservationError::Unknown));
        assert_eq!(all.release("h1", "unknown"), Err(ReservationError::Unknown));
        assert!(!all.can_reserve("h1", "unknown"));
        for _ in 0..2 {
            all.reserve("h1", "small").unwrap();
        }
        assert_eq!(all.left["small"], 2, "once");
        all.release("h2", "small").unwrap();
        assert_eq!(all.left["small"], 2, "not held");
        all.release("h1", "small").unwrap();
        all.release("h1", "large").unwrap();
        assert_eq!((all.left["small"], all.left["large"]), (3, 1));
        assert!(all.can_reserve("h2", "large"));
    }
}
