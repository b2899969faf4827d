//! JSON patches with the server's reading of them: `replace` of a missing member adds it.

use serde_json::Value;

use crate::status::Failure;

/// The server's bound.
const MAX_OPERATIONS: usize = 10_000;

/// Refused with 400 when it is no patch, with 422 when it does not fit the object.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Value::Array(operations) = patch else {
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            super::super::typed::json_type(patch)
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let message = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(Failure::new(413, "RequestEntityTooLarge", message));
    }
    for operation in operations {
        perform(target, operation).ok_or_else(|| {
            Failure::new(422, "Invalid", "the server rejected our request due to an error in our request")
                .with_details(serde_json::json!({}))
        })?;
    }
    Ok(())
}

fn perform(target: &mut Value, operation: &Value) -> Option<()> {
    let path = operation.get("path")?.as_str()?;
    let value = || operation.get("value").cloned();
    let from = || operation.get("from").and_then(Value::as_str);
    match operation.get("op")?.as_str()? {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(drop),
        "replace" => replace(target, path, value()?),
        "move" => {
            let moved = remove(target, from()?)?;
            add(target, path, moved)
        }
        "copy" => {
            let copied = target.pointer(from()?)?.clone();
            add(target, path, copied)
        }
        "test" => {
            let expected = value().unwrap_or(Value::Null);
            match target.pointer(path) {
                Some(found) => (*found == expected).then_some(()),
                // A missing member equals null.
                None => (expected.is_null() && parent(target, path).is_some()).then_some(()),
            }
        }
        _ => None,
    }
}

/// The value that holds the last step of a path, and that step.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (holder, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(holder)?, last.replace("~1", "/").replace("~0", "~")))
}

fn index(text: &str, len: usize) -> Option<usize> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok())?.filter(|i| *i <= len)
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    match parent(target, path)? {
        (Value::Object(map), name) => {
            map.insert(name, value);
        }
        (Value::Array(items), name) => {
            let at = if name == "-" { items.len() } else { index(&name, items.len())? };
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    match parent(target, path)? {
        (Value::Object(map), name) => map.remove(&name),
        (Value::Array(items), name) => {
            let at = index(&name, items.len()).filter(|i| *i < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    match parent(target, path)? {
        (Value::Object(map), name) => {
            map.insert(name, value);
        }
        (Value::Array(items), name) => {
            let at = index(&name, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_the_object() {
        for (patch, want) in [
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), Some(json!({"a": [1, 2, 3], "b": {"c/d": 1}}))),
            (json!([{"op": "add", "path": "/a/0", "value": 0}]), Some(json!({"a": [0, 1, 2], "b": {"c/d": 1}}))),
            (json!([{"op": "remove", "path": "/b/c~1d"}]), Some(json!({"a": [1, 2], "b": {}}))),
            (json!([{"op": "remove", "path": "/b/x"}]), None),
            (
                json!([{"op": "replace", "path": "/b/x", "value": 1}]),
                Some(json!({"a": [1, 2], "b": {"c/d": 1, "x": 1}})),
            ),
            (json!([{"op": "replace", "path": "/a/7", "value": 1}]), None),
            (json!([{"op": "move", "from": "/a/0", "path": "/m"}]), Some(json!({"a": [2], "b": {"c/d": 1}, "m": 1}))),
            (
                json!([{"op": "copy", "from": "/a/0", "path": "/m"}]),
                Some(json!({"a": [1, 2], "b": {"c/d": 1}, "m": 1})),
            ),
            (json!([{"op": "test", "path": "/a/0", "value": 2}]), None),
            (json!([{"op": "test", "path": "/a/0", "value": 1}]), Some(json!({"a": [1, 2], "b": {"c/d": 1}}))),
            (json!([{"op": "frob", "path": "/a"}]), None),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
            (json!([{"op": "add", "path": "/a/01", "value": 1}]), None),
            (json!([{"op": "add", "path": "a", "value": 1}]), None),
        ] {
            let mut object = json!({"a": [1, 2], "b": {"c/d": 1}});
            let result = apply(&mut object, &patch);
            match want {
                Some(want) => assert_eq!((result, object), (Ok(()), want), "{patch}"),
                None => assert_eq!(result.unwrap_err().code, 422, "{patch}"),
            }
        }
        assert_eq!(apply(&mut json!({}), &json!({"a": 1})).unwrap_err().code, 400);
    }
}
