//! Strategic merge patches: lists are merged by key, and directives say what merging cannot.

use serde_json::{Map, Value};

use crate::shape::{Field, Shape};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// The error is what the server puts after `patch: Invalid value`.
pub(crate) fn apply(shape: &Shape, target: &Value, patch: &Value) -> Result<Value, String> {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => Ok(Value::Object(merge_maps(shape, target.clone(), patch)?)),
        _ => Err("invalid patch format".to_owned()),
    }
}

fn merge_maps(
    shape: &Shape,
    mut target: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => return Ok(without_directives(patch)),
        Some(Some("delete")) => return Ok(Map::new()),
        Some(other) => {
            let other = other.unwrap_or_default();
            return Err(format!("unknown patch type: {other} in map: map[$patch:{other}]"));
        }
    }
    if let Some(retained) = patch.get(RETAIN) {
        let names: Vec<&str> = retained.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        target.retain(|name, _| names.contains(&name.as_str()));
    }
    for (name, gone) in patch.iter().filter_map(|(k, v)| Some((k.strip_prefix(DELETE_PRIMITIVES)?, v))) {
        let gone = gone.as_array().ok_or("expecting list for parallel list")?;
        if let Some(Value::Array(items)) = target.get_mut(name) {
            items.retain(|item| !gone.contains(item));
        }
    }
    for (name, value) in patch {
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            target.remove(name);
            continue;
        }
        let field = shape.node().fields.get(name);
        let merged = match (target.get(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                Value::Object(merge_maps(&shape.child(name), old.clone(), new)?)
            }
            (Some(Value::Array(old)), Value::Array(new)) if field.is_some_and(|f| f.merge) => {
                let order = patch.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
                merge_lists(field, &shape.child(name).element(), old, new, order)?
            }
            (_, value) => stripped(value),
        };
        target.insert(name.clone(), merged);
    }
    // An order alone sorts what is there.
    for (name, order) in patch.iter().filter_map(|(k, v)| Some((k.strip_prefix(ORDER)?, v.as_array()?))) {
        if patch.contains_key(name) {
            continue;
        }
        if let Some(Value::Array(items)) = target.get_mut(name) {
            let key = shape.node().fields.get(name).and_then(|f| f.merge_key.as_deref());
            *items = sorted(items, items, order, key);
        }
    }
    Ok(target)
}

fn merge_lists(
    field: Option<&Field>,
    element: &Shape,
    old: &[Value],
    new: &[Value],
    order: Option<&Vec<Value>>,
) -> Result<Value, String> {
    let key = field.and_then(|f| f.merge_key.as_deref());
    let Some(key) = key.filter(|_| old.iter().chain(new).any(Value::is_object)) else {
        let mut items = old.to_vec();
        items.extend(new.iter().filter(|item| !old.contains(item)).cloned());
        return Ok(Value::Array(sorted(&items, old, order.map_or(new, Vec::as_slice), None)));
    };
    if new.iter().any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace")) {
        let rest = new.iter().filter(|item| {
            item.get(DIRECTIVE).and_then(Value::as_str) != Some("replace") || {
                item.as_object().is_some_and(|map| map.len() > 1)
            }
        });
        return Ok(Value::Array(rest.map(stripped).collect()));
    }
    let mut items = old.to_vec();
    for item in new {
        let Value::Object(patch) = item else { return Err("cannot restore map from a list item".to_owned()) };
        let Some(identity) = patch.get(key) else {
            return Err(format!("map: {item} does not contain declared merge key: {key}"));
        };
        let place = items.iter().position(|i| i.get(key) == Some(identity));
        if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
            items.retain(|i| i.get(key) != Some(identity));
            continue;
        }
        match place {
            Some(at) => {
                let old = items[at].as_object().cloned().unwrap_or_default();
                items[at] = Value::Object(merge_maps(element, old, patch)?);
            }
            None => items.push(stripped(item)),
        }
    }
    Ok(Value::Array(sorted(&items, old, order.map_or(new, Vec::as_slice), Some(key))))
}

/// Items that the order names come in that order; the others, which only the server has, stay in front of those that they
/// were in front of. What is new comes first.
fn sorted(items: &[Value], server: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let same = |a: &Value, b: &Value| match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    };
    let rank = |item: &Value| order.iter().position(|o| same(o, item));
    let place = |item: &Value| server.iter().position(|i| same(i, item));
    let mut named: Vec<&Value> = items.iter().filter(|item| rank(item).is_some()).collect();
    named.sort_by_key(|item| rank(item));
    let others: Vec<&Value> = items.iter().filter(|item| rank(item).is_none()).collect();
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::with_capacity(items.len());
    while i < named.len() || j < others.len() {
        let take_named = match (named.get(i), others.get(j)) {
            (Some(a), Some(b)) => place(a).is_none_or(|at| Some(at) < place(b)),
            (a, _) => a.is_some(),
        };
        if take_named {
            out.push(named[i].clone());
            i += 1;
        } else {
            out.push(others[j].clone());
            j += 1;
        }
    }
    out
}

fn without_directives(map: &Map<String, Value>) -> Map<String, Value> {
    let kept = map.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    kept.map(|(name, value)| (name.clone(), stripped(value))).collect()
}

/// A value of the patch as it is stored: nothing that only told how to merge.
fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get(DIRECTIVE).and_then(Value::as_str) != Some("delete"));
            Value::Array(kept.map(stripped).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape;

    #[test]
    fn lists_are_merged_by_key_and_directive() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let pod = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {
            "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
            "tolerations": [{"key": "x"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
        for (patch, path, want) in [
            (
                json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}),
                "/spec/containers",
                json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
                "/spec/containers",
                json!([{"name": "b", "image": "1"}]),
            ),
            (
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}),
                "/spec/containers",
                json!([{"name": "c"}]),
            ),
            (json!({"spec": {"tolerations": [{"key": "y"}]}}), "/spec/tolerations", json!([{"key": "y"}])),
            (json!({"metadata": {"finalizers": ["c"]}}), "/metadata/finalizers", json!(["c", "a", "b"])),
            (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}), "/metadata/finalizers", json!(["b"])),
            (
                json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
                "/spec/volumes",
                json!([{"name": "v", "hostPath": {"path": "/"}}]),
            ),
            (
                json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "3"}]}}),
                "/spec/containers",
                json!([{"name": "b", "image": "1"}, {"name": "a", "image": "3"}]),
            ),
            (
                json!({"metadata": {"$patch": "replace", "labels": {"x": "y"}}}),
                "/metadata",
                json!({"labels": {"x": "y"}}),
            ),
        ] {
            let found = apply(&shape, &pod, &patch).unwrap();
            assert_eq!(found.pointer(path), Some(&want), "{patch}");
        }
    }

    #[test]
    fn items_need_their_key() {
        let shape = shape::of_kind("", "v1", "Pod").unwrap();
        let pod = json!({"spec": {"containers": [{"name": "a"}]}});
        let refused = apply(&shape, &pod, &json!({"spec": {"containers": [{"image": "2"}]}})).unwrap_err();
        assert!(refused.contains("does not contain declared merge key: name"), "{refused}");
    }
}
