//! Owners and dependents: what goes when its owner goes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use super::update::is_finished;
use super::{Call, State, storage};
use crate::kinds::map_at;
use crate::request::Verb;
use crate::resource::{GroupKind, ResourceType};
use crate::store::Entry;

impl State {
    /// What a write sets off: definitions, and collection.
    pub(super) fn after_write(&mut self, call: &Call, key: &str) {
        let kind = storage(&call.kind);
        if call.kind.group == "apiextensions.k8s.io" {
            self.define(key);
        }
        let Some(entry) = self.store.get(&kind, key).cloned() else { return };
        if !self.collecting {
            return;
        }
        if deleting(&entry) && has_finalizer(&entry, ORPHAN) {
            self.orphan(&kind, key, call.now);
        } else if deleting(&entry) && has_finalizer(&entry, FOREGROUND) {
            self.delete_in_foreground(&kind, key, call.now);
        } else if self.lost_all_owners(&entry) {
            self.collect_one(&kind, key, call.now);
        }
    }

    /// Deletes all objects whose owners are gone, as the real collector would in time.
    pub(crate) fn collect_all(&mut self, now: Timestamp) {
        let mut lost = Vec::new();
        for (kind, key) in self.store.all_dependents() {
            if self.store.get(&kind, &key).is_some_and(|entry| self.lost_all_owners(entry)) {
                lost.push((kind, key));
            }
        }
        for (kind, key) in lost {
            self.collect_one(&kind, &key, now);
        }
    }

    /// After the owner with this UID is gone.
    pub(super) fn collect_after(&mut self, uid: &str, now: Timestamp) {
        for (kind, key) in self.store.dependents(uid) {
            let Some(entry) = self.store.get(&kind, &key).cloned() else { continue };
            if self.lost_all_owners(&entry) {
                self.collect_one(&kind, &key, now);
            } else {
                self.drop_owner(&kind, &key, uid, now);
            }
        }
    }

    fn resource_of(&self, kind: &GroupKind) -> Option<Arc<ResourceType>> {
        self.registry.iter().find(|t| t.group == kind.group && t.kind == kind.kind).cloned()
    }

    fn collect_one(&mut self, kind: &GroupKind, key: &str, now: Timestamp) {
        let (Some(resource), Some(live)) = (self.resource_of(kind), self.store.get(kind, key).cloned()) else { return };
        if deleting(&live) {
            return;
        }
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        let call = Call::internal(&resource, key, Verb::Delete, now);
        // There is nobody to tell; what cannot go stays.
        let _ = self.delete_object(&call, &live, &options);
    }

    /// Whether the object names owners and none of them is there.
    fn lost_all_owners(&self, entry: &Entry) -> bool {
        let owners = entry.value["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        !owners.is_empty() && !owners.iter().any(|owner| self.owner_exists(entry, owner))
    }

    fn owner_exists(&self, dependent: &Entry, owner: &Value) -> bool {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let Some(kind) = self.registry.by_kind(group, version, text("kind")) else {
            // A kind that nobody knows cannot be looked for: the real collector keeps the dependent.
            return true;
        };
        let namespace =
            if kind.namespaced { dependent.value["metadata"]["namespace"].as_str().unwrap_or_default() } else { "" };
        self.store.has_uid(&storage(kind), &crate::store::key(namespace, text("name")), text("uid"))
    }

    /// Takes a reference to an owner that is gone, while others stay.
    fn drop_owner(&mut self, kind: &GroupKind, key: &str, uid: &str, now: Timestamp) {
        let Some(entry) = self.store.get(kind, key) else { return };
        let mut object = (*entry.value).clone();
        if let Some(metadata) = map_at(&mut object, &["metadata"])
            && let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences")
        {
            owners.retain(|owner| owner["uid"] != uid);
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
        self.store.put(kind, key, object, now);
    }

    /// The dependents lose their owner and stay; then the owner goes.
    fn orphan(&mut self, kind: &GroupKind, key: &str, now: Timestamp) {
        let Some(uid) = self.uid_of(kind, key) else { return };
        for (dependent, at) in self.store.dependents(&uid) {
            self.drop_owner(&dependent, &at, &uid, now);
        }
        self.drop_finalizer(kind, key, ORPHAN, now);
    }

    /// The dependents go first; those that block their owner hold it.
    fn delete_in_foreground(&mut self, kind: &GroupKind, key: &str, now: Timestamp) {
        let Some(uid) = self.uid_of(kind, key) else { return };
        for (dependent, at) in self.store.dependents(&uid) {
            let (Some(resource), Some(live)) = (self.resource_of(&dependent), self.store.get(&dependent, &at).cloned())
            else {
                continue;
            };
            let alone = live.value["metadata"]["ownerReferences"].as_array().is_none_or(|owners| owners.len() <= 1);
            if deleting(&live) || !alone {
                continue;
            }
            let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
            let call = Call::internal(&resource, &at, Verb::Delete, now);
            let _ = self.delete_object(&call, &live, &options);
        }
        self.release_foreground(kind, key, &uid, now);
    }

    /// Once nothing blocks an owner any more, it goes.
    fn release_foreground(&mut self, kind: &GroupKind, key: &str, uid: &str, now: Timestamp) {
        let blocked = self.store.dependents(uid).iter().any(|(dependent, at)| {
            let entry = self.store.get(dependent, at);
            let owners = entry.and_then(|e| e.value["metadata"]["ownerReferences"].as_array());
            owners.into_iter().flatten().any(|o| o["uid"] == uid && o["blockOwnerDeletion"] == true)
        });
        if !blocked {
            self.drop_finalizer(kind, key, FOREGROUND, now);
        }
    }

    /// Owners that wait for a dependent that is gone now.
    pub(super) fn release_owners(&mut self, gone: &Value, now: Timestamp) {
        let namespace = gone["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let owners = gone["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        for owner in owners {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
            let Some(kind) = self.registry.by_kind(group, version, text("kind")) else { continue };
            let key = crate::store::key(if kind.namespaced { &namespace } else { "" }, text("name"));
            let kind = storage(kind);
            let waits = |e: &Arc<Entry>| {
                deleting(e) && has_finalizer(e, FOREGROUND) && e.value["metadata"]["uid"] == owner["uid"]
            };
            if self.store.get(&kind, &key).is_some_and(waits) {
                self.release_foreground(&kind, &key, text("uid"), now);
            }
        }
    }

    fn uid_of(&self, kind: &GroupKind, key: &str) -> Option<String> {
        Some(self.store.get(kind, key)?.value["metadata"]["uid"].as_str()?.to_owned())
    }

    fn drop_finalizer(&mut self, kind: &GroupKind, key: &str, finalizer: &str, now: Timestamp) {
        let Some(entry) = self.store.get(kind, key) else { return };
        let mut object = (*entry.value).clone();
        if let Some(metadata) = map_at(&mut object, &["metadata"])
            && let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers")
        {
            finalizers.retain(|f| f != finalizer);
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
        if !is_finished(&object) {
            self.store.put(kind, key, object, now);
        } else if let Some(resource) = self.resource_of(kind) {
            self.remove(&Call::internal(&resource, key, Verb::Delete, now));
        }
    }
}

fn deleting(entry: &Entry) -> bool {
    entry.value["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null())
}

fn has_finalizer(entry: &Entry, finalizer: &str) -> bool {
    entry.value["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|f| *f == json!(finalizer)))
}
