//! Label and field selectors.

mod fields;
mod labels;

pub(crate) use fields::{FieldSelector, supported_fields};
pub(crate) use labels::LabelSelector;
