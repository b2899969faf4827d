//! Who waits for which changes. A change looks only at the watchers that it can concern.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::{Change, node_of, split_key};
use crate::selector::{FieldSelector, LabelSelector};

/// What a watch or list is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Empty for all.
    pub(crate) namespace: String,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    fn scope(&self) -> Scope {
        if let Some(node) = self.fields.exact("spec.nodeName").filter(|node| !node.is_empty()) {
            Scope::Node(node.to_owned())
        } else if let Some(name) = self.fields.exact("metadata.name") {
            Scope::Name(name.to_owned())
        } else if self.namespace.is_empty() {
            Scope::All
        } else {
            Scope::Namespace(self.namespace.clone())
        }
    }

    /// How a change looks from here, if it can be seen at all: entering and leaving the selection are additions and deletions.
    pub(crate) fn event(&self, change: &Change) -> Option<EventType> {
        if !self.namespace.is_empty() && split_key(&change.key).0 != self.namespace {
            return None;
        }
        let before = change.old.as_ref().is_some_and(|entry| self.matches(&entry.value));
        let after = change.new.as_ref().is_some_and(|entry| self.matches(&entry.value));
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change on its way to one watcher.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) event: EventType,
    pub(crate) change: Arc<Change>,
}

#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) filter: Filter,
    pub(crate) sender: UnboundedSender<Delivery>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    All,
    Namespace(String),
    Name(String),
    Node(String),
}

#[derive(Debug, Default)]
pub(crate) struct Watchers(BTreeMap<Scope, Vec<Watcher>>);

impl Watchers {
    pub(crate) fn add(&mut self, watcher: Watcher) {
        let scope = watcher.filter.scope();
        let watchers = self.0.entry(scope).or_default();
        watchers.retain(|w| !w.sender.is_closed());
        watchers.push(watcher);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().flatten().filter(|w| !w.sender.is_closed()).count()
    }

    pub(super) fn deliver(&mut self, change: &Arc<Change>) {
        if self.0.is_empty() {
            return;
        }
        let (namespace, name) = split_key(&change.key);
        let node = |entry: &Option<Arc<super::Entry>>| {
            entry.as_ref().and_then(|e| node_of(&e.value)).map(|node| Scope::Node(node.to_owned()))
        };
        let (old_node, new_node) = (node(&change.old), node(&change.new));
        let new_node = new_node.filter(|node| Some(node) != old_node.as_ref());
        let scopes = [Scope::All, Scope::Namespace(namespace.to_owned()), Scope::Name(name.to_owned())];
        for scope in scopes.into_iter().chain(old_node).chain(new_node) {
            let Some(watchers) = self.0.get_mut(&scope) else { continue };
            watchers.retain(|watcher| match watcher.filter.event(change) {
                Some(event) => watcher.sender.send(Delivery { event, change: Arc::clone(change) }).is_ok(),
                None => !watcher.sender.is_closed(),
            });
            if watchers.is_empty() {
                self.0.remove(&scope);
            }
        }
    }
}
