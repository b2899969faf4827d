//! Custom resources: what their definitions add to the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_schema::Schema;
use serde_json::{Value, json};

use super::delete::DeleteOptions;
use super::{Answer, Call, State, schemas};
use crate::kinds::map_at;
use crate::request::Verb;
use crate::resource::{GroupKind, PrinterColumn, Registry, ResourceType, Subresource};
use crate::shape::{self, Shape};
use crate::status::Cause;
use crate::store::{Entry, Table};

/// A definition, compiled.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) versions: BTreeMap<String, Version>,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) shape: Shape,
    /// Fields that objects can be selected by.
    pub(crate) selectable: Vec<String>,
    pub(crate) scale: Option<Scale>,
}

/// Where the parts of `Scale` are, as paths of dots.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

fn definitions() -> GroupKind {
    GroupKind { group: "apiextensions.k8s.io".to_owned(), kind: "CustomResourceDefinition".to_owned() }
}

/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

impl State {
    /// Serves what a stored definition says.
    pub(super) fn define(&mut self, name: &str) {
        self.definitions += 1;
        let Some(entry) = self.store.get(&definitions(), name).cloned() else { return };
        let object = &entry.value;
        if object["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
            return;
        }
        let versions = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut compiled = BTreeMap::new();
        let mut types = Vec::new();
        if !accepted(object) {
            return;
        }
        for version in versions.iter().filter(|v| v["served"] == true) {
            let Some(label) = version["name"].as_str() else { continue };
            compiled.insert(label.to_owned(), compile(version));
            types.push(resource_type(&object["spec"], version, label));
        }
        if let Some(first) = types.first() {
            self.store.begin(&first.group_kind());
        }
        types.sort_by_key(|t| std::cmp::Reverse(priority(&t.version)));
        self.registry.set_custom(name, types);
        self.custom.insert(name.to_owned(), Custom { versions: compiled });
    }

    /// Takes away what a definition added, with all objects.
    pub(super) fn undefine(&mut self, name: &str, now: Timestamp) {
        self.definitions += 1;
        let kinds: Vec<GroupKind> = self.registry.custom_types(name).iter().map(|t| t.group_kind()).collect();
        self.registry.set_custom(name, Vec::new());
        self.custom.remove(name);
        for kind in kinds {
            let keys: Vec<String> = self.store.table(&kind).map(Table::keys).unwrap_or_default();
            for key in keys {
                self.store.remove(&kind, &key, now);
            }
            self.store.clear(&kind);
        }
    }

    pub(super) fn is_terminating(&self, name: &str) -> bool {
        let entry = self.store.get(&definitions(), name);
        entry.is_some_and(|entry| entry.value["metadata"].get("deletionTimestamp").is_some())
    }

    /// Marks a definition, then lets go its objects; it goes with the last of them.
    pub(super) fn terminate_definition(
        &mut self,
        call: &Call,
        live: &Arc<Entry>,
        mut object: Value,
        options: &DeleteOptions,
    ) -> Answer {
        if let Some(metadata) = map_at(&mut object, &["metadata"])
            && let Value::Array(finalizers) = metadata.entry("finalizers").or_insert_with(|| json!([]))
            && !finalizers.iter().any(|f| f == CLEANUP)
        {
            finalizers.push(json!(CLEANUP));
        }
        if options.dry_run || object == *live.value {
            return Answer::ok(object);
        }
        let entry = self.store.put(&definitions(), &call.name, object, call.now);
        let kinds = self.registry.custom_types(&call.name).to_vec();
        if let Some(kind) = kinds.first() {
            let keys = self.store.table(&kind.group_kind()).map(Table::keys).unwrap_or_default();
            for key in keys {
                let Some(live) = self.store.get(&kind.group_kind(), &key).cloned() else { continue };
                let delete = Call::internal(kind, &key, Verb::Delete, call.now);
                // What has finalizers holds the definition.
                let _ = self.delete_object(&delete, &live, &DeleteOptions::default());
            }
        }
        self.finish_definition(&call.name, call.now);
        Answer::Stored(entry)
    }

    /// Removes a definition that is to go once it has no objects.
    pub(super) fn finish_definition(&mut self, name: &str, now: Timestamp) {
        if !self.is_terminating(name) {
            return;
        }
        let kinds = self.registry.custom_types(name).to_vec();
        let left =
            kinds.first().and_then(|kind| self.store.table(&kind.group_kind())).map_or(0, |t| t.values().count());
        let held = self.store.get(&definitions(), name).is_some_and(|entry| {
            let finalizers = entry.value["metadata"]["finalizers"].as_array();
            finalizers.is_some_and(|list| list.iter().any(|f| f != CLEANUP))
        });
        if left == 0 && !held {
            self.undefine(name, now);
            self.store.remove(&definitions(), name, now);
        }
    }

    pub(super) fn scale_paths(&self, call: &Call) -> Option<Scale> {
        self.custom.get(&call.kind.qualified())?.versions.get(&call.kind.version)?.scale.clone()
    }
}

fn compile(version: &Value) -> Version {
    let schema = &version["schema"]["openAPIV3Schema"];
    let text = |value: &Value| value.as_str().map(|path| path.trim_start_matches('.').to_owned());
    let scale = &version["subresources"]["scale"];
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Version {
        schema: schemas::compiled(schema).ok(),
        shape: shape::of_schema(schema),
        selectable: selectable.filter_map(|f| text(&f["jsonPath"])).collect(),
        scale: text(&scale["specReplicasPath"]).zip(text(&scale["statusReplicasPath"])).map(|(spec, status)| Scale {
            spec,
            status,
            selector: text(&scale["labelSelectorPath"]),
        }),
    }
}

fn resource_type(spec: &Value, version: &Value, label: &str) -> ResourceType {
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let kind = text(&names["kind"]);
    let verbs = |verbs: &[&str]| verbs.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
    let mut subresources = Vec::new();
    let changing = ["get", "patch", "update"];
    if version["subresources"].get("status").is_some() {
        subresources.push(Subresource {
            name: "status".to_owned(),
            group_version: None,
            kind: kind.clone(),
            verbs: verbs(&changing),
        });
    }
    if version["subresources"].get("scale").is_some() {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
            kind: "Scale".to_owned(),
            verbs: verbs(&changing),
        });
    }
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(|column| PrinterColumn {
        name: text(&column["name"]),
        column_type: text(&column["type"]),
        format: text(&column["format"]),
        description: text(&column["description"]),
        priority: column["priority"].as_i64().unwrap_or(0),
        json_path: text(&column["jsonPath"]),
    });
    ResourceType {
        group: text(&spec["group"]),
        version: label.to_owned(),
        list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
        kind,
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: verbs(&VERBS),
        subresources,
        crd: true,
        printer_columns: columns.collect(),
    }
}

/// Versions in the order of preference: `v2`, `v1`, `v1beta1`, `v1alpha1`, others.
fn priority(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        Some(match &rest[end..] {
            "" => (3, major, 0),
            stage => {
                let rank = if stage.starts_with("beta") { 2 } else { 1 };
                let number = stage.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
                (rank, major, number)
            }
        })
    };
    parse().unwrap_or((0, 0, 0))
}

/// What is wrong with a definition.
pub(super) fn check_definition(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    let name = text(&object["metadata"]["name"]);
    let wanted = format!("{plural}.{group}");
    if name != wanted {
        causes.push(Cause::invalid("metadata.name", &json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    }
    for field in ["plural", "kind"] {
        if text(&spec["names"][field]).is_empty() {
            causes.push(Cause::required(format!("spec.names.{field}"), ""));
        }
    }
    if !["Cluster", "Namespaced"].contains(&text(&spec["scope"]).as_str()) {
        causes.push(if text(&spec["scope"]).is_empty() {
            Cause::required("spec.scope", "")
        } else {
            Cause::unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"])
        });
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.iter().filter(|v| v["storage"] == true).count() != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            &spec["versions"],
            "must have exactly one version marked as storage version",
        ));
    }
    for (i, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            causes.push(Cause::required(format!("spec.versions[{i}].schema.openAPIV3Schema"), ""));
            continue;
        }
        // The server speaks of one schema for all versions as if it were the old field.
        let at = if versions.len() == 1 {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{i}].schema.openAPIV3Schema")
        };
        causes.extend(super::structural::check(schema, &at));
    }
    causes
}

/// What of an established definition can never change.
pub(super) fn check_definition_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for path in ["spec.group", "spec.scope", "spec.names.kind", "spec.names.plural"] {
        let at = |object: &Value| path.split('.').fold(object.clone(), |value, name| value[name].clone());
        if accepted(old) && at(old) != at(new) {
            causes.push(Cause::invalid(path, &at(new), "field is immutable"));
        }
    }
    causes
}

/// Whether the definition is served.
fn accepted(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// The first of a definition's names that another one has, as the server would give the reason.
fn conflict(object: &Value, registry: &Registry) -> Option<(&'static str, String)> {
    let (spec, names) = (&object["spec"], &object["spec"]["names"]);
    let own = object["metadata"]["name"].as_str().unwrap_or_default();
    let group = spec["group"].as_str().unwrap_or_default();
    let others: Vec<_> = registry.iter().filter(|t| t.crd && t.group == group && t.qualified() != own).collect();
    let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
    let mut found = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let name = text(field);
        let taken = others.iter().any(|t| match field {
            "kind" => t.kind == name,
            "listKind" => t.list_kind == name,
            _ => t.plural == name || t.singular == name || t.short_names.contains(&name),
        });
        // The last one is told.
        if taken {
            found = Some((reason, format!("{name:?} is already in use")));
        }
    }
    found
}

/// Served at once: what the server finds out about a definition a moment after it is created.
pub(super) fn accept_names(object: &mut Value, registry: &Registry, now: &str) {
    let conflict = conflict(object, registry);
    let names = object["spec"]["names"].clone();
    let versions: Vec<Value> = object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .map(|v| v["name"].clone())
        .collect();
    let condition = |kind: &str, ok: bool, reason: &str, message: &str| {
        let status = if ok { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message, "observedGeneration": 1})
    };
    let conditions = match conflict {
        None => [
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        Some((reason, message)) => [
            condition("NamesAccepted", false, reason, &message),
            condition("Established", false, "NotAccepted", "not all names are accepted"),
        ],
    };
    let Some(map) = map_at(object, &[]) else { return };
    let status = json!({"conditions": conditions, "acceptedNames": names, "storedVersions": versions});
    map.insert("status".to_owned(), status);
}
