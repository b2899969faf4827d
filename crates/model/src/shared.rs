//! Values that many objects have in common, stored once.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Peekable;
use std::ops::{Deref, DerefMut, Index};
use std::slice;
use std::sync::Arc;

/// Read and changed as if it were the value itself. The first change gives its owner a copy.
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are one value in memory, which is more than being equal.
    pub fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many owners the value has.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl<T: Clone> Shared<T> {
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Shared<Vec<Arc<T>>> {
    /// The same objects in the same order, and not only equal ones.
    pub fn has_same(&self, other: &Self) -> bool {
        let same = || self.iter().zip(other.iter()).all(|(a, b)| Arc::ptr_eq(a, b));
        self.is_one_with(other) || self.len() == other.len() && same()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_one_with(other) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: PartialEq> PartialEq<T> for Shared<T> {
    fn eq(&self, other: &T) -> bool {
        *self.0 == *other
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<A, T: FromIterator<A>> FromIterator<A> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        T::from_iter(items).into()
    }
}

impl<'a, T> IntoIterator for &'a Shared<Vec<T>> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.0.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Labels, or annotations, ordered by key. Those that others have too can be one map in memory, beside the few that
/// nobody else has, such as the host name.
#[derive(Clone, Default)]
pub struct Labels {
    common: Shared<BTreeMap<String, String>>,
    /// Sorted; never a key of `common`.
    own: Box<[(String, String)]>,
}

impl Labels {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        let own = self.own.iter().find(|(known, _)| known == key);
        own.map(|(_, value)| value).or_else(|| self.common.get(key))
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn len(&self) -> usize {
        self.common.len() + self.own.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By key.
    pub fn iter(&self) -> LabelsIter<'_> {
        LabelsIter { common: self.common.iter().peekable(), own: self.own.iter().peekable() }
    }

    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|(key, _)| key)
    }

    pub fn insert(&mut self, key: String, value: String) -> Option<String> {
        self.whole().insert(key, value)
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.whole().remove(key)
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of them in one map.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What others may have too, once those labels that `is_own` says so of are set apart.
    pub fn common(&mut self, is_own: impl Fn(&str) -> bool) -> &mut Shared<BTreeMap<String, String>> {
        if self.common.keys().any(|key| is_own(key)) {
            let whole = std::mem::take(self.whole());
            let (own, common): (Vec<_>, _) = whole.into_iter().partition(|(key, _)| is_own(key));
            *self = Self { common: BTreeMap::from_iter(common).into(), own: own.into() };
        }
        &mut self.common
    }

    /// For a change: everything in one map again.
    fn whole(&mut self) -> &mut BTreeMap<String, String> {
        let own = std::mem::take(&mut self.own);
        let whole = &mut *self.common;
        whole.extend(own);
        whole
    }
}

/// Labels by key.
#[derive(Debug, Clone)]
pub struct LabelsIter<'a> {
    common: Peekable<btree_map::Iter<'a, String, String>>,
    own: Peekable<slice::Iter<'a, (String, String)>>,
}

impl<'a> Iterator for LabelsIter<'a> {
    type Item = (&'a String, &'a String);

    fn next(&mut self) -> Option<Self::Item> {
        let own_first = match (self.common.peek(), self.own.peek()) {
            (Some((common, _)), Some((own, _))) => own < *common,
            (common, _) => common.is_none(),
        };
        if own_first { self.own.next().map(|(key, value)| (key, value)) } else { self.common.next() }
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a String, &'a String);
    type IntoIter = LabelsIter<'a>;

    fn into_iter(self) -> LabelsIter<'a> {
        self.iter()
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self { common: labels.into(), own: Box::default() }
    }
}

impl<const N: usize> From<[(String, String); N]> for Labels {
    fn from(labels: [(String, String); N]) -> Self {
        BTreeMap::from(labels).into()
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        BTreeMap::from_iter(labels).into()
    }
}

impl Extend<(String, String)> for Labels {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, more: I) {
        self.whole().extend(more);
    }
}

impl Index<&str> for Labels {
    type Output = String;

    fn index(&self, key: &str) -> &String {
        self.get(key).expect("whoever names a label by index knows that it is there")
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        (self.common.is_one_with(&other.common) && self.own == other.own) || self.iter().eq(other.iter())
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|label| label.hash(state));
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Set apart or not, they are the same labels.
    #[test]
    fn own_labels_are_labels() {
        let whole = labels("a=1 host=x zone=z");
        let mut apart = whole.clone();
        assert_eq!(apart.common(|key| key == "host").len(), 2);
        assert_eq!(apart, whole);
        assert_eq!(apart.to_map(), whole.to_map());
        assert_eq!(apart.keys().collect::<Vec<_>>(), ["a", "host", "zone"], "in order");
        assert_eq!((apart.len(), apart["host"].as_str(), apart.get("b")), (3, "x", None));
        assert_ne!(apart, labels("a=1 host=y zone=z"));
        for (key, value) in [("host", "y"), ("a", "2"), ("b", "3")] {
            let (mut one, mut other) = (apart.clone(), whole.clone());
            assert_eq!(one.insert(key.into(), value.into()), other.insert(key.into(), value.into()), "{key}");
            assert_eq!(one, other, "{key}");
            assert_eq!((one.remove(key), one.contains_key(key)), (Some(value.to_owned()), false), "{key}");
        }
        apart.clear();
        assert!(apart.is_empty() && apart.iter().next().is_none());
    }

    #[test]
    fn a_change_is_nobody_elses() {
        let one: Shared<Vec<u32>> = vec![1].into();
        let mut other = one.clone();
        assert!(other.is_one_with(&one) && one.owners() == 2);
        other.push(2);
        assert_eq!((&*one, &*other), (&vec![1], &vec![1, 2]));
        assert_eq!((one == other, one == vec![1], other.into_inner()), (false, true, vec![1, 2]));
    }
}
