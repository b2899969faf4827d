//! Creating objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Call, State, storage};
use crate::fields::{Managed, Writer};
use crate::kinds::{self, map_at};
use crate::resource::GroupKind;
use crate::status::{Cause, Failure};
use crate::store::key;
use crate::typed;

/// The longest name that leaves room for a generated suffix.
const MAX_GENERATED_PREFIX: usize = 58;

impl State {
    pub(super) fn create_from_body(&mut self, call: &Call) -> Result<Answer, Failure> {
        call.dry_run()?;
        if call.kind.is_review() {
            return self.answer_review(call);
        }
        if call.kind.kind == "Binding" {
            return self.bind_by_collection(call);
        }
        let decoded = self.decode(call)?;
        let mut object = decoded.object;
        let mut managed = Managed::default();
        if self.managed_fields {
            let shape = self.shape(&call.kind);
            let empty = if call.kind.crd { Arc::new(json!({"metadata": {}})) } else { typed::skeleton(&shape) };
            managed.update(&shape, &empty, &object, &Self::writer(call));
        }
        if let Some(metadata) = map_at(&mut object, &["metadata"]) {
            metadata.remove("managedFields");
        }
        let value = self.create(call, object, &managed)?;
        Ok(Answer::Object { code: 201, value, warnings: decoded.warnings })
    }

    pub(super) fn writer(call: &Call) -> Writer {
        Writer {
            manager: call.manager(),
            api_version: call.kind.api_version(),
            subresource: call.subresource.clone(),
            now: call.time(),
            reset: kinds::reset_fields(&call.kind, &call.subresource),
        }
    }

    /// Takes an object that is decoded and has its defaults.
    pub(super) fn create(&mut self, call: &Call, mut object: Value, managed: &Managed) -> Result<Arc<Value>, Failure> {
        let kind = &call.kind;
        let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let own_namespace = text(&object, "namespace");
        let Some(metadata) = map_at(&mut object, &["metadata"]) else {
            return Err(Failure::bad_request("metadata must be an object"));
        };
        if kind.namespaced {
            if !own_namespace.is_empty() && own_namespace != call.namespace {
                return Err(Failure::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            metadata.insert("namespace".to_owned(), json!(call.namespace));
        } else {
            metadata.remove("namespace");
        }
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() && !prefix.is_empty() {
            let prefix: String = prefix.chars().take(MAX_GENERATED_PREFIX).collect();
            name = format!("{prefix}{}", self.chance.suffix());
            metadata.insert("name".to_owned(), json!(name));
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(field);
        }
        let version_set = metadata.remove("resourceVersion").is_some_and(|v| v != "" && v != "0" && !v.is_null());
        metadata.insert("uid".to_owned(), json!(self.chance.uid()));
        metadata.insert("creationTimestamp".to_owned(), json!(call.time()));
        if kind.kind == "Namespace" && kind.group.is_empty() {
            kinds::set_defaults(kind, &mut object);
        }
        if kind.namespaced {
            self.check_namespace(call, &name)?;
        }
        if kind.crd && self.is_terminating(&kind.qualified()) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(kind, &name, why));
        }
        kinds::admit_create(&self.store, kind, &mut object)?;
        kinds::prepare_create(kind, &mut object);
        self.allocate_address(call, &mut object);
        let mut causes = kinds::check_metadata(kind, &object);
        if kind.crd {
            causes.extend(self.check_custom(call, &object, None));
        } else {
            causes.extend(kinds::check_create(kind, &object));
        }
        if kind.group == "apiextensions.k8s.io" {
            causes.extend(super::custom::check_definition(&object));
            super::custom::accept_names(&mut object, &self.registry, &call.time());
        }
        if !causes.is_empty() {
            return Err(Failure::invalid(kind, &name, &causes));
        }
        if version_set {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        managed.store(&mut object);
        let stored_key = key(&call.namespace, &name);
        if let Some(present) = self.store.get(&storage(kind), &stored_key) {
            let mut failure = Failure::already_exists(kind, &name);
            if present.value["metadata"].get("deletionTimestamp").is_some() {
                failure.message = format!("object is being deleted: {}", failure.message);
            }
            return Err(failure);
        }
        if call.dry_run()? {
            return Ok(super::as_requested(kind, &Arc::new(object)));
        }
        let entry = self.store.put(&storage(kind), &stored_key, object, call.now);
        self.after_write(call, &stored_key);
        let current = self.store.get(&storage(kind), &stored_key);
        // Collection may have removed it again: an owner that is gone takes it along.
        let shown = current.filter(|c| c.revision == entry.revision).unwrap_or(&entry);
        Ok(shown.requested(kind))
    }

    fn check_namespace(&self, call: &Call, name: &str) -> Result<(), Failure> {
        let namespaces = GroupKind { group: String::new(), kind: "Namespace".to_owned() };
        let Some(namespace) = self.store.get(&namespaces, &call.namespace) else {
            return Err(Failure::missing("", "namespaces", &call.namespace));
        };
        if namespace.value["metadata"].get("deletionTimestamp").is_none() {
            return Ok(());
        }
        let space = &call.namespace;
        let why = format!("unable to create new content in namespace {space} because it is being terminated");
        let mut failure = Failure::forbidden(&call.kind, name, &why);
        if let Some(details) = &mut failure.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {space} is being terminated"),
                "field": "metadata.namespace",
            }]);
        }
        Err(failure)
    }

    /// Services get an address of their own.
    fn allocate_address(&mut self, call: &Call, object: &mut Value) {
        if call.kind.kind != "Service" || !call.kind.group.is_empty() || object["spec"]["type"] == "ExternalName" {
            return;
        }
        let given = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        let address = if given.is_empty() {
            self.last_address += 1;
            let n = self.last_address;
            format!("10.0.{}.{}", (n >> 8) & 0xFF, n & 0xFF)
        } else {
            given
        };
        let Some(spec) = map_at(object, &["spec"]) else { return };
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), json!(address));
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
    }

    /// What the schema of a custom resource says.
    pub(super) fn check_custom(&self, call: &Call, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let version = self.custom.get(&call.kind.qualified()).and_then(|c| c.versions.get(&call.kind.version));
        let Some(schema) = version.and_then(|v| v.schema.as_ref()) else { return Vec::new() };
        let mut violations = schema.validate(object, old);
        if call.subresource == "status" {
            // Looked at by itself, so that its texts begin there.
            for violation in &mut violations {
                let path = violation.path.to_string();
                if let Some(inner) = path.strip_prefix("status.") {
                    violation.message =
                        violation.message.replace(&format!("{path} in body"), &format!("{inner} in body"));
                }
            }
        }
        violations.iter().map(Cause::violation).collect()
    }

    /// The verdict is in the object already.
    fn answer_review(&self, call: &Call) -> Result<Answer, Failure> {
        let mut decoded = self.decode(call)?;
        if call.kind.group == "authentication.k8s.io"
            && let Some(metadata) = map_at(&mut decoded.object, &["metadata"])
        {
            metadata.insert("creationTimestamp".to_owned(), json!(call.time()));
        }
        Ok(Answer::Object { code: 201, value: Arc::new(decoded.object), warnings: decoded.warnings })
    }
}
