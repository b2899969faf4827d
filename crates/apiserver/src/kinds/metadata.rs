//! Validation of `metadata`.

use serde_json::{Value, json};

use crate::names;
use crate::resource::ResourceType;
use crate::status::Cause;

/// All annotations together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(crate) fn check_create(kind: &ResourceType, object: &Value) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        let detail = if metadata["generateName"].as_str().is_some_and(|g| !g.is_empty()) {
            ""
        } else {
            "name or generateName is required"
        };
        causes.push(Cause::required("metadata.name", detail));
    } else {
        for problem in name_problems(kind, name) {
            causes.push(Cause::invalid("metadata.name", &json!(name), &problem));
        }
    }
    check_common(metadata, &mut causes);
    causes
}

fn name_problems(kind: &ResourceType, name: &str) -> Vec<String> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => names::label(name),
        ("", "Service") => names::label_1035(name),
        ("rbac.authorization.k8s.io", _) => names::path_segment(name),
        ("", "Event") => Vec::new(),
        _ => names::subdomain(name),
    }
}

fn check_common(metadata: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        for problem in names::label_key(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), &problem));
        }
        for problem in names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &problem));
        }
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for problem in names::label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &problem));
        }
    }
    if size > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
    let mut controllers = Vec::new();
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        if version.is_empty() {
            causes.push(Cause::invalid("metadata.ownerReferences.apiVersion", &json!(""), "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid(path, &json!(""), "must not be empty"));
            }
        }
        if owner["controller"] == true {
            controllers.push(format!(
                "{}/{}",
                owner["kind"].as_str().unwrap_or_default(),
                owner["name"].as_str().unwrap_or_default()
            ));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid("metadata.ownerReferences", &metadata["ownerReferences"], &detail));
    }
    for (i, finalizer) in metadata["finalizers"].as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let field = format!("metadata.finalizers[{i}]");
        for problem in names::label_key(name) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &problem));
        }
        if !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
            causes.push(Cause::invalid(
                field,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

pub(crate) fn check_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let mut causes = Vec::new();
    check_common(new, &mut causes);
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let before: Vec<&Value> = old["finalizers"].as_array().into_iter().flatten().collect();
        let added: Vec<String> = new["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !before.contains(f))
            .map(Value::to_string)
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    causes
}
