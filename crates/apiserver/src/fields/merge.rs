//! Merging an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::item_element;
use super::set::Element;
use crate::shape::{Form, Shape};

/// The object with all that the configuration says; what it does not mention stays.
pub(crate) fn merge(shape: &Shape, live: &Value, config: &Value) -> Value {
    match shape.form(config) {
        Form::Map if config.is_object() && live.is_object() => {
            let mut merged = live.as_object().cloned().unwrap_or_default();
            for (name, value) in config.as_object().into_iter().flatten() {
                let value = match merged.get(name) {
                    Some(old) => merge(&shape.child(name), old, value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        Form::List => match (live, config) {
            (Value::Array(live), Value::Array(config)) => Value::Array(merge_lists(shape, live, config)),
            _ => config.clone(),
        },
        _ => config.clone(),
    }
}

struct Indexed<'a> {
    order: Vec<Element>,
    items: BTreeMap<Element, &'a Value>,
}

fn index<'a>(shape: &Shape, items: &'a [Value]) -> Indexed<'a> {
    let mut indexed = Indexed { order: Vec::new(), items: BTreeMap::new() };
    for (i, item) in items.iter().enumerate() {
        // An item without a key is told apart by its place.
        let element = item_element(shape, item).unwrap_or_else(|| Element::Value(format!("#{i}")));
        if !indexed.items.contains_key(&element) {
            indexed.order.push(element.clone());
            indexed.items.insert(element, item);
        }
    }
    indexed
}

/// The items of the configuration in their order, and between them the others where they were.
fn merge_lists(shape: &Shape, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (left, right) = (index(shape, live), index(shape, config));
    let mut shared = right.order.iter().filter(|e| left.items.contains_key(e));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::new();
    let items = shape.element();
    let both = |element: &Element| -> Option<Value> {
        let config = right.items.get(element)?;
        Some(left.items.get(element).map_or_else(|| (*config).clone(), |live| merge(&items, live, config)))
    };
    let (mut l, mut r) = (0, 0);
    while l < left.order.len() || r < right.order.len() {
        if let (Some(a), Some(b)) = (left.order.get(l), right.order.get(r)) {
            if a == b {
                out.extend(both(a));
                done.insert(a);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if right.items.contains_key(a) && next_shared.is_some_and(|next| next != a) {
                // It comes later, where the configuration wants it.
                l += 1;
                continue;
            }
        }
        if let Some(a) = left.order.get(l) {
            if !right.items.contains_key(a) {
                out.extend(left.items.get(a).map(|item| (*item).clone()));
                l += 1;
                continue;
            } else if done.contains(a) {
                l += 1;
            }
        }
        if let Some(b) = right.order.get(r) {
            out.extend(both(b));
            done.insert(b);
            r += 1;
            if next_shared == Some(b) {
                next_shared = shared.next();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape;

    #[test]
    fn items_are_merged_by_their_key() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let names = |config: &[&str]| -> Vec<String> {
            let list = |names: &[&str]| -> Vec<Value> { names.iter().map(|n| json!({"name": n})).collect() };
            let live = json!({"spec": {"containers": list(&["a", "b", "c"])}});
            let merged = merge(&shape, &live, &json!({"spec": {"containers": list(config)}}));
            merged["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].to_string()).collect()
        };
        for (config, want) in [
            (&["d"][..], &["\"a\"", "\"b\"", "\"c\"", "\"d\""][..]),
            (&["c", "a"], &["\"c\"", "\"a\"", "\"b\""]),
            (&["b", "x"], &["\"a\"", "\"b\"", "\"x\"", "\"c\""]),
            (&["a", "b", "c"], &["\"a\"", "\"b\"", "\"c\""]),
        ] {
            let found = names(config);
            let sorted = |v: &[String]| {
                let mut v = v.to_vec();
                v.sort();
                v
            };
            assert_eq!(sorted(&found), sorted(&want.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()));
            // The configuration's own order holds.
            let places: Vec<_> =
                config.iter().map(|c| found.iter().position(|f| *f == format!("\"{c}\"")).unwrap()).collect();
            assert!(places.is_sorted(), "{config:?}: {found:?}");
        }
    }

    #[test]
    fn atomic_parts_are_replaced() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let live = json!({"spec": {"nodeSelector": {"a": "1"}, "dnsPolicy": "Default"}});
        let merged = merge(&shape, &live, &json!({"spec": {"nodeSelector": {"b": "2"}}}));
        assert_eq!(merged, json!({"spec": {"nodeSelector": {"b": "2"}, "dnsPolicy": "Default"}}));
    }
}
