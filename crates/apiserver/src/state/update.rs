//! Changing objects, through themselves or their status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Call, State, storage};
use crate::fields::Managed;
use crate::kinds::{self, map_at};
use crate::resource::ResourceType;
use crate::status::{Cause, Failure};
use crate::store::Entry;

impl State {
    /// PUT.
    pub(super) fn replace(&mut self, call: &Call) -> Result<Answer, Failure> {
        call.dry_run()?;
        let decoded = self.decode(call)?;
        let mut object = decoded.object;
        check_identity(call, &object)?;
        let Ok(live) = self.find(call) else {
            if !creates_on_update(&call.kind) || !call.subresource.is_empty() {
                return Err(Failure::not_found(&call.kind, &call.name));
            }
            if let Some(metadata) = map_at(&mut object, &["metadata"]) {
                metadata.remove("resourceVersion");
            }
            let mut managed = Managed::default();
            if self.managed_fields {
                managed.update(&self.shape(&call.kind), &json!({"metadata": {}}), &object, &Self::writer(call));
            }
            let value = self.create(call, object, &managed)?;
            return Ok(Answer::Object { code: 201, value, warnings: decoded.warnings });
        };
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if version.is_empty() && !unconditional(&call.kind) {
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            return Err(Failure::invalid_kind(&call.kind.group, &call.kind.plural, &call.name, &[cause]));
        }
        let value = self.change(call, &live, object, None)?;
        Ok(Answer::Object { code: 200, value, warnings: decoded.warnings })
    }

    /// Takes a changed object that is decoded and has its defaults. Ownership of fields is worked out unless it is given.
    pub(super) fn change(
        &mut self,
        call: &Call,
        live: &Arc<Entry>,
        mut new: Value,
        managed: Option<Managed>,
    ) -> Result<Arc<Value>, Failure> {
        let kind = &call.kind;
        let old = &live.value;
        check_version(call, live, &new)?;
        keep_system_metadata(old, &mut new);
        let managed = match managed {
            Some(managed) => managed,
            None => self.changed_owners(call, old, &new),
        };
        kinds::prepare_update(kind, &call.subresource, old, &mut new);
        managed.store(&mut new);
        let mut causes = kinds::check_metadata_update(old, &new);
        if kind.crd {
            causes.extend(self.check_custom(call, &new, Some(old)));
        } else {
            causes.extend(kinds::check_update(kind, &call.subresource, old, &new));
            if call.subresource.is_empty() && old["spec"] != new["spec"] {
                causes.extend(kinds::check_create(kind, &new));
            }
        }
        if kind.group == "apiextensions.k8s.io" {
            causes.extend(super::custom::check_definition(&new));
            causes.extend(super::custom::check_definition_update(old, &new));
        }
        if !causes.is_empty() {
            return Err(Failure::invalid(kind, &call.name, &causes));
        }
        if is_finished(&new) {
            return self.finish_deletion(call, new);
        }
        if same(old, &new) {
            return Ok(live.requested(kind));
        }
        if call.dry_run()? {
            return Ok(super::as_requested(kind, &Arc::new(new)));
        }
        let key = call.key();
        let entry = self.store.put(&storage(kind), &key, new, call.now);
        self.after_write(call, &key);
        Ok(entry.requested(kind))
    }

    /// The last finalizer went from an object that was to be deleted.
    fn finish_deletion(&mut self, call: &Call, new: Value) -> Result<Arc<Value>, Failure> {
        // The answer shows the revision before the deletion, as the server's does.
        let shown = super::as_requested(&call.kind, &Arc::new(new));
        if !call.dry_run()? {
            self.remove(call);
        }
        Ok(shown)
    }

    fn changed_owners(&self, call: &Call, old: &Value, new: &Value) -> Managed {
        if !self.managed_fields {
            return Managed::default();
        }
        // A list with one empty entry asks to forget all owners.
        let given = new["metadata"]["managedFields"].as_array();
        let mut managed = match given.map(Vec::as_slice) {
            Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty) => return Managed::default(),
            Some(_) => Managed::of(new),
            None => Managed::of(old),
        };
        if managed == Managed::default() {
            managed = Managed::of(old);
        }
        // What has no owners gets none by updates, as on the server.
        if managed == Managed::default() {
            return managed;
        }
        managed.update(&self.shape(&call.kind), old, new, &Self::writer(call));
        managed
    }
}

/// Name and namespace in the body are the ones of the path.
pub(super) fn check_identity(call: &Call, object: &Value) -> Result<(), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        )));
    }
    if name != call.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && namespace != call.namespace {
        return Err(Failure::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            call.namespace
        )));
    }
    Ok(())
}

fn check_version(call: &Call, live: &Entry, new: &Value) -> Result<(), Failure> {
    let version = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() {
        let parsed: u64 = version
            .parse()
            .map_err(|_| Failure::internal(format!("strconv.ParseUint: parsing {version:?}: invalid syntax")))?;
        if parsed != 0 && parsed != live.revision {
            return Err(Failure::stale(&call.kind, &call.name));
        }
    }
    let (own, uid) = (new["metadata"]["uid"].as_str().unwrap_or_default(), &live.value["metadata"]["uid"]);
    let uid = uid.as_str().unwrap_or_default();
    if !own.is_empty() && own != uid {
        let key = call.key();
        let group =
            if call.kind.group.is_empty() || !call.kind.crd { String::new() } else { format!("{}/", call.kind.group) };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {own}, UID in object meta: {uid}",
            call.kind.plural
        );
        return Err(Failure::conflict(&call.kind, &call.name, &why));
    }
    Ok(())
}

/// What no writer can change.
fn keep_system_metadata(old: &Value, new: &mut Value) {
    let Some(metadata) = map_at(new, &["metadata"]) else { return };
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Equal but for the version they are written in.
fn same(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    old.len() == new.len() && old.iter().all(|(name, value)| name == "apiVersion" || new.get(name) == Some(value))
}

/// To be deleted, and nothing holds it any more.
pub(super) fn is_finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let set = |field: &str| metadata.get(field).is_some_and(|v| !v.is_null());
    let no_finalizers = metadata["finalizers"].as_array().is_none_or(Vec::is_empty);
    let no_grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0;
    // Namespaces have finalizers of their own.
    let no_content = object["kind"] != "Namespace"
        || object["apiVersion"] != "v1"
        || object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    set("deletionTimestamp") && no_finalizers && no_grace && no_content
}

/// Kinds that a PUT may create.
fn creates_on_update(kind: &ResourceType) -> bool {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", kind) => matches!(kind, "Endpoints" | "Event" | "LimitRange" | "Service"),
        ("coordination.k8s.io" | "rbac.authorization.k8s.io", _) => true,
        _ => false,
    }
}

/// Kinds that can be replaced without naming the version that is replaced.
fn unconditional(kind: &ResourceType) -> bool {
    if kind.crd {
        return false;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("coordination.k8s.io" | "policy" | "apiextensions.k8s.io" | "admissionregistration.k8s.io", _) => false,
        ("storage.k8s.io", kind) => matches!(kind, "StorageClass"),
        _ => true,
    }
}
