//! The Rust types and the CRDs say the same: names, nesting, types and required members, in both directions.

use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::super::*;
use super::{awsnodetemplate::AWSNodeTemplateStatus, provisioner::ProvisionerStatus, schema_of};
use crate::crd;

/// Differences between the two, as lines that name the field.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    let options = ours.get("anyOf").or_else(|| ours.get("allOf")).and_then(Value::as_array);
    if let Some(option) = options.and_then(|options| options.first()) {
        return differences(path, option, theirs, found);
    }
    let (our_type, their_type) = (type_of(ours), type_of(theirs));
    if our_type != their_type {
        found.push(format!("{path}: type {our_type} in Rust, {their_type} in the CRD"));
    }
    let members = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (our_members, their_members) = (members(ours), members(theirs));
    for (name, member) in &our_members {
        match their_members.get(name) {
            Some(other) => differences(&format!("{path}.{name}"), member, other, found),
            None => found.push(format!("{path}.{name}: only in Rust")),
        }
    }
    for name in their_members.keys().filter(|name| !our_members.contains_key(*name)) {
        found.push(format!("{path}.{name}: only in the CRD"));
    }
    let (our_required, their_required) = (required(ours), required(theirs));
    // Reading is lenient here for the sake of objects written by older versions (API-31).
    let lenient = |name: &str| path.ends_with("conditions[]") && matches!(name, "reason" | "message");
    for name in our_required.iter().filter(|name| !their_required.contains(name)) {
        found.push(format!("{path}.{name}: required in Rust only"));
    }
    for name in their_required.iter().filter(|name| !our_required.contains(name) && !lenient(name)) {
        found.push(format!("{path}.{name}: required in the CRD only"));
    }
    if let (Some(ours), Some(theirs)) = (ours.get("items"), theirs.get("items")) {
        differences(&format!("{path}[]"), ours, theirs, found);
    }
    if let (Some(ours @ Value::Object(_)), Some(theirs @ Value::Object(_))) =
        (ours.get("additionalProperties"), theirs.get("additionalProperties"))
    {
        differences(&format!("{path}{{}}"), ours, theirs, found);
    }
}

fn type_of(schema: &Value) -> String {
    if schema.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        return "int-or-string".to_owned();
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("string").to_owned();
    let format = schema.get("format").and_then(Value::as_str).filter(|_| kind != "object");
    match (kind.as_str(), format) {
        // Go's plain `int` carries no format and is 64 bits wide where the controller runs.
        ("integer", Some("int64") | None) => "int64".to_owned(),
        ("integer", Some(format)) => format.to_owned(),
        ("object", _) if schema.get("properties").is_some() => "record".to_owned(),
        ("object", _) if matches!(schema.get("additionalProperties"), Some(Value::Object(_))) => "map".to_owned(),
        ("string", Some("date-time")) => "time".to_owned(),
        _ => kind,
    }
}

fn required(schema: &Value) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn check<K: CustomResourceExt, Spec: JsonSchema, Status: JsonSchema>() {
    let ours = serde_json::to_value(K::crd()).unwrap();
    let version = &ours["spec"]["versions"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (group, name, kind) =
        (text(&ours["spec"]["group"]), text(&version["name"]), text(&ours["spec"]["names"]["kind"]));
    let crd = crd::find(&group, &name, &kind).unwrap_or_else(|| panic!("no CRD for {group}/{name} {kind}"));
    let theirs = &crd.manifest;
    let their_version = &theirs["spec"]["versions"][0];
    for pointer in ["/spec/scope", "/spec/names/plural", "/spec/names/singular", "/spec/names/categories"] {
        assert_eq!(ours.pointer(pointer), theirs.pointer(pointer), "{kind} {pointer}");
    }
    let listed = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let short = "/spec/names/shortNames";
    assert_eq!(listed(ours.pointer(short)), listed(theirs.pointer(short)), "{kind} {short}");
    assert_eq!(version["subresources"], their_version["subresources"], "{kind} subresources");

    let schema = &their_version["schema"]["openAPIV3Schema"]["properties"];
    let mut found = Vec::new();
    differences(&format!("{kind}.spec"), &schema_of::<Spec>(), &schema["spec"], &mut found);
    differences(&format!("{kind}.status"), &schema_of::<Status>(), &schema["status"], &mut found);
    assert_eq!(found, [""; 0], "{kind}");
}

/// API-11, API-14, API-16, API-29, API-30, API-33, API-35, API-55
#[test]
fn nodepool() {
    check::<NodePool, NodePoolSpec, NodePoolStatus>();
}

/// API-31, API-69, API-76
#[test]
fn nodeclaim() {
    check::<NodeClaim, NodeClaimSpec, NodeClaimStatus>();
}

/// API-84: no `minValues` on overlays.
#[test]
fn nodeoverlay() {
    check::<NodeOverlay, NodeOverlaySpec, NodeOverlayStatus>();
}

/// API-99, API-105
#[test]
fn capacitybuffer() {
    check::<CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus>();
}

/// AWS-1, AWS-6, AWS-14, AWS-285
#[test]
fn ec2nodeclass() {
    check::<EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus>();
}

/// API-112, API-113
#[test]
fn kwoknodeclass() {
    check::<KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus>();
}

/// API-310, API-312, API-329, AWS-256
#[test]
fn provisioner() {
    check::<Provisioner, ProvisionerSpec, ProvisionerStatus>();
}

/// API-310, API-334
#[test]
fn awsnodetemplate() {
    check::<AWSNodeTemplate, AWSNodeTemplateSpec, AWSNodeTemplateStatus>();
}

/// The comparison itself finds each kind of difference.
#[test]
fn differences_are_noticed() {
    let ours = json!({ "type": "object", "required": ["a"], "properties": {
        "a": { "type": "string" }, "b": { "type": "integer", "format": "int32" }, "c": { "type": "array", "items": { "type": "string" } } } });
    let theirs = json!({ "type": "object", "required": ["d"], "properties": {
        "a": { "type": "string" }, "b": { "type": "integer", "format": "int64" }, "c": { "type": "array", "items": { "type": "boolean" } },
        "d": { "type": "string" } } });
    let mut found = Vec::new();
    differences("x", &ours, &theirs, &mut found);
    assert_eq!(
        found,
        [
            "x.b: type int32 in Rust, int64 in the CRD",
            "x.c[]: type string in Rust, boolean in the CRD",
            "x.d: only in the CRD",
            "x.a: required in Rust only",
            "x.d: required in the CRD only",
        ]
    );
}
