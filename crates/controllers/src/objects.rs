//! The last seen version of each object of a kind.

mod packing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::{Resource, ResourceExt as _};

/// Fed by the watch and by the answers to our own writes, so that nobody waits to read back what they wrote.
///
/// Objects are kept as text, and of that only what the object has not in common with another one: decisions read views, and whoever
/// writes to one of ten thousand nodes can afford to decode it, which takes microseconds. Decoded, a node takes fifty times
/// the memory.
#[derive(Debug)]
pub struct Objects<K>(Mutex<Known>, PhantomData<fn() -> K>);

#[derive(Debug, Default)]
struct Known {
    living: BTreeMap<String, Packed>,
    /// UIDs of objects that are gone, oldest first. An answer to a write may arrive after the news that the object is gone;
    /// it must not come back to life.
    gone: VecDeque<String>,
    /// Whether all of them have been seen once.
    listed: bool,
    /// The text that others are told by. One that has too little in common with it becomes the next.
    model: Arc<[u8]>,
}

/// Far more than can be on their way between the API and us.
const REMEMBERED: usize = 1024;

#[derive(Debug)]
struct Packed {
    uid: Option<Box<str>>,
    version: Option<u64>,
    model: Arc<[u8]>,
    text: Box<[u8]>,
}

impl Packed {
    fn of<K: Resource + Serialize>(object: &K, model: Arc<[u8]>) -> Option<Self> {
        // An object that came from JSON goes back to it.
        let text = serde_json::to_vec(object).ok()?;
        let packed = packing::pack(&model, &text);
        let (model, packed) = if packed.len() * 2 > text.len() {
            let own: Arc<[u8]> = text.into();
            (own.clone(), packing::pack(&own, &own))
        } else {
            (model, packed)
        };
        Some(Self {
            uid: object.uid().map(Into::into),
            version: object.resource_version().and_then(|text| text.parse().ok()),
            model,
            text: packed,
        })
    }

    fn unpack<K: DeserializeOwned>(&self) -> Option<Arc<K>> {
        let text = packing::unpack(&self.model, &self.text)?;
        serde_json::from_slice(&text).ok().map(Arc::new)
    }

    fn is_same<K: Resource>(&self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref().and_then(|text| text.parse().ok());
        version.is_some() && version == self.version && self.uid.as_deref() == object.meta().uid.as_deref()
    }

    /// Resource versions of one kind are comparable numbers (Kubernetes 1.35 says so, and older servers act so); where they
    /// are not, or where the object was deleted and made again, the later arrival wins.
    fn is_older(&self, known: &Self) -> bool {
        self.uid == known.uid && self.version.zip(known.version).is_some_and(|(new, known)| new < known)
    }
}

impl Known {
    fn bury(&mut self, uid: Option<String>) {
        if let Some(uid) = uid {
            self.gone.push_back(uid);
        }
        if self.gone.len() > REMEMBERED {
            self.gone.pop_front();
        }
    }
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self(Mutex::default(), PhantomData)
    }
}

impl<K: Resource + Serialize + DeserializeOwned> Objects<K> {
    /// Keeps the object unless this version of it or a newer one is known; says whether it was kept. What we write comes back
    /// with the watch, and is no news then.
    pub fn put(&self, object: &K) -> bool {
        let name = object.name_any();
        let model = {
            let objects = self.lock();
            if objects.living.get(&name).is_some_and(|known| known.is_same(object)) {
                return false;
            }
            objects.model.clone()
        };
        let Some(packed) = Packed::of(object, model) else { return false };
        let mut objects = self.lock();
        objects.model = packed.model.clone();
        let buried = object.uid().is_some_and(|uid| objects.gone.contains(&uid));
        if buried || objects.living.get(&name).is_some_and(|known| packed.is_older(known)) {
            return false;
        }
        objects.living.insert(name, packed);
        true
    }

    /// The object is gone, whether it was known or not.
    pub fn bury(&self, name: &str, uid: Option<String>) {
        let mut objects = self.lock();
        objects.living.remove(name);
        objects.bury(uid);
    }

    pub fn remove(&self, name: &str) {
        let mut objects = self.lock();
        let uid = objects.living.remove(name).and_then(|object| object.uid);
        objects.bury(uid.map(Into::into));
    }

    /// Drops what is not on a complete list.
    pub fn retain(&self, names: &BTreeSet<String>) {
        let mut objects = self.lock();
        let gone: Vec<String> = objects.living.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            let uid = objects.living.remove(&name).and_then(|object| object.uid);
            objects.bury(uid.map(Into::into));
        }
        objects.listed = true;
    }

    /// Whether there has been a complete list: before that, what is not here may only be late.
    pub fn is_listed(&self) -> bool {
        self.lock().listed
    }

    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.lock().living.get(name).and_then(Packed::unpack)
    }

    /// Of all of them, in order.
    pub fn names(&self) -> Vec<String> {
        self.lock().living.keys().cloned().collect()
    }

    /// By name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.lock().living.values().filter_map(Packed::unpack).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // No code that could panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(uid: &str, version: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        node.metadata.uid = Some(uid.to_owned());
        node.metadata.resource_version = Some(version.to_owned());
        node
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let objects: Objects<Node> = Objects::default();
        for (uid, version, kept) in [
            ("1", "9", true),
            ("1", "10", true),
            ("1", "9", false),
            ("1", "10", false),
            ("2", "3", true),
            ("2", "x", true),
        ] {
            assert_eq!(objects.put(&node(uid, version)), kept, "{uid} {version}");
        }
        assert_eq!((objects.names(), objects.all().len()), (vec!["a".to_owned()], 1));
        assert_eq!(objects.get("a").unwrap().uid().as_deref(), Some("2"), "as it was");
        objects.retain(&BTreeSet::new());
        assert!(objects.get("a").is_none());
    }

    /// SCH-242: a late answer to a write does not bring an object back.
    #[test]
    fn what_is_gone_stays_gone() {
        let objects: Objects<Node> = Objects::default();
        assert!(objects.put(&node("1", "9")));
        objects.remove("a");
        assert!(!objects.put(&node("1", "10")));
        objects.bury("a", Some("2".to_owned()));
        assert!(!objects.put(&node("2", "11")), "gone before it was ever seen");
        assert!(objects.put(&node("3", "12")));
    }
}
