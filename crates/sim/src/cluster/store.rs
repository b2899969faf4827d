//! The last seen version of each object of a kind, and who wants to hear of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

type Index<K> = fn(&K) -> Option<String>;
/// Keys by what the index says of their objects.
type Entries = BTreeMap<String, BTreeSet<String>>;
type Listener<K> = Box<dyn Fn(&K) + Send + Sync>;

/// `namespace/name`, or just the name.
pub(crate) fn key_of<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// Namespace and name of a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

pub(crate) struct Store<K> {
    inner: Mutex<Inner<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
}

struct Inner<K> {
    objects: BTreeMap<String, Arc<K>>,
    indexes: Vec<(Index<K>, Entries)>,
    /// Uids of objects that we removed and whose end the watch has not told yet.
    dead: BTreeSet<String>,
    /// How far the watch has come: an object of an earlier version that is not here has come to its end.
    heard: u64,
    synced: bool,
}

impl<K: Resource<DynamicType = ()>> Inner<K> {
    fn put(&mut self, key: &str, object: Option<&Arc<K>>) -> Option<Arc<K>> {
        let old = match object {
            Some(object) => self.objects.insert(key.to_owned(), object.clone()),
            None => self.objects.remove(key),
        };
        for (index, entries) in &mut self.indexes {
            let (was, is) = (old.as_deref().and_then(*index), object.and_then(|object| index(object)));
            if was == is {
                continue;
            }
            if let Some(was) = was
                && let Some(keys) = entries.get_mut(&was)
            {
                keys.remove(key);
                if keys.is_empty() {
                    entries.remove(&was);
                }
            }
            if let Some(is) = is {
                entries.entry(is).or_default().insert(key.to_owned());
            }
        }
        old
    }
}

fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn new(indexes: Vec<Index<K>>) -> Self {
        let indexes = indexes.into_iter().map(|index| (index, BTreeMap::new())).collect();
        let inner = Inner { objects: BTreeMap::new(), indexes, dead: BTreeSet::new(), heard: 0, synced: false };
        Self { inner: Mutex::new(inner), listeners: RwLock::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<K>> {
        self.lock().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        // The character after the slash ends the range of this namespace's keys.
        let range = format!("{namespace}/")..format!("{namespace}0");
        self.lock().objects.range(range).map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn indexed(&self, index: usize, value: &str) -> Vec<Arc<K>> {
        let inner = self.lock();
        let keys = inner.indexes.get(index).and_then(|(_, entries)| entries.get(value));
        keys.into_iter().flatten().filter_map(|key| inner.objects.get(key).cloned()).collect()
    }

    /// How many there are of each value of an index that starts with this, and one of them.
    pub(crate) fn counted(&self, index: usize, start: &str) -> Vec<(usize, Arc<K>)> {
        let inner = self.lock();
        let Some((_, entries)) = inner.indexes.get(index) else { return Vec::new() };
        let values = entries.range(start.to_owned()..).take_while(|(value, _)| value.starts_with(start));
        values.filter_map(|(_, keys)| Some((keys.len(), inner.objects.get(keys.first()?)?.clone()))).collect()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.lock().synced
    }

    pub(crate) fn listen(&self, listener: impl Fn(&K) + Send + Sync + 'static) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    fn tell(&self, objects: [Option<&Arc<K>>; 2]) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for object in objects.into_iter().flatten() {
            for listener in listeners.iter() {
                listener(object);
            }
        }
    }

    /// Takes note of what a write answered. The watch may have been faster, with this version or with the object's end.
    pub(crate) fn note(&self, object: K) -> Arc<K> {
        let ended = {
            let inner = self.lock();
            version(&object) <= inner.heard && !inner.objects.contains_key(&key_of(&object))
        };
        if ended { Arc::new(object) } else { self.keep(object) }
    }

    /// Takes note of what the watch tells.
    fn hear(&self, object: K) {
        let version = version(&object);
        self.keep(object);
        let mut inner = self.lock();
        inner.heard = inner.heard.max(version);
    }

    /// Keeps an object unless a newer version is known or it is known to be gone.
    fn keep(&self, object: K) -> Arc<K> {
        let object = Arc::new(object);
        let key = key_of(object.as_ref());
        let old = {
            let mut inner = self.lock();
            let uid = object.uid().unwrap_or_default();
            let known = inner.objects.get(&key);
            // A version is a number to us on every server we know; the API does not promise it, a watch would heal it.
            if inner.dead.contains(&uid)
                || known.is_some_and(|known| version(known.as_ref()) >= version(object.as_ref()))
            {
                return object;
            }
            inner.put(&key, Some(&object))
        };
        self.tell([old.as_ref(), Some(&object)]);
        object
    }

    /// We removed it; what the watch still brings of it is old.
    pub(crate) fn note_gone(&self, object: &K) {
        let key = key_of(object);
        let old = {
            let mut inner = self.lock();
            if inner.objects.get(&key).is_none_or(|known| known.uid() != object.uid()) {
                return;
            }
            inner.dead.insert(object.uid().unwrap_or_default());
            inner.put(&key, None)
        };
        self.tell([old.as_ref(), None]);
    }

    fn removed(&self, object: &K) {
        let key = key_of(object);
        let old = {
            let mut inner = self.lock();
            inner.dead.remove(&object.uid().unwrap_or_default());
            inner.heard = inner.heard.max(version(object));
            let same = inner.objects.get(&key).is_some_and(|known| known.uid() == object.uid());
            if same { inner.put(&key, None) } else { None }
        };
        self.tell([old.as_ref(), None]);
    }

    /// Follows the kind for ever.
    pub(crate) async fn follow(&self, api: Api<K>) {
        let mut events = watcher(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
        let (mut before, mut listed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    before = self.lock().objects.keys().cloned().collect();
                    listed.clear();
                }
                Ok(Event::InitApply(object)) => {
                    listed.insert(key_of(&object));
                    self.keep(object);
                }
                Ok(Event::InitDone) => {
                    self.lock().synced = true;
                    // What was noted while the list was under way is newer than the list.
                    for key in before.difference(&listed) {
                        let old = self.lock().put(key, None);
                        self.tell([old.as_ref(), None]);
                    }
                }
                Ok(Event::Apply(object)) => self.hear(object),
                Ok(Event::Delete(object)) => self.removed(&object),
                Err(error) => tracing::debug!(kind = %K::kind(&()), %error, "watch failed"),
            }
        }
    }
}

/// The same pauses in every run, unlike the ones that kube draws.
#[derive(Debug, Clone, Default)]
struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 = (self.0 + 1).min(7);
        Some(Duration::from_millis(100) * (1 << self.0))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use karpenter_testkit::build;

    use super::*;

    fn pod(name: &str, version: u64, node: &str) -> Pod {
        let mut pod = build::pod(name).uid(name).on(node).build();
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    fn node_of(pod: &Pod) -> Option<String> {
        pod.spec.as_ref()?.node_name.clone()
    }

    #[test]
    fn newer_versions_win_and_indexes_follow() {
        let store = Store::new(vec![node_of]);
        store.note(pod("a", 5, "n1"));
        store.note(pod("b", 6, "n1"));
        store.note(pod("a", 7, "n2"));
        store.note(pod("a", 4, "n3"));
        let on = |node: &str| store.indexed(0, node).iter().map(|p| p.name_any()).collect::<Vec<_>>();
        assert_eq!((on("n1"), on("n2"), on("n3")), (vec!["b".to_owned()], vec!["a".to_owned()], vec![]));
        let counted =
            |start: &str| store.counted(0, start).iter().map(|(size, pod)| (*size, pod.name_any())).collect::<Vec<_>>();
        assert_eq!(counted("n"), [(1, "b".to_owned()), (1, "a".to_owned())]);
        assert_eq!((counted("n2").len(), counted("n3").len()), (1, 0));
        assert_eq!(store.in_namespace("default").len(), 2);
        assert!(store.in_namespace("defaul").is_empty());
    }

    #[test]
    fn late_answers_do_not_bring_back_what_has_ended() {
        let store = Store::new(vec![]);
        store.hear(pod("a", 5, "n1"));
        store.removed(&pod("a", 7, "n1"));
        store.note(pod("a", 6, "n1"));
        assert!(store.get("default/a").is_none(), "the watch told of its end before the write was answered");
        store.note(pod("b", 8, "n1"));
        assert!(store.get("default/b").is_some(), "the watch has not come to it yet");
    }

    #[test]
    fn what_we_removed_does_not_come_back() {
        let store = Store::new(vec![]);
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        store.listen(move |_: &Pod| *count.lock().unwrap() += 1);
        let first = pod("a", 5, "n1");
        store.note(first.clone());
        store.note_gone(&first);
        store.note(pod("a", 6, "n1"));
        assert!(store.get("default/a").is_none());
        store.removed(&pod("a", 7, "n1"));
        // The same name again is another object.
        let mut second = pod("a", 8, "n1");
        second.metadata.uid = Some("other".into());
        store.note(second.clone());
        assert!(store.get("default/a").is_some());
        store.removed(&pod("a", 9, "n1"));
        assert_eq!(
            store.get("default/a").unwrap().uid(),
            second.uid(),
            "the end of the first is not the end of the second"
        );
        assert_eq!(*told.lock().unwrap(), 3);
    }
}
