//! The three sorts of patches that say what to change; server-side apply is in `fields`.

mod json;
mod strategic;

use serde_json::{Map, Value};

pub(crate) use self::json::apply as json_patch;
pub(crate) use self::strategic::apply as strategic_patch;

/// JSON merge patch: maps are merged, null removes, anything else replaces.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            map.remove(name);
        } else {
            merge_patch(map.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patches_merge() {
        for (target, patch, want) in [
            (json!({"a": 1, "b": {"c": 1}}), json!({"b": {"c": null, "d": 2}}), json!({"a": 1, "b": {"d": 2}})),
            (json!({"a": [1]}), json!({"a": [2]}), json!({"a": [2]})),
            (json!({"a": "x"}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
        ] {
            let mut found = target;
            merge_patch(&mut found, &patch);
            assert_eq!(found, want);
        }
    }
}
