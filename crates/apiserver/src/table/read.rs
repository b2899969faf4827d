//! Fields of an object that may be anything.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;

pub(super) fn name(object: &Value) -> Value {
    json!(text(&object["metadata"]["name"]))
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(age::since(&object["metadata"]["creationTimestamp"], now))
}

/// The time of creation as it is; the client turns it into an age.
pub(super) fn creation(object: &Value) -> Value {
    json!(text(&object["metadata"]["creationTimestamp"]))
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

pub(super) fn deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    list(conditions).iter().find(|c| c["type"] == kind)
}

pub(super) fn is_true(conditions: &Value, kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|c| c["status"] == "True")
}

/// Names and images of the containers of a pod's spec.
pub(super) fn containers(spec: &Value) -> (Value, Value) {
    let of = |field: &str| join(list(&spec["containers"]).iter().map(|c| text(&c[field])), ",");
    (json!(of("name")), json!(of("image")))
}

pub(super) fn join<'a>(parts: impl Iterator<Item = &'a str>, by: &str) -> String {
    parts.collect::<Vec<_>>().join(by)
}

/// The first three, and how many more there are.
pub(super) fn first_three(parts: &[String]) -> String {
    const SHOWN: usize = 3;
    match parts.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} + {more} more...", parts[..SHOWN].join(",")),
        _ => parts.join(","),
    }
}

/// A number or a percentage, as of a budget.
pub(super) fn int_or_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
