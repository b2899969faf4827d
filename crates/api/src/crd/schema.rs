//! A small vocabulary for structural schemas. Every node starts with its description, so that no field can be without
//! one (`kubectl explain` shows them).

use serde_json::{Map, Value, json};

/// A schema node under construction.
#[derive(Debug, Clone)]
pub(super) struct Schema(Map<String, Value>);

fn node(kind: &str, description: &str) -> Schema {
    Schema(Map::new()).with("type", kind).with("description", description)
}

pub(super) fn object(description: &str) -> Schema {
    node("object", description)
}

pub(super) fn string(description: &str) -> Schema {
    node("string", description)
}

pub(super) fn boolean(description: &str) -> Schema {
    node("boolean", description)
}

/// An integer without a stated width, as the requirement item's `minValues`.
pub(super) fn integer(description: &str) -> Schema {
    node("integer", description)
}

pub(super) fn int32(description: &str) -> Schema {
    integer(description).with("format", "int32")
}

pub(super) fn int64(description: &str) -> Schema {
    integer(description).with("format", "int64")
}

pub(super) fn date_time(description: &str) -> Schema {
    string(description).with("format", "date-time")
}

pub(super) fn list(description: &str, items: Schema) -> Schema {
    node("array", description).with("items", items)
}

/// An object with free keys.
pub(super) fn map(description: &str, values: Schema) -> Schema {
    node("object", description).with("additionalProperties", values)
}

/// The item of a list or map whose meaning the parent describes.
pub(super) fn undescribed(mut schema: Schema) -> Schema {
    schema.0.remove("description");
    schema
}

/// Number or string, as Kubernetes writes quantities.
pub(super) fn int_or_string() -> Schema {
    Schema(Map::new())
        .with("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
        .with("x-kubernetes-int-or-string", true)
}

impl Schema {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn entry(&mut self, key: &str, empty: Value) -> &mut Value {
        self.0.entry(key).or_insert(empty)
    }

    pub(super) fn field(mut self, name: &str, schema: Schema) -> Self {
        if let Value::Object(fields) = self.entry("properties", json!({})) {
            fields.insert(name.to_owned(), schema.into());
        }
        self
    }

    pub(super) fn required(mut self, name: &str, schema: Schema) -> Self {
        if let Value::Array(names) = self.entry("required", json!([])) {
            names.push(name.into());
            // The API server lists missing fields in this order; sorted is what generators emit.
            names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
        self.field(name, schema)
    }

    /// A CEL rule. On a list or map it sees the whole value as `self`.
    pub(super) fn rule(mut self, message: &str, rule: impl Into<String>) -> Self {
        if let Value::Array(rules) = self.entry("x-kubernetes-validations", json!([])) {
            rules.push(json!({"message": message, "rule": rule.into()}));
        }
        self
    }

    pub(super) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value)
    }

    pub(super) fn one_of(self, values: &[&str]) -> Self {
        self.with("enum", values)
    }

    pub(super) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", pattern)
    }

    pub(super) fn min(self, minimum: i64) -> Self {
        self.with("minimum", minimum)
    }

    pub(super) fn max(self, maximum: i64) -> Self {
        self.with("maximum", maximum)
    }

    pub(super) fn min_length(self, length: u32) -> Self {
        self.with("minLength", length)
    }

    pub(super) fn max_length(self, length: u32) -> Self {
        self.with("maxLength", length)
    }

    pub(super) fn min_items(self, items: u32) -> Self {
        self.with("minItems", items)
    }

    pub(super) fn max_items(self, items: u32) -> Self {
        self.with("maxItems", items)
    }

    pub(super) fn max_properties(self, properties: u32) -> Self {
        self.with("maxProperties", properties)
    }

    /// One owner for the whole list: server-side apply replaces it instead of merging items.
    pub(super) fn atomic_list(self) -> Self {
        self.with("x-kubernetes-list-type", "atomic")
    }

    pub(super) fn set_list(self) -> Self {
        self.with("x-kubernetes-list-type", "set")
    }

    pub(super) fn map_list(self, key: &str) -> Self {
        self.with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", json!([key]))
    }

    pub(super) fn atomic_map(self) -> Self {
        self.with("x-kubernetes-map-type", "atomic")
    }

    /// Free-form below this node: nothing is pruned.
    pub(super) fn free_form(self) -> Self {
        self.with("x-kubernetes-preserve-unknown-fields", true)
    }
}

impl From<Schema> for Value {
    fn from(schema: Schema) -> Self {
        Value::Object(schema.0)
    }
}
