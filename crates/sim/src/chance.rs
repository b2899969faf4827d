//! Chance that repeats: everything random in a world follows from its seed.

use std::time::Duration;

/// A stream of numbers (splitmix64). Small and quick, and its sequence is part of what a seed means: changing it changes
/// every recorded run.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number for the thing of this name: the same whenever and in whatever order it is asked for.
    pub fn about(seed: u64, name: &[&str]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for part in name {
            for byte in part.as_bytes().iter().chain(&[0xff]) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self(mixed(seed) ^ hash)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// From zero up to, not including, one.
    pub fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds exactly")]
        let fraction = (self.number() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }

    /// From zero up to, not including, `end`. The bias of the remainder is far below what any run could notice.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or(0)
    }

    pub fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Whole milliseconds, so that times in a log stay short.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let span = longest.saturating_sub(shortest).as_millis();
        let span = u64::try_from(span).unwrap_or(u64::MAX - 1);
        shortest + Duration::from_millis(self.below(span + 1))
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let index = self.below(of.len() as u64);
        of.get(usize::try_from(index).unwrap_or_default())
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of splitmix64 for the seed 1234567.
    #[test]
    fn the_sequence_is_the_known_one() {
        let mut chance = Chance::seeded(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| chance.number()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn names_are_told_apart_and_repeat() {
        let number = |seed, name: &[&str]| Chance::about(seed, name).number();
        assert_eq!(number(7, &["a", "b"]), number(7, &["a", "b"]));
        assert_ne!(number(7, &["a", "b"]), number(7, &["ab"]));
        assert_ne!(number(7, &["a", "b"]), number(8, &["a", "b"]));
    }

    #[test]
    fn durations_stay_in_range() {
        let mut chance = Chance::seeded(1);
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(3));
        let drawn: Vec<Duration> = (0..1000).map(|_| chance.between(short, long)).collect();
        assert!(drawn.iter().all(|d| (short..=long).contains(d)));
        assert!(drawn.iter().min() < drawn.iter().max());
        assert_eq!(chance.between(short, short), short);
    }
}
