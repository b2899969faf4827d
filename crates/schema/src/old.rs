//! Which part of the stored object a part of the new one succeeds.

use serde_json::Value;

use crate::compile::{ListType, Node};

/// The old counterpart of element `index` of `items`. Only lists with keys have one: elements of other lists have no identity.
pub(crate) fn item<'a>(node: &Node, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let ListType::Map(keys) = &node.list else { return None };
    let same = |candidate: &&Value| keys.iter().all(|key| candidate.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

/// The old counterpart of the value under `name` of an object or map.
pub(crate) fn member<'a>(name: &str, old: Option<&'a Value>) -> Option<&'a Value> {
    old?.as_object()?.get(name)
}
