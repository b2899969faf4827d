//! Tables, which `kubectl get` prints. Columns of built-in kinds are recorded from a real server; cells are computed here as
//! it does. Everything is rendered wide: the client leaves out columns of a priority above 0.

mod age;
mod config;
mod custom;
mod jsonpath;
mod network;
mod pods;
mod read;
mod selector;
mod storage;
mod workloads;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::read::{creation, name};
use crate::openapi::recorded::recorded;
use crate::resource::ResourceType;

/// What a row says of its object besides the cells (`includeObject` of the request).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the parameter of a request; `None` for a value that the server refuses.
    pub fn parse(parameter: &str) -> Option<Self> {
        match parameter {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// How to render a table.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub include: IncludeObject,
    /// A watch has the columns in its first event only.
    pub columns: bool,
    /// Ages are counted to this time.
    pub now: Timestamp,
}

impl Options {
    /// As a list or a single object is rendered when the request says no more.
    pub fn at(now: Timestamp) -> Self {
        Self { include: IncludeObject::Metadata, columns: true, now }
    }
}

/// A `Table` of these objects. `list_meta` is the metadata of the list; for a single object its resource version.
pub fn render(kind: &ResourceType, items: &[Arc<Value>], list_meta: &Value, options: Options) -> Value {
    let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta});
    table["columnDefinitions"] = if options.columns { columns(kind) } else { Value::Null };
    // Moved in: the macro would copy what may be a hundred thousand rows.
    table["rows"] = items.iter().map(|item| row(kind, item, options)).collect();
    table
}

/// A `Table` of one Scale, which is a kind of no resource.
pub fn render_scale(scale: &Value, options: Options) -> Value {
    let described = |part: &str| {
        let schema = &recorded().schemas[&format!("io.k8s.api.autoscaling.v1.Scale{part}")];
        schema["properties"]["replicas"]["description"].clone()
    };
    let number = |name: &str, part: &str| json!({"name": name, "type": "integer", "format": "", "description": described(part), "priority": 0});
    let [name_column, .., age_column] = recorded().columns["/v1/namespaces"].as_array().map_or(&[][..], Vec::as_slice)
    else {
        return Value::Null;
    };
    let mut name_column = name_column.clone();
    name_column["format"] = json!("");
    let columns = json!([name_column, number("Desired", "Spec"), number("Available", "Status"), age_column]);
    let count = |part: &str| json!(read::number(&scale[part]["replicas"]));
    let cells = json!([name(scale), count("spec"), count("status"), read::age(scale, options.now)]);
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": columns, "rows": [{"cells": cells, "object": shown(scale, options.include)}]})
}

/// The object reduced to its metadata, as for `as=PartialObjectMetadata`.
pub fn partial_object(object: &Value) -> Value {
    let mut partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
    partial["metadata"] = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    partial
}

/// A list reduced to metadata, as for `as=PartialObjectMetadataList`.
pub fn partial_list(items: &[Arc<Value>], list_meta: &Value) -> Value {
    let mut list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta});
    list["items"] = items.iter().map(|item| partial_object(item)).collect();
    list
}

fn columns(kind: &ResourceType) -> Value {
    if kind.crd {
        return custom::columns(kind);
    }
    let key = format!("{}/{}/{}", kind.group, kind.version, kind.plural);
    recorded().columns.get(&key).cloned().unwrap_or_else(default_columns)
}

/// Name and time of creation: what the server prints of a kind that it has no columns for.
fn default_columns() -> Value {
    recorded().columns.get("/v1/limitranges").cloned().unwrap_or_default()
}

fn row(kind: &ResourceType, object: &Value, options: Options) -> Value {
    let mut row = Map::new();
    row.insert("cells".to_owned(), Value::Array(cells(kind, object, options.now)));
    if kind.kind == "Pod" && !kind.crd {
        row.extend(pods::conditions(object).map(|conditions| ("conditions".to_owned(), conditions)));
    }
    row.insert("object".to_owned(), shown(object, options.include));
    Value::Object(row)
}

fn shown(object: &Value, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object(object),
        IncludeObject::Object => object.clone(),
    }
}

/// The cells of built-in kinds are computed by kind; a kind that nobody knows shows name and time of creation.
fn cells(kind: &ResourceType, object: &Value, now: Timestamp) -> Vec<Value> {
    if kind.crd {
        return custom::cells(kind, object, now);
    }
    pods::cells(&kind.kind, object, now)
        .or_else(|| workloads::cells(&kind.kind, object, now))
        .or_else(|| network::cells(&kind.kind, object, now))
        .or_else(|| storage::cells(&kind.kind, object, now))
        .or_else(|| config::cells(&kind.kind, object, now))
        .unwrap_or_else(|| vec![name(object), creation(object)])
}

#[cfg(test)]
mod tests;
