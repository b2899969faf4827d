//! PATCH: three sorts that say what to change, and server-side apply, which says what is wanted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::body::PatchType;
use super::update::check_identity;
use super::{Answer, Call, State};
use crate::fields::{Force, LAST_APPLIED, Managed, Set, Writer};
use crate::kinds::map_at;
use crate::patch;
use crate::shape::{NodeKind, Shape};
use crate::status::{Cause, Failure};
use crate::store::Entry;
use crate::typed::{self, json_type};

impl State {
    pub(super) fn patch(&mut self, call: &Call) -> Result<Answer, Failure> {
        let Some(patch_type) = call.content.patch_type().filter(|t| !(call.kind.crd && *t == PatchType::Strategic))
        else {
            return Err(unsupported_media(call));
        };
        call.dry_run()?;
        call.field_validation()?;
        if patch_type == PatchType::Apply {
            return self.apply(call);
        }
        if call.query.get("force").is_some() {
            let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
            return Err(Failure::invalid_options("PatchOptions", cause));
        }
        let live = self.find(call)?;
        let decoded = self.patched(call, patch_type, &live)?;
        check_patched(call, &live, &decoded.object)?;
        let value = self.change(call, &live, decoded.object, None)?;
        Ok(Answer::Object { code: 200, value, warnings: decoded.warnings })
    }

    /// The object after the patch, decoded again.
    pub(super) fn patched(
        &self,
        call: &Call,
        patch_type: PatchType,
        live: &Arc<Entry>,
    ) -> Result<super::body::Decoded, Failure> {
        let patch = call.content.parse().map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
        let current = live.requested(&call.kind);
        let mut object = (*current).clone();
        if patch_type != PatchType::Json && !patch.is_object() {
            return Err(Failure::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&patch)
            )));
        }
        match patch_type {
            PatchType::Json => patch::json_patch(&mut object, &patch)?,
            PatchType::Merge => patch::merge_patch(&mut object, &patch),
            _ => {
                // Merge keys are those of the version that is patched.
                let kind = &call.kind;
                let shape =
                    crate::shape::of_kind(&kind.group, &kind.version, &kind.kind).unwrap_or_else(crate::shape::any);
                object = patch::strategic_patch(&shape, &current, &patch).map_err(Failure::internal)?;
            }
        }
        if !object.is_object() {
            return Err(Failure::bad_request("error decoding patch: the patched object is no object"));
        }
        let of = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        if of("kind") != call.kind.kind || of("apiVersion") != call.kind.api_version() {
            let why =
                format!("{} in version {:?} cannot be handled as a {}", of("kind"), of("apiVersion"), call.kind.kind);
            return Err(invalid_patch(&object.to_string(), &why));
        }
        let strategic = (patch_type == PatchType::Strategic).then(|| go_text(&patch));
        let text = object.to_string();
        self.conform(call, object, &|_, why| invalid_patch(strategic.as_ref().unwrap_or(&text), why))
    }

    fn apply(&mut self, call: &Call) -> Result<Answer, Failure> {
        if call.query.get("fieldManager").is_none() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Failure::invalid_options("PatchOptions", cause));
        }
        let config = call.content.parse().map_err(|e| Failure::bad_request(format!("error decoding YAML: {e}")))?;
        let live = self.find(call).ok();
        let (config, decoded, managed) = self.merged(call, config, live.as_ref())?;
        let Some(live) = live else {
            let mut decoded = decoded;
            if let Some(metadata) = map_at(&mut decoded.object, &["metadata"]) {
                metadata.remove("resourceVersion");
            }
            if config["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
                check_identity(call, &config)?;
            }
            check_identity(call, &decoded.object)?;
            let value = self.create(call, decoded.object, &managed)?;
            return Ok(Answer::Object { code: 201, value, warnings: decoded.warnings });
        };
        check_identity(call, &decoded.object)?;
        let mut object = decoded.object;
        keep_last_applied(call, &config, &mut object);
        let value = self.change(call, &live, object, Some(managed))?;
        Ok(Answer::Object { code: 200, value, warnings: decoded.warnings })
    }

    /// The object with the configuration applied, and who owns what then.
    fn merged(
        &self,
        call: &Call,
        mut config: Value,
        live: Option<&Arc<Entry>>,
    ) -> Result<(Value, super::body::Decoded, Managed), Failure> {
        let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, own) = version.split_once('/').unwrap_or(("", &version));
        if version != call.kind.api_version() || kind != call.kind.kind {
            return Err(Failure::bad_request(format!("invalid object type: {group}/{own}, Kind={kind}")));
        }
        if config["metadata"].get("managedFields").is_some_and(|m| !m.is_null()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let shape = self.request_shape(call);
        let mut unknown = Vec::new();
        undeclared(&shape, &config, "", &mut unknown);
        if !unknown.is_empty() {
            let at = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
            let list =
                if unknown.len() == 1 { unknown.remove(0) } else { format!("errors:\n  {}", unknown.join("\n  ")) };
            return Err(Failure::internal(format!(
                "failed to create typed patch object ({}/{}; {group}/{own}, Kind={kind}): {list}",
                at("namespace"),
                at("name")
            )));
        }
        drop_nulls(&mut config);
        let current = match live {
            Some(entry) => {
                let mut value = (*entry.requested(&call.kind)).clone();
                if let Some(metadata) = map_at(&mut value, &["metadata"]) {
                    metadata.remove("managedFields");
                }
                value
            }
            None if call.kind.crd => json!({"apiVersion": version, "kind": kind, "metadata": {}}),
            None => (*typed::skeleton(&shape)).clone(),
        };
        let mut managed = live.map(|entry| Managed::of(&entry.value)).unwrap_or_default();
        if live.is_some() && managed == Managed::default() {
            // Whoever wrote it before is not known by name.
            let empty = if call.kind.crd { Arc::new(json!({"metadata": {}})) } else { typed::skeleton(&shape) };
            let before =
                Writer { manager: "before-first-apply".to_owned(), subresource: String::new(), ..Self::writer(call) };
            managed.update(&shape, &empty, &current, &before);
        }
        let writer = Self::writer(call);
        let force = match (call.query.flag("force"), live) {
            (true, _) => Force::All,
            (false, Some(_)) if writer.manager == "kubectl" => {
                Force::Only(crate::fields::noted(&shape, &current, &version))
            }
            _ => Force::Only(Set::default()),
        };
        let merged = managed.apply(&shape, &current, &config, &writer, &force).map_err(|conflict| {
            Failure::new(409, "Conflict", conflict.message).with_details(json!({"causes": conflict.causes}))
        })?;
        let decoded = self.conform(call, merged, &|call, why| {
            Failure::bad_request(format!("{} cannot be handled: {why}", call.kind.kind))
        })?;
        Ok((config, decoded, managed))
    }

    /// The shape in the version of the request.
    fn request_shape(&self, call: &Call) -> Shape {
        let kind = &call.kind;
        if kind.crd {
            return self.shape(kind);
        }
        crate::shape::of_kind(&kind.group, &kind.version, &kind.kind).unwrap_or_else(crate::shape::any)
    }
}

/// A patch cannot make another object of it.
fn check_patched(call: &Call, live: &Entry, object: &Value) -> Result<(), Failure> {
    let (new, old) = (&object["metadata"], &live.value["metadata"]);
    if new["namespace"] != old["namespace"] {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    check_identity(call, object)?;
    if new.get("uid").is_some() && new["uid"] != old["uid"] {
        let cause = Cause::invalid("metadata.uid", &new["uid"], "field is immutable");
        return Err(Failure::invalid(&call.kind, &call.name, &[cause]));
    }
    Ok(())
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Fields that the schema does not have.
fn undeclared(shape: &Shape, value: &Value, path: &str, found: &mut Vec<String>) {
    let node = shape.node();
    match (node.kind, value) {
        (NodeKind::Struct, Value::Object(map)) => {
            for (name, child) in map {
                let at = format!("{path}.{name}");
                if node.fields.contains_key(name) || node.element.is_some() {
                    undeclared(&shape.child(name), child, &at, found);
                } else {
                    found.push(format!("{at}: field not declared in schema"));
                }
            }
        }
        (NodeKind::Map, Value::Object(map)) => {
            for (name, child) in map {
                undeclared(&shape.element(), child, &format!("{path}.{name}"), found);
            }
        }
        (NodeKind::List, Value::Array(items)) => {
            let twice = crate::fields::repeated(shape, items);
            found.extend(twice.map(|item| format!("{path}: duplicate entries for key {item}")));
            for item in items {
                undeclared(&shape.element(), item, &format!("{path}[]"), found);
            }
        }
        (NodeKind::String, value) if !value.is_string() && !value.is_null() => {
            found.push(format!("{path}: expected string, got &value.valueUnstructured{{Value:{value}}}"));
        }
        _ => {}
    }
}

/// What kubectl applied before the server did the applying is noted on the object; the server keeps the note in step, so that
/// kubectl can go back.
fn keep_last_applied(call: &Call, config: &Value, object: &mut Value) {
    if call.query.get("fieldManager") != Some("kubectl")
        || object["metadata"]["annotations"].get(LAST_APPLIED).is_none()
    {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    object["metadata"]["annotations"][LAST_APPLIED] = json!(format!("{config}\n"));
}

fn unsupported_media(call: &Call) -> Failure {
    if call.kind.crd && call.content.patch_type() == Some(PatchType::Strategic) {
        return Failure::new(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        );
    }
    Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(json!({}))
}

fn invalid_patch(patch: &str, why: &str) -> Failure {
    Failure::invalid_kind("", "", "", &[Cause::invalid("patch", &json!(patch), why)])
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Object(map) => {
            let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            format!("map[{}]", parts.join(" "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
