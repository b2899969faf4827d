//! What the real server does for particular built-in kinds: defaults, admission, what a write may change, validation.

mod admit;
mod defaults;
mod metadata;
mod pods;
mod prepare;
mod update;
mod validate;

use serde_json::{Map, Value};

pub(crate) use admit::admit_create;
pub(crate) use defaults::set_defaults;
pub(crate) use metadata::{check_create as check_metadata, check_update as check_metadata_update};
pub(crate) use prepare::{prepare_create, prepare_update, reset_fields};
pub(crate) use update::check_update;
pub(crate) use validate::check_create;

/// A part of an object as a map, made where there is none. `None` if something else is there.
pub(crate) fn map_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut map = value.as_object_mut()?;
    for name in path {
        let child = map.entry((*name).to_owned()).or_insert_with(|| Value::Object(Map::new()));
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        map = child.as_object_mut()?;
    }
    Some(map)
}

/// Sets what is absent.
fn set_if_absent(map: &mut Map<String, Value>, name: &str, value: Value) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value);
    }
}
