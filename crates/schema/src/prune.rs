//! Removing what the schema does not know.

use serde_json::Value;

use crate::compile::{Node, Schema};
use crate::path::FieldPath;

impl Schema {
    /// Removes fields that the schema does not specify and returns where they were, in order. Strict field validation, which
    /// `kubectl` asks for, reports these as errors. `apiVersion`, `kind` and `metadata` of the object itself stay.
    pub fn prune(&self, object: &mut Value) -> Vec<FieldPath> {
        let mut pruned = Vec::new();
        prune(&self.root, object, &FieldPath::root(), self.resource, &mut pruned);
        pruned
    }
}

fn prune(node: &Node, value: &mut Value, path: &FieldPath, resource: bool, pruned: &mut Vec<FieldPath>) {
    match value {
        Value::Object(map) => {
            let keep_metadata = resource || node.embedded_resource;
            map.retain(|name, value| {
                if keep_metadata && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                if let Some(child) = node.properties.get(name) {
                    prune(child, value, &path.field(name), false, pruned);
                } else if let Some(additional) = &node.additional {
                    prune(additional, value, &path.key(name), false, pruned);
                } else if !node.preserve_unknown {
                    pruned.push(path.field(name));
                    return false;
                }
                true
            });
        }
        Value::Array(items) => {
            // Where no list is expected, its type is refused later, but the fields inside are unknown as well.
            let nothing = Node::default();
            let item = node.items.as_deref().unwrap_or(if node.preserve_unknown { node } else { &nothing });
            for (i, value) in items.iter_mut().enumerate() {
                prune(item, value, &path.index(i), false, pruned);
            }
        }
        _ => {}
    }
}
