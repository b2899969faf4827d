//! Deleting objects: at once, with a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::update::is_finished;
use super::{Answer, Call, State, storage};
use crate::clock::seconds;
use crate::kinds::map_at;
use crate::status::{Cause, Failure};
use crate::store::{Entry, split_key};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// How a deletion is wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    pub(crate) fn parse(call: &Call) -> Result<Self, Failure> {
        let mut body = json!({});
        if !call.content.bytes.is_empty() {
            body = call
                .content
                .parse()
                .map_err(|e| Failure::bad_request(format!("couldn't get version/kind; json parse error: {e}")))?;
        }
        Self::read(call, &body)
    }

    /// From `DeleteOptions` in a body and the parameters of the request.
    pub(crate) fn read(call: &Call, body: &Value) -> Result<Self, Failure> {
        let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        let kind = text(&body["kind"]).unwrap_or_else(|| "DeleteOptions".to_owned());
        if !matches!(kind.as_str(), "DeleteOptions" | "Eviction") {
            let version = text(&body["apiVersion"]).unwrap_or_else(|| "meta.k8s.io/v1".to_owned());
            return Err(Failure::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let grace = match call.query.get("gracePeriodSeconds") {
            Some(text) => Some(
                text.parse()
                    .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
            ),
            None => body["gracePeriodSeconds"].as_i64(),
        };
        let propagation = call.query.get("propagationPolicy").map(str::to_owned).or(text(&body["propagationPolicy"]));
        let orphan = match call.query.get("orphanDependents") {
            Some(_) => Some(call.query.flag("orphanDependents")),
            None => body["orphanDependents"].as_bool(),
        };
        let invalid = |cause| Err(Failure::invalid_options("DeleteOptions", cause));
        if let (Some(policy), Some(_)) = (&propagation, orphan) {
            return invalid(Cause::invalid(
                "propagationPolicy",
                &json!(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match propagation.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                return invalid(Cause::unsupported("propagationPolicy", &json!(other), &supported));
            }
            None => orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
        };
        let dry = body["dryRun"].as_array().is_some_and(|list| !list.is_empty());
        Ok(Self {
            grace,
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            propagation,
            dry_run: call.dry_run()? || dry,
        })
    }
}

impl State {
    pub(super) fn delete(&mut self, call: &Call) -> Result<Answer, Failure> {
        let options = DeleteOptions::parse(call)?;
        if call.kind.kind == "Namespace"
            && call.kind.group.is_empty()
            && matches!(call.name.as_str(), "default" | "kube-system" | "kube-public")
        {
            return Err(Failure::forbidden(&call.kind, &call.name, "this namespace may not be deleted"));
        }
        let live = self.find(call)?;
        self.delete_object(call, &live, &options)
    }

    /// As [`State::delete`], for an object that was found.
    pub(super) fn delete_object(
        &mut self,
        call: &Call,
        live: &Arc<Entry>,
        options: &DeleteOptions,
    ) -> Result<Answer, Failure> {
        check_preconditions(call, live, options)?;
        let mut object = (*live.value).clone();
        let was_deleting = object["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null());
        let grace = graceful(call, &object, options);
        mark_propagation(&mut object, options);
        if was_deleting {
            shorten(&mut object, grace, call.now);
        } else {
            mark(&mut object, grace, call.now);
        }
        if call.kind.kind == "Namespace" && call.kind.group.is_empty() {
            return Ok(self.terminate_namespace(call, live, object, options));
        }
        if call.kind.group == "apiextensions.k8s.io" {
            return Ok(self.terminate_definition(call, live, object, options));
        }
        if is_finished(&object) {
            let graceful = call.kind.kind == "Pod" && call.kind.group.is_empty();
            if !options.dry_run {
                if graceful {
                    // A pod is seen to end before it is gone, also when it takes no time.
                    let entry = self.store.put(&storage(&call.kind), &call.key(), object, call.now);
                    object = (*entry.value).clone();
                }
                self.remove(call);
            }
            return Ok(deleted_answer(call, if graceful { &object } else { &live.value }));
        }
        if object == *live.value || options.dry_run {
            return Ok(Answer::ok((*super::as_requested(&call.kind, &Arc::new(object))).clone()));
        }
        let key = call.key();
        let entry = self.store.put(&storage(&call.kind), &key, object, call.now);
        self.after_write(call, &key);
        Ok(Answer::Stored(entry))
    }

    /// Takes an object away and lets go what depends on it.
    pub(super) fn remove(&mut self, call: &Call) {
        let Some(gone) = self.store.remove(&storage(&call.kind), &call.key(), call.now) else { return };
        let uid = gone.value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if call.kind.group == "apiextensions.k8s.io" {
            self.undefine(&call.name, call.now);
        }
        if self.collecting {
            self.collect_after(&uid, call.now);
            self.release_owners(&gone.value, call.now);
        }
        self.finish_namespace(&call.namespace, call.now);
        if call.kind.crd {
            self.finish_definition(&call.kind.qualified(), call.now);
        }
    }

    pub(super) fn delete_collection(&mut self, call: &Call) -> Result<Answer, Failure> {
        let options = DeleteOptions::parse(call)?;
        let listed = self.list(call)?;
        let keys: Vec<String> = listed.items.iter().map(|entry| entry_key(entry)).collect();
        for key in keys {
            let (namespace, name) = split_key(&key);
            let one = Call {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..Call::internal(&call.kind, &key, call.verb, call.now)
            };
            if let Some(live) = self.store.get(&storage(&call.kind), &key).cloned() {
                self.delete_object(&one, &live, &options)?;
            }
        }
        Ok(Answer::List(listed))
    }
}

pub(super) fn entry_key(entry: &Entry) -> String {
    let metadata = &entry.value["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    crate::store::key(text("namespace"), text("name"))
}

/// Pods are shown as they were, other kinds only as a success.
fn deleted_answer(call: &Call, object: &Value) -> Answer {
    let shows_object = matches!(
        (call.kind.group.as_str(), call.kind.kind.as_str()),
        (
            "",
            "Pod"
                | "Service"
                | "PodTemplate"
                | "ServiceAccount"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "ReplicationController"
                | "ResourceQuota"
        )
    ) || matches!(call.kind.group.as_str(), "storage.k8s.io");
    if shows_object {
        return Answer::ok((*super::as_requested(&call.kind, &Arc::new(object.clone()))).clone());
    }
    let mut details = json!({"name": call.name, "kind": call.kind.plural, "uid": object["metadata"]["uid"]});
    if !call.kind.group.is_empty() {
        details["group"] = json!(call.kind.group);
    }
    Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}))
}

pub(super) fn check_preconditions(call: &Call, live: &Entry, options: &DeleteOptions) -> Result<(), Failure> {
    let uid = live.value["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Failure::precondition(&call.kind, &call.name, &why));
    }
    let version = live.revision.to_string();
    if let Some(wanted) = options.version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Failure::precondition(&call.kind, &call.name, &why));
    }
    Ok(())
}

/// Seconds that the object has to end. Only pods take any, and only those that run or will run somewhere.
fn graceful(call: &Call, object: &Value, options: &DeleteOptions) -> i64 {
    if call.kind.kind != "Pod" || !call.kind.group.is_empty() {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    let mut grace = options.grace.or(own).unwrap_or(30);
    if grace < 0 {
        grace = 1;
    }
    let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
    let over = matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if node.is_empty() || over { 0 } else { grace }
}

fn mark_propagation(object: &mut Value, options: &DeleteOptions) {
    let add = match options.propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Background) => None,
        None => return,
    };
    let Some(metadata) = map_at(object, &["metadata"]) else { return };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = finalizers {
        list.retain(|f| (f != FOREGROUND && f != ORPHAN) || add.is_some_and(|add| f == add));
        if let Some(add) = add
            && !list.iter().any(|f| f == add)
        {
            list.push(json!(add));
        }
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
}

fn deadline(now: Timestamp, grace: i64) -> String {
    seconds(now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now))
}

fn mark(object: &mut Value, grace: i64, now: Timestamp) {
    let namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    let Some(metadata) = map_at(object, &["metadata"]) else { return };
    metadata.insert("deletionTimestamp".to_owned(), json!(deadline(now, grace)));
    if !namespace {
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
}

/// A second deletion can only make it quicker.
fn shorten(object: &mut Value, grace: i64, now: Timestamp) {
    let current = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if grace >= current {
        return;
    }
    let began = object["metadata"]["deletionTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    let began = began.and_then(|t| t.checked_sub(SignedDuration::from_secs(current)).ok()).unwrap_or(now);
    let Some(metadata) = map_at(object, &["metadata"]) else { return };
    metadata.insert("deletionTimestamp".to_owned(), json!(deadline(began, grace)));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
}
