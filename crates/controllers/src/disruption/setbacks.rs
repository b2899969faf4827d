//! What lately went wrong with replacements: pools whose drifted nodes could not be replaced, and instance types that could not
//! be had.
//!
//! Consolidation moves pods for money. A move to a type that the cloud has just refused would be taken back like the one
//! before it, and disturb its nodes each time; so for a while such a type is no target. Drift and pods that wait are not
//! asked: they have no choice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_disruption::backoff::{Backoff, REFUSED_FOR};

#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    /// When each type last failed.
    types: BTreeMap<String, Timestamp>,
    pools: BTreeMap<String, Backoff>,
}

impl Setbacks {
    /// None of these could be had.
    pub(crate) fn note<'a>(&mut self, types: impl IntoIterator<Item = &'a String>, now: Timestamp) {
        self.types.extend(types.into_iter().map(|name| (name.clone(), now)));
    }

    /// A drifted node of the pool could not be replaced (X16).
    pub(crate) fn note_failure(&mut self, pool: &str, now: Timestamp) {
        self.pools.entry(pool.to_owned()).or_default().failed(now, chance(pool, now));
    }

    pub(crate) fn note_success(&mut self, pool: &str) {
        self.pools.remove(pool);
    }

    /// Pools that rest.
    pub(crate) fn resting(&self, now: Timestamp) -> BTreeSet<String> {
        self.pools.iter().filter(|(_, backoff)| backoff.is_resting(now)).map(|(pool, _)| pool.clone()).collect()
    }

    /// Those that failed lately; older ones are forgotten.
    pub(crate) fn types(&mut self, now: Timestamp) -> BTreeSet<String> {
        self.types.retain(|_, at| now.duration_since(*at) < REFUSED_FOR);
        self.types.keys().cloned().collect()
    }
}

/// From 0 to 1, so that pools which failed together do not come back together. From the name and the time: a repeated run is
/// the same run.
fn chance(pool: &str, now: Timestamp) -> f64 {
    let seconds = u32::try_from(now.as_second() & 0xffff).unwrap_or_default();
    let hash = pool.bytes().fold(seconds, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(hash % 1000) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X16: a pool rests after a failure, others do not, and success ends it.
    #[test]
    fn pools_that_fail_rest() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let mut setbacks = Setbacks::default();
        setbacks.note_failure("blue", time(0));
        assert_eq!(setbacks.resting(time(29)), ["blue".to_owned()].into());
        assert!(setbacks.resting(time(61)).is_empty());
        setbacks.note_failure("blue", time(61));
        setbacks.note_success("blue");
        assert!(setbacks.resting(time(62)).is_empty());
    }

    #[test]
    fn types_that_failed_are_forgotten_after_a_while() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let mut setbacks = Setbacks::default();
        setbacks.note(&["a".to_owned()], time(0));
        setbacks.note(&["b".to_owned()], time(300));
        assert_eq!(setbacks.types(time(599)).len(), 2);
        assert_eq!(setbacks.types(time(600)), ["b".to_owned()].into());
    }
}
