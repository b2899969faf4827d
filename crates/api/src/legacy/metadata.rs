//! Metadata that survives, and annotations that changed their name (API-318, API-326, API-342).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::findings::Report;
use super::reading::known;
use crate::names::annotations::DO_NOT_DISRUPT;
use crate::names::legacy::{DO_NOT_CONSOLIDATE, DO_NOT_EVICT, DROPPED_ANNOTATIONS};

/// Name, labels, annotations and finalizers; everything else belongs to the old object.
pub(super) fn kept(object: &Value, report: &mut Report<'_>) -> Option<ObjectMeta> {
    let given: ObjectMeta = match &object["metadata"] {
        Value::Null => ObjectMeta::default(),
        metadata => known(metadata, "metadata", report)?,
    };
    if given.name.as_ref().is_none_or(String::is_empty) {
        report.error("metadata.name", "is missing");
    }
    let annotations = given.annotations.map(|all| renamed_annotations(all, "metadata.annotations", report));
    Some(ObjectMeta {
        name: given.name,
        labels: given.labels,
        annotations: annotations.filter(|annotations| !annotations.is_empty()),
        finalizers: given.finalizers,
        ..ObjectMeta::default()
    })
}

/// Annotations in the names of v1.
pub(super) fn renamed_annotations(
    mut annotations: BTreeMap<String, String>,
    field: &str,
    report: &mut Report<'_>,
) -> BTreeMap<String, String> {
    for old in [DO_NOT_EVICT, DO_NOT_CONSOLIDATE] {
        let Some(value) = annotations.remove(old) else { continue };
        let field = format!("{field}[{old}]");
        if value == "true" {
            annotations.entry(DO_NOT_DISRUPT.to_owned()).or_insert(value);
            report.warn(field, format!("is called {DO_NOT_DISRUPT} in v1; renamed"));
        } else {
            report.warn(field, format!("protects only with the value true, not {value:?}; left out"));
        }
    }
    for old in DROPPED_ANNOTATIONS {
        if annotations.remove(old).is_some() {
            report.warn(format!("{field}[{old}]"), "has no meaning in v1; left out");
        }
    }
    annotations
}
