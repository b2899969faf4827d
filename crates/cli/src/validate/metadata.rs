//! Object metadata, as far as it can be judged without a cluster.

use karpenter_api::crd::Crd;
use karpenter_api::validation::{label_value, qualified_name};
use karpenter_schema::{FieldPath, Schema};
use serde_json::{Value, json};

/// What is wrong about the metadata.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) path: FieldPath,
    pub(super) message: String,
    /// Odd but accepted.
    pub(super) warning: bool,
}

/// Field types of `metadata`.
pub(super) fn schema() -> Result<Schema, karpenter_schema::SchemaError> {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time", "nullable": true});
    let owner = json!({
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        },
    });
    Schema::compile_fragment(&json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
        "annotations": texts,
        "creationTimestamp": time,
        "deletionGracePeriodSeconds": {"type": "integer"},
        "deletionTimestamp": time,
        "finalizers": {"type": "array", "items": text},
        "generateName": text,
        "generation": {"type": "integer"},
        "labels": texts,
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "name": text,
        "namespace": text,
        "ownerReferences": {"type": "array", "items": owner},
        "resourceVersion": text,
        "selfLink": text,
        "uid": text,
    }}}}))
}

/// Checks `metadata` of `object`.
pub(super) fn check(schema: &Schema, crd: &Crd, object: &Value) -> Vec<Problem> {
    let error = |path: &FieldPath, message: String| Problem { path: path.clone(), message, warning: false };
    let at = FieldPath::root().field("metadata");
    let mut envelope = json!({"metadata": object.get("metadata").cloned().unwrap_or(json!({}))});
    let mut problems: Vec<Problem> =
        schema.prune(&mut envelope).iter().map(|path| error(path, "unknown field".to_owned())).collect();
    schema.default(&mut envelope);
    problems.extend(schema.validate(&envelope, None).into_iter().map(|v| error(&v.path, v.message)));
    let metadata = &envelope["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        return problems;
    }
    problems.extend(names(metadata, &at).into_iter().map(|(path, message)| error(&path, message)));
    problems.extend(namespace(metadata, crd, &at));
    for map in ["labels", "annotations"] {
        let entries = metadata[map].as_object().into_iter().flatten();
        for (key, value) in entries {
            let path = at.field(map);
            if let Err(cause) = qualified_name(key) {
                problems.push(error(&path.key(key), format!("key {cause}")));
            }
            if let Some(text) = value.as_str().filter(|_| map == "labels")
                && let Err(cause) = label_value(text)
            {
                problems.push(error(&path.key(key), format!("Invalid value: {value}: value {cause}")));
            }
        }
    }
    problems
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

fn names(metadata: &Value, at: &FieldPath) -> Vec<(FieldPath, String)> {
    let (name, generate) = (metadata["name"].as_str().unwrap_or(""), metadata["generateName"].as_str().unwrap_or(""));
    let wrongly_typed = metadata.get("name").is_some_and(|name| !name.is_string());
    if name.is_empty() && generate.is_empty() {
        let missing = (at.field("name"), "Required value: name or generateName is required".to_owned());
        return if wrongly_typed { Vec::new() } else { vec![missing] };
    }
    let mut problems = Vec::new();
    if !name.is_empty() {
        problems.extend(subdomain(name).map(|message| (at.field("name"), message)));
    }
    // A random suffix follows, so a dash or dot at the end is fine.
    if !generate.is_empty() {
        problems.extend(
            subdomain(&format!("{generate}x"))
                .map(|_| (at.field("generateName"), format!("Invalid value: {}: {SUBDOMAIN}", Value::from(generate)))),
        );
    }
    problems
}

fn subdomain(name: &str) -> Option<String> {
    let quoted = Value::from(name);
    if name.len() > 253 {
        return Some(format!("Invalid value: {quoted}: must be no more than 253 characters"));
    }
    (!name.split('.').all(is_dns_label)).then(|| format!("Invalid value: {quoted}: {SUBDOMAIN}"))
}

fn namespace(metadata: &Value, crd: &Crd, at: &FieldPath) -> Option<Problem> {
    let namespace = metadata["namespace"].as_str().filter(|namespace| !namespace.is_empty())?;
    let path = at.field("namespace");
    if !crd.namespaced {
        let message = format!("{} objects have no namespace; this one is ignored", crd.kind);
        return Some(Problem { path, message, warning: true });
    }
    let valid = namespace.len() <= 63 && is_dns_label(namespace);
    (!valid).then(|| Problem {
        path,
        message: format!("Invalid value: {}: not a namespace name", Value::from(namespace)),
        warning: false,
    })
}

fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use karpenter_api::crd::find;

    use super::*;

    fn problems(namespaced: bool, metadata: &Value) -> Vec<String> {
        let crd = if namespaced {
            find("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer")
        } else {
            find("karpenter.sh", "v1", "NodePool")
        };
        let object = if metadata.is_null() { json!({}) } else { json!({"metadata": metadata}) };
        let found = check(&schema().unwrap(), crd.unwrap(), &object);
        found.iter().map(|p| format!("{}{}: {}", if p.warning { "warning " } else { "" }, p.path, p.message)).collect()
    }

    #[test]
    fn names_are_required_and_generated_names_accepted() {
        let required = "metadata.name: Required value: name or generateName is required";
        let long = "a".repeat(254);
        for (metadata, want) in [
            (json!({"name": "a.b-c"}), vec![]),
            (json!({"generateName": "a-"}), vec![]),
            (Value::Null, vec![required.to_owned()]),
            (json!({}), vec![required.to_owned()]),
            (json!({"name": ""}), vec![required.to_owned()]),
            (json!({"name": "A"}), vec![format!("metadata.name: Invalid value: \"A\": {SUBDOMAIN}")]),
            (json!({"name": "a..b"}), vec![format!("metadata.name: Invalid value: \"a..b\": {SUBDOMAIN}")]),
            (json!({"name": "-a"}), vec![format!("metadata.name: Invalid value: \"-a\": {SUBDOMAIN}")]),
            (
                json!({"name": long}),
                vec![format!("metadata.name: Invalid value: \"{long}\": must be no more than 253 characters")],
            ),
            (json!({"generateName": "A_"}), vec![format!("metadata.generateName: Invalid value: \"A_\": {SUBDOMAIN}")]),
        ] {
            assert_eq!(problems(false, &metadata), want, "{metadata}");
        }
    }

    #[test]
    fn types_and_unknown_fields_are_checked() {
        for (metadata, want) in [
            (
                json!({"name": 5}),
                vec![
                    "metadata.name: Invalid value: \"integer\": metadata.name in body must be of type string: \"integer\"",
                ],
            ),
            (json!([]), vec!["metadata: Invalid value: \"array\": metadata in body must be of type object: \"array\""]),
            (json!({"name": "a", "foo": 1}), vec!["metadata.foo: unknown field"]),
            (
                json!({"name": "a", "labels": {"x": 5}}),
                vec![
                    "metadata.labels.x: Invalid value: \"integer\": metadata.labels.x in body must be of type string: \"integer\"",
                ],
            ),
            (json!({"name": "a", "creationTimestamp": null, "managedFields": [{"x": {"y": 1}}]}), vec![]),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}),
                vec!["metadata.ownerReferences[0].uid: Required value"],
            ),
        ] {
            assert_eq!(problems(false, &metadata), want, "{metadata}");
        }
    }

    #[test]
    fn namespaces_belong_to_namespaced_kinds() {
        let here = |namespace: &str| json!({"name": "a", "namespace": namespace});
        assert_eq!(problems(true, &here("here")), Vec::<String>::new());
        assert_eq!(problems(true, &here("a.b")), ["metadata.namespace: Invalid value: \"a.b\": not a namespace name"]);
        assert_eq!(
            problems(false, &here("here")),
            ["warning metadata.namespace: NodePool objects have no namespace; this one is ignored"]
        );
        assert_eq!(problems(false, &here("")), Vec::<String>::new());
    }

    #[test]
    fn keys_and_values_of_labels_are_checked() {
        let long = "v".repeat(64);
        let found = problems(
            false,
            &json!({"name": "a", "labels": {"a b": "x", "ok": long}, "annotations": {"/x": "any text", "a.b/c": "*"}}),
        );
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("metadata.labels.a b: key "), "{found:?}");
        assert!(found[1].starts_with("metadata.labels.ok: Invalid value: "), "{found:?}");
        assert!(found[2].starts_with("metadata.annotations./x: key "), "{found:?}");
    }
}
