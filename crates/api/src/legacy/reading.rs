//! Reading parts of an object as types, with the place of what is wrong.

use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::findings::Report;

/// Reads a part of an object and warns about members that the type does not know.
pub(super) fn typed<T: Serialize + DeserializeOwned>(value: &Value, field: &str, report: &mut Report<'_>) -> Option<T> {
    let typed: T = match read(value, field) {
        Ok(typed) => typed,
        Err((field, message)) => {
            report.error(field, message);
            return None;
        }
    };
    match serde_json::to_value(&typed) {
        Ok(again) => unknown_members(field, value, &again, report),
        Err(error) => report.error(field, format!("cannot be written: {error}")),
    }
    Some(typed)
}

/// The value as its type, or the field that is wrong and why.
pub(super) fn read<T: DeserializeOwned>(value: &Value, field: &str) -> Result<T, (String, String)> {
    // Errors know lines and not fields, so write one member per line and remember which is where.
    let mut text = Lines { text: String::new(), fields: Vec::new() };
    text.add(value, field, "", "");
    serde_json::from_str(&text.text).map_err(|error| {
        let field = text.fields.get(error.line().saturating_sub(1)).map_or(field, String::as_str);
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        (field.to_owned(), message.to_owned())
    })
}

/// JSON with one member or item per line, and the field of each line.
struct Lines {
    text: String,
    fields: Vec<String>,
}

impl Lines {
    fn add(&mut self, value: &Value, field: &str, before: &str, after: &str) {
        match value {
            Value::Object(members) => {
                self.line(field, &format!("{before}{{"));
                for (at, (name, member)) in members.iter().enumerate() {
                    let comma = if at + 1 < members.len() { "," } else { "" };
                    let child = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                    self.add(member, &child, &format!("{}:", Value::from(name.as_str())), comma);
                }
                self.line(field, &format!("}}{after}"));
            }
            Value::Array(items) => {
                self.line(field, &format!("{before}["));
                for (at, item) in items.iter().enumerate() {
                    let comma = if at + 1 < items.len() { "," } else { "" };
                    self.add(item, &format!("{field}[{at}]"), "", comma);
                }
                self.line(field, &format!("]{after}"));
            }
            scalar => self.line(field, &format!("{before}{scalar}{after}")),
        }
    }

    fn line(&mut self, field: &str, text: &str) {
        self.fields.push(field.to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{text}");
    }
}

fn unknown_members(field: &str, before: &Value, after: &Value, report: &mut Report<'_>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, member) in before.iter().filter(|(_, member)| !member.is_null()) {
                let path = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                match after.get(name) {
                    Some(other) => unknown_members(&path, member, other, report),
                    None => report.warn(&path, "unknown field, left out"),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (at, (one, other)) in before.iter().zip(after).enumerate() {
                unknown_members(&format!("{field}[{at}]"), one, other, report);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::ProvisionerSpec;

    /// API-314: whatever is wrong with a manifest, the message names the field.
    #[test]
    fn errors_name_their_field() {
        for (spec, want) in [
            (json!({ "weight": "heavy" }), ("spec.weight", "invalid type: string \"heavy\", expected i32")),
            (
                json!({ "labels": { "a": "b", "c": 1 } }),
                ("spec.labels.c", "invalid type: integer `1`, expected a string"),
            ),
            (
                json!({ "taints": [{ "key": "a", "effect": "x" }, { "key": "a" }] }),
                ("spec.taints[1]", "missing field `effect`"),
            ),
            (
                json!({ "requirements": [{ "key": "a", "operator": "In", "values": ["x", true] }] }),
                ("spec.requirements[0].values[1]", "invalid type: boolean `true`, expected a string"),
            ),
            (
                json!({ "limits": { "resources": { "cpu": true } } }),
                (
                    "spec.limits.resources.cpu",
                    "invalid type: boolean `true`, expected a quantity: a number or a string",
                ),
            ),
            (json!([]), ("spec", "invalid length 0, expected struct ProvisionerSpec with 13 elements")),
        ] {
            let (field, message) = read::<ProvisionerSpec>(&spec, "spec").unwrap_err();
            assert_eq!((field.as_str(), message.as_str()), want);
        }
    }
}
