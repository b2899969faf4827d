//! When something last changed that could make another consolidation worthwhile (SCH-243).

use jiff::{SignedDuration, Timestamp};

/// A stamp that nobody renewed is renewed after this long: prices move without telling.
const STALE: SignedDuration = SignedDuration::from_mins(5);

/// Changes have no clock, so the time of a change is the time at which it is first read. Readers only compare stamps with
/// those that they read before, so that comes to the same.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    touched: bool,
    at: Option<Timestamp>,
}

impl Stamp {
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    pub(crate) fn read(&mut self, now: Timestamp) -> Timestamp {
        let known = self.at.filter(|at| !self.touched && now.duration_since(*at) < STALE);
        self.touched = false;
        *self.at.insert(known.unwrap_or(now))
    }
}
