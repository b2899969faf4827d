//! What a schema of a custom resource must look like.

use karpenter_schema::Schema;
use serde_json::{Value, json};

use super::schemas;
use crate::status::Cause;

/// Problems of a schema, its fields named from `at` on.
pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !schema.is_object() {
        causes.push(Cause::invalid(at, schema, "a schema must be an object"));
        return causes;
    }
    walk(schema, at, "must not be empty at the root", &mut causes);
    if !causes.is_empty() {
        return causes;
    }
    if let Err(error) = schemas::compiled(schema) {
        let text = error.to_string();
        let inner = text.strip_prefix("openAPIV3Schema").unwrap_or(&text);
        let (place, reason) = inner.split_once(": ").unwrap_or(("", inner));
        causes.push(match rule_of(schema, reason) {
            Some((index, rule)) => {
                let value = json!({"Rule": rule});
                let mut cause = Cause::invalid(format!("{at}{place}[{index}].rule"), &value, &format!("compilation failed: {reason}"));
                // Go prints all fields of the rule.
                let all = format!(
                    "{{\"Rule\":{},\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}",
                    json!(rule)
                );
                cause.message = cause.message.replace(&value.to_string(), &all);
                cause
            }
            None => Cause::invalid(format!("{at}{place}"), &json!("schema"), reason),
        });
    }
    causes
}

/// Which rule a message of the compiler is about.
fn rule_of(schema: &Value, reason: &str) -> Option<(usize, String)> {
    let mut found = None;
    if let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) {
        found = rules.iter().enumerate().find_map(|(i, rule)| {
            let text = rule["rule"].as_str()?;
            reason.contains(&format!("{text:?}")).then(|| (i, text.to_owned()))
        });
    }
    let below = |key: &str| schema.get(key).and_then(Value::as_object);
    found
        .or_else(|| below("properties").and_then(|map| map.values().find_map(|child| rule_of(child, reason))))
        .or_else(|| schema.get("items").and_then(|child| rule_of(child, reason)))
        .or_else(|| schema.get("additionalProperties").and_then(|child| rule_of(child, reason)))
}

fn walk(schema: &Value, at: &str, missing: &str, causes: &mut Vec<Cause>) {
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    let typed = schema.get("type").and_then(Value::as_str).is_some_and(|t| !t.is_empty());
    if !typed && !flag("x-kubernetes-int-or-string") && !flag("x-kubernetes-preserve-unknown-fields") {
        causes.push(Cause::required(format!("{at}.type"), missing));
    }
    if let Some(default) = schema.get("default") {
        check_default(schema, default, at, causes);
    }
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(child, &format!("{at}.properties[{name}]"), "must not be empty for specified object fields", causes);
    }
    if let Some(child) = schema.get("items").filter(|child| child.is_object()) {
        walk(child, &format!("{at}.items"), "must not be empty for specified array items", causes);
    }
    if let Some(child) = schema.get("additionalProperties").filter(|child| child.is_object()) {
        walk(child, &format!("{at}.additionalProperties"), "must not be empty for specified object fields", causes);
    }
}

fn check_default(schema: &Value, default: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Ok(compiled) = Schema::compile_fragment(schema) else { return };
    let mut value = default.clone();
    compiled.default(&mut value);
    for violation in compiled.validate(&value, None) {
        let mut cause = Cause::violation(&violation);
        cause.field = format!("{at}.default");
        causes.push(cause);
    }
}
