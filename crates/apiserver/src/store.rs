//! Objects by kind and key, one revision counter, and the log of changes that watches and reads of the past are served from.

mod history;
mod watchers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{BufMut as _, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::Value;

use crate::resource::GroupKind;

pub(crate) use self::history::Page;
pub(crate) use self::watchers::{Delivery, EventType, Filter, Watcher, Watchers};

/// An object as it is stored. Shared by reads, the log and watches; encoded at most once.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) value: Arc<Value>,
    pub(crate) revision: u64,
    written: Timestamp,
    encoded: OnceLock<Bytes>,
}

impl Entry {
    fn new(value: Value, revision: u64, written: Timestamp) -> Arc<Self> {
        Arc::new(Self { value: Arc::new(value), revision, written, encoded: OnceLock::new() })
    }

    /// The object as JSON without `apiVersion` and `kind`: items of a list of built-in kinds have none, and custom resources
    /// are shown in several versions.
    pub(crate) fn encoded(&self) -> &Bytes {
        self.encoded.get_or_init(|| {
            let fields = self.value.as_object().into_iter().flatten();
            let typed = |name: &str| name == "apiVersion" || name == "kind";
            let rest: BTreeMap<&String, &Value> = fields.filter(|(name, _)| !typed(name)).collect();
            serde_json::to_vec(&rest).unwrap_or_default().into()
        })
    }

    /// The object as JSON in a version, unless it has another form there.
    pub(crate) fn json(&self, kind: &crate::resource::ResourceType, out: &mut BytesMut) {
        let rest = self.encoded();
        let head = format!("{{\"kind\":{:?},\"apiVersion\":{:?}", kind.kind, kind.api_version());
        out.put_slice(head.as_bytes());
        if rest.len() > 2 {
            out.put_u8(b',');
        }
        out.put_slice(rest.get(1..).unwrap_or_default());
    }
}

/// JSON of a value; a value of ours can always be written.
pub(crate) fn encode(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// One write. `old` and `new` tell creation, change and deletion apart.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: String,
    pub(crate) old: Option<Arc<Entry>>,
    pub(crate) new: Option<Arc<Entry>>,
    /// What a deletion shows: the last state with the revision of the deletion.
    pub(crate) shown: Arc<Entry>,
    pub(crate) at: Timestamp,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By `namespace/name`, or `name` alone: the order in which the real server lists.
    objects: BTreeMap<String, Arc<Entry>>,
    /// Keys by the second of their last write; only for events, which expire.
    written: BTreeSet<(i64, String)>,
    /// Keys by `spec.nodeName`, for kinds that have it.
    by_node: BTreeMap<String, BTreeSet<String>>,
    log: VecDeque<Arc<Change>>,
    /// The last revision that the log does not hold any more.
    forgotten: u64,
    pub(crate) watchers: Watchers,
}

#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    /// The same for those who do not hold the store: set once watchers have been told.
    published: Arc<AtomicU64>,
    tables: BTreeMap<GroupKind, Table>,
    /// Keys of the dependents of each owner, by the owner's UID.
    dependents: BTreeMap<String, BTreeSet<(GroupKind, String)>>,
    /// Log entries to keep per kind.
    history: usize,
}

pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Namespace and name, the namespace empty for cluster scope.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

pub(crate) fn node_of(object: &Value) -> Option<&str> {
    object.get("spec")?.get("nodeName")?.as_str().filter(|name| !name.is_empty())
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
}

impl Store {
    pub(crate) fn new(history: usize) -> Self {
        Self {
            revision: 1,
            published: Arc::new(AtomicU64::new(1)),
            tables: BTreeMap::new(),
            dependents: BTreeMap::new(),
            history: history.max(1),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn published(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.published)
    }

    pub(crate) fn table(&self, kind: &GroupKind) -> Option<&Table> {
        self.tables.get(kind)
    }

    pub(crate) fn table_mut(&mut self, kind: &GroupKind) -> &mut Table {
        if !self.tables.contains_key(kind) {
            self.tables.insert(kind.clone(), Table::default());
        }
        self.tables.get_mut(kind).expect("inserted above")
    }

    pub(crate) fn get(&self, kind: &GroupKind, key: &str) -> Option<&Arc<Entry>> {
        self.tables.get(kind)?.objects.get(key)
    }

    /// Keys of all kinds that are in a namespace.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<(GroupKind, String)> {
        let mut found = Vec::new();
        for (kind, table) in &self.tables {
            found.extend(table.range(namespace).map(|(key, _)| (kind.clone(), key.clone())));
        }
        found
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<(GroupKind, String)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Every object that names an owner.
    pub(crate) fn all_dependents(&self) -> BTreeSet<(GroupKind, String)> {
        self.dependents.values().flatten().cloned().collect()
    }

    pub(crate) fn has_uid(&self, kind: &GroupKind, key: &str, uid: &str) -> bool {
        self.get(kind, key).is_some_and(|entry| entry.value["metadata"]["uid"] == uid)
    }

    /// Writes an object, new or changed, under the next revision.
    pub(crate) fn put(&mut self, kind: &GroupKind, key: &str, mut value: Value, at: Timestamp) -> Arc<Entry> {
        self.revision += 1;
        let revision = self.revision;
        value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let entry = Entry::new(value, revision, at);
        let old = self.table_mut(kind).set(key, Some(Arc::clone(&entry)));
        self.index_time(kind, key, old.as_deref(), Some(at));
        self.index_owners(kind, key, old.as_deref(), Some(&entry));
        let (new, shown) = (Some(Arc::clone(&entry)), Arc::clone(&entry));
        self.log(kind, Change { revision, key: key.to_owned(), old, new, shown, at });
        entry
    }

    /// Removes an object; the entry that is returned shows it as the deletion's event does.
    pub(crate) fn remove(&mut self, kind: &GroupKind, key: &str, at: Timestamp) -> Option<Arc<Entry>> {
        let old = self.table_mut(kind).set(key, None)?;
        let mut value = (*old.value).clone();
        self.revision += 1;
        let revision = self.revision;
        value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let shown = Entry::new(value, revision, at);
        self.index_time(kind, key, Some(&old), None);
        self.index_owners(kind, key, Some(&old), None);
        self.log(
            kind,
            Change { revision, key: key.to_owned(), old: Some(old), new: None, shown: Arc::clone(&shown), at },
        );
        Some(shown)
    }

    fn log(&mut self, kind: &GroupKind, change: Change) {
        let history = self.history;
        let table = self.table_mut(kind);
        let change = Arc::new(change);
        let revision = change.revision;
        table.watchers.deliver(&change);
        table.log.push_back(change);
        while table.log.len() > history {
            table.forget_first();
        }
        self.published.store(revision, Ordering::SeqCst);
    }

    fn index_owners(&mut self, kind: &GroupKind, key: &str, old: Option<&Entry>, new: Option<&Entry>) {
        let of = |entry: Option<&Entry>| -> BTreeSet<String> {
            entry.map(|e| owners(&e.value).map(str::to_owned).collect()).unwrap_or_default()
        };
        let (old, new) = (of(old), of(new));
        for uid in old.difference(&new) {
            if let Some(keys) = self.dependents.get_mut(uid) {
                keys.remove(&(kind.clone(), key.to_owned()));
                if keys.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in new.difference(&old) {
            self.dependents.entry(uid.clone()).or_default().insert((kind.clone(), key.to_owned()));
        }
    }

    fn index_time(&mut self, kind: &GroupKind, key: &str, old: Option<&Entry>, at: Option<Timestamp>) {
        if kind.kind != "Event" {
            return;
        }
        let table = self.table_mut(kind);
        if let Some(old) = old {
            table.written.remove(&(old.written.as_second(), key.to_owned()));
        }
        if let Some(at) = at {
            table.written.insert((at.as_second(), key.to_owned()));
        }
    }

    /// Says that nothing is remembered of a kind from before now.
    pub(crate) fn begin(&mut self, kind: &GroupKind) {
        let revision = self.revision;
        let table = self.table_mut(kind);
        if table.log.is_empty() {
            table.forgotten = revision;
        }
    }

    /// Drops a kind: its objects, its past and those who watch it.
    pub(crate) fn clear(&mut self, kind: &GroupKind) {
        if let Some(table) = self.tables.remove(kind) {
            for (key, entry) in &table.objects {
                self.index_owners(kind, key, Some(entry), None);
            }
        }
    }

    /// Forgets all of the past, as etcd's compaction does.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.log.clear();
            table.forgotten = revision;
        }
    }
}

impl Table {
    fn set(&mut self, key: &str, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let new_node = entry.as_ref().and_then(|e| node_of(&e.value)).map(str::to_owned);
        let old = match entry {
            Some(entry) => self.objects.insert(key.to_owned(), entry),
            None => self.objects.remove(key),
        };
        let old_node = old.as_ref().and_then(|e| node_of(&e.value));
        if old_node != new_node.as_deref() {
            if let Some(node) = old_node
                && let Some(keys) = self.by_node.get_mut(node)
            {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_node.remove(node);
                }
            }
            if let Some(node) = new_node {
                self.by_node.entry(node).or_default().insert(key.to_owned());
            }
        }
        old
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.objects.values()
    }

    /// All objects, or those of one namespace.
    pub(crate) fn range(&self, namespace: &str) -> impl Iterator<Item = (&String, &Arc<Entry>)> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        self.objects.range(prefix.clone()..).take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// The objects on a node.
    pub(crate) fn on_node(&self, node: &str) -> impl Iterator<Item = (&String, &Arc<Entry>)> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.objects.get_key_value(key))
    }

    /// Changes after a revision, or `None` when some of them are forgotten.
    pub(crate) fn changes_since(&self, revision: u64) -> Option<impl Iterator<Item = &Arc<Change>>> {
        if revision < self.forgotten {
            return None;
        }
        let start = self.log.partition_point(|change| change.revision <= revision);
        Some(self.log.range(start..))
    }

    /// Second of the last write of the object that was not written for the longest time.
    pub(crate) fn oldest_write(&self) -> Option<i64> {
        self.written.first().map(|(second, _)| *second)
    }

    /// Keys of objects that were last written at or before a second.
    pub(crate) fn written_before(&self, second: i64) -> Vec<String> {
        self.written.iter().take_while(|(at, _)| *at <= second).map(|(_, key)| key.clone()).collect()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn forget_first(&mut self) {
        if let Some(change) = self.log.pop_front() {
            self.forgotten = change.revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> GroupKind {
        GroupKind { group: String::new(), kind: "Pod".to_owned() }
    }

    fn pod(name: &str, node: &str, owner: &str) -> Value {
        json!({"metadata": {"name": name, "ownerReferences": [{"uid": owner}]}, "spec": {"nodeName": node}})
    }

    #[test]
    fn indexes_follow_the_objects() {
        let mut store = Store::new(10);
        let at = Timestamp::UNIX_EPOCH;
        store.put(&pods(), "a/x", pod("x", "", "u1"), at);
        store.put(&pods(), "a/y", pod("y", "n1", "u1"), at);
        assert_eq!(store.dependents("u1").len(), 2);
        store.put(&pods(), "a/x", pod("x", "n1", "u2"), at);
        assert_eq!(store.dependents("u1").len(), 1);
        let on_node = |store: &Store, node: &str| store.table(&pods()).unwrap().on_node(node).count();
        assert_eq!(on_node(&store, "n1"), 2);
        store.remove(&pods(), "a/y", at);
        assert_eq!((on_node(&store, "n1"), store.dependents("u1").len()), (1, 0));
        assert_eq!(store.revision(), 5);
    }

    #[test]
    fn the_log_forgets_its_oldest_entries() {
        let mut store = Store::new(2);
        for i in 0..4 {
            store.put(&pods(), &format!("a/{i}"), pod("x", "", ""), Timestamp::UNIX_EPOCH);
        }
        let table = store.table(&pods()).unwrap();
        assert!(table.changes_since(2).is_none());
        assert_eq!(table.changes_since(3).unwrap().count(), 2);
        assert_eq!(table.changes_since(5).unwrap().count(), 0);
    }
}
