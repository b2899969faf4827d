//! Ownership of fields: sets of them, what a write changes, and how an applied configuration is merged.

mod compare;
mod managed;
mod merge;
mod remove;
mod set;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::shape::{ListKind, Shape};

pub(crate) use self::compare::{compare, set_of};
pub(crate) use self::managed::{Force, LAST_APPLIED, Managed, Writer, noted};
pub(crate) use self::merge::merge;
pub(crate) use self::remove::remove;
pub(crate) use self::set::{Element, Set};

/// What tells an item of a list from the others. `None` where the list is written as a whole or the item has no key.
fn item_element(list: &Shape, item: &Value) -> Option<Element> {
    match &list.node().list {
        ListKind::Atomic => None,
        ListKind::Set => Some(Element::Value(item.to_string())),
        ListKind::Keys(keys) => {
            let shape = list.element();
            let fields = &shape.node().fields;
            let mut identity = Map::new();
            for key in keys {
                let value = item.get(key).or_else(|| fields.get(key)?.default.as_ref());
                if let Some(value) = value.filter(|v| !v.is_object() && !v.is_array()) {
                    identity.insert(key.clone(), value.clone());
                }
            }
            (!identity.is_empty()).then(|| Element::Key(Value::Object(identity).to_string()))
        }
    }
}

/// What occurs more than once in a list whose items are told apart, each once.
pub(crate) fn repeated(list: &Shape, items: &[Value]) -> impl Iterator<Item = String> {
    let mut seen: BTreeMap<Element, usize> = BTreeMap::new();
    for element in items.iter().filter_map(|item| item_element(list, item)) {
        *seen.entry(element).or_default() += 1;
    }
    seen.into_iter().filter(|(_, count)| *count > 1).map(|(element, _)| set::path_text(&[element]))
}
