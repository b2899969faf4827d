//! Which fields an object has, and which of them a write adds, changes or removes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::item_element;
use super::set::{Element, Set};
use crate::shape::{Form, Shape};

/// All fields of a value, as an applied configuration owns them.
pub(crate) fn set_of(shape: &Shape, value: &Value) -> Set {
    let mut set = Set::default();
    add(shape, value, &mut Vec::new(), &mut set);
    set
}

fn add(shape: &Shape, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    match shape.form(value) {
        Form::Leaf => set.insert(path),
        Form::Map => {
            for (name, child) in value.as_object().into_iter().flatten() {
                path.push(Element::Field(name.clone()));
                add(&shape.child(name), child, path, set);
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                // Keys of a map exist by themselves; fields of a struct only through what is in them.
                if empty || !shape.has_field(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Form::List => {
            for item in value.as_array().into_iter().flatten() {
                let Some(element) = item_element(shape, item) else { continue };
                path.push(element);
                add(&shape.element(), item, path, set);
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// The difference between two states of an object.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: Set,
    pub(crate) modified: Set,
    pub(crate) removed: Set,
}

pub(crate) fn compare(shape: &Shape, old: &Value, new: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    walk(shape, Some(old), Some(new), &mut Vec::new(), &mut comparison);
    comparison
}

fn walk(shape: &Shape, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Element>, out: &mut Comparison) {
    if old == new {
        return;
    }
    let form_of = |value: &Value| shape.form(value);
    let form = match (old, new) {
        (Some(old), Some(new)) => {
            let (a, b) = (form_of(old), form_of(new));
            if old.is_null() && !new.is_null() {
                b
            } else if new.is_null() && !old.is_null() {
                a
            } else {
                b
            }
        }
        (one, None) | (None, one) => one.map_or(Form::Leaf, form_of),
    };
    let empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    // What is empty on both sides is a leaf, so that empty and absent stay different.
    if form == Form::Leaf || (empty(old) && empty(new)) {
        leaf(old, new, path, out);
        return;
    }
    match form {
        Form::Map => maps(shape, old, new, path, out),
        _ => lists(shape, old, new, path, out),
    }
    if old.is_none() {
        out.added.insert(path);
    } else if new.is_none() {
        out.removed.insert(path);
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, path: &[Element], out: &mut Comparison) {
    match (old, new) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        _ => out.modified.insert(path),
    }
}

fn maps(shape: &Shape, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Element>, out: &mut Comparison) {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
    for name in names {
        path.push(Element::Field(name.clone()));
        walk(&shape.child(name), old.and_then(|map| map.get(name)), new.and_then(|map| map.get(name)), path, out);
        path.pop();
    }
}

fn lists(shape: &Shape, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Element>, out: &mut Comparison) {
    let mut pairs: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old.and_then(Value::as_array).into_iter().flatten() {
        if let Some(element) = item_element(shape, item) {
            pairs.entry(element).or_default().0.push(item);
        }
    }
    for item in new.and_then(Value::as_array).into_iter().flatten() {
        if let Some(element) = item_element(shape, item) {
            pairs.entry(element).or_default().1.push(item);
        }
    }
    let items = shape.element();
    for (element, (a, b)) in pairs {
        path.push(element);
        match (a.as_slice(), b.as_slice()) {
            ([] | [_], [] | [_]) => walk(&items, a.first().copied(), b.first().copied(), path, out),
            // Items that occur more than once are owned as a whole.
            _ if a == b => {}
            ([], _) => out.added.insert(path),
            (_, []) => out.removed.insert(path),
            _ => out.modified.insert(path),
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape;

    #[test]
    fn changes_are_told_apart() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let old = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"containers": [{"name": "x", "image": "i"}]}});
        let new = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"nodeSelector": {"k": "v"},
            "containers": [{"name": "x", "image": "i", "ports": [{"containerPort": 80}]}]}});
        let found = compare(&shape, &old, &new);
        assert_eq!(found.modified.encode(), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        assert_eq!(found.removed.encode(), json!({"f:metadata": {"f:labels": {"f:b": {}}}}));
        assert_eq!(
            found.added.encode(),
            json!({"f:spec": {"f:nodeSelector": {}, "f:containers": {"k:{\"name\":\"x\"}": {"f:ports": {".": {},
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}})
        );
    }

    #[test]
    fn applied_fields_leave_structs_out() {
        let shape = shape::of_kind("", "v1", "ConfigMap").unwrap();
        let value = json!({"metadata": {"labels": {"a": "b"}, "annotations": {}}, "data": {"k": "v"}});
        assert_eq!(
            set_of(&shape, &value).encode(),
            json!({"f:metadata": {"f:labels": {"f:a": {}}, "f:annotations": {}}, "f:data": {"f:k": {}}})
        );
    }
}
