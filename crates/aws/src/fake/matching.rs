//! Filters of describe calls.

use crate::cloud::{Filter, Tags};

/// All filters, each with any of its values. Fields that a kind of thing does not have match nothing.
pub(super) fn matches(filters: &[Filter], tags: &Tags, fields: &[(&str, &str)]) -> bool {
    filters.iter().all(|filter| {
        let any = |value: &str| filter.values.iter().any(|pattern| fits(pattern, value));
        if filter.name == "tag-key" {
            tags.keys().any(|key| any(key))
        } else if let Some(key) = filter.name.strip_prefix("tag:") {
            tags.get(key).is_some_and(|value| any(value))
        } else {
            fields.iter().any(|(name, value)| *name == filter.name && any(value))
        }
    })
}

/// `*` stands for any text, as in EC2.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| fits(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_alternatives_of_patterns() {
        let tags = Tags::from([("Name".to_owned(), "web-1".to_owned())]);
        let fields = [("state", "available")];
        for (name, values, want) in [
            ("tag:Name", vec!["web-1"], true),
            ("tag:Name", vec!["x", "web-*"], true),
            ("tag:Name", vec!["web"], false),
            ("tag-key", vec!["Name"], true),
            ("tag-key", vec!["name"], false),
            ("state", vec!["a*able"], true),
            ("state", vec!["pending"], false),
            ("vpc-id", vec!["*"], false),
        ] {
            assert_eq!(matches(&[Filter::new(name, values.clone())], &tags, &fields), want, "{name} {values:?}");
        }
        assert!(matches(&[], &tags, &fields));
    }
}
