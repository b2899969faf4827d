//! Taking fields out of an object.

use serde_json::{Map, Value};

use super::item_element;
use super::set::{Element, Set};
use crate::shape::{Form, Shape};

/// The value without the fields of the set. What becomes empty by it goes as well.
pub(crate) fn remove(shape: &Shape, value: &Value, set: &Set) -> Value {
    match (shape.form(value), value) {
        (Form::Map, Value::Object(map)) => {
            let mut left = Map::new();
            for (name, child) in map {
                let element = Element::Field(name.clone());
                if set.has(&element) {
                    continue;
                }
                let Some(below) = set.below(&element) else {
                    left.insert(name.clone(), child.clone());
                    continue;
                };
                let kept = remove(&shape.child(name), child, below);
                if !is_empty(&kept) || is_empty(child) {
                    left.insert(name.clone(), kept);
                }
            }
            Value::Object(left)
        }
        (Form::List, Value::Array(items)) => {
            let kept = items.iter().filter_map(|item| {
                let Some(element) = item_element(shape, item) else { return Some(item.clone()) };
                if set.has(&element) {
                    return None;
                }
                Some(match set.below(&element) {
                    Some(below) => remove(&shape.element(), item, below),
                    None => item.clone(),
                })
            });
            Value::Array(kept.collect())
        }
        _ => value.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape;

    #[test]
    fn fields_and_items_are_taken_out() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let value = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x/a", "x/b"]},
            "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}]}});
        let set = Set::decode(&json!({
            "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"x/a\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {}}},
        }))
        .unwrap();
        assert_eq!(
            remove(&shape, &value, &set),
            json!({"metadata": {"finalizers": ["x/b"]}, "spec": {"containers": [{"name": "a"}]}})
        );
    }
}
