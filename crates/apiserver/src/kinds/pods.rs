//! Pods: defaults of their spec, what is derived from it.

use serde_json::{Map, Value, json};

use super::set_if_absent;
use crate::quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Pod,
    /// Inside of a workload; some defaults wait for the pod.
    Template,
}

pub(super) fn default_spec(spec: &mut Map<String, Value>, place: Place) {
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        set_if_absent(spec, name, value);
    }
    if place == Place::Pod {
        set_if_absent(spec, "enableServiceLinks", json!(true));
    }
    let account = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned();
    if let Some(account) = account.filter(|a| a.as_str().is_some_and(|a| !a.is_empty())) {
        spec.insert("serviceAccountName".to_owned(), account.clone());
        spec.insert("serviceAccount".to_owned(), account);
    }
    let host_network = spec.get("hostNetwork") == Some(&json!(true));
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(container) = container {
                default_container(container, host_network, place);
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(volume) = volume {
            default_volume(volume);
        }
    }
}

fn default_container(container: &mut Map<String, Value>, host_network: bool, place: Place) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if latest { "Always" } else { "IfNotPresent" };
    for (name, value) in [
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("imagePullPolicy", json!(policy)),
    ] {
        set_if_absent(container, name, value);
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(port) = port else { continue };
        set_if_absent(port, "protocol", json!("TCP"));
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            set_if_absent(port, "hostPort", number);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    // Limits without requests are requests as well; templates keep what was written.
    let limits = container.get("resources").and_then(|r| r.get("limits")).and_then(Value::as_object).cloned();
    if let (Some(limits), Place::Pod) = (limits, place)
        && let Some(Value::Object(resources)) = container.get_mut("resources")
        && let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({}))
    {
        for (name, value) in limits {
            set_if_absent(requests, &name, value);
        }
    }
}

fn default_probe(probe: &mut Map<String, Value>) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_if_absent(probe, name, json!(value));
    }
    if let Some(Value::Object(get)) = probe.get_mut("httpGet") {
        set_if_absent(get, "path", json!("/"));
        set_if_absent(get, "scheme", json!("HTTP"));
    }
}

fn default_volume(volume: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            set_if_absent(source, "defaultMode", json!(420));
        }
    }
    if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
        set_if_absent(path, "type", json!(""));
    }
    // A volume without a source is an empty directory.
    if volume.len() == 1 && volume.contains_key("name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            for resource in ["cpu", "memory"] {
                let of = |which: &str| {
                    let text = container["resources"][which][resource].as_str()?;
                    quantity::canonical(text).filter(|q| q != "0")
                };
                let (request, limit) = (of("requests"), of("limits"));
                any |= request.is_some() || limit.is_some();
                all &= limit.is_some() && request == limit;
            }
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
