//! What is worked out when somebody looks.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type Recipe<T> = Box<dyn FnOnce() -> T + Send>;

/// Part of a plan that is long to write down and follows from what the plan holds already, such as the names of 400
/// instance types. It is worked out once, for all claims that share it.
#[derive(Clone)]
pub struct Late<T>(Arc<LazyLock<T, Recipe<T>>>);

impl<T> Late<T> {
    pub(crate) fn new(recipe: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(recipe))))
    }
}

impl<T: Clone + Send + 'static> Late<T> {
    /// Whoever changes it has a copy of their own from then on.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) {
        let mut own = T::clone(self);
        change(&mut own);
        *self = Self::from(own);
    }
}

impl<T: Send + 'static> From<T> for Late<T> {
    fn from(value: T) -> Self {
        Self::new(move || value)
    }
}

impl<T> Deref for Late<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Late<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

impl<T: fmt::Display> fmt::Display for Late<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

impl<T: PartialEq> PartialEq for Late<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || T::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_until_changed() {
        let first = Late::new(|| vec![1, 2]);
        let mut second = first.clone();
        second.change(|list| list.extend([3, 4]));
        assert_eq!((&*first, &*second), (&vec![1, 2], &vec![1, 2, 3, 4]));
        assert_eq!(format!("{first:?}"), "[1, 2]");
        assert!(first == first.clone() && first != second);
    }
}
