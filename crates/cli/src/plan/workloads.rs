//! Workloads as the pods they would have.

use serde_json::{Value, json};

pub(super) struct Expanded {
    /// A pod, waiting for a node unless it has one.
    pub(super) template: Value,
    pub(super) names: Vec<String>,
}

/// `None` for objects that have no pods.
pub(super) fn pods(object: &Value) -> Option<Expanded> {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let numbered = |count: u64| (0..count).map(|number| format!("{name}-{number}")).collect();
    let replicas = || numbered(object["spec"]["replicas"].as_u64().unwrap_or(1));
    let (template, names) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => return Some(single(object, name)),
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") | ("v1", "ReplicationController") => {
            (&object["spec"]["template"], replicas())
        }
        ("batch/v1", "Job") => {
            let at_once = object["spec"]["parallelism"].as_u64().unwrap_or(1);
            let wanted = object["spec"]["completions"].as_u64().unwrap_or(at_once);
            (&object["spec"]["template"], numbered(at_once.min(wanted)))
        }
        _ => return None,
    };
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    if !pod["metadata"].is_object() {
        pod["metadata"] = json!({});
    }
    pod["metadata"]["namespace"] = namespace(object);
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": text("apiVersion"), "kind": text("kind"), "name": name, "uid": name, "controller": true}]);
    pod["status"] = waiting();
    Some(Expanded { template: pod, names })
}

/// A pod of a manifest that nobody has scheduled waits like one that the scheduler gave up on.
fn single(object: &Value, name: &str) -> Expanded {
    let mut pod = object.clone();
    pod["metadata"]["namespace"] = namespace(object);
    let unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unbound && !ended {
        pod["status"] = waiting();
    }
    Expanded { template: pod, names: vec![name.to_owned()] }
}

fn waiting() -> Value {
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
}

fn namespace(object: &Value) -> Value {
    json!(object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty()).unwrap_or("default"))
}
