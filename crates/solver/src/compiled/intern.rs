//! Values become small numbers: a fixed hash, an index from hash to number, a memo for pairs.
//!
//! The hash is the same in every run, so nothing that is decided can depend on it by chance; equality is always
//! checked on the values themselves.

use std::hash::{Hash, Hasher};

/// The number of something interned.
pub(crate) type Id = u32;

/// No number.
pub(crate) const NONE: Id = Id::MAX;

/// A position as a number. There are never four billion of anything in one snapshot.
pub(crate) fn id(position: usize) -> Id {
    Id::try_from(position).unwrap_or(NONE)
}

/// Multiply and rotate, eight bytes at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let tail = rest.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        if !rest.is_empty() {
            self.word(tail);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn finish(&self) -> u64 {
        // The high bits are the well mixed ones, and tables use the low ones.
        self.0 ^ (self.0 >> 29)
    }
}

pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut mix = Mix::default();
    value.hash(&mut mix);
    mix.finish()
}

/// From hashes to numbers, by open addressing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// Hash and number; [`NONE`] where free. A power of two of them, at most half full.
    slots: Vec<(u64, Id)>,
    len: usize,
}

impl Index {
    /// The number of the value with this hash that `is_it` recognises.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let mut at = self.start(hash)?;
        loop {
            match self.slots[at] {
                (_, NONE) => return None,
                (known, number) if known == hash && is_it(number) => return Some(number),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn start(&self, hash: u64) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        // The mask keeps the low bits, so the cast loses nothing that counts.
        Some(usize::try_from(hash & mask as u64).unwrap_or(0))
    }

    pub(crate) fn insert(&mut self, hash: u64, number: Id) {
        if self.len * 2 >= self.slots.len() {
            let larger = vec![(0, NONE); (self.slots.len() * 2).max(16)];
            let old = std::mem::replace(&mut self.slots, larger);
            for (hash, number) in old.into_iter().filter(|(_, number)| *number != NONE) {
                self.put(hash, number);
            }
        }
        self.put(hash, number);
        self.len += 1;
    }

    fn put(&mut self, hash: u64, number: Id) {
        let Some(mut at) = self.start(hash) else { return };
        while self.slots[at].1 != NONE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (hash, number);
    }
}

/// What was worked out for a pair of numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PairMemo {
    index: Index,
    entries: Vec<(u64, Id)>,
}

impl PairMemo {
    fn key(a: Id, b: Id) -> (u64, u64) {
        let key = u64::from(a) << 32 | u64::from(b);
        (key, hash_of(&key))
    }

    pub(crate) fn get(&self, a: Id, b: Id) -> Option<Id> {
        let (key, hash) = Self::key(a, b);
        let at = self.index.find(hash, |entry| self.entries[entry as usize].0 == key)?;
        Some(self.entries[at as usize].1)
    }

    /// Of a pair that is not there yet.
    pub(crate) fn insert(&mut self, a: Id, b: Id, value: Id) {
        let (key, hash) = Self::key(a, b);
        self.index.insert(hash, id(self.entries.len()));
        self.entries.push((key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_remembered_apart() {
        let mut memo = PairMemo::default();
        for a in 0..100 {
            for b in 0..7 {
                assert_eq!(memo.get(a, b), None);
                memo.insert(a, b, a * 7 + b);
            }
        }
        assert!((0..100).all(|a| (0..7).all(|b| memo.get(a, b) == Some(a * 7 + b))));
    }

    #[test]
    fn hashes_tell_short_strings_apart() {
        let mut seen: Vec<u64> = (0..10_000).map(|n| hash_of(&format!("fake-it-{n}"))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
    }
}
