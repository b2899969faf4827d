//! What of an object of a built-in kind can never change.

use serde_json::Value;

use crate::resource::ResourceType;
use crate::status::Cause;

const POD_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn check_update(kind: &ResourceType, subresource: &str, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if subresource == "status" {
        return causes;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") if subresource.is_empty() => pod(old, new, &mut causes),
        ("", "Node") => node(old, new, &mut causes),
        ("", "ConfigMap" | "Secret") => immutable_data(old, new, &mut causes),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => unchanged(old, new, "spec.selector", &mut causes),
        ("apps", "StatefulSet") => stateful_set(old, new, &mut causes),
        ("batch", "Job") => {
            for field in ["spec.selector", "spec.completionMode"] {
                unchanged(old, new, field, &mut causes);
            }
            job_template(old, new, &mut causes);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            if old["value"] != new["value"] {
                causes.push(Cause::forbidden("value", "may not be changed in an update."));
            }
            unchanged(old, new, "preemptionPolicy", &mut causes);
        }
        ("storage.k8s.io", "StorageClass") => {
            for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
                if old[field] != new[field] {
                    let detail = format!("updates to {field} are forbidden.");
                    causes.push(if field == "reclaimPolicy" || field == "volumeBindingMode" {
                        Cause::invalid(field, &new[field], "field is immutable")
                    } else {
                        Cause::forbidden(field, &detail)
                    });
                }
            }
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") if old["roleRef"] != new["roleRef"] => {
            causes.push(Cause::invalid("roleRef", &new["roleRef"], "cannot change roleRef"));
        }
        ("", "PersistentVolumeClaim") => claim(old, new, &mut causes),
        _ => {}
    }
    causes
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, name| &value[name])
}

fn unchanged(old: &Value, new: &Value, path: &str, causes: &mut Vec<Cause>) {
    if at(old, path) != at(new, path) {
        causes.push(Cause::invalid(path, at(new, path), "field is immutable"));
    }
}

fn node(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let id = |object: &Value| object["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !id(old).is_empty() && id(old) != id(new) {
        causes.push(Cause::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
}

fn immutable_data(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in ["data", "binaryData"] {
        if old[field] != new[field] {
            causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}

/// What may change is made equal; nothing else may differ then.
fn pod(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let (before, mut after) = (&old["spec"], new["spec"].clone());
    if *before == after {
        return;
    }
    for field in ["activeDeadlineSeconds", "terminationGracePeriodSeconds"] {
        copy(before, &mut after, field);
    }
    for list in ["containers", "initContainers"] {
        let olds = before[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let news = after.get_mut(list).and_then(Value::as_array_mut);
        for (container, old) in news.into_iter().flatten().zip(olds) {
            copy(old, container, "image");
        }
    }
    let tolerations = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let kept = tolerations(before).iter().all(|t| tolerations(&after).contains(t));
    if kept {
        copy(before, &mut after, "tolerations");
    }
    // Gates can be taken away; a pod that waits behind them may also be narrowed down.
    let gates = |spec: &Value| spec["schedulingGates"].as_array().cloned().unwrap_or_default();
    for gate in gates(&after).iter().filter(|g| !gates(before).contains(g)) {
        let name = gate["name"].as_str().unwrap_or_default();
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        causes.push(Cause::forbidden("spec.schedulingGates", &detail));
    }
    copy(before, &mut after, "schedulingGates");
    if !gates(before).is_empty() {
        copy(before, &mut after, "nodeSelector");
        copy(before, &mut after, "affinity");
    }
    if *before != after {
        causes.push(Cause::forbidden("spec", POD_FIELDS));
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    let Value::Object(to) = to else { return };
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

fn stateful_set(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let mut after = new["spec"].clone();
    for field in [
        "replicas",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "ordinals",
    ] {
        copy(&old["spec"], &mut after, field);
    }
    if old["spec"] != after {
        causes.push(Cause::forbidden("spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
    }
}

fn job_template(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if old["spec"]["suspend"] == true {
        return;
    }
    unchanged(old, new, "spec.template", causes);
}

fn claim(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let mut after = new["spec"].clone();
    copy(&old["spec"], &mut after, "resources");
    copy(&old["spec"], &mut after, "volumeAttributesClassName");
    // The binder sets the volume once.
    if old["spec"].get("volumeName").is_none() {
        copy(&old["spec"], &mut after, "volumeName");
        copy(&old["spec"], &mut after, "storageClassName");
    }
    if old["spec"] != after {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
}
