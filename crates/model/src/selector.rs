//! Label selectors: which pods or namespaces a rule is about.

use std::collections::BTreeMap;

use crate::shared::Labels;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorExpression {
    pub key: String,
    pub operator: SelectorOperator,
    /// Sorted and without duplicates.
    pub values: Vec<String>,
}

/// All expressions together. Without any it selects everything.
///
/// `matchLabels` are kept as `In` expressions, and the list is sorted, so that two selectors that mean the same compare
/// equal however they were written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Selector(Vec<SelectorExpression>);

impl Selector {
    pub fn new(expressions: impl IntoIterator<Item = SelectorExpression>) -> Self {
        let mut all: Vec<SelectorExpression> = expressions
            .into_iter()
            .map(|mut expression| {
                expression.values.sort();
                expression.values.dedup();
                expression
            })
            .collect();
        all.sort();
        all.dedup();
        Self(all)
    }

    pub fn labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(labels.into_iter().map(|(key, value)| SelectorExpression {
            key: key.to_owned(),
            operator: SelectorOperator::In,
            values: vec![value.to_owned()],
        }))
    }

    /// The same with one more condition.
    #[must_use]
    pub fn and(&self, expression: SelectorExpression) -> Self {
        Self::new(self.0.iter().cloned().chain([expression]))
    }

    pub fn expressions(&self) -> &[SelectorExpression] {
        &self.0
    }

    pub fn matches(&self, labels: &impl HasLabels) -> bool {
        self.0.iter().all(|expression| {
            let value = labels.label(&expression.key);
            let listed = value.is_some_and(|value| expression.values.binary_search(value).is_ok());
            match expression.operator {
                SelectorOperator::In => listed,
                SelectorOperator::NotIn => !listed,
                SelectorOperator::Exists => value.is_some(),
                SelectorOperator::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// What a selector can look at.
pub trait HasLabels {
    fn label(&self, key: &str) -> Option<&String>;
}

impl<T: HasLabels> HasLabels for &T {
    fn label(&self, key: &str) -> Option<&String> {
        T::label(self, key)
    }
}

impl HasLabels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&String> {
        self.get(key)
    }
}

impl HasLabels for Labels {
    fn label(&self, key: &str) -> Option<&String> {
        self.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, operator: SelectorOperator, values: &[&str]) -> SelectorExpression {
        SelectorExpression { key: key.into(), operator, values: values.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn selecting() {
        use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for (expressions, selected) in [
            (vec![], true),
            (vec![expression("app", In, &["db", "web"])], true),
            (vec![expression("app", In, &["db"])], false),
            (vec![expression("app", NotIn, &["db"])], true),
            (vec![expression("tier", NotIn, &["db"])], true),
            (vec![expression("app", Exists, &[]), expression("tier", DoesNotExist, &[])], true),
            (vec![expression("tier", Exists, &[])], false),
        ] {
            assert_eq!(Selector::new(expressions.clone()).matches(&labels), selected, "{expressions:?}");
        }
    }

    #[test]
    fn equal_meaning_compares_equal() {
        let written = Selector::new([expression("a", SelectorOperator::In, &["2", "1", "2"])]);
        let other = Selector::new([expression("a", SelectorOperator::In, &["1", "2"])]).and(expression(
            "a",
            SelectorOperator::In,
            &["2", "1"],
        ));
        assert_eq!(written, other);
        assert_eq!(Selector::labels([("b", "1"), ("a", "2")]), Selector::labels([("a", "2"), ("b", "1")]));
    }
}
