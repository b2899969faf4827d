//! Filling in defaults.

use serde_json::{Map, Value};

use crate::compile::{Node, Schema};

impl Schema {
    /// Fills in defaults and drops nulls where null is not a value, as the API server does before it validates.
    pub fn default(&self, object: &mut Value) {
        default(&self.root, object);
    }
}

fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => default_object(node, map),
        Value::Array(items) => {
            if let Some(item) = &node.items {
                for value in items {
                    default(item, value);
                }
            }
        }
        _ => {}
    }
}

fn default_object(node: &Node, map: &mut Map<String, Value>) {
    for (name, child) in &node.properties {
        let absent = match map.get(name) {
            None => true,
            Some(value) => value.is_null() && !child.nullable,
        };
        if absent {
            match &child.default {
                Some(value) => map.insert(name.clone(), value.clone()),
                None => map.remove(name),
            };
        }
        if let Some(value) = map.get_mut(name) {
            default(child, value);
        }
    }
    let Some(additional) = &node.additional else { return };
    map.retain(|name, value| {
        if node.properties.contains_key(name) {
            return true;
        }
        if value.is_null() && !additional.nullable && !additional.preserve_unknown {
            match &additional.default {
                Some(default) => *value = default.clone(),
                None => return false,
            }
        }
        default(additional, value);
        true
    });
}
