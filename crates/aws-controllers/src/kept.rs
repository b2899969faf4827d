//! Answers that are good for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

#[derive(Debug)]
pub(crate) struct Kept<K, V>(Mutex<BTreeMap<K, (V, Timestamp)>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, V: Clone> Kept<K, V> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, (V, Timestamp)>> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        self.lock().get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    /// What is over goes on the way, so that nothing grows for ever.
    pub(crate) fn put(&self, key: K, value: V, now: Timestamp, lasts: SignedDuration) {
        let until = now.saturating_add(lasts).unwrap_or(Timestamp::MAX);
        let mut kept = self.lock();
        kept.retain(|_, (_, until)| now < *until);
        kept.insert(key, (value, until));
    }

    pub(crate) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    pub(crate) fn forget_where(&self, matches: impl Fn(&K) -> bool) {
        self.lock().retain(|key, _| !matches(key));
    }

    pub(crate) fn forget_values(&self, value: &V)
    where
        V: PartialEq,
    {
        self.lock().retain(|_, (known, _)| known != value);
    }

    /// Everything that is still good.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<(K, V)> {
        let kept = self.lock();
        let good = kept.iter().filter(|(_, (_, until))| now < *until);
        good.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_gone() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let kept: Kept<&str, u32> = Kept::default();
        kept.put("a", 1, at(0), SignedDuration::from_secs(10));
        assert_eq!((kept.get(&"a", at(9)), kept.get(&"a", at(10))), (Some(1), None));
        kept.put("b", 2, at(20), SignedDuration::from_secs(10));
        assert_eq!(kept.all(at(0)), [("b", 2)], "what was over is not kept");
        kept.forget_where(|key| *key == "b");
        assert_eq!(kept.get(&"b", at(20)), None);
    }
}
