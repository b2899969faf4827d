//! What the selectors of a class ask of EC2, and what of the answers ends up in its status (§2.2 … §2.8).

pub mod aliases;
pub mod images;
pub mod placement_groups;
pub mod reservations;
pub mod security_groups;
pub mod subnets;

use std::collections::BTreeMap;

use crate::cloud::Filter;

/// All of the tags; a value of `*` stands for any (AWS-51).
pub fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Filter> {
    let filter = |(key, value): (&String, &String)| match value.as_str() {
        "*" => Filter::new("tag-key", [key.as_str()]),
        value => Filter::new(format!("tag:{key}"), [value]),
    };
    tags.iter().map(filter).collect()
}

#[cfg(test)]
mod tests;
