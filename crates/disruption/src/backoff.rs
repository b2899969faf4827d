//! A pool whose replacements keep failing rests, so that younger pools get their turn (X16, Z23).

use jiff::{SignedDuration, Timestamp};

const FIRST: SignedDuration = SignedDuration::from_mins(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// For so long a type that could not be had is no target of consolidation: a move to it would be taken back like the one before.
/// Clouds that are out of something usually are for minutes; the target's provider forgets a refusal after three. Longer than
/// that, so that an offer which is there again has been there for a while.
pub const REFUSED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    failures: u32,
    until: Option<Timestamp>,
}

impl Backoff {
    pub fn is_resting(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// A command of the pool failed. Several that fail while the pool rests count once. `chance` is from 0 to 1: half of
    /// the rest is certain, the other half is spread.
    pub fn failed(&mut self, now: Timestamp, chance: f64) {
        if self.is_resting(now) {
            return;
        }
        let doubled = FIRST.saturating_mul(1 << self.failures.min(4));
        self.failures = self.failures.saturating_add(1);
        let whole = doubled.min(LONGEST).as_secs_f64();
        let rest = whole / 2.0 + whole / 2.0 * chance.clamp(0.0, 1.0);
        let rest = SignedDuration::try_from_secs_f64(rest).unwrap_or(LONGEST);
        self.until = Some(now.saturating_add(rest).unwrap_or(Timestamp::MAX));
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X16, Z23: one minute to ten, half of it certain; failures while it rests count once, a success ends it.
    #[test]
    fn x16_z23_pools_rest_for_longer_and_longer() {
        let mut backoff = Backoff::default();
        let mut now = Timestamp::UNIX_EPOCH;
        assert!(!backoff.is_resting(now));
        for (chance, seconds) in [(1.0, 60), (0.0, 60), (1.0, 240), (1.0, 480), (1.0, 600), (0.0, 300)] {
            backoff.failed(now, chance);
            backoff.failed(now, 1.0);
            let end = now + SignedDuration::from_secs(seconds);
            assert!(backoff.is_resting(end - SignedDuration::from_secs(1)), "{seconds}");
            assert!(!backoff.is_resting(end), "{seconds}");
            now = end;
        }
        backoff.succeeded();
        backoff.failed(now, 1.0);
        assert!(!backoff.is_resting(now + SignedDuration::from_secs(60)));
    }
}
