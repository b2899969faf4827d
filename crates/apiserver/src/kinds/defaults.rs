//! Defaults of built-in kinds.

use serde_json::{Map, Value, json};

use super::{map_at, pods, set_if_absent};
use crate::resource::ResourceType;

/// Fills in what the server fills in when it reads an object.
pub(crate) fn set_defaults(kind: &ResourceType, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            if let Some(spec) = map_at(object, &["spec"]) {
                pods::default_spec(spec, pods::Place::Pod);
            }
        }
        ("", "Secret") => secret(object),
        ("", "Service") => service(object),
        ("", "PersistentVolumeClaim") => with(object, &["spec"], &[("volumeMode", json!("Filesystem"))]),
        ("", "PersistentVolume") => with(
            object,
            &["spec"],
            &[("volumeMode", json!("Filesystem")), ("persistentVolumeReclaimPolicy", json!("Retain"))],
        ),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "ReplicationController") => replication_controller(object),
        ("", "PodTemplate") => template(object, &["template"]),
        ("apps", kind) => workload(kind, object),
        ("batch", "Job") => job(object, &["spec"]),
        ("batch", "CronJob") => cron_job(object),
        ("storage.k8s.io", "StorageClass") => {
            with(object, &[], &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            with(object, &[], &[("preemptionPolicy", json!("PreemptLowerPriority"))]);
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => binding(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(object),
        _ => {}
    }
}

fn with(object: &mut Value, path: &[&str], defaults: &[(&str, Value)]) {
    let Some(map) = map_at(object, path) else { return };
    for (name, value) in defaults {
        set_if_absent(map, name, value.clone());
    }
}

fn template(object: &mut Value, path: &[&str]) {
    let path: Vec<&str> = path.iter().copied().chain(["spec"]).collect();
    if let Some(spec) = map_at(object, &path) {
        pods::default_spec(spec, pods::Place::Template);
    }
}

fn workload(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => {
            with(
                object,
                &["spec"],
                &[("replicas", json!(1)), ("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))],
            );
            rolling(object, "strategy", json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
        }
        "StatefulSet" => {
            with(
                object,
                &["spec"],
                &[
                    ("replicas", json!(1)),
                    ("revisionHistoryLimit", json!(10)),
                    ("podManagementPolicy", json!("OrderedReady")),
                    ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
                ],
            );
            rolling(object, "updateStrategy", json!({"partition": 0}));
            claim_templates(object);
        }
        "DaemonSet" => {
            with(object, &["spec"], &[("revisionHistoryLimit", json!(10))]);
            rolling(object, "updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 0}));
        }
        "ReplicaSet" => with(object, &["spec"], &[("replicas", json!(1))]),
        _ => return,
    }
    template(object, &["spec", "template"]);
}

fn rolling(object: &mut Value, field: &str, parameters: Value) {
    let Some(strategy) = map_at(object, &["spec", field]) else { return };
    set_if_absent(strategy, "type", json!("RollingUpdate"));
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    if let (Value::Object(rolling), Value::Object(parameters)) = (rolling, parameters) {
        for (name, value) in parameters {
            set_if_absent(rolling, &name, value);
        }
    }
}

fn claim_templates(object: &mut Value) {
    let templates = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in templates.into_iter().flatten() {
        set_root(claim, "apiVersion", json!("v1"));
        set_root(claim, "kind", json!("PersistentVolumeClaim"));
        with(claim, &["spec"], &[("volumeMode", json!("Filesystem"))]);
        with(claim, &["status"], &[("phase", json!("Pending"))]);
    }
}

fn set_root(value: &mut Value, name: &str, default: Value) {
    if let Value::Object(map) = value {
        set_if_absent(map, name, default);
    }
}

fn replication_controller(object: &mut Value) {
    with(object, &["spec"], &[("replicas", json!(1))]);
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels {
        with(object, &["spec"], &[("selector", labels)]);
    }
    template(object, &["spec", "template"]);
}

fn job(object: &mut Value, path: &[&str]) {
    let manual = |spec: &Map<String, Value>| spec.get("completions").is_some() || spec.get("parallelism").is_some();
    let Some(spec) = map_at(object, path) else { return };
    if !manual(spec) {
        spec.insert("completions".to_owned(), json!(1));
    }
    for (name, value) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        set_if_absent(spec, name, value);
    }
    let path: Vec<&str> = path.iter().copied().chain(["template"]).collect();
    template(object, &path);
}

fn cron_job(object: &mut Value) {
    with(
        object,
        &["spec"],
        &[
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(3)),
            ("failedJobsHistoryLimit", json!(1)),
        ],
    );
    template(object, &["spec", "jobTemplate", "spec", "template"]);
}

fn secret(object: &mut Value) {
    use base64::Engine as _;
    with(object, &[], &[("type", json!("Opaque"))]);
    let Some(plain) = object.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
    let Some(data) = map_at(object, &["data"]) else { return };
    for (key, value) in plain.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        data.insert(key.clone(), json!(base64::engine::general_purpose::STANDARD.encode(text)));
    }
}

fn service(object: &mut Value) {
    with(object, &["spec"], &[("sessionAffinity", json!("None")), ("type", json!("ClusterIP"))]);
    let Some(spec) = map_at(object, &["spec"]) else { return };
    if spec["type"] != "ExternalName" {
        set_if_absent(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        set_if_absent(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(port) = port else { continue };
        set_if_absent(port, "protocol", json!("TCP"));
        let number = port.get("port").cloned().unwrap_or(json!(0));
        set_if_absent(port, "targetPort", number);
    }
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = map_at(object, &["metadata", "labels"]) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}

fn node(object: &mut Value) {
    let capacity = object.pointer("/status/capacity").cloned();
    if let Some(capacity) = capacity {
        with(object, &["status"], &[("allocatable", capacity)]);
    }
}

fn binding(object: &mut Value) {
    with(object, &["roleRef"], &[]);
    let group = json!("rbac.authorization.k8s.io");
    if let Some(role) = map_at(object, &["roleRef"])
        && role.get("apiGroup").and_then(Value::as_str).unwrap_or_default().is_empty()
    {
        role.insert("apiGroup".to_owned(), group.clone());
    }
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set_root(subject, "apiGroup", group.clone());
        }
    }
}

fn crd(object: &mut Value) {
    with(object, &["spec"], &[("conversion", json!({"strategy": "None"}))]);
    let Some(names) = map_at(object, &["spec", "names"]) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        set_if_absent(names, "singular", json!(kind.to_lowercase()));
        set_if_absent(names, "listKind", json!(format!("{kind}List")));
    }
}
