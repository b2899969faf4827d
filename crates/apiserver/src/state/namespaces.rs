//! Namespaces: those that are always there, and the end of the others with all that is in them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::delete::DeleteOptions;
use super::{Answer, Call, State, storage};
use crate::fields::Managed;
use crate::kinds::map_at;
use crate::request::Verb;
use crate::resource::GroupKind;
use crate::store::Entry;

fn namespaces() -> GroupKind {
    GroupKind { group: String::new(), kind: "Namespace".to_owned() }
}

impl State {
    /// What a cluster starts with.
    pub(super) fn make_namespaces(&mut self, now: Timestamp) {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.make("", "Namespace", "", json!({"metadata": {"name": name}}), now);
            self.make("", "ServiceAccount", name, json!({"metadata": {"name": "default"}}), now);
        }
        for (name, value, text) in [
            (
                "system-cluster-critical",
                2_000_000_000_i64,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        ] {
            let class = json!({"metadata": {"name": name}, "value": value, "description": text, "preemptionPolicy": "PreemptLowerPriority"});
            self.make("scheduling.k8s.io", "PriorityClass", "", class, now);
        }
    }

    fn make(&mut self, group: &str, kind: &str, namespace: &str, mut object: Value, now: Timestamp) {
        let Some(kind) = self.registry.by_kind(group, "v1", kind).cloned() else { return };
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        let mut call = Call::internal(&kind, "", Verb::Create, now);
        namespace.clone_into(&mut call.namespace);
        // The objects are ours and valid.
        let _ = self.create(&call, object, &Managed::default());
    }

    /// Marks a namespace, then lets go what is in it.
    pub(super) fn terminate_namespace(
        &mut self,
        call: &Call,
        live: &Arc<Entry>,
        mut object: Value,
        options: &DeleteOptions,
    ) -> Answer {
        if let Some(status) = map_at(&mut object, &["status"]) {
            status.insert("phase".to_owned(), json!("Terminating"));
        }
        if options.dry_run || object == *live.value {
            return Answer::ok(object);
        }
        let entry = self.store.put(&namespaces(), &call.name, object, call.now);
        if self.collecting {
            self.empty_namespace(&call.name, call.now);
        }
        Answer::Stored(entry)
    }

    fn empty_namespace(&mut self, name: &str, now: Timestamp) {
        for (kind, key) in self.store.keys_in(name) {
            let resource = self.registry.iter().find(|t| storage(t) == kind && t.group == kind.group).cloned();
            let (Some(resource), Some(live)) = (resource, self.store.get(&kind, &key).cloned()) else { continue };
            let call = Call::internal(&resource, &key, Verb::Delete, now);
            // What cannot go keeps the namespace.
            let _ = self.delete_object(&call, &live, &DeleteOptions::default());
        }
        self.finish_namespace(name, now);
    }

    /// Removes a namespace that is to go once it is empty.
    pub(super) fn finish_namespace(&mut self, name: &str, now: Timestamp) {
        let kind = namespaces();
        let Some(entry) = self.store.get(&kind, name) else { return };
        let metadata = &entry.value["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if !self.collecting
            || metadata.get("deletionTimestamp").is_none()
            || held
            || !self.store.keys_in(name).is_empty()
        {
            return;
        }
        self.store.remove(&kind, name, now);
    }
}
