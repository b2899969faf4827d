//! Events in their two forms, and objects in other versions than they were written in.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resource::ResourceType;
use crate::store::Entry;

/// Names in `events.k8s.io/v1` and in the core group.
const RENAMED: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// From `events.k8s.io/v1` to the form that is stored.
pub(super) fn to_core(event: &mut Value) {
    let Value::Object(map) = event else { return };
    for (new, core) in RENAMED {
        if let Some(value) = map.remove(*new) {
            map.insert((*core).to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), json!("v1"));
    for (field, value) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        map.entry(field).or_insert(value);
    }
}

fn from_core(event: &mut Value) {
    let Value::Object(map) = event else { return };
    for (new, core) in RENAMED {
        if let Some(value) = map.remove(*core) {
            map.insert((*new).to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
}

/// The object in the version that is asked for; the stored one where that is the same.
pub(crate) fn as_requested(kind: &ResourceType, value: &Arc<Value>) -> Arc<Value> {
    if !differs(kind, value) {
        return Arc::clone(value);
    }
    let mut value = (**value).clone();
    if kind.group == "events.k8s.io" {
        from_core(&mut value);
    } else {
        value["apiVersion"] = json!(kind.api_version());
    }
    Arc::new(value)
}

/// Whether the stored JSON cannot be sent as it is.
pub(crate) fn differs(kind: &ResourceType, value: &Value) -> bool {
    let stored = value["apiVersion"].as_str().unwrap_or_default();
    match stored.split_once('/') {
        Some((group, version)) => group != kind.group || version != kind.version,
        None => !kind.group.is_empty() || stored != kind.version,
    }
}

impl Entry {
    /// The object in a version.
    pub(crate) fn requested(&self, kind: &ResourceType) -> Arc<Value> {
        as_requested(kind, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Registry;

    #[test]
    fn events_have_two_forms() {
        let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "n"}, "note": "x",
            "reportingController": "c"});
        to_core(&mut event);
        assert_eq!((&event["involvedObject"]["name"], &event["message"]), (&json!("n"), &json!("x")));
        let registry = Registry::builtin();
        let kind = registry.by_kind("events.k8s.io", "v1", "Event").unwrap();
        let back = as_requested(kind, &Arc::new(event));
        assert_eq!((&back["note"], &back["apiVersion"]), (&json!("x"), &json!("events.k8s.io/v1")));
        assert!(back.get("message").is_none());
    }
}
