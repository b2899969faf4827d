//! The last seen version of each object of a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kube::{Resource, ResourceExt as _};

/// Fed by the watch and by the answers to our own writes, so that nobody waits to read back what they wrote.
#[derive(Debug)]
pub struct Objects<K>(Mutex<BTreeMap<String, Arc<K>>>);

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Resource> Objects<K> {
    /// Keeps the object unless a newer version of it is known; says whether it was kept.
    pub fn put(&self, object: Arc<K>) -> bool {
        let mut objects = self.lock();
        let name = object.name_any();
        if objects.get(&name).is_some_and(|known| is_older(object.as_ref(), known.as_ref())) {
            return false;
        }
        objects.insert(name, object);
        true
    }

    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Drops what is not on a complete list.
    pub fn retain(&self, names: &BTreeSet<String>) {
        self.lock().retain(|name, _| names.contains(name));
    }

    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.lock().get(name).cloned()
    }

    /// By name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<K>>> {
        // No code that could panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resource versions of one kind are comparable numbers (Kubernetes 1.35 says so, and older servers act so); where they
/// are not, or where the object was deleted and made again, the later arrival wins.
fn is_older<K: Resource>(new: &K, known: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|text| text.parse::<u64>().ok());
    new.uid() == known.uid() && version(new).zip(version(known)).is_some_and(|(new, known)| new < known)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(uid: &str, version: &str) -> Arc<Node> {
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        node.metadata.uid = Some(uid.to_owned());
        node.metadata.resource_version = Some(version.to_owned());
        Arc::new(node)
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let objects = Objects::default();
        for (uid, version, kept) in [
            ("1", "9", true),
            ("1", "10", true),
            ("1", "9", false),
            ("1", "10", true),
            ("2", "3", true),
            ("2", "x", true),
        ] {
            assert_eq!(objects.put(node(uid, version)), kept, "{uid} {version}");
        }
        objects.retain(&BTreeSet::new());
        assert!(objects.get("a").is_none());
    }
}
