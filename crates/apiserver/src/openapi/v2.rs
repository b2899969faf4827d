//! OpenAPI v2, which `kubectl` still asks for when it checks objects inside a `List`: all schemas in one document, in JSON or
//! in the binary form of the same (`gnostic`'s messages), which is the only one that `kubectl` reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::recorded::recorded;
use super::{META, REFERENCE, group_versions, v3_document};
use crate::resource::Registry;

/// The schemas of everything that is served. Paths are left out: nobody reads them here.
pub fn v2_document(registry: &Registry, crds: &[Arc<Value>]) -> Value {
    let mut definitions = BTreeMap::new();
    for (group, version) in group_versions(registry) {
        let mut document = v3_document(registry, crds, &group, &version).unwrap_or_default();
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            definitions.extend(schemas.into_iter().map(|(name, schema)| (name, older(schema))));
        }
    }
    // A kind that every group has; without it a List itself would be unknown.
    let list = json!({"description": "List of any objects.", "type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "items": {"type": "array", "items": {"type": "object"}},
        "metadata": {"$ref": format!("#/definitions/{META}ListMeta")},
    }});
    definitions.insert("io.k8s.api.core.v1.List".to_owned(), list);
    let info = json!({"title": "Kubernetes", "version": recorded().minor()});
    json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions})
}

/// A schema without what only the newer form can say. Where the older one would be too narrow it says nothing.
fn older(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    let reference = fields.get("$ref").or_else(|| fields.get("allOf")?.get(0)?.get("$ref"));
    if let Some(name) = reference.and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE)) {
        let mut older = json!({"$ref": format!("#/definitions/{name}")});
        if let Some(description) = fields.get("description") {
            older["description"] = description.clone();
        }
        return older;
    }
    let is = |name: &str| fields.get(name).is_some_and(|value| value == true);
    let (open, nullable) = (is("x-kubernetes-preserve-unknown-fields"), is("nullable"));
    let either = fields.contains_key("oneOf") || is("x-kubernetes-int-or-string");
    let text = either && !is("x-kubernetes-int-or-string") && fields.get("format").is_none_or(|f| f == "int-or-string");
    for name in ["nullable", "oneOf", "anyOf", "allOf", "not"] {
        fields.remove(name);
    }
    if open || nullable {
        for name in ["properties", "items"] {
            fields.remove(name);
        }
    }
    if nullable || either {
        fields.remove("type");
    }
    if text {
        fields.insert("type".to_owned(), json!("string"));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            *inner = older(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for inner in properties.values_mut() {
            *inner = older(inner.take());
        }
    }
    Value::Object(fields)
}

/// The document as gnostic's `Document` message.
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, &info);
    out.message(8, &Message::default());
    out.message(9, &named_schemas(&document["definitions"]));
    out.0
}

fn named_schemas(schemas: &Value) -> Message {
    let mut all = Message::default();
    for (name, value) in schemas.as_object().into_iter().flatten() {
        let mut named = Message::default();
        named.text(1, &json!(name));
        named.message(2, &schema(value));
        all.message(1, &named);
    }
    all
}

/// What clients check objects with; bounds and patterns are the server's business.
fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    for (number, name) in [(1, "$ref"), (2, "format"), (4, "description")] {
        out.text(number, &value[name]);
    }
    for required in value["required"].as_array().into_iter().flatten() {
        out.text(19, required);
    }
    match &value["additionalProperties"] {
        Value::Object(_) => {
            let mut item = Message::default();
            item.message(1, &schema(&value["additionalProperties"]));
            out.message(21, &item);
        }
        Value::Bool(allowed) => {
            let mut item = Message::default();
            item.number(2, u64::from(*allowed));
            out.message(21, &item);
        }
        _ => {}
    }
    if value["type"].is_string() {
        let mut of = Message::default();
        of.text(1, &value["type"]);
        out.message(22, &of);
    }
    if value["items"].is_object() {
        let mut items = Message::default();
        items.message(1, &schema(&value["items"]));
        out.message(23, &items);
    }
    if value["properties"].is_object() {
        out.message(25, &named_schemas(&value["properties"]));
    }
    for (name, extension) in value.as_object().unwrap_or(&Map::new()) {
        if name.starts_with("x-kubernetes-") {
            let (mut any, mut named) = (Message::default(), Message::default());
            // JSON is YAML.
            any.text(2, &json!(extension.to_string()));
            named.text(1, &json!(name));
            named.message(2, &any);
            out.message(31, &named);
        }
    }
    out
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or_default());
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend(bytes);
    }

    /// Absent when it is no text.
    fn text(&mut self, field: u64, text: &Value) {
        if let Some(text) = text.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}
