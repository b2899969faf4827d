//! Objects that state only what a body is about.

use serde_json::{Value, json};

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(crate) fn labelled(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry/main:1"}]}})
}

pub(crate) fn pod_labelled(name: &str, app: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": app});
    pod
}

/// Kubelets do not run here, so a pod that is to be deleted gracefully is put on a node by hand.
pub(crate) fn pod_on(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

pub(crate) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

pub(crate) fn deployment(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "registry/main:1"}]}}}})
}

/// A definition with one version; `schema` is that of the whole object.
pub(crate) fn definition(group: &str, kind: &str, scope: &str, schema: &Value) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Keys of a JSON object, in order.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(|o| o.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// Names of the items of a list.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect()
}

pub(crate) fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// The field set that this manager owns by this operation (`Apply` or `Update`), of the main resource.
pub(crate) fn owned<'a>(object: &'a Value, manager: &str, operation: &str) -> &'a Value {
    owned_through(object, manager, operation, "")
}

pub(crate) fn owned_through<'a>(object: &'a Value, manager: &str, operation: &str, subresource: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().expect("managedFields are there");
    let found = entries.iter().find(|e| {
        e["manager"] == manager
            && e["operation"] == operation
            && e["subresource"].as_str().unwrap_or_default() == subresource
    });
    found.map_or(&Value::Null, |e| &e["fieldsV1"])
}
