//! The paths of a kind, as far as clients read them: `kubectl` learns from PATCH whether the server checks fields
//! (`fieldValidation`), knows dry run, and takes strategic merge patches; `x-kubernetes-group-version-kind` tells it which
//! kind a path is about.

use serde_json::{Map, Value, json};

use super::{META, REFERENCE, schema_name};
use crate::resource::ResourceType;

pub(super) fn add(paths: &mut Map<String, Value>, kind: &ResourceType) {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let base = format!("{root}/{}", kind.api_version());
    let collection = if kind.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{base}/{}", kind.plural)
    };
    let has = |verb: &str| kind.verbs.iter().any(|v| v == verb);
    if kind.namespaced && has("list") {
        paths.insert(format!("{base}/{}", kind.plural), json!({"get": operation(kind, "list", Body::None)}));
    }
    let verbs =
        [("get", "list", "list"), ("post", "post", "create"), ("delete", "deletecollection", "deletecollection")];
    let mut operations = Map::new();
    for (method, action, _) in verbs.iter().filter(|(_, _, verb)| has(verb)) {
        let body = if *method == "post" { Body::Object } else { Body::None };
        operations.insert((*method).to_owned(), operation(kind, action, body));
    }
    paths.insert(collection.clone(), Value::Object(operations));
    if has("get") {
        paths.insert(format!("{collection}/{{name}}"), one(kind, has("delete")));
        for name in ["status", "scale"].into_iter().filter(|name| kind.subresource(name).is_some()) {
            paths.insert(format!("{collection}/{{name}}/{name}"), one(kind, false));
        }
    }
}

/// The operations on one object.
fn one(kind: &ResourceType, delete: bool) -> Value {
    let mut operations = json!({
        "get": operation(kind, "get", Body::None),
        "put": operation(kind, "put", Body::Object),
        "patch": operation(kind, "patch", Body::Patch),
    });
    if delete {
        operations["delete"] = operation(kind, "delete", Body::None);
    }
    operations
}

#[derive(Clone, Copy, PartialEq)]
enum Body {
    None,
    Object,
    Patch,
}

fn operation(kind: &ResourceType, action: &str, body: Body) -> Value {
    let name = schema_name(kind);
    let mut operation = json!({
        "responses": {"200": {"description": "OK", "content": {
            "application/json": {"schema": {"$ref": format!("{REFERENCE}{name}")}}
        }}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    });
    let parameters: &[(&str, &str)] = match body {
        Body::None if action == "delete" => &[("dryRun", "string"), ("propagationPolicy", "string")],
        Body::None => &[],
        Body::Object => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
        Body::Patch => {
            &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
        }
    };
    if !parameters.is_empty() {
        operation["parameters"] = parameters.iter().map(|(name, of)| parameter(name, of)).collect();
    }
    if body != Body::None {
        operation["requestBody"] = request_body(kind, &name, body);
    }
    operation
}

fn parameter(name: &str, of: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": of, "uniqueItems": true}})
}

/// Custom kinds take no strategic merge patch.
fn request_body(kind: &ResourceType, name: &str, body: Body) -> Value {
    let (name, types): (_, &[&str]) = match body {
        Body::Patch if kind.crd => (
            format!("{META}Patch"),
            &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"],
        ),
        Body::Patch => (
            format!("{META}Patch"),
            &[
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ],
        ),
        _ if kind.crd => (name.to_owned(), &["application/json", "application/yaml"]),
        _ => (name.to_owned(), &["*/*"]),
    };
    let content: Map<_, _> =
        types.iter().map(|t| ((*t).to_owned(), json!({"schema": {"$ref": format!("{REFERENCE}{name}")}}))).collect();
    json!({"content": content, "required": true})
}
