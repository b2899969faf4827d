//! What somebody sees who looks at the store itself, past every client: checks of tests, and programs that show a cluster.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Api, lock};
use crate::resource::{GroupKind, ResourceType};
use crate::state::{State, storage};
use crate::store::{Change, Entry, Table, key};

/// One write. A creation has no `old`, a deletion no `new`.
#[derive(Debug, Clone)]
pub struct Written {
    pub at: Timestamp,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

impl Written {
    fn of(change: &Arc<Change>) -> Self {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| Arc::clone(&entry.value));
        Self { at: change.at, old: value(&change.old), new: value(&change.new) }
    }
}

fn all(state: &State, kind: &ResourceType) -> Vec<Arc<Value>> {
    let table = state.store.table(&storage(kind));
    table.into_iter().flat_map(Table::values).map(|entry| entry.requested(kind)).collect()
}

impl Api {
    /// All objects of a kind in the order of the API.
    pub fn list(&self, kind: &ResourceType) -> Vec<Arc<Value>> {
        all(&lock(&self.inner.state), kind)
    }

    /// The same by the name of the kind; nothing when it is not served.
    pub fn objects(&self, group: &str, version: &str, kind: &str) -> Vec<Arc<Value>> {
        let state = lock(&self.inner.state);
        state.registry.by_kind(group, version, kind).map(|kind| all(&state, kind)).unwrap_or_default()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: &GroupKind) -> usize {
        lock(&self.inner.state).store.table(kind).map_or(0, Table::len)
    }

    /// One object as it is stored. The namespace is empty for kinds of the cluster.
    pub fn object(&self, kind: &GroupKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let state = lock(&self.inner.state);
        state.store.get(kind, &key(namespace, name)).map(|entry| Arc::clone(&entry.value))
    }

    /// What was written to a kind after a revision, in order, as it is stored, and the revision of now; `None` when some of
    /// that is forgotten.
    pub fn changes(&self, kind: &GroupKind, after: u64) -> Option<(Vec<Written>, u64)> {
        let state = lock(&self.inner.state);
        let table = state.store.table(kind);
        let changes = match table {
            Some(table) => table.changes_since(after)?.map(Written::of).collect(),
            None => Vec::new(),
        };
        Some((changes, state.store.revision()))
    }
}
