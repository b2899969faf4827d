//! Validation of new objects of built-in kinds, as far as it is checked here.

use serde_json::{Value, json};

use crate::names;
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::status::Cause;

pub(crate) fn check_create(kind: &ResourceType, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod_spec(spec, "spec", &mut causes),
        ("", "ConfigMap" | "Secret") => keys(kind, object, &mut causes),
        ("", "Event") => event(object, &mut causes),
        ("events.k8s.io", "Event") => {
            event(object, &mut causes);
            new_event(object, &mut causes);
        }
        ("", "PersistentVolumeClaim") => claim(spec, &mut causes),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => workload(spec, &mut causes),
        ("batch", "Job") => {
            pod_spec(&spec["template"]["spec"], "spec.template.spec", &mut causes);
            restart_policy(&spec["template"]["spec"], "spec.template.spec", &["OnFailure", "Never"], &mut causes);
        }
        ("policy", "PodDisruptionBudget") => budget(spec, &mut causes),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(object, &mut causes),
        ("storage.k8s.io", "StorageClass") if is_empty(&object["provisioner"]) => {
            causes.push(Cause::required("provisioner", ""));
        }
        ("coordination.k8s.io", "Lease") => lease(spec, &mut causes),
        ("", "Node") => taints(spec, &mut causes),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") if is_empty(&object["roleRef"]["name"]) => {
            causes.push(Cause::required("roleRef.name", ""));
        }
        _ => {}
    }
    causes
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn not_negative(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|n| n < 0) {
        causes.push(Cause::invalid(path, value, "must be greater than or equal to 0"));
    }
}

fn restart_policy(spec: &Value, path: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    if let Some(policy) = spec["restartPolicy"].as_str()
        && !supported.contains(&policy)
    {
        causes.push(Cause::unsupported(format!("{path}.restartPolicy"), &spec["restartPolicy"], supported));
    }
}

fn pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (list, containers) in [
        ("initContainers", spec["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default()),
        ("containers", containers),
    ] {
        for (i, container) in containers.iter().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            container_of(container, &at, causes);
            let name = container["name"].as_str().unwrap_or_default();
            if !name.is_empty() && seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
            }
            seen.push(name);
        }
    }
    if let Some(policy) = spec["restartPolicy"].as_str()
        && !["Always", "OnFailure", "Never"].contains(&policy)
    {
        causes.push(Cause::unsupported(
            format!("{path}.restartPolicy"),
            &spec["restartPolicy"],
            &["Always", "OnFailure", "Never"],
        ));
    }
    not_negative(&spec["terminationGracePeriodSeconds"], &format!("{path}.terminationGracePeriodSeconds"), causes);
}

fn container_of(container: &Value, at: &str, causes: &mut Vec<Cause>) {
    let name = container["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else {
        for problem in names::label(name) {
            causes.push(Cause::invalid(format!("{at}.name"), &json!(name), &problem));
        }
    }
    if is_empty(&container["image"]) {
        causes.push(Cause::required(format!("{at}.image"), ""));
    }
    let limits = &container["resources"]["limits"];
    for (resource, request) in container["resources"]["requests"].as_object().into_iter().flatten() {
        if request.as_str().is_some_and(|r| r.starts_with('-')) {
            causes.push(Cause::invalid(
                format!("{at}.resources.requests[{resource}]"),
                request,
                "must be greater than or equal to 0",
            ));
        }
        let (Some(request_text), Some(limit)) = (request.as_str(), limits[resource].as_str()) else { continue };
        if crate::quantity::cmp(request_text, limit) == Some(std::cmp::Ordering::Greater) {
            let detail = format!("must be less than or equal to {resource} limit of {limit}");
            causes.push(Cause::invalid(format!("{at}.resources.requests"), request, &detail));
        }
    }
}

fn workload(spec: &Value, causes: &mut Vec<Cause>) {
    not_negative(&spec["replicas"], "spec.replicas", causes);
    let selector = &spec["selector"];
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if is_empty(selector) {
        causes.push(Cause::invalid("spec.selector", &json!({}), "empty selector is invalid for deployment"));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    match LabelSelector::from_spec(selector) {
        Some(parsed) if !selector.is_null() && !parsed.matches(&spec["template"]) => {
            causes.push(Cause::invalid(
                "spec.template.metadata.labels",
                labels,
                "`selector` does not match template `labels`",
            ));
        }
        _ => {}
    }
    pod_spec(&spec["template"]["spec"], "spec.template.spec", causes);
    restart_policy_always(&spec["template"]["spec"], causes);
}

fn restart_policy_always(spec: &Value, causes: &mut Vec<Cause>) {
    if let Some(policy @ ("OnFailure" | "Never")) = spec["restartPolicy"].as_str() {
        causes.push(Cause::unsupported("spec.template.spec.restartPolicy", &json!(policy), &["Always"]));
    }
}

fn budget(spec: &Value, causes: &mut Vec<Cause>) {
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        causes.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let value = &spec[field];
        let path = format!("spec.{field}");
        not_negative(value, &path, causes);
        if let Some(text) = value.as_str()
            && !text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        {
            causes.push(Cause::invalid(
                path,
                value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%', regex used for validation is '[0-9]+%')",
            ));
        }
    }
}

fn priority_class(object: &Value, causes: &mut Vec<Cause>) {
    let (name, value) =
        (object["metadata"]["name"].as_str().unwrap_or_default(), object["value"].as_i64().unwrap_or(0));
    if name.starts_with("system-") && !matches!(name, "system-cluster-critical" | "system-node-critical") {
        causes.push(Cause::forbidden(
            "metadata.name",
            "priority class names with 'system-' prefix are reserved for system use only. error: system-cluster-critical is not a known system priority class",
        ));
    } else if value > 1_000_000_000 && !name.starts_with("system-") {
        causes.push(Cause::forbidden("value", "maximum allowed value of a user defined priority is 1000000000"));
    }
}

fn lease(spec: &Value, causes: &mut Vec<Cause>) {
    for (field, low) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if spec[field].as_i64().is_some_and(|n| n < low) {
            let detail = if low == 1 { "must be greater than 0" } else { "must be greater than or equal to 0" };
            causes.push(Cause::invalid(format!("spec.{field}"), &spec[field], detail));
        }
    }
}

fn taints(spec: &Value, causes: &mut Vec<Cause>) {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen: Vec<(&Value, &Value)> = Vec::new();
    for (i, taint) in spec["taints"].as_array().into_iter().flatten().enumerate() {
        let at = format!("spec.taints[{i}]");
        for problem in names::label_key(taint["key"].as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(format!("{at}.key"), &taint["key"], &problem));
        }
        let effect = taint["effect"].as_str().unwrap_or_default();
        if effect.is_empty() {
            causes.push(Cause::required(format!("{at}.effect"), ""));
        } else if !effects.contains(&effect) {
            causes.push(Cause::unsupported(format!("{at}.effect"), &taint["effect"], &effects));
        }
        let identity = (&taint["key"], &taint["effect"]);
        if seen.contains(&identity) {
            causes.push(Cause::duplicate(at, taint));
        }
        seen.push(identity);
    }
}

/// An event is where its object is; events of cluster-wide objects are in `default`.
fn event(object: &Value, causes: &mut Vec<Cause>) {
    let involved = &object["involvedObject"]["namespace"];
    let (own, other) =
        (object["metadata"]["namespace"].as_str().unwrap_or_default(), involved.as_str().unwrap_or_default());
    if (other.is_empty() && !matches!(own, "" | "default")) || (!other.is_empty() && own != other) {
        causes.push(Cause::invalid("involvedObject.namespace", &json!(other), "does not match event.namespace"));
    }
}

/// What the newer form of events demands.
fn new_event(object: &Value, causes: &mut Vec<Cause>) {
    for (field, stored) in [
        ("eventTime", "eventTime"),
        ("reportingController", "reportingComponent"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if is_empty(&object[stored]) {
            causes.push(Cause::required(field, ""));
        }
    }
    if !matches!(object["type"].as_str(), Some("Normal" | "Warning")) {
        causes.push(Cause::invalid("type", &json!(object["type"].as_str().unwrap_or_default()), "has invalid value: "));
    }
}

/// All data of a ConfigMap or Secret together.
const MAX_DATA: usize = 1024 * 1024;

fn keys(kind: &ResourceType, object: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        size +=
            object[field].as_object().into_iter().flatten().map(|(_, v)| v.as_str().map_or(0, str::len)).sum::<usize>();
        for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key) {
            let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
            if !plain || key.is_empty() || key == "." || key.starts_with("..") {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{field}[{key}]"), &json!(key), detail));
            }
        }
    }
    if size > MAX_DATA {
        let field = if kind.kind == "Secret" { "data" } else { "[]" };
        causes.push(Cause::too_long(field, MAX_DATA));
    }
}

fn claim(spec: &Value, causes: &mut Vec<Cause>) {
    if is_empty(&spec["accessModes"]) {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    if is_empty(&spec["resources"]["requests"]["storage"]) {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
}
