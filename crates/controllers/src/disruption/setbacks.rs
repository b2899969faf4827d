//! Instance types that lately could not be had.
//!
//! Consolidation moves pods for money. A move to a type that the cloud has just refused would be taken back like the one
//! before it, and disturb its nodes each time; so for a while such a type is no target. Drift and pods that wait are not
//! asked: they have no choice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// Clouds that are out of something usually are for minutes; the target's provider forgets a refusal after three. Longer than
/// that, so that an offer which is there again has been there for a while.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    /// When each type last failed.
    types: BTreeMap<String, Timestamp>,
}

impl Setbacks {
    /// None of these could be had.
    pub(crate) fn note<'a>(&mut self, types: impl IntoIterator<Item = &'a String>, now: Timestamp) {
        self.types.extend(types.into_iter().map(|name| (name.clone(), now)));
    }

    /// Those that failed lately; older ones are forgotten.
    pub(crate) fn types(&mut self, now: Timestamp) -> BTreeSet<String> {
        self.types.retain(|_, at| now.duration_since(*at) < REMEMBERED);
        self.types.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
