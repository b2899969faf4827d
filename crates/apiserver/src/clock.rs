//! Time and chance, both given from outside.

use std::sync::Arc;

use jiff::Timestamp;

/// What the time is. A simulation gives one that follows its own clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Time as objects show it: whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Names and UIDs from a seed: equal seeds give equal ones.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        let b = (b & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
        let a = (a & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xFFFF,
            a & 0xFFFF,
            b >> 48,
            b & 0xFFFF_FFFF_FFFF
        )
    }

    /// The five characters behind `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut word = self.next();
        let count = LETTERS.len() as u64;
        let mut suffix = String::new();
        for _ in 0..5 {
            let at = usize::try_from(word % count).unwrap_or_default();
            suffix.push(char::from(LETTERS[at]));
            word /= count;
        }
        suffix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (chance.uid(), chance.uid(), chance.suffix())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let (uid, other, suffix) = draw(7);
        assert_ne!(uid, other);
        assert_eq!((uid.len(), &uid[14..15], suffix.len()), (36, "4", 5));
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(seconds("2026-01-02T03:04:05.678Z".parse().unwrap()), "2026-01-02T03:04:05Z");
    }
}
