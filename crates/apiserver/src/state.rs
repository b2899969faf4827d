//! Everything the API knows, and what each verb does to it. One request at a time; nothing here waits.

mod body;
mod collect;
mod create;
mod custom;
mod delete;
mod events;
mod namespaces;
mod patching;
mod read;
mod schemas;
mod structural;
mod sub;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::{Chance, seconds};
use crate::request::{Query, Verb};
use crate::resource::{GroupKind, Registry, ResourceType};
use crate::shape::{self, Shape};
use crate::status::{Cause, Failure};
use crate::store::{Entry, Store, key};

pub(crate) use self::body::Content;
pub(crate) use self::custom::Custom;
pub(crate) use self::events::{as_requested, differs};
pub(crate) use self::read::{ListAnswer, WatchStart};

/// One request about a resource, understood.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) kind: Arc<ResourceType>,
    /// Empty for cluster scope and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) query: Query,
    /// What the client calls itself, for ownership of fields.
    pub(crate) user_agent: String,
    pub(crate) content: Content,
    pub(crate) now: Timestamp,
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    Object {
        code: u16,
        value: Arc<Value>,
        warnings: Vec<String>,
    },
    /// A stored object, which has its JSON already.
    Stored(Arc<Entry>),
    List(ListAnswer),
    Watch(Box<WatchStart>),
}

impl Answer {
    pub(crate) fn ok(value: Value) -> Self {
        Self::Object { code: 200, value: Arc::new(value), warnings: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    /// What CRDs define, by the CRD's name.
    pub(crate) custom: BTreeMap<String, Custom>,
    /// Counts what CRDs did to the kinds that are served.
    pub(crate) definitions: u64,
    chance: Chance,
    /// Whether ownership of fields is recorded.
    managed_fields: bool,
    /// Whether dependents of what is deleted go as well, at once.
    collecting: bool,
    /// The number of the last cluster IP that was given out.
    last_address: u32,
}

const MAX_MANAGER: usize = 128;

/// Events live this long.
const EVENT_LIFE_SECONDS: i64 = 3600;

impl State {
    pub(crate) fn new(seed: u64, history: usize, managed_fields: bool, collecting: bool, now: Timestamp) -> Self {
        let mut state = Self {
            store: Store::new(history),
            registry: Registry::builtin(),
            custom: BTreeMap::new(),
            definitions: 0,
            chance: Chance::new(seed),
            managed_fields,
            collecting,
            last_address: 0,
        };
        state.make_namespaces(now);
        state
    }

    pub(crate) fn handle(&mut self, call: &Call) -> Result<Answer, Failure> {
        self.drop_old_events(call.now);
        if !call.subresource.is_empty() {
            return self.subresource(call);
        }
        match call.verb {
            Verb::Get => self.get(call),
            Verb::List => self.list(call).map(Answer::List),
            Verb::Watch => self.watch(call).map(|start| Answer::Watch(Box::new(start))),
            Verb::Create => self.create_from_body(call),
            Verb::Update => self.replace(call),
            Verb::Patch => self.patch(call),
            Verb::Delete => self.delete(call),
            Verb::DeleteCollection => self.delete_collection(call),
        }
    }

    /// The shape of a kind's objects in the form in which they are stored.
    pub(crate) fn shape(&self, kind: &ResourceType) -> Shape {
        if kind.crd {
            let version = self.custom.get(&kind.qualified()).and_then(|custom| custom.versions.get(&kind.version));
            return version.map_or_else(shape::any, |version| version.shape.clone());
        }
        let stored = storage(kind);
        shape::of_kind(&stored.group, &kind.version, &kind.kind).unwrap_or_else(shape::any)
    }

    pub(crate) fn find(&self, call: &Call) -> Result<Arc<Entry>, Failure> {
        let found = self.store.get(&storage(&call.kind), &call.key());
        found.cloned().ok_or_else(|| Failure::not_found(&call.kind, &call.name))
    }

    fn drop_old_events(&mut self, now: Timestamp) {
        let events = GroupKind { group: String::new(), kind: "Event".to_owned() };
        let Some(table) = self.store.table(&events) else { return };
        // Events are written in order of time, so that the oldest revision says whether there is anything to do.
        let limit = now.as_second() - EVENT_LIFE_SECONDS;
        if table.oldest_write().is_none_or(|at| at > limit) {
            return;
        }
        let old: Vec<String> = table.written_before(limit);
        for key in old {
            self.store.remove(&events, &key, now);
        }
    }
}

/// Where objects of a kind are kept. Both kinds of events are the same objects.
pub(crate) fn storage(kind: &ResourceType) -> GroupKind {
    if kind.group == "events.k8s.io" {
        return GroupKind { group: String::new(), kind: kind.kind.clone() };
    }
    kind.group_kind()
}

impl Call {
    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    pub(crate) fn time(&self) -> String {
        seconds(self.now)
    }

    /// The name under which the writer owns fields.
    pub(crate) fn manager(&self) -> String {
        if let Some(manager) = self.query.get("fieldManager") {
            return manager.to_owned();
        }
        let name = self.user_agent.split('/').next().unwrap_or_default();
        if name.is_empty() { "unknown".to_owned() } else { name.chars().take(128).collect() }
    }

    fn options_kind(&self) -> &'static str {
        match self.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
            _ => "ListOptions",
        }
    }

    /// Whether nothing is to be written. Also checks what all writes may say of themselves.
    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        if self.query.get("fieldManager").is_some_and(|manager| manager.len() > MAX_MANAGER) {
            let cause = Cause::too_long("fieldManager", MAX_MANAGER);
            return Err(Failure::invalid_options(self.options_kind(), cause));
        }
        let values: Vec<&str> = self.query.all("dryRun").filter(|v| !v.is_empty()).collect();
        if let Some(wrong) = values.iter().find(|v| **v != "All") {
            let cause = Cause::unsupported("dryRun", &json!([wrong]), &["All"]);
            return Err(Failure::invalid_options(self.options_kind(), cause));
        }
        Ok(!values.is_empty())
    }

    /// What to do about unknown fields.
    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Failure> {
        match self.query.get("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => {
                let cause = Cause::unsupported("fieldValidation", &json!(other), &["", "Ignore", "Strict", "Warn"]);
                Err(Failure::invalid_options(self.options_kind(), cause))
            }
        }
    }

    /// The same request about another object, as controllers inside of the server make it.
    pub(crate) fn internal(kind: &Arc<ResourceType>, key: &str, verb: Verb, now: Timestamp) -> Self {
        let (namespace, name) = crate::store::split_key(key);
        Self {
            verb,
            kind: Arc::clone(kind),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            query: Query::default(),
            user_agent: "kube-controller-manager".to_owned(),
            content: Content::default(),
            now,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}
