//! Arbitrary JSON that fits a derived schema.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A value of the schema: optional members come and go, lists and maps may be empty, text is anything.
pub(super) fn of(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
        let some = options.iter().find(|option| option.get("type") != Some(&json!("null")));
        return of(some.expect("an option besides null"));
    }
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        return of(only);
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let options: Vec<Value> = options.iter().filter(|option| !option.is_null()).cloned().collect();
        return proptest::sample::select(options).boxed();
    }
    if let Some(options) = schema.get("oneOf").and_then(Value::as_array) {
        return proptest::strategy::Union::new(options.iter().map(of)).boxed();
    }
    if let Some(only) = schema.get("const") {
        return Just(only.clone()).boxed();
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return prop_oneof![any::<i64>().prop_map(Value::from), text()].boxed();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("integer") if schema["format"] == "int32" => any::<i32>().prop_map(Value::from).boxed(),
        Some("integer") => any::<i64>().prop_map(Value::from).boxed(),
        Some("string") if schema["format"] == "date-time" => {
            // Whole seconds: the precision in which Kubernetes writes times.
            (0..4_000_000_000_i64)
                .prop_map(|s| json!(jiff::Timestamp::from_second(s).expect("in range").to_string()))
                .boxed()
        }
        Some("string") => text().boxed(),
        Some("array") => vec(of(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        Some("object") => object(schema),
        other => panic!("schema of type {other:?}: {schema}"),
    }
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![any::<String>(), "[a-z0-9./@%-]{0,12}"].prop_map(Value::from)
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let member = match schema.get("additionalProperties") {
            Some(member @ Value::Object(_)) => of(member),
            _ => prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), text()].boxed(),
        };
        return btree_map("[a-z./]{0,6}", member, 0..3)
            .prop_map(|m| m.into_iter().collect::<Map<_, _>>().into())
            .boxed();
    };
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let members: Vec<_> = properties
        .iter()
        .map(|(name, member)| {
            // Members with a default (reason, message) are written even when they were absent.
            let always = required.contains(&json!(name)) || member.get("default").is_some_and(|d| !d.is_null());
            let name = name.clone();
            (of(member), any::<bool>())
                .prop_map(move |(value, present)| (always || present).then(|| (name.clone(), value)))
        })
        .collect();
    members.prop_map(|members| members.into_iter().flatten().collect::<Map<_, _>>().into()).boxed()
}
