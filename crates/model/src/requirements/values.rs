//! The listed values of a requirement: sorted, each once.

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Values(Vec<Box<str>>);

impl Values {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, value: &str) -> bool {
        self.0.binary_search_by(|known| known.as_ref().cmp(value)).is_ok()
    }

    /// Those that `keep` says so of.
    pub(super) fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|value| keep(value)).cloned().collect())
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|value| keep(value));
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).cloned().map(String::from).collect()
    }
}

impl FromIterator<String> for Values {
    fn from_iter<I: IntoIterator<Item = String>>(values: I) -> Self {
        let mut values: Vec<Box<str>> = values.into_iter().map(Into::into).collect();
        values.sort_unstable();
        values.dedup();
        Self(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn sorted_and_each_once() {
        let all = values("b a c a");
        assert_eq!(all.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(all.contains("c") && !all.contains("d") && all.len() == 3 && !all.is_empty());
        assert_eq!(all.union(&values("d a")), values("a b c d"));
        assert_eq!(all.filtered(|value| value > "a"), values("b c"));
    }
}
