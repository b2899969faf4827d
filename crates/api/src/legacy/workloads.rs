//! Pods and the templates of workloads: keys that changed their name (API-325, API-326, API-328).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::findings::Report;
use super::metadata::renamed_annotations;
use crate::names::legacy::{DISRUPTION_TAINT, INSTANCE_PODS, PROVISIONER_NAME, UNSCHEDULABLE_TAINT};
use crate::names::{labels, taints};

/// Where pods of a kind are described.
fn pod_path(object: &Value) -> Option<&'static str> {
    let group = object["apiVersion"].as_str()?.split_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str()?) {
        ("", "Pod" | "Node") => Some(""),
        ("", "PodTemplate") => Some("template"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job") => Some("spec.template"),
        ("batch", "CronJob") => Some("spec.jobTemplate.spec.template"),
        _ => None,
    }
}

/// The object with renamed keys; objects without pods come back as they are.
pub(super) fn convert(mut object: Value, report: &mut Report<'_>) -> Value {
    let Some(path) = pod_path(&object) else { return object };
    let pointer = if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) };
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    if let Some(pod) = object.pointer_mut(&pointer) {
        annotations(pod, &format!("{prefix}metadata.annotations"), report);
        if let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) {
            node_selector(spec, &format!("{prefix}spec.nodeSelector"), report);
            affinity(spec, &format!("{prefix}spec.affinity"), report);
            topology_keys(spec, &format!("{prefix}spec"), report);
            tolerations(spec, &format!("{prefix}spec.tolerations"), report);
        }
    }
    object
}

fn annotations(pod: &mut Value, field: &str, report: &mut Report<'_>) {
    let Some(given) = pod.pointer_mut("/metadata/annotations") else { return };
    // Values that are no text are none of ours.
    let Ok(typed) = serde_json::from_value::<BTreeMap<String, String>>(given.clone()) else { return };
    let renamed = renamed_annotations(typed.clone(), field, report);
    if renamed != typed {
        *given = json!(renamed);
    }
}

fn node_selector(spec: &mut Value, field: &str, report: &mut Report<'_>) {
    let Some(selector) = spec.get_mut("nodeSelector").and_then(Value::as_object_mut) else { return };
    if let Some(value) = selector.remove(PROVISIONER_NAME) {
        selector.entry(labels::NODEPOOL).or_insert(value);
        report.warn(format!("{field}[{PROVISIONER_NAME}]"), format!("is called {} in v1; renamed", labels::NODEPOOL));
    }
    if selector.remove(INSTANCE_PODS).is_some() {
        report.warn(format!("{field}[{INSTANCE_PODS}]"), "has no successor in v1; left out");
    }
}

fn affinity(spec: &mut Value, field: &str, report: &mut Report<'_>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(node) = spec.pointer_mut("/affinity/nodeAffinity").and_then(Value::as_object_mut) else { return };
    if let Some(terms) = node.get_mut(REQUIRED).and_then(|required| required.get_mut("nodeSelectorTerms")) {
        let field = format!("{field}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let emptied = retain_terms(terms, |term| Some(term), &field, report);
        // A list without terms would match no node at all.
        if emptied {
            node.remove(REQUIRED);
        }
    }
    if let Some(terms) = node.get_mut(PREFERRED) {
        let field = format!("{field}.nodeAffinity.{PREFERRED}");
        if retain_terms(terms, |term| term.get_mut("preference"), &field, report) {
            node.remove(PREFERRED);
        }
    }
}

/// Renames keys in each term; a term whose expressions all went goes too. Returns whether that emptied the list.
fn retain_terms(
    terms: &mut Value,
    expressions_of: impl Fn(&mut Value) -> Option<&mut Value>,
    field: &str,
    report: &mut Report<'_>,
) -> bool {
    let Some(terms) = terms.as_array_mut() else { return false };
    let before = terms.len();
    let mut at = 0;
    terms.retain_mut(|term| {
        let field = format!("{field}[{at}]");
        at += 1;
        match expressions_of(term).and_then(|term| term.as_object_mut()) {
            Some(term) => keeps_expressions(term, &field, report),
            None => true,
        }
    });
    before > 0 && terms.is_empty()
}

fn keeps_expressions(term: &mut Map<String, Value>, field: &str, report: &mut Report<'_>) -> bool {
    let Some(expressions) = term.get_mut("matchExpressions").and_then(Value::as_array_mut) else { return true };
    let before = expressions.len();
    let mut at = 0;
    expressions.retain_mut(|expression| {
        let field = format!("{field}.matchExpressions[{at}].key");
        at += 1;
        if expression["key"] == PROVISIONER_NAME {
            expression["key"] = json!(labels::NODEPOOL);
            report.warn(&field, format!("{PROVISIONER_NAME} is called {} in v1; renamed", labels::NODEPOOL));
        }
        let dropped = expression["key"] == INSTANCE_PODS;
        if dropped {
            report.warn(field, format!("{INSTANCE_PODS} has no successor in v1; left out"));
        }
        !dropped
    });
    let emptied = before > 0 && expressions.is_empty();
    if emptied {
        term.remove("matchExpressions");
    }
    !emptied || term.contains_key("matchFields")
}

/// Topology keys of spread constraints and of affinities between pods.
fn topology_keys(value: &mut Value, field: &str, report: &mut Report<'_>) {
    match value {
        Value::Object(members) => {
            if members.get("topologyKey") == Some(&json!(PROVISIONER_NAME)) {
                members.insert("topologyKey".to_owned(), json!(labels::NODEPOOL));
                let message = format!("{PROVISIONER_NAME} is called {} in v1; renamed", labels::NODEPOOL);
                report.warn(format!("{field}.topologyKey"), message);
            }
            for (name, member) in members {
                topology_keys(member, &format!("{field}.{name}"), report);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                topology_keys(item, &format!("{field}[{at}]"), report);
            }
        }
        _ => {}
    }
}

/// Tolerations of the taints that said "disrupted" before v1.
fn tolerations(spec: &mut Value, field: &str, report: &mut Report<'_>) {
    let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    let tolerated = |all: &[Value], key: &str| all.iter().any(|toleration| toleration["key"] == key);
    for (at, toleration) in tolerations.iter_mut().enumerate() {
        if toleration["key"] == DISRUPTION_TAINT
            && let Some(toleration) = toleration.as_object_mut()
        {
            toleration.insert("key".to_owned(), json!(taints::DISRUPTED));
            toleration.insert("operator".to_owned(), json!("Exists"));
            toleration.remove("value");
            let message = format!("{DISRUPTION_TAINT} is called {} in v1 and has no value; renamed", taints::DISRUPTED);
            report.warn(format!("{field}[{at}]"), message);
        }
    }
    if let Some(at) = tolerations.iter().position(|toleration| toleration["key"] == UNSCHEDULABLE_TAINT)
        && !tolerated(tolerations, taints::DISRUPTED)
    {
        // The old taint still means a cordoned node, so its toleration stays.
        tolerations.push(json!({ "key": taints::DISRUPTED, "operator": "Exists", "effect": taints::NO_SCHEDULE }));
        let message = format!("nodes being drained carry {} in v1; a toleration of it was added", taints::DISRUPTED);
        report.warn(format!("{field}[{at}]"), message);
    }
}
