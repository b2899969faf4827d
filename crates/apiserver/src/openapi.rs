//! Schemas of built-in and custom kinds: the OpenAPI v3 documents that `kubectl` asks for, and single schemas for merging and
//! checking objects of built-in kinds.
//!
//! The documents hold what clients read of them: all schemas of the served kinds, and of the paths the parameters and body
//! types by which a client learns what a request may say. Schemas of built-in kinds are recorded from a real server.

mod custom;
mod paths;
pub(crate) mod recorded;
pub(crate) mod v2;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

use self::recorded::recorded;
pub use self::v2::v2_document;
use crate::resource::{Registry, ResourceType};

const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The schema of a built-in kind. Fields refer to other schemas; [`target`] follows.
pub fn builtin_schema(group: &str, version: &str, kind: &str) -> Option<&'static Value> {
    let recorded = recorded();
    recorded.schemas.get(recorded.names.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))?)
}

/// What a schema refers to, or itself. Keys beside the reference (`x-kubernetes-patch-merge-key` and the like) belong to the
/// field and stay behind: read them first.
pub fn target(schema: &'static Value) -> &'static Value {
    let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    reference.and_then(Value::as_str).and_then(|r| recorded().schemas.get(r.strip_prefix(REFERENCE)?)).unwrap_or(schema)
}

/// The schema of a field as its owner describes it, that is with the keys for merging; [`target`] of it has its fields.
pub fn field(schema: &'static Value, name: &str) -> Option<&'static Value> {
    target(schema).get("properties")?.get(name)
}

/// The schema of the items of a list, or of the values of a map.
pub fn element(schema: &'static Value) -> Option<&'static Value> {
    let schema = target(schema);
    schema.get("items").or_else(|| schema.get("additionalProperties"))
}

/// `/openapi/v3`: where the document of each group and version is. The address changes when the document does.
pub fn v3_index(registry: &Registry, crds: &[Arc<Value>]) -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions(registry) {
        let key = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let hash = hash(registry, crds, &group, &version);
        paths.insert(key.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{key}?hash={hash}")}));
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`, if something is served there.
pub fn v3_document(registry: &Registry, crds: &[Arc<Value>], group: &str, version: &str) -> Option<Value> {
    let types: Vec<_> = types_of(registry, group, version).collect();
    let first = types.first()?;
    let info = if first.crd {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": recorded().minor()})
    };
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for kind in &types {
        if kind.crd {
            let crd = crds.iter().find(|crd| crd["metadata"]["name"] == kind.qualified());
            let (object, list) = custom::schemas(kind, crd.map_or(&Value::Null, |crd| crd));
            schemas.add(custom::name(kind, ""), object);
            schemas.add(custom::name(kind, "List"), list);
        } else {
            schemas.add_builtin(group, version, &kind.kind);
            schemas.add_builtin(group, version, &kind.list_kind);
        }
        paths::add(&mut paths, kind);
    }
    for name in ["DeleteOptions", "Patch", "Status"] {
        schemas.require(&format!("{META}{name}"));
    }
    if types.iter().any(|t| t.subresource("scale").is_some()) {
        schemas.add_builtin("autoscaling", "v1", "Scale");
    }
    for subresource in types.iter().filter(|t| !t.crd).flat_map(|t| &t.subresources) {
        let (group, version) =
            subresource.group_version.as_ref().map_or((group, version), |(g, v)| (g.as_str(), v.as_str()));
        schemas.add_builtin(group, version, &subresource.kind);
    }
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas.found}}))
}

/// The name under which a kind is found in its document.
pub(crate) fn schema_name(kind: &ResourceType) -> String {
    let key = (kind.group.clone(), kind.version.clone(), kind.kind.clone());
    recorded().names.get(&key).filter(|_| !kind.crd).cloned().unwrap_or_else(|| custom::name(kind, ""))
}

/// Groups and versions in the order of their names.
fn group_versions(registry: &Registry) -> BTreeSet<(String, String)> {
    registry.iter().map(|t| (t.group.clone(), t.version.clone())).collect()
}

fn types_of<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Arc<ResourceType>> {
    registry.iter().filter(move |t| t.group == group && t.version == version)
}

/// The real server hashes the document. What decides the document is cheaper: the recorded version for built-in kinds, the
/// definitions of custom ones.
pub(crate) fn hash(registry: &Registry, crds: &[Arc<Value>], group: &str, version: &str) -> String {
    let mut hasher = Sha512::new();
    hasher.update(format!("{} {group}/{version}", recorded().git_version()));
    for kind in types_of(registry, group, version).filter(|t| t.crd) {
        let name = kind.qualified();
        hasher.update(&name);
        if let Some(crd) = crds.iter().find(|crd| crd["metadata"]["name"] == name) {
            hasher.update(crd["spec"].to_string());
        }
    }
    hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

/// The schemas of a document, with everything they refer to.
#[derive(Default)]
struct Schemas {
    found: BTreeMap<String, Value>,
}

impl Schemas {
    fn add(&mut self, name: String, schema: Value) {
        let mut references = Vec::new();
        collect_references(&schema, &mut references);
        self.found.insert(name, schema);
        for reference in references {
            self.require(&reference);
        }
    }

    fn add_builtin(&mut self, group: &str, version: &str, kind: &str) {
        if let Some(name) = recorded().names.get(&(group.to_owned(), version.to_owned(), kind.to_owned())) {
            self.require(name);
        }
    }

    fn require(&mut self, name: &str) {
        if self.found.contains_key(name) {
            return;
        }
        if let Some(schema) = recorded().schemas.get(name) {
            self.add(name.to_owned(), schema.clone());
        }
    }
}

fn collect_references(schema: &Value, references: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| key == "$ref").and_then(|r| r.strip_prefix(REFERENCE)) {
                    Some(name) => references.push(name.to_owned()),
                    None => collect_references(value, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, references)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
