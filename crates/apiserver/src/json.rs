//! JSON of requests, read as Go reads it: the same texts for what is wrong, and fields that occur twice are told.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Deeper values are refused. The real server goes to 10,000, which no honest object needs, and our recursion would not stand.
const MAX_DEPTH: usize = 200;

/// A value and the paths of fields that were there more than once; the last one counts.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// The error is Go's text.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let mut parser = Parser { bytes, at: 0, depth: 0, path: Vec::new(), duplicates: Vec::new() };
    let value = parser.value()?;
    parser.space();
    if parser.at < bytes.len() {
        return Err(parser.unexpected("after top-level value"));
    }
    Ok(Parsed { value, duplicates: parser.duplicates })
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    path: Vec<String>,
    duplicates: Vec<String>,
}

impl Parser<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, place: &str) -> String {
        match self.bytes.get(self.at) {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'\'') => format!("invalid character '\\'' {place}"),
            Some(byte) if byte.is_ascii_graphic() || *byte == b' ' => {
                format!("invalid character '{}' {place}", char::from(*byte))
            }
            Some(byte) if byte.is_ascii() => format!("invalid character '\\x{byte:02x}' {place}"),
            Some(byte) => format!("invalid character '{}' {place}", char::from(*byte)),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut map = Map::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let name = self.string()?;
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.path.push(name.clone());
            let value = self.value()?;
            let repeated = map.insert(name, value).is_some();
            if repeated {
                self.duplicates.push(self.path_text());
            }
            self.path.pop();
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            if !text.is_empty() && !part.starts_with('[') {
                text.push('.');
            }
            text.push_str(part);
        }
        text
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            let mut place = String::new();
            // Writing to a String cannot fail.
            let _ = write!(place, "[{}]", items.len());
            self.path.push(place);
            items.push(self.value()?);
            self.path.pop();
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    if !matches!(
                        self.bytes.get(self.at),
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u')
                    ) {
                        return Err(self.unexpected("in string escape code"));
                    }
                    self.at += 1;
                }
                Some(byte) if *byte >= 0x20 => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
        self.at += 1;
        let raw = &self.bytes[start..self.at];
        // Go replaces what is no UTF-8, and halves of surrogate pairs.
        serde_json::from_slice(raw)
            .or_else(|_| serde_json::from_str(&String::from_utf8_lossy(raw)))
            .or_else(|_| if raw.contains(&b'\\') { Ok("\u{FFFD}".to_owned()) } else { Err(()) })
            .map_err(|()| "invalid character in string literal".to_owned())
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for expected in word.bytes() {
            if self.bytes.get(self.at) != Some(&expected) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let raw = &self.bytes[start..self.at];
        serde_json::from_slice(raw).map_err(|_| {
            let text = String::from_utf8_lossy(raw);
            match text.strip_prefix('-').unwrap_or(&text).as_bytes() {
                [b'0', b'0'..=b'9', ..] => self.unexpected("after object key:value pair"),
                _ => self.unexpected("in numeric literal"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read() {
        let text = r#" {"a": [1, -2.5e3, "x\n\u00e9", true, null], "b": {"c": {}}, "d": []} "#;
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.value, json!({"a": [1, -2500.0, "x\né", true, null], "b": {"c": {}}, "d": []}));
        let twice = parse(br#"{"a": {"k": 1, "k": 2}, "l": [{"x": 1, "x": 1}]}"#).unwrap();
        assert_eq!(twice.duplicates, ["a.k", "l[0].x"]);
        assert_eq!(twice.value["a"]["k"], 2);
    }

    #[test]
    fn what_is_wrong_is_told_as_by_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\": x}", "invalid character 'x' looking for beginning of value"),
            ("{} t", "invalid character 't' after top-level value"),
            ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\": 1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("tru", "unexpected end of JSON input"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), want, "{text}");
        }
        assert_eq!(parse("[".repeat(100_000).as_bytes()).unwrap_err(), "exceeded max depth");
    }
}
