//! Protobuf as Kubernetes wraps it, read in place: nothing is copied, and what nobody asks for is stepped over.

use jiff::Timestamp;

/// What is wrong with bytes that should be protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the message ends within a field")]
    Truncated,
    #[error("a number has more than 64 bits")]
    Varint,
    #[error("wire type {0} is not used by Kubernetes")]
    WireType(u8),
    #[error("field {0} has another type than expected")]
    Unexpected(u32),
    #[error("a text is not UTF-8")]
    Text,
    #[error("a time is out of range")]
    Time,
    #[error("an event is of no known type")]
    Event,
    #[error("it does not begin as objects of Kubernetes do")]
    Magic,
    #[error("{0} bytes for one event are too many")]
    Length(u32),
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    value: Value<'a>,
    /// With its number and length, as it stands in the message.
    pub(super) raw: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Kubernetes has no floating-point fields; a later version may.
    Fixed,
}

impl<'a> Fields<'a> {
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Malformed> {
        let start = self.0;
        if start.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed::Varint)?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Truncated)?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed
            }
            other => return Err(Malformed::WireType(u8::try_from(other).unwrap_or_default())),
        };
        let raw = start.get(..start.len() - self.0.len()).unwrap_or_default();
        Ok(Some(Field { number, value, raw }))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if at > 9 || (at == 9 && bits > 1) {
                return Err(Malformed::Varint);
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.take(at + 1)?;
                return Ok(value);
            }
        }
        Err(Malformed::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Field<'a> {
    pub(super) fn bytes(&self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) | Value::Fixed => Err(Malformed::Unexpected(self.number)),
        }
    }

    pub(super) fn fields(&self) -> Result<Fields<'a>, Malformed> {
        self.bytes().map(Fields)
    }

    pub(super) fn text(&self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Text)
    }

    /// Negative numbers are written as their two's complement.
    pub(super) fn number(&self) -> Result<i64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number.cast_signed()),
            Value::Bytes(_) | Value::Fixed => Err(Malformed::Unexpected(self.number)),
        }
    }

    /// A time; an empty message is none.
    pub(super) fn time(&self) -> Result<Option<Timestamp>, Malformed> {
        let (mut seconds, mut nanos, mut any) = (0, 0, false);
        let mut fields = self.fields()?;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => (seconds, any) = (field.number()?, true),
                2 => nanos = i32::try_from(field.number()?).map_err(|_| Malformed::Time)?,
                _ => {}
            }
        }
        any.then(|| Timestamp::new(seconds, nanos).map_err(|_| Malformed::Time)).transpose()
    }
}

/// What stands before every object.
const MAGIC: &[u8] = b"k8s\0";

/// The object within its envelope, which also says of which kind it is.
pub(super) fn unwrapped(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut fields = Fields(bytes.strip_prefix(MAGIC).ok_or(Malformed::Magic)?);
    let mut raw: &[u8] = &[];
    while let Some(field) = fields.next()? {
        if field.number == 2 {
            raw = field.bytes()?;
        }
    }
    Ok(raw)
}

/// Key and value of one entry of a map.
pub(super) fn entry<'a>(field: &Field<'a>) -> Result<(&'a str, Option<Field<'a>>), Malformed> {
    let (mut key, mut value) = ("", None);
    let mut fields = field.fields()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => key = field.text()?,
            2 => value = Some(field),
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<u32>, Malformed> {
        let (mut fields, mut numbers) = (Fields(bytes), Vec::new());
        while let Some(field) = fields.next()? {
            numbers.push(field.number);
        }
        Ok(numbers)
    }

    #[test]
    fn every_field_has_its_number_and_its_bytes() {
        let message =
            [&[0x08, 0x96, 0x01, 0x12, 0x02][..], b"hi", &[0x9d, 0x06, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7, 8]]
                .concat();
        assert_eq!(all(&message), Ok(vec![1, 2, 99, 3]));
        let mut fields = Fields(&message);
        let number = fields.next().unwrap().unwrap();
        assert_eq!(
            (number.number(), number.text(), number.raw),
            (Ok(150), Err(Malformed::Unexpected(1)), &message[..3])
        );
        let text = fields.next().unwrap().unwrap();
        assert_eq!((text.text(), text.number(), text.raw), (Ok("hi"), Err(Malformed::Unexpected(2)), &message[3..7]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (name, bytes, want) in [
            ("a number without an end", &[0x08, 0x80][..], Malformed::Truncated),
            (
                "a number that is too long",
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
                Malformed::Varint,
            ),
            ("a text without an end", &[0x12, 0x05, b'a'], Malformed::Truncated),
            (
                "a length beyond everything",
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                Malformed::Truncated,
            ),
            ("a group", &[0x0b], Malformed::WireType(3)),
            ("a fixed number without an end", &[0x0d, 1, 2], Malformed::Truncated),
        ] {
            assert_eq!(all(bytes), Err(want), "{name}");
        }
        assert_eq!(unwrapped(b"{\"kind\":\"Pod\"}"), Err(Malformed::Magic));
        assert_eq!(unwrapped(b"k8s\0\x12\x02hi"), Ok(&b"hi"[..]));
        assert_eq!(unwrapped(b"k8s\0\x12\x03hi"), Err(Malformed::Truncated));
    }

    #[test]
    fn times_are_seconds_and_nanoseconds() {
        let time = |message: &[u8]| Fields(message).next().unwrap().unwrap().time();
        assert_eq!(time(&[0x42, 0]), Ok(None), "never set");
        assert_eq!(time(&[0x42, 4, 0x08, 0x0a, 0x10, 0]), Ok(Some(Timestamp::new(10, 0).unwrap())));
        let far = [0x42, 10, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(time(&far), Err(Malformed::Time));
    }
}
