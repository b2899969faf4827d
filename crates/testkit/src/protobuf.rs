//! Pods as an API server writes them in protobuf, made from their JSON.
//!
//! `protobuf/pod_fields.txt` says which field of which message has which number and type, as the tags of the Go types in k8s.io/api
//! and k8s.io/apimachinery v0.35.4 do. A field whose type in Go is no pointer (`*`) is always written, set or not. The reader
//! that this is for has tables of its own.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

struct Row {
    number: u32,
    /// In JSON; `-` where the members are those of the message around it.
    name: &'static str,
    is_pointer: bool,
    is_list: bool,
    kind: &'static str,
}

static MESSAGES: LazyLock<HashMap<&'static str, Vec<Row>>> = LazyLock::new(|| {
    let mut messages: HashMap<_, Vec<Row>> = HashMap::new();
    let mut message = "";
    for line in include_str!("protobuf/pod_fields.txt").lines() {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name] => message = name,
            [number, name, kind] => messages.entry(message).or_default().push(Row {
                number: number.parse().expect("a number"),
                name,
                is_pointer: kind.starts_with('*'),
                is_list: kind.starts_with("[]"),
                kind: kind.trim_start_matches(['*', '[', ']']),
            }),
            _ => {}
        }
    }
    messages
});

/// The message of a pod, without an envelope.
pub fn pod(pod: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    message(&mut bytes, "Pod", pod);
    bytes
}

/// A page of a list, in its envelope.
pub fn pod_list(pods: impl IntoIterator<Item = Vec<u8>>, version: &str, rest: &str) -> Vec<u8> {
    let mut metadata = Vec::new();
    for (number, value) in [(1, ""), (2, version), (3, rest)] {
        field(&mut metadata, number, value.as_bytes());
    }
    let mut list = Vec::new();
    field(&mut list, 1, &metadata);
    for pod in pods {
        field(&mut list, 2, &pod);
    }
    wrapped("PodList", &list)
}

/// An event of a watch, with its length before it; `object` is a message of that kind.
pub fn event(type_: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let mut extension = Vec::new();
    field(&mut extension, 1, &wrapped(kind, object));
    let mut event = Vec::new();
    field(&mut event, 1, type_.as_bytes());
    field(&mut event, 2, &extension);
    let length = u32::try_from(event.len()).expect("an event is short");
    [&length.to_be_bytes()[..], &event].concat()
}

/// The message of a `Status` that says what went wrong.
pub fn status(code: u16, reason: &str, text: &str) -> Vec<u8> {
    let mut status = Vec::new();
    for (number, value) in [(1, ""), (2, "Failure"), (3, text), (4, reason)] {
        field(&mut status, number, value.as_bytes());
    }
    number(&mut status, 6, i64::from(code));
    status
}

/// The envelope that every object is in.
pub fn wrapped(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    field(&mut type_meta, 1, b"v1");
    field(&mut type_meta, 2, kind.as_bytes());
    let mut bytes = b"k8s\0".to_vec();
    field(&mut bytes, 1, &type_meta);
    field(&mut bytes, 2, object);
    field(&mut bytes, 3, b"");
    field(&mut bytes, 4, b"");
    bytes
}

fn message(into: &mut Vec<u8>, name: &str, object: &Value) {
    for row in MESSAGES.get(name).map(Vec::as_slice).unwrap_or_default() {
        let member = if row.name == "-" { Some(object) } else { object.get(row.name) };
        let member = member.filter(|member| !member.is_null());
        match member {
            Some(Value::Array(all)) if row.is_list => all.iter().for_each(|one| value(into, row, one)),
            Some(member) => value(into, row, member),
            None if row.is_pointer || row.is_list || row.kind.starts_with("map-") => {}
            None => value(into, row, &Value::Null),
        }
    }
}

fn value(into: &mut Vec<u8>, row: &Row, value: &Value) {
    let mut part = Vec::new();
    match row.kind {
        "text" => return field(into, row.number, value.as_str().unwrap_or_default().as_bytes()),
        "number" => return number(into, row.number, value.as_i64().unwrap_or_default()),
        "flag" => return number(into, row.number, i64::from(value.as_bool().unwrap_or_default())),
        "map-texts" | "map-amounts" => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let mut entry = Vec::new();
                field(&mut entry, 1, key.as_bytes());
                let text = value.as_str().unwrap_or_default().as_bytes();
                if row.kind == "map-texts" {
                    field(&mut entry, 2, text);
                } else {
                    field(&mut entry, 2, &amount(text));
                }
                field(into, row.number, &entry);
            }
            return;
        }
        "amount" => part = amount(value.as_str().unwrap_or("0").as_bytes()),
        "time" => {
            if let Some(time) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
                number(&mut part, 1, time.as_second());
                number(&mut part, 2, i64::from(time.subsec_nanosecond()));
            }
        }
        "either" => {
            number(&mut part, 1, i64::from(value.is_string()));
            number(&mut part, 2, value.as_i64().unwrap_or_default());
            field(&mut part, 3, value.as_str().unwrap_or_default().as_bytes());
        }
        "fields" => field(&mut part, 1, value.to_string().as_bytes()),
        name => message(&mut part, name, value),
    }
    field(into, row.number, &part);
}

fn amount(text: &[u8]) -> Vec<u8> {
    let mut amount = Vec::new();
    field(&mut amount, 1, text);
    amount
}

fn field(into: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(into, u64::from(number) << 3 | 2);
    varint(into, u64::try_from(bytes.len()).expect("a length"));
    into.extend_from_slice(bytes);
}

fn number(into: &mut Vec<u8>, number: u32, value: i64) {
    varint(into, u64::from(number) << 3);
    varint(into, value.cast_unsigned());
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        into.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    into.push(u8::try_from(value).unwrap_or_default());
}
