//! Structural validation: everything but CEL.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::compile::{Checks, ListType, Node, Schema, Type};
use crate::path::FieldPath;
use crate::violation::{Violation, ViolationKind, type_name};
use crate::{format, old};

/// Whether an update may keep what was stored although it is not valid (any more). The API server lets it since 1.30, so that a
/// tightened schema does not block unrelated changes: a value that equals its old counterpart is not checked, but for rules
/// that compare both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratcheting {
    On,
    Off,
}

impl Schema {
    /// What the API server would refuse about `object`, given the stored object on an update. The object is expected to be
    /// pruned and defaulted. CEL rules are evaluated unless types, sizes or enums are wrong already.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.validate_with(object, old, Ratcheting::On)
    }

    /// As [`Schema::validate`], with the choice of checking unchanged values too.
    pub fn validate_with(&self, object: &Value, old: Option<&Value>, ratcheting: Ratcheting) -> Vec<Violation> {
        let mut walk = Walk { ratcheting, violations: Vec::new() };
        walk.node(&self.root, object, old, &FieldPath::root());
        let mut violations = walk.violations;
        if !self.has_rules {
            return violations;
        }
        if violations.iter().any(|violation| violation.kind.blocks_rules()) {
            violations.push(Violation::new(
                &FieldPath::root(),
                ViolationKind::RulesNotChecked,
                "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
        } else {
            violations.extend(self.check_rules(object, old, ratcheting));
        }
        violations
    }
}

struct Walk {
    ratcheting: Ratcheting,
    violations: Vec<Violation>,
}

impl Walk {
    fn report(&mut self, path: &FieldPath, kind: ViolationKind, message: impl Into<String>) {
        self.violations.push(Violation::new(path, kind, message));
    }

    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &FieldPath) {
        if self.ratcheting == Ratcheting::On && old == Some(value) {
            return;
        }
        if value.is_null() && node.nullable {
            return;
        }
        if !self.has_type(node, value, path) {
            return;
        }
        self.checks(&node.checks, value, path);
        match value {
            Value::Object(map) => self.object(node, map, old, path),
            Value::Array(items) => self.list(node, items, old, path),
            _ => {}
        }
    }

    fn has_type(&mut self, node: &Node, value: &Value, path: &FieldPath) -> bool {
        let wanted = if node.int_or_string {
            (!is_integer(value) && !value.is_string()).then_some("integer,string")
        } else {
            node.kind.filter(|kind| !is_a(*kind, value)).map(Type::name)
        };
        let Some(wanted) = wanted else { return true };
        let actual = type_name(value);
        self.report(
            path,
            ViolationKind::Type,
            format!("Invalid value: \"{actual}\": {path} in body must be of type {wanted}: \"{actual}\""),
        );
        false
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>, old: Option<&Value>, path: &FieldPath) {
        for (name, value) in map {
            let old = old::member(name, old);
            if let Some(child) = node.properties.get(name) {
                self.node(child, value, old, &path.field(name));
            } else if let Some(additional) = &node.additional {
                self.node(additional, value, old, &path.key(name));
            }
        }
        if node.embedded_resource {
            self.embedded(map, path);
        }
    }

    /// An object inside of an object says what it is.
    fn embedded(&mut self, map: &Map<String, Value>, path: &FieldPath) {
        for name in ["apiVersion", "kind"] {
            let at = path.field(name);
            match map.get(name) {
                None => self.report(&at, ViolationKind::Required, "Required value: must not be empty"),
                Some(value) if value == "" => {
                    self.report(&at, ViolationKind::Invalid, "Invalid value: \"\": must not be empty");
                }
                Some(value) if !value.is_string() => {
                    self.report(&at, ViolationKind::Invalid, format!("Invalid value: {value}: must be a string"));
                }
                Some(_) => {}
            }
        }
    }

    fn list(&mut self, node: &Node, items: &[Value], old: Option<&Value>, path: &FieldPath) {
        if let Some(item_node) = &node.items {
            for (i, item) in items.iter().enumerate() {
                self.node(item_node, item, old::item(node, item, old), &path.index(i));
            }
        }
        match &node.list {
            ListType::Atomic => {}
            ListType::Set => self.unique(items.iter().cloned(), path),
            ListType::Map(keys) => {
                // Elements that are no objects are reported for their type.
                let identity = |item: &Value| {
                    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect::<Map<_, _>>()
                };
                self.unique(items.iter().map(|item| Value::Object(identity(item))), path);
            }
        }
    }

    /// Reports each value that occurs again, once.
    fn unique(&mut self, identities: impl Iterator<Item = Value>, path: &FieldPath) {
        let (mut seen, mut reported) = (HashSet::new(), HashSet::new());
        for (i, identity) in identities.enumerate() {
            let text = identity.to_string();
            if !seen.insert(text.clone()) && reported.insert(text.clone()) {
                self.report(&path.index(i), ViolationKind::Duplicate, format!("Duplicate value: {text}"));
            }
        }
    }

    fn checks(&mut self, checks: &Checks, value: &Value, path: &FieldPath) {
        if let Some(allowed) = &checks.one_of
            && !allowed.iter().any(|candidate| equal(candidate, value))
        {
            let supported = allowed.iter().map(quoted).collect::<Vec<_>>().join(", ");
            self.report(
                path,
                ViolationKind::Unsupported,
                format!("Unsupported value: {value}: supported values: {supported}"),
            );
        }
        match value {
            Value::String(text) => self.string(checks, text, path),
            Value::Number(_) => self.number(checks, value, path),
            Value::Array(items) => {
                let count = items.len() as u64;
                self.size(count, checks.min_items, checks.max_items, "items", path);
            }
            Value::Object(map) => {
                for name in &checks.required {
                    if !map.contains_key(name) {
                        self.report(&path.field(name), ViolationKind::Required, "Required value");
                    }
                }
                let count = map.len() as u64;
                self.size(count, checks.min_properties, checks.max_properties, "properties", path);
            }
            _ => {}
        }
        self.branches(checks, value, path);
    }

    fn string(&mut self, checks: &Checks, text: &str, path: &FieldPath) {
        let value = Value::from(text);
        // The limit counts characters; the server's text says bytes all the same.
        let length = text.chars().count() as u64;
        // The server names only the first of these three.
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            self.report(path, ViolationKind::TooLong, format!("Too long: may not be more than {max} {unit}"));
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(path, &value, &format!("should be at least {min} chars long"));
        } else if let Some((pattern, regex)) = &checks.pattern
            && !regex.is_match(text)
        {
            self.invalid(path, &value, &format!("should match '{pattern}'"));
        }
        if let Some(format) = checks.format.as_deref()
            && !format::matches(format, text)
        {
            let message = format!("Invalid value: {value}: {path} in body must be of type {format}: {value}");
            self.report(path, ViolationKind::Type, message);
        }
    }

    fn number(&mut self, checks: &Checks, value: &Value, path: &FieldPath) {
        let number = value.as_f64().unwrap_or(f64::NAN);
        if let Some(bound) = &checks.minimum {
            let low = if bound.exclusive { number <= bound.value } else { number < bound.value };
            if low {
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                self.invalid(path, value, &format!("should be greater than{or_equal} {}", bound.text));
            }
        }
        if let Some(bound) = &checks.maximum {
            let high = if bound.exclusive { number >= bound.value } else { number > bound.value };
            if high {
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                self.invalid(path, value, &format!("should be less than{or_equal} {}", bound.text));
            }
        }
        if let Some(factor) = checks.multiple_of.filter(|factor| *factor > 0.0) {
            let quotient = number / factor;
            if (quotient - quotient.round()).abs() > f64::EPSILON {
                self.invalid(path, value, &format!("should be a multiple of {factor}"));
            }
        }
    }

    fn size(&mut self, count: u64, min: Option<u64>, max: Option<u64>, noun: &str, path: &FieldPath) {
        if let Some(max) = max.filter(|max| count > *max) {
            let items = if max == 1 { "item" } else { "items" };
            self.report(path, ViolationKind::TooMany, format!("Too many: {count}: must have at most {max} {items}"));
        }
        if let Some(min) = min.filter(|min| count < *min) {
            self.invalid(path, &Value::from(count), &format!("should have at least {min} {noun}"));
        }
    }

    fn invalid(&mut self, path: &FieldPath, value: &Value, should: &str) {
        self.report(path, ViolationKind::Invalid, format!("Invalid value: {value}: {path} in body {should}"));
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`. Unchanged parts are not spared inside them, as on the server.
    fn branches(&mut self, checks: &Checks, value: &Value, path: &FieldPath) {
        let of_branch = |node: &Node| {
            let mut walk = Walk { ratcheting: Ratcheting::Off, violations: Vec::new() };
            walk.node(node, value, None, path);
            walk.violations
        };
        for node in &checks.all_of {
            self.violations.extend(of_branch(node));
        }
        let passing = |nodes: &[Node]| nodes.iter().filter(|node| of_branch(node).is_empty()).count();
        let must = |path: &FieldPath, what: &str| format!("Invalid value: \"\": \"{path}\" must {what}");
        if !checks.any_of.is_empty() && passing(&checks.any_of) == 0 {
            self.report(path, ViolationKind::Invalid, must(path, "validate at least one schema (anyOf)"));
        }
        if !checks.exactly_one_of.is_empty() && passing(&checks.exactly_one_of) != 1 {
            self.report(path, ViolationKind::Invalid, must(path, "validate one and only one schema (oneOf)"));
        }
        if checks.not.as_ref().is_some_and(|node| of_branch(node).is_empty()) {
            self.report(path, ViolationKind::Invalid, must(path, "not validate the schema (not)"));
        }
    }
}

fn is_a(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => is_integer(value),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
    }
}

/// Whether the value is a whole number of 64 bits; `1.0` is one.
fn is_integer(value: &Value) -> bool {
    // Up to 2^53 every whole float is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_i64().is_some() || value.as_f64().is_some_and(|n| value.is_f64() && n.fract() == 0.0 && n.abs() <= EXACT)
}

/// Equality that does not tell `1` from `1.0`.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

/// An enum value in a message: always in quotes.
fn quoted(value: &Value) -> String {
    if value.is_string() { value.to_string() } else { format!("\"{value}\"") }
}
