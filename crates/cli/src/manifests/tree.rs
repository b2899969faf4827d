//! A YAML document with the line of each value.

use std::fmt;

use karpenter_schema::{FieldPath, Segment};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

/// A value and the line on which it, or the key that names it, begins.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) line: u64,
    node: Node,
}

#[derive(Debug, Clone)]
enum Node {
    /// Null, boolean, number or string.
    Scalar(Value),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Deeper documents are refused. Objects stay far below; CRDs with large schemas come nearest.
const MAX_DEPTH: usize = 200;

/// Deserializing takes some 35 KiB of stack for each level in a debug build, more than a test's thread has for all of them.
const STACK: usize = 16 * 1024 * 1024;

/// An error has a line, if it is known, and a text.
pub(crate) type ParseError = (Option<u64>, String);

/// Parses documents given with their first lines; `None` for one with nothing in it.
pub(crate) fn parse_all(documents: &[(u64, &str)]) -> Vec<Result<Option<Tree>, ParseError>> {
    let each = || documents.iter().map(|(first_line, text)| parse(text, *first_line)).collect();
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, each);
        let failed = |cause: String| documents.iter().map(|(line, _)| Err((Some(*line), cause.clone()))).collect();
        match worker.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(_)) => failed("the YAML reader failed on this input; please report it".to_owned()),
            Err(error) => failed(format!("cannot start a thread: {error}")),
        }
    })
}

fn parse(text: &str, first_line: u64) -> Result<Option<Tree>, ParseError> {
    let before = first_line - 1;
    // As kubectl reads YAML: `yes` and `on` are booleans, `0755` is octal.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
    };
    let parsed: Option<Spanned<Raw>> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map(|location| location.line() + before);
        (line, message(&error))
    })?;
    Ok(parsed.map(|spanned| Tree::new(spanned, before)).filter(|tree| !matches!(tree.node, Node::Scalar(Value::Null))))
}

/// The library's text without its own idea of the place.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let advice_for_programmers = [" at line ", ", set DuplicateKeyPolicy"];
    let end = advice_for_programmers.iter().filter_map(|tail| text.find(tail)).min().unwrap_or(text.len());
    format!("not valid YAML: {}", &text[..end])
}

impl Tree {
    fn new(spanned: Spanned<Raw>, before: u64) -> Self {
        let line = spanned.referenced.line() + before;
        let node = match spanned.value {
            Raw::Scalar(value) => Node::Scalar(value),
            Raw::List(items) => Node::List(items.into_iter().map(|item| Self::new(item, before)).collect()),
            Raw::Map(entries) => Node::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let value = Self { line: key.referenced.line() + before, ..Self::new(value, before) };
                        (key.value, value)
                    })
                    .collect(),
            ),
        };
        Self { line, node }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Node::Map(entries) = &self.node else { return None };
        entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        let Node::List(items) = &self.node else { return None };
        Some(items)
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        let Node::Scalar(value) = &self.node else { return None };
        value.as_str()
    }

    /// The line of the value at `path`, or of the nearest value around it that exists.
    pub(crate) fn line_of(&self, path: &FieldPath) -> u64 {
        let mut here = self;
        for segment in path.segments() {
            let next = match segment {
                Segment::Field(name) | Segment::Key(name) => here.get(name),
                Segment::Index(index) => here.as_list().and_then(|items| items.get(*index)),
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.line
    }

    /// The same for a path that was written down: `spec.labels[a.b/c].d[0]`, where names may have dots too.
    pub(crate) fn line_of_text(&self, path: &str) -> u64 {
        let (mut here, mut rest) = (self, path);
        while let Some((next, after)) = here.step(rest) {
            (here, rest) = (next, after);
        }
        here.line
    }

    /// The value that the path begins with, and what of the path is left.
    fn step<'p>(&self, path: &'p str) -> Option<(&Self, &'p str)> {
        if path.is_empty() {
            return None;
        }
        if let Some((inside, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) {
            let next = match &self.node {
                Node::List(items) => items.get(inside.parse::<usize>().ok()?),
                _ => self.get(inside),
            };
            return next.map(|next| (next, rest));
        }
        let Node::Map(entries) = &self.node else { return None };
        let path = path.strip_prefix('.').unwrap_or(path);
        let named = entries.iter().filter_map(|(name, value)| {
            let rest = path.strip_prefix(name.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((name.len(), value, rest))
        });
        named.max_by_key(|(length, ..)| *length).map(|(_, value, rest)| (value, rest))
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.node {
            Node::Scalar(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::to_value).collect(),
            Node::Map(entries) => {
                Value::Object(entries.iter().map(|(key, tree)| (key.clone(), tree.to_value())).collect())
            }
        }
    }
}

#[derive(Debug)]
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    // Beyond 64 bits an integer is as good as a float.
    #[allow(clippy::cast_precision_loss)]
    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Raw, E> {
        self.visit_f64(value as f64)
    }

    #[allow(clippy::cast_precision_loss)]
    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Raw, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        // `1e3` and `1.0` are whole numbers once kubectl has turned YAML into JSON. Below 2^53 the cast is exact.
        #[allow(clippy::cast_possible_truncation)]
        let number = if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 {
            Some(Number::from(value as i64))
        } else {
            Number::from_f64(value)
        };
        Ok(Raw::Scalar(number.map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_kubectl_and_lines_point_at_keys() {
        let text = "a: yes\nb:\n  - 1\n  - c: 0x10\n    d: 1e3\ne:\n  f: {g: \"yes\", h: ~, i: 2024-01-01, j: 0755, k: 1.5}\n5: x\n";
        let tree = parse(text, 11).unwrap().unwrap();
        assert_eq!(
            tree.to_value(),
            json!({
                "a": true, "b": [1, {"c": 16, "d": 1000}], "5": "x",
                "e": {"f": {"g": "yes", "h": null, "i": "2024-01-01", "j": 493, "k": 1.5}},
            })
        );
        let root = FieldPath::root();
        for (path, line) in [
            (root.clone(), 11),
            (root.field("a"), 11),
            (root.field("b"), 12),
            (root.field("b").index(0), 13),
            (root.field("b").index(1).field("d"), 15),
            (root.field("b").index(1).field("missing").field("deeper"), 14),
            (root.field("e").field("f").field("k"), 17),
            (root.field("nothing"), 11),
        ] {
            assert_eq!(tree.line_of(&path), line, "{path}");
        }
    }

    #[test]
    fn paths_as_text_find_their_lines() {
        let text = "spec:\n  labels:\n    a.b/c: x\n    a:\n      b: y\n  list:\n  - k: 1\n  - k: 2\n";
        let tree = parse(text, 1).unwrap().unwrap();
        for (path, line) in [
            ("", 1),
            ("spec.labels[a.b/c]", 3),
            ("spec.labels.a.b/c", 3),
            ("spec.labels.a.b", 5),
            ("spec.list[1].k", 8),
            ("spec.list[7]", 6),
            ("spec.missing.deeper", 1),
            ("spec.labels[", 2),
            ("status", 1),
        ] {
            assert_eq!(tree.line_of_text(path), line, "{path}");
        }
    }

    #[test]
    fn aliases_and_merges_are_expanded() {
        let tree = parse("x: &x {a: 1}\ny: *x\nz:\n  <<: *x\n  b: 2\n", 1).unwrap().unwrap();
        assert_eq!(tree.to_value(), json!({"x": {"a": 1}, "y": {"a": 1}, "z": {"a": 1, "b": 2}}));
    }

    #[test]
    fn errors_say_what_and_where() {
        for (text, line) in [("a: [1, 2\n", Some(2)), ("a: 1\na: 2\n", Some(2)), ("a: *nope\n", Some(1))] {
            let (at, message) = parse(text, 1).unwrap_err();
            assert!(message.starts_with("not valid YAML: "), "{message}");
            assert!(at.is_some() && at <= line, "{text:?}: {at:?} {message}");
        }
    }
}
