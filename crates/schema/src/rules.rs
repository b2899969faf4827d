//! CEL rules, one schema node at a time. Walking ourselves, instead of leaving it to `kube-cel`, lets `oldSelf` follow the API
//! server: elements of a list have an old value only where the list has keys.

use kube_cel::{CompilationResult, CompiledSchema, ErrorKind, ValidationError};
use serde_json::Value;

use crate::compile::{Node, Schema};
use crate::old;
use crate::path::FieldPath;
use crate::validate::Ratcheting;
use crate::violation::{Violation, ViolationKind, type_name};

mod optional;

const RULES: &str = "x-kubernetes-validations";

/// The rules of one node, with the typing of everything below it.
#[derive(Debug)]
pub(crate) struct Rules {
    compiled: CompiledSchema,
    transitions: Vec<bool>,
    texts: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// As it was compiled, which is how errors name it.
    compiled: String,
    /// As the schema has it.
    written: String,
    message: Option<String>,
}

/// Compiles the rules of `schema` itself, not those further down.
pub(crate) fn compile(schema: &Value) -> Result<Rules, String> {
    let mut own = schema.clone();
    strip(&mut own);
    let written = schema.get(RULES).cloned().unwrap_or_default();
    if let Value::Object(map) = &mut own {
        let mut rules = written.clone();
        rules.as_array_mut().into_iter().flatten().for_each(optional::wrap);
        map.insert(RULES.to_owned(), rules);
    }
    let compiled = kube_cel::compile_schema(&own);
    if let Some(error) = compiled.compilation_errors().first() {
        return Err(optional::unwrapped(&error.to_string()));
    }
    let results: Vec<_> = compiled.validations.iter().filter_map(|result| result.as_ref().ok()).collect();
    let transitions = results.iter().map(|result| result.is_transition_rule).collect();
    let text = |(i, result): (usize, &&CompilationResult)| {
        let compiled = result.rule.rule.clone();
        let own = written[i]["rule"].as_str().map_or_else(|| compiled.clone(), str::to_owned);
        Rule { compiled, written: own, message: result.rule.message.clone() }
    };
    let texts = results.iter().enumerate().map(text).collect();
    Ok(Rules { compiled, transitions, texts })
}

/// Removes rules and defaults from a schema: the former have their own turn, the latter are filled in already.
fn strip(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove(RULES);
    map.remove("default");
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(children)) => children.values_mut().for_each(strip),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => branches.iter_mut().for_each(strip),
            ("additionalProperties" | "items" | "not", child) => strip(child),
            _ => {}
        }
    }
}

impl Schema {
    /// Violations of CEL rules. The value must have passed the other checks as far as types go.
    pub(crate) fn check_rules(&self, value: &Value, old: Option<&Value>, ratcheting: Ratcheting) -> Vec<Violation> {
        let mut walk = Walk { ratcheting, violations: Vec::new() };
        walk.node(&self.root, value, old, &FieldPath::root());
        walk.violations
    }
}

struct Walk {
    ratcheting: Ratcheting,
    violations: Vec<Violation>,
}

impl Walk {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &FieldPath) {
        // The server does not evaluate rules on null; whether null is allowed is a matter of the type.
        if value.is_null() {
            return;
        }
        if let Some(rules) = &node.rules {
            self.evaluate(rules, value, old, path);
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let old = old::member(name, old);
                    if let Some(property) = node.properties.get(name) {
                        self.node(property, child, old, &path.field(name));
                    } else if let Some(additional) = &node.additional {
                        self.node(additional, child, old, &path.key(name));
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item_node) = &node.items {
                    for (i, item) in items.iter().enumerate() {
                        self.node(item_node, item, old::item(node, item, old), &path.index(i));
                    }
                }
            }
            _ => {}
        }
    }

    fn evaluate(&mut self, rules: &Rules, value: &Value, old: Option<&Value>, path: &FieldPath) {
        let unchanged = self.ratcheting == Ratcheting::On && old == Some(value);
        if unchanged && !rules.transitions.contains(&true) {
            return;
        }
        let Err(errors) = kube_cel::validate_compiled(&rules.compiled, value, old) else { return };
        for error in &errors {
            let index = rules.texts.iter().position(|text| text.compiled == error.rule);
            let transition = index.and_then(|i| rules.transitions.get(i)).copied().unwrap_or(false);
            if !unchanged || transition {
                let text = index.and_then(|i| rules.texts.get(i));
                self.violations.push(violation(error, text, value, path));
            }
        }
    }
}

fn violation(error: &ValidationError, rule: Option<&Rule>, value: &Value, path: &FieldPath) -> Violation {
    if error.kind == ErrorKind::ValidationFailure {
        let at = field_path(path, &error.field_path);
        let message = match rule {
            Some(rule) if rule.message.is_none() => error.message.replace(&rule.compiled, &rule.written),
            _ => error.message.clone(),
        };
        return Violation::new(&at, ViolationKind::Rule, refusal(error.reason.as_deref(), &message, value));
    }
    // Printed as the server does: the cause, then which rule.
    let which = rule.map_or(error.rule.as_str(), |rule| rule.message.as_deref().unwrap_or(&rule.written));
    let cause = cause(error.message.strip_prefix("rule evaluation error: ").unwrap_or(&error.message));
    let message = format!("Invalid value: \"{}\": {cause} evaluating rule: {which}", type_name(value));
    Violation::new(path, ViolationKind::RuleError, message)
}

/// The server's words for the two causes that users meet.
fn cause(text: &str) -> String {
    if let Some(key) = text.strip_prefix("No such key") {
        return format!("no such key{key}");
    }
    if text.starts_with("Error executing function 'int': string parse error") {
        return "type conversion error from 'string' to 'int'".to_owned();
    }
    text.to_owned()
}

fn refusal(reason: Option<&str>, message: &str, value: &Value) -> String {
    match reason {
        Some("FieldValueForbidden") => format!("Forbidden: {message}"),
        Some("FieldValueRequired") => format!("Required value: {message}"),
        Some("FieldValueDuplicate") => format!("Duplicate value: {value}"),
        _ if value.is_object() || value.is_array() => format!("Invalid value: {message}"),
        _ => format!("Invalid value: {value}: {message}"),
    }
}

/// `path` extended by the `fieldPath` of a rule, such as `.a.b`.
fn field_path(path: &FieldPath, below: &str) -> FieldPath {
    below.split('.').filter(|name| !name.is_empty()).fold(path.clone(), |path, name| path.field(name))
}
