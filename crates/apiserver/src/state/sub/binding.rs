//! `binding`: a scheduler gives a pod its node.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Call, State};
use crate::kinds::map_at;
use crate::resource::GroupKind;
use crate::status::Failure;

impl State {
    /// A binding that names its pod in the body only.
    pub(in super::super) fn bind_by_collection(&mut self, call: &Call) -> Result<Answer, Failure> {
        let body = call.content.parse().unwrap_or_default();
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let Some(pods) = self.registry.by_kind("", "v1", "Pod").cloned() else {
            return Err(Failure::unknown_resource());
        };
        let content =
            super::super::Content { media_type: call.content.media_type.clone(), bytes: call.content.bytes.clone() };
        let internal = Call::internal(&pods, "", call.verb, call.now);
        let namespace = call.namespace.clone();
        self.bind(&Call { namespace, name, query: call.query.clone(), content, ..internal })
    }

    pub(super) fn bind(&mut self, call: &Call) -> Result<Answer, Failure> {
        let dry_run = call.dry_run()?;
        let binding = call.content.parse().map_err(|e| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type Binding): couldn't get version/kind; json parse error: {e}"
            ))
        })?;
        let target = &binding["target"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if !matches!(text(&target["kind"]).as_str(), "" | "Node") {
            let kind = &target["kind"];
            return Err(Failure::internal(format!(
                "target.kind: Unsupported value: {kind}: supported values: \"Node\", \"<empty>\""
            )));
        }
        let node = text(&target["name"]);
        if node.is_empty() {
            return Err(Failure::internal("target.name: Required value"));
        }
        if text(&binding["metadata"]["name"]) != call.name {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        let live = self.find(call)?;
        let pod = &live.value;
        let conflict = |why: &str| Err(Failure::conflict_on(&call.kind, "pods/binding", &call.name, why));
        let uid = text(&binding["metadata"]["uid"]);
        if !uid.is_empty() && pod["metadata"]["uid"] != uid {
            return conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(&pod["metadata"]["uid"])
            ));
        }
        if pod["metadata"].get("deletionTimestamp").is_some() {
            return conflict(&format!("pod {} is being deleted, cannot be assigned to a host", call.name));
        }
        let current = text(&pod["spec"]["nodeName"]);
        if !current.is_empty() {
            return conflict(&format!("pod {} is already assigned to node {current:?}", call.name));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return conflict(&format!("pod {} has non-empty .spec.schedulingGates", call.name));
        }
        let mut object = (**pod).clone();
        if let Some(spec) = map_at(&mut object, &["spec"]) {
            spec.insert("nodeName".to_owned(), json!(node));
        }
        copy_annotations(&binding, &mut object);
        self.copy_topology(&node, &mut object);
        set_scheduled(&mut object, &call.time());
        if !dry_run {
            let key = call.key();
            self.store.put(&super::super::storage(&call.kind), &key, object, call.now);
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Answer::Object { code: 201, value: Arc::new(status), warnings: Vec::new() })
    }
}

const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl State {
    /// Pods are told where they run.
    fn copy_topology(&self, node: &str, pod: &mut Value) {
        let nodes = GroupKind { group: String::new(), kind: "Node".to_owned() };
        let Some(node) = self.store.get(&nodes, node) else { return };
        for label in TOPOLOGY {
            let Some(value) = node.value["metadata"]["labels"].get(label) else { continue };
            if let Some(labels) = map_at(pod, &["metadata", "labels"]) {
                labels.insert(label.to_owned(), value.clone());
            }
        }
    }
}

fn copy_annotations(binding: &Value, pod: &mut Value) {
    let Some(given) = binding["metadata"]["annotations"].as_object() else { return };
    if let Some(annotations) = map_at(pod, &["metadata", "annotations"]) {
        annotations.extend(given.iter().map(|(k, v)| (k.clone(), v.clone())));
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let Some(status) = map_at(pod, &["status"]) else { return };
    // The room that was kept for the pod is taken.
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(list) = conditions else { return };
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    match list.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}
