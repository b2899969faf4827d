//! The parts of the structural hash (API-216 … API-221, scalars of AWS-288).

use std::collections::BTreeMap;

const OFFSET_BASIS: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

/// FNV-1: multiply, then xor.
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

pub(super) fn string(text: &str) -> u64 {
    bytes(text.as_bytes())
}

pub(super) fn int64(number: i64) -> u64 {
    bytes(&number.to_le_bytes())
}

pub(super) fn int32(number: i32) -> u64 {
    bytes(&number.to_le_bytes())
}

pub(super) fn boolean(flag: bool) -> u64 {
    bytes(&[u8::from(flag)])
}

fn ordered(a: u64, b: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&a.to_le_bytes());
    both[8..].copy_from_slice(&b.to_le_bytes());
    bytes(&both)
}

fn finish(hash: u64) -> u64 {
    bytes(&hash.to_le_bytes())
}

/// Entries in any order give the same hash.
pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a String, u64)>) -> u64 {
    finish(entries.into_iter().fold(0, |hash, (key, value)| hash ^ ordered(string(key), value)))
}

pub(super) fn string_map(entries: &BTreeMap<String, String>) -> u64 {
    map(entries.iter().map(|(key, value)| (key, string(value))))
}

/// Elements in any order give the same hash; equal ones cancel out.
pub(super) fn list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |hash, element| hash ^ element)
}

/// A record under construction: fields in the published order, absent ones left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record(u64);

impl Record {
    pub(super) fn new(name: &str) -> Self {
        Self(string(name))
    }

    pub(super) fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(finish(self.0 ^ ordered(string(name), value))),
            None => self,
        }
    }

    pub(super) fn hash(self) -> u64 {
        self.0
    }
}

/// Text that counts as absent when it is empty.
pub(super) fn non_empty(text: &str) -> Option<u64> {
    (!text.is_empty()).then(|| string(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-217, API-218: published FNV-1 values (of the empty text, `a` and `foobar`).
    #[test]
    fn primitive_is_fnv_1() {
        assert_eq!(string(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(string("a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(string("foobar"), 0x340d_8765_a4dd_a9c2);
        assert_eq!(int64(1), bytes(&[1, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(int32(-1), bytes(&[255, 255, 255, 255]));
        assert_eq!(boolean(true), bytes(&[1]));
    }

    /// API-215, API-219, API-220: order does not matter, an empty map is not zero, an empty list is.
    #[test]
    fn maps_and_lists_ignore_order() {
        let [a, b] = ["a", "b"].map(str::to_owned);
        assert_eq!(map([(&a, 1), (&b, 2)]), map([(&b, 2), (&a, 1)]));
        assert_ne!(map([(&a, 1), (&b, 2)]), map([(&a, 2), (&b, 1)]));
        assert_eq!(map([]), finish(0));
        assert_eq!(list([1, 2, 3]), list([3, 1, 2]));
        assert_eq!(list([5, 5]), list([]));
        assert_eq!(list([]), 0);
    }

    /// API-221: a present field changes a record, an absent one does not, and their order matters.
    #[test]
    fn records_take_present_fields_in_order() {
        let record = Record::new("R");
        assert_eq!(record.field("F", None).hash(), string("R"));
        let (one, two) =
            (record.field("A", Some(1)).field("B", Some(2)), record.field("B", Some(2)).field("A", Some(1)));
        assert_ne!(one.hash(), two.hash());
    }
}
