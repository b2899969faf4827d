//! Objects of built-in kinds as the real server's Go types would hold them: unknown fields gone, empty ones left out or filled
//! in, quantities in one form.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::quantity;
use crate::shape::{Node, NodeKind, Shape};

/// What decoding found wrong.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Paths that no field has.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type, in the server's words.
    pub(crate) mismatch: Option<String>,
}

/// Plain fields, not pointers, in Go: `false`, `0` and `""` are the same as absent.
const OMIT_FALSE: &[&str] = &[
    "unschedulable",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "readOnly",
    "tty",
    "stdin",
    "stdinOnce",
    "paused",
    "publishNotReadyAddresses",
    "globalDefault",
    "preferredDuringScheduling",
];
const OMIT_ZERO: &[&str] = &[
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
    "currentReplicas",
    "numberUnavailable",
    "numberAvailable",
    "updatedNumberScheduled",
    "observedGeneration",
    "minReadySeconds",
    "hostPort",
    "nodePort",
    "count",
    "active",
    "succeeded",
    "failed",
    "generation",
    "initialDelaySeconds",
];
/// Pointers in Go, where the empty text means something.
const KEEP_EMPTY_TEXT: &[&str] = &["storageClassName", "holderIdentity", "apiGroup", "volumeMode", "runtimeClassName"];
/// Times that are no pointers and read `null` when not set.
const NULL_TIMES: &[&str] = &[
    "lastProbeTime",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastUpdateTime",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
];

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Brings a value into the form of its type. `name` is the kind, for messages.
pub(crate) fn normalise(shape: &Shape, value: &mut Value, name: &str) -> Findings {
    let mut walk = Walk { findings: Findings::default(), owner: name.to_owned(), fields: Vec::new(), fill: Fill::All };
    walk.value(shape, value, &mut Vec::new());
    walk.findings
}

/// Only takes out what is unknown: for `metadata` of custom resources.
pub(crate) fn normalise_metadata(value: &mut Value) -> Findings {
    let owner = "ObjectMeta".to_owned();
    let mut walk = Walk { findings: Findings::default(), owner, fields: Vec::new(), fill: Fill::Nothing };
    walk.value(&crate::shape::metadata(), value, &mut vec!["metadata".to_owned()]);
    walk.findings
}

/// What an object has before anything is set: what nobody owns just because it was created.
pub(crate) fn skeleton(shape: &Shape) -> Arc<Value> {
    static KNOWN: LazyLock<Mutex<BTreeMap<usize, Arc<Value>>>> = LazyLock::new(Mutex::default);
    let Shape::Builtin(index) = shape else { return Arc::new(bare(shape)) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(known.entry(*index).or_insert_with(|| Arc::new(bare(shape))))
}

fn bare(shape: &Shape) -> Value {
    let mut map = Map::new();
    let node = shape.node();
    for (name, field) in &node.fields {
        match &field.default {
            Some(Value::Object(_)) => {
                map.insert(name.clone(), bare(&field.shape));
            }
            Some(default) => {
                map.insert(name.clone(), default.clone());
            }
            None if field.required => {
                map.insert(name.clone(), Value::Null);
            }
            None => {}
        }
    }
    Value::Object(map)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    All,
    Nothing,
}

struct Walk {
    findings: Findings,
    /// The Go struct that has the field, and the fields on the way to it, for messages.
    owner: String,
    fields: Vec<String>,
    fill: Fill,
}

impl Walk {
    fn value(&mut self, shape: &Shape, value: &mut Value, path: &mut Vec<String>) {
        let node = shape.node();
        match (node.kind, &mut *value) {
            (NodeKind::Any, _)
            | (_, Value::Null)
            | (NodeKind::Number | NodeKind::IntOrString, Value::Number(_))
            | (NodeKind::String | NodeKind::IntOrString, Value::String(_))
            | (NodeKind::Boolean, Value::Bool(_)) => {}
            (NodeKind::Struct, Value::Object(map)) => self.fields(node, map, path),
            (NodeKind::Map, Value::Object(map)) => {
                let element = shape.element();
                for (name, value) in map.iter_mut() {
                    path.push(name.clone());
                    self.value(&element, value, path);
                    path.pop();
                }
            }
            (NodeKind::List, Value::Array(items)) => {
                let element = shape.element();
                for (i, item) in items.iter_mut().enumerate() {
                    path.push(format!("[{i}]"));
                    self.value(&element, item, path);
                    path.pop();
                }
            }
            (NodeKind::Quantity, Value::String(text)) => match quantity::canonical(text.trim()) {
                Some(canonical) => *text = canonical,
                None => self.wrong(
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                        .to_owned(),
                ),
            },
            (NodeKind::Quantity, Value::Number(number)) => match quantity::canonical(&number.to_string()) {
                Some(canonical) => *value = Value::String(canonical),
                None => self.mismatch(value, node),
            },
            (NodeKind::Integer, Value::Number(n)) => {
                if n.as_i64().is_none() && n.as_u64().is_none() {
                    self.wrong(format!(
                        "json: cannot unmarshal number {n} into Go struct field {}.{} of type {}",
                        self.owner,
                        self.fields.join("."),
                        node.go
                    ));
                }
            }
            (NodeKind::Time | NodeKind::MicroTime, Value::String(text)) => {
                if text.parse::<jiff::Timestamp>().is_err() && !text.is_empty() {
                    self.wrong(format!(
                        "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                    ));
                }
            }
            _ => self.mismatch(value, node),
        }
    }

    fn fields(&mut self, node: &Node, map: &mut Map<String, Value>, path: &mut Vec<String>) {
        let names: Vec<String> = map.keys().cloned().collect();
        for name in names {
            let Some(field) = node.fields.get(&name) else {
                if node.element.is_none() {
                    map.remove(&name);
                    path.push(name);
                    self.findings.unknown.push(text_of(path));
                    path.pop();
                }
                continue;
            };
            let Some(value) = map.get_mut(&name) else { continue };
            path.push(name.clone());
            let owner = struct_name(node).map(|name| std::mem::replace(&mut self.owner, name));
            self.fields.push(name.clone());
            self.value(&field.shape, value, path);
            self.fields.pop();
            if let Some(owner) = owner {
                self.owner = owner;
            }
            path.pop();
            // A pointer in every spec but that of a Scale: none is not the same as not said, which means one.
            let pointer = name == "replicas" && node.go.ends_with("Spec") && !node.go.ends_with(".ScaleSpec");
            let always = pointer || field.default.is_some() || field.required;
            if omitted(&name, field.shape.node().kind, value, always) {
                map.remove(&name);
            }
        }
        if self.fill == Fill::Nothing {
            return;
        }
        for (name, field) in &node.fields {
            if map.contains_key(name) {
                continue;
            }
            if let Some(default) = &field.default {
                let mut value = default.clone();
                self.value(&field.shape, &mut value, path);
                map.insert(name.clone(), value);
            } else if NULL_TIMES.contains(&name.as_str())
                && matches!(field.shape.node().kind, NodeKind::Time | NodeKind::MicroTime)
                && !field.required
            {
                map.insert(name.clone(), Value::Null);
            }
        }
    }

    fn mismatch(&mut self, value: &Value, node: &Node) {
        self.wrong(format!(
            "json: cannot unmarshal {} into Go struct field {}.{} of type {}",
            json_type(value),
            self.owner,
            self.fields.join("."),
            node.go
        ));
    }

    fn wrong(&mut self, message: String) {
        self.findings.mismatch.get_or_insert(message);
    }
}

/// `PodSpec` of `v1.PodSpec`.
fn struct_name(node: &Node) -> Option<String> {
    node.go.split_once('.').map(|(_, name)| name.to_owned())
}

/// Whether Go's `omitempty` leaves the field out.
fn omitted(name: &str, kind: NodeKind, value: &Value, always: bool) -> bool {
    match value {
        Value::Null => !NULL_TIMES.contains(&name),
        _ if always => false,
        Value::Object(map) => map.is_empty() && kind == NodeKind::Map,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty() && kind == NodeKind::String && !KEEP_EMPTY_TEXT.contains(&name),
        Value::Bool(false) => OMIT_FALSE.contains(&name),
        Value::Number(n) => n.as_i64() == Some(0) && OMIT_ZERO.contains(&name),
        Value::Bool(true) => false,
    }
}

fn text_of(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && !part.starts_with('[') {
            text.push('.');
        }
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape;

    #[test]
    fn no_replicas_are_not_the_default() {
        for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
            let shape = shape::of_kind("apps", "v1", kind).unwrap();
            let mut object = json!({"spec": {"replicas": 0}, "status": {"readyReplicas": 0}});
            normalise(&shape, &mut object, kind);
            assert_eq!(
                (&object["spec"]["replicas"], object["status"].get("readyReplicas")),
                (&json!(0), None),
                "{kind}"
            );
        }
    }

    #[test]
    fn objects_take_the_form_of_their_type() {
        let shape = shape::of_kind("", "v1", "Node").unwrap();
        let mut node = json!({"metadata": {"name": "n", "labels": {}, "foo": 1}, "spec": {"unschedulable": false, "taints": []},
            "status": {"capacity": {"cpu": "1000m", "memory": 1024}}, "bar": {"x": 1}});
        let findings = normalise(&shape, &mut node, "Node");
        assert_eq!(findings.unknown, ["bar", "metadata.foo"]);
        assert_eq!(findings.mismatch, None);
        assert_eq!(node["metadata"], json!({"name": "n"}));
        assert_eq!(node["spec"], json!({}));
        assert_eq!(node["status"]["capacity"], json!({"cpu": "1", "memory": "1024"}));
        assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
        assert_eq!(node["status"]["nodeInfo"]["machineID"], "");
    }

    #[test]
    fn wrong_types_are_found() {
        let shape = shape::of_kind("", "v1", "ConfigMap").unwrap();
        let findings = normalise(&shape, &mut json!({"data": {"a": 1}}), "ConfigMap");
        assert!(
            findings.mismatch.unwrap().starts_with("json: cannot unmarshal number into Go struct field ConfigMap.data")
        );
    }

    #[test]
    fn the_skeleton_holds_what_is_never_absent() {
        let shape = shape::of_kind("apps", "v1", "Deployment").unwrap();
        let skeleton = skeleton(&shape);
        assert_eq!(skeleton["spec"]["strategy"], json!({}));
        assert_eq!(skeleton["spec"]["template"]["metadata"], json!({}));
        assert_eq!(skeleton["status"], json!({}));
    }
}
