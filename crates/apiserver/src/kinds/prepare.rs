//! What a write may set and what the server sets itself.

use serde_json::{Value, json};

use super::{map_at, pods};
use crate::fields::Set;
use crate::resource::ResourceType;

/// Kinds whose `metadata.generation` counts changes.
fn counts_generations(kind: &ResourceType) -> bool {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", kind) => matches!(kind, "Pod" | "ReplicationController"),
        ("apps", kind) => kind != "ControllerRevision",
        ("batch" | "policy" | "scheduling.k8s.io" | "autoscaling", _) => kind.kind != "HorizontalPodAutoscaler",
        ("networking.k8s.io" | "apiextensions.k8s.io" | "admissionregistration.k8s.io" | "discovery.k8s.io", _) => true,
        ("resource.k8s.io", kind) => matches!(kind, "ResourceSlice" | "DeviceClass"),
        _ => kind.crd,
    }
}

/// Before an object is created: what its status says is not the writer's to say.
pub(crate) fn prepare_create(kind: &ResourceType, object: &mut Value) {
    let status = match (kind.group.as_str(), kind.kind.as_str()) {
        // A kubelet registers its node with its status; a definition gets its own.
        ("", "Node") | ("apiextensions.k8s.io", _) => None,
        ("", "Pod") => {
            let qos = pods::qos_class(&object["spec"]);
            let mut status = json!({"phase": "Pending", "qosClass": qos});
            if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                status["conditions"] = json!([{
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": null,
                    "lastTransitionTime": object["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }]);
            }
            Some(status)
        }
        ("", "Namespace") => {
            if let Some(spec) = map_at(object, &["spec"]) {
                spec.insert("finalizers".to_owned(), json!(["kubernetes"]));
            }
            Some(json!({"phase": "Active"}))
        }
        ("batch", "Job") => {
            select_own_pods(object);
            Some(json!({}))
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => Some(json!({"phase": "Pending"})),
        ("", "Service") => Some(json!({"loadBalancer": {}})),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => Some(json!({"replicas": 0})),
        ("apps", "DaemonSet") => Some(json!({"currentNumberScheduled": 0, "numberMisscheduled": 0,
            "desiredNumberScheduled": 0, "numberReady": 0})),
        ("apps", "StatefulSet") => Some(json!({"replicas": 0, "availableReplicas": 0})),
        ("policy", "PodDisruptionBudget") => {
            Some(json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}))
        }
        ("storage.k8s.io", "VolumeAttachment") => Some(json!({"attached": false})),
        _ if kind.crd => {
            if kind.has_status()
                && let Value::Object(map) = object
            {
                map.remove("status");
            }
            None
        }
        _ if kind.has_status() => Some(json!({})),
        _ => None,
    };
    if let (Some(status), Value::Object(map)) = (status, &mut *object) {
        map.insert("status".to_owned(), status);
    }
    if counts_generations(kind)
        && let Some(metadata) = map_at(object, &["metadata"])
    {
        metadata.insert("generation".to_owned(), json!(1));
    }
}

/// A job finds its pods by its own UID, unless it says how.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    if let Some(labels) = map_at(job, &["spec", "template", "metadata", "labels"]) {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            labels.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(spec) = map_at(job, &["spec"]) {
        spec.insert("selector".to_owned(), json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    }
}

/// Before an object is changed, through itself or a subresource: takes back what that path may not change.
pub(crate) fn prepare_update(kind: &ResourceType, subresource: &str, old: &Value, new: &mut Value) {
    match subresource {
        "status" => keep_all_but_status(kind, old, new),
        "ephemeralcontainers" | "resize" | "finalize" | "approval" => {}
        _ => {
            if kind.has_status() {
                restore(old, new, "status");
            }
            // Finalizers of a namespace are changed through their subresource only.
            if kind.kind == "Namespace" && kind.group.is_empty() {
                restore(old, new, "spec");
            }
        }
    }
    let generation = old["metadata"]["generation"].as_i64();
    if !counts_generations(kind) && generation.is_none() {
        return;
    }
    let changed = if kind.crd {
        differs(kind, old, new)
    } else {
        old["spec"] != new["spec"]
            || (kind.kind == "Deployment" && old["metadata"]["annotations"] != new["metadata"]["annotations"])
            || (matches!(kind.group.as_str(), "admissionregistration.k8s.io") && differs(kind, old, new))
    };
    let generation = generation.unwrap_or(1) + i64::from(changed);
    if let Some(metadata) = map_at(new, &["metadata"]) {
        metadata.insert("generation".to_owned(), json!(generation));
    }
}

/// Whether anything but metadata and, where it is written apart, status is different.
fn differs(kind: &ResourceType, old: &Value, new: &Value) -> bool {
    let relevant =
        |name: &String| name != "metadata" && name != "apiVersion" && !(name == "status" && kind.has_status());
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
    old.keys().chain(new.keys()).filter(|name| relevant(name)).any(|name| old.get(name) != new.get(name))
}

fn restore(old: &Value, new: &mut Value, field: &str) {
    let Value::Object(new) = new else { return };
    match old.get(field) {
        Some(value) => new.insert(field.to_owned(), value.clone()),
        None => new.remove(field),
    };
}

fn keep_all_but_status(kind: &ResourceType, old: &Value, new: &mut Value) {
    if kind.crd {
        let status = new.get("status").cloned();
        let managed = new["metadata"].get("managedFields").cloned();
        *new = old.clone();
        if let Value::Object(map) = new {
            match status {
                Some(status) => map.insert("status".to_owned(), status),
                None => map.remove("status"),
            };
        }
        if let (Some(managed), Some(metadata)) = (managed, map_at(new, &["metadata"])) {
            metadata.insert("managedFields".to_owned(), managed);
        }
        return;
    }
    restore(old, new, "spec");
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps" | "batch", _) => restore_metadata(old, new, "labels"),
        ("", "Pod") => {
            restore_metadata(old, new, "ownerReferences");
            // The server derives it; a status that leaves it out keeps it.
            if let (Some(qos), Some(status)) = (old["status"].get("qosClass").cloned(), map_at(new, &["status"])) {
                status.insert("qosClass".to_owned(), qos);
            }
        }
        ("apiextensions.k8s.io", _) => restore(old, new, "metadata"),
        ("", "Namespace") if new.pointer("/status/phase").is_none() => restore(old, new, "status"),
        _ => {}
    }
}

fn restore_metadata(old: &Value, new: &mut Value, field: &str) {
    let old = old["metadata"].get(field).cloned();
    let Some(metadata) = map_at(new, &["metadata"]) else { return };
    match old {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Fields that a write through this path does not own, because it cannot change them.
pub(crate) fn reset_fields(kind: &ResourceType, subresource: &str) -> Set {
    match subresource {
        "status" if kind.crd => Set::of_fields(&["spec", "metadata"]),
        "status" if kind.group == "apps" || kind.group == "batch" => Set::of_fields(&["spec", "metadata.labels"]),
        "status" if kind.kind == "Pod" => {
            Set::of_fields(&["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"])
        }
        "status" => Set::of_fields(&["spec"]),
        "" if kind.kind == "Namespace" => Set::of_fields(&["status"]),
        "" if kind.has_status() => Set::of_fields(&["status"]),
        _ => Set::default(),
    }
}
