//! What tells an object from another one that has its name.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU64;

use crate::text::Text;

/// A UID. Nearly all are UUIDs, which are numbers of sixteen bytes; compared, ordered and shown it is the text that was
/// written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// As it is written by all but odd API servers: lower case, with dashes. The lower half of every UUID of RFC 9562 has its
    /// first bit set, so that it is not nothing; that lets both forms share their bytes.
    Uuid(u64, NonZeroU64),
    Other(Text),
}

/// Digits before each dash, and after the last one.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
const LENGTH: usize = 36;

impl Form {
    fn of(text: &str) -> Option<Self> {
        if text.len() != LENGTH {
            return None;
        }
        let mut value: u128 = 0;
        let mut bytes = text.bytes();
        for (at, digits) in GROUPS.into_iter().enumerate() {
            if at > 0 && bytes.next() != Some(b'-') {
                return None;
            }
            for _ in 0..digits {
                let digit = match bytes.next()? {
                    digit @ b'0'..=b'9' => digit - b'0',
                    digit @ b'a'..=b'f' => digit - b'a' + 10,
                    _ => return None,
                };
                value = value << 4 | u128::from(digit);
            }
        }
        let (high, low) = (value >> 64, value & u128::from(u64::MAX));
        Some(Self::Uuid(u64::try_from(high).ok()?, u64::try_from(low).ok()?.try_into().ok()?))
    }
}

impl Uid {
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Other(text) if text.is_empty())
    }

    /// The first eight letters as a number, in the order of texts.
    pub fn start(&self) -> u64 {
        self.with(|text| {
            let mut start = [0; 8];
            start.iter_mut().zip(text.bytes()).for_each(|(into, byte)| *into = byte);
            u64::from_be_bytes(start)
        })
    }

    /// Its text, for a moment.
    fn with<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        let (high, low) = match &self.0 {
            Form::Uuid(high, low) => (*high, low.get()),
            Form::Other(text) => return read(text),
        };
        let value = u128::from(high) << 64 | u128::from(low);
        let mut text = [b'-'; LENGTH];
        let (mut at, mut shift) = (0, u128::BITS);
        for digits in GROUPS {
            for _ in 0..digits {
                shift -= 4;
                text[at] = b"0123456789abcdef"[usize::try_from(value >> shift & 0xf).unwrap_or_default()];
                at += 1;
            }
            at += 1;
        }
        read(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl Default for Uid {
    fn default() -> Self {
        "".into()
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(Form::of(text).unwrap_or_else(|| Form::Other(text.into())))
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&Uid> for String {
    fn from(uid: &Uid) -> Self {
        uid.to_string()
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        self.with(|text| text == other)
    }
}

impl PartialEq<&str> for Uid {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<String> for Uid {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // Digits of both stand at the same places, so texts and numbers have one order.
            (Form::Uuid(a, b), Form::Uuid(c, d)) => (a, b).cmp(&(c, d)),
            _ => self.with(|one| other.with(|other| one.cmp(other))),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| fmt::Debug::fmt(text, f))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| fmt::Display::fmt(text, f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever was written is what is read and compared.
    #[test]
    fn a_uid_is_its_text() {
        let texts = [
            "",
            "x",
            "uid-of-a",
            "00000000-0000-0000-0000-000000000000",
            "01234567-89ab-4cde-8f01-23456789abcd",
            "01234567-89ab-4cde-8f01-23456789abce",
            "01234567-89AB-4cde-8f01-23456789abcd",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "0123456789ab-4cde-8f01-23456789abcd-",
            "g1234567-89ab-4cde-8f01-23456789abcd",
            "01234567-89ab-4cde-8f01-23456789abcdé",
        ];
        for one in texts {
            let uid = Uid::from(one);
            assert_eq!((uid.to_string().as_str(), uid == *one), (one, true));
            assert_eq!(Uid::from(one).is_empty(), one.is_empty());
            for other in texts {
                let both = (Uid::from(one), Uid::from(other));
                assert_eq!((both.0.cmp(&both.1), both.0 == both.1), (one.cmp(other), one == other), "{one} {other}");
            }
        }
        assert_eq!(size_of::<Uid>(), 16);
        assert!(matches!(Uid::from(texts[4]).0, Form::Uuid(..)) && matches!(Uid::from(texts[3]).0, Form::Other(_)));
    }
}
