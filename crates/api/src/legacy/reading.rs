//! Reading parts of an object as types, with the place of what is wrong.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::findings::Report;

/// Who has more than this wrong in one object does not read on.
const MOST_ERRORS: usize = 100;

/// Reads a part of an object, says everything that does not fit its type, and warns about members that the type does not know.
/// What does not fit is left out of the value, so that the rest can be looked at too.
pub(super) fn typed<T: Serialize + DeserializeOwned>(value: &Value, field: &str, report: &mut Report<'_>) -> Option<T> {
    let (typed, left_out) = lenient::<T>(value, field, report)?;
    match serde_json::to_value(&typed) {
        Ok(again) => unknown_members(field, value, &again, &left_out, report),
        Err(error) => report.error(field, format!("cannot be written: {error}")),
    }
    Some(typed)
}

/// Like [`typed`], for types that know more members than they keep.
pub(super) fn known<T: DeserializeOwned>(value: &Value, field: &str, report: &mut Report<'_>) -> Option<T> {
    lenient(value, field, report).map(|(typed, _)| typed)
}

fn lenient<T: DeserializeOwned>(value: &Value, field: &str, report: &mut Report<'_>) -> Option<(T, BTreeSet<String>)> {
    let mut left_out = BTreeSet::new();
    loop {
        match read(value, field, &left_out) {
            Ok(typed) => {
                let lists: Vec<String> = left_out.iter().filter_map(|path| outermost_list(path, field)).collect();
                if lists.is_empty() {
                    return Some((typed, left_out));
                }
                // Items after one that is left out would be called by the wrong numbers.
                for list in &lists {
                    report.is_broken(list);
                }
                left_out.extend(lists);
                return read(value, field, &left_out).ok().map(|typed| (typed, left_out));
            }
            Err((at, message)) => {
                // What is missing because it was left out has been said.
                let said = left_out.iter().any(|path| is_within(path, &at));
                if !said {
                    report.broken(&at, message);
                }
                if at == field || !left_out.insert(at) || left_out.len() > MOST_ERRORS {
                    return None;
                }
            }
        }
    }
}

fn is_within(path: &str, around: &str) -> bool {
    path.strip_prefix(around).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn outermost_list(path: &str, root: &str) -> Option<String> {
    let (before, _) = path.strip_prefix(root)?.split_once('[')?;
    Some(format!("{root}{before}"))
}

/// The value as its type, or the field that is wrong and why.
fn read<T: DeserializeOwned>(value: &Value, field: &str, left_out: &BTreeSet<String>) -> Result<T, (String, String)> {
    // Errors know lines and not fields, so write one member per line and remember which is where.
    let mut text = Lines { text: String::new(), fields: Vec::new(), left_out };
    text.add(value, field, "");
    serde_json::from_str(&text.text).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let mut line = error.line().saturating_sub(1);
        // That a list or a map is no amount is found after its bracket, on the line of its first member; that it is no text, before it.
        let bracket = [("invalid type: sequence", '['), ("invalid type: map", '{')];
        let bracket = bracket.iter().find(|(start, _)| message.starts_with(start)).map(|(_, bracket)| *bracket);
        let before = line.checked_sub(1).and_then(|line| text.text.lines().nth(line));
        let is_after = bracket.is_some_and(|bracket| before.is_some_and(|before| before.ends_with(bracket)));
        if is_after && !message.ends_with("expected a string") {
            line -= 1;
        }
        let field = text.fields.get(line).map_or(field, String::as_str);
        (field.to_owned(), message.replacen("invalid type: sequence", "invalid type: list", 1))
    })
}

/// JSON with one member or item per line, and the field of each line.
struct Lines<'a> {
    text: String,
    fields: Vec<String>,
    left_out: &'a BTreeSet<String>,
}

impl Lines<'_> {
    fn add(&mut self, value: &Value, field: &str, before: &str) {
        match value {
            Value::Object(members) => {
                self.line(field, &format!("{before}{{"));
                let children = members.iter().map(|(name, member)| {
                    let child = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                    (child, format!("{}:", Value::from(name.as_str())), member)
                });
                self.children(children);
                self.line(field, "}");
            }
            Value::Array(items) => {
                self.line(field, &format!("{before}["));
                let children = items.iter().enumerate();
                self.children(children.map(|(at, item)| (format!("{field}[{at}]"), String::new(), item)));
                self.line(field, "]");
            }
            scalar => self.line(field, &format!("{before}{scalar}")),
        }
    }

    /// Fields, what stands before them, and values.
    fn children<'v>(&mut self, all: impl Iterator<Item = (String, String, &'v Value)>) {
        let left_out = self.left_out;
        let mut comma = "";
        for (field, before, value) in all.filter(|(field, ..)| !left_out.contains(field)) {
            self.add(value, &field, &format!("{comma}{before}"));
            comma = ",";
        }
    }

    fn line(&mut self, field: &str, text: &str) {
        self.fields.push(field.to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{text}");
    }
}

fn unknown_members(field: &str, before: &Value, after: &Value, left_out: &BTreeSet<String>, report: &mut Report<'_>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, member) in before.iter().filter(|(_, member)| !member.is_null()) {
                let path = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                match after.get(name) {
                    Some(other) => unknown_members(&path, member, other, left_out, report),
                    None if left_out.contains(&path) => {}
                    None => report.warn(&path, "unknown field, left out"),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (at, (one, other)) in before.iter().zip(after).enumerate() {
                unknown_members(&format!("{field}[{at}]"), one, other, left_out, report);
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
            (
                json!({ "limits": { "resources": { "cpu": [1, 2], "memory": "1Gi" } } }),
                ("spec.limits.resources.cpu", "invalid type: list, expected a quantity: a number or a string"),
            ),
            (
                json!({ "limits": { "resources": { "cpu": { "amount": 1 } } } }),
                ("spec.limits.resources.cpu", "invalid type: map, expected a quantity: a number or a string"),
            ),
            (
                json!({ "requirements": [{ "key": "a", "operator": "In", "values": ["x", []] }] }),
                ("spec.requirements[0].values[1]", "invalid type: list, expected a string"),
            ),
            (
                json!({ "requirements": [{ "key": "a", "operator": "In", "values": [["x"]] }] }),
                ("spec.requirements[0].values[0]", "invalid type: list, expected a string"),
            ),
            (json!({ "labels": { "a": [[1]] } }), ("spec.labels.a", "invalid type: list, expected a string")),
            (json!([]), ("spec", "invalid length 0, expected struct ProvisionerSpec with 13 elements")),
        ] {
            let (field, message) = read::<ProvisionerSpec>(&spec, "spec", &BTreeSet::new()).unwrap_err();
            assert_eq!((field.as_str(), message.as_str()), want);
        }
    }

    /// API-314: and it names all of them, each once, with the numbers that items have in the manifest.
    #[test]
    fn all_errors_are_named() {
        let spec = json!({
            "weight": "heavy", "labels": { "a": 1, "b": "c" }, "ttlSecondsAfterEmpty": "30s", "surplus": 1,
            "taints": [{ "key": 1, "effect": "x" }, { "key": "a", "effect": "x" }, { "key": "a" }],
            "limits": { "resources": { "cpu": true, "memory": "1Gi" } },
        });
        let mut findings = Vec::new();
        let object = json!({ "kind": "Provisioner", "metadata": { "name": "default" } });
        let mut report = Report::new(0, &object, &mut findings);
        let read: ProvisionerSpec = typed(&spec, "spec", &mut report).unwrap();
        report.error("spec.weight", "said about what was left out");
        report.error("spec.taints", "said about what was left out");
        assert_eq!(report.unless_failed(()), None);
        assert_eq!(read.labels.unwrap().len(), 1);
        assert_eq!(read.taints, None);
        let mut named: Vec<&str> = findings.iter().map(|finding| finding.field.as_str()).collect();
        named.sort_unstable();
        let want = [
            "spec.labels.a",
            "spec.limits.resources.cpu",
            "spec.surplus",
            "spec.taints[0].key",
            "spec.taints[2]",
            "spec.ttlSecondsAfterEmpty",
            "spec.weight",
        ];
        assert_eq!(named, want, "{findings:?}");
    }
}
