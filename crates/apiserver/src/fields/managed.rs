//! `metadata.managedFields`: who owns which fields.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::set::path_text;
use super::{Set, compare, merge, remove, set_of};
use crate::shape::Shape;

/// Fields that nobody owns: the server sets them.
const UNOWNED: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// Where kubectl notes what it applied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// More updating managers than these are folded together, as on the server.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Manager {
    name: String,
    operation: Operation,
    api_version: String,
    subresource: String,
    time: String,
    fields: Set,
}

/// Who writes.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) now: String,
    /// Fields that a write through this path does not change, so that it does not own them either.
    pub(crate) reset: Set,
}

/// Which fields of others an apply may take.
#[derive(Debug)]
pub(crate) enum Force {
    All,
    Only(Set),
}

/// What kubectl applied from the client is its own when it lets the server apply. These are the fields that the note on the
/// object has, as far as they are still as noted.
pub(crate) fn noted(shape: &Shape, live: &Value, api_version: &str) -> Set {
    let note = live["metadata"]["annotations"].get(LAST_APPLIED).and_then(Value::as_str).unwrap_or_default();
    let Ok(applied) = serde_json::from_str::<Value>(note) else { return Set::default() };
    if applied["apiVersion"] != api_version {
        return Set::default();
    }
    let compared = compare(shape, &applied, live);
    set_of(shape, &applied).difference(&compared.modified).difference(&compared.removed)
}

/// Somebody else owns what was applied.
#[derive(Debug)]
pub(crate) struct ApplyConflict {
    pub(crate) message: String,
    pub(crate) causes: Vec<Value>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managed(Vec<Manager>);

impl Managed {
    /// Of an object. Entries that cannot be understood are left out.
    pub(crate) fn of(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        Self(entries.filter_map(read).collect())
    }

    /// Writes the entries into an object.
    pub(crate) fn store(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let mut managers: Vec<&Manager> = self.0.iter().collect();
        let order =
            |m: &Manager| (m.operation, m.time.clone(), m.name.clone(), m.api_version.clone(), m.subresource.clone());
        managers.sort_by_cached_key(|m| order(m));
        metadata.insert("managedFields".to_owned(), managers.into_iter().map(write).collect());
    }

    /// After an ordinary write.
    pub(crate) fn update(&mut self, shape: &Shape, old: &Value, new: &Value, writer: &Writer) {
        let compared = compare(shape, old, new);
        let taken = compared.modified.union(&compared.added);
        let mut lost = taken.clone();
        if !compared.removed.is_empty() {
            lost = lost.union(&compared.removed);
        }
        let own = owned(&taken, &writer.reset);
        if lost.is_empty() {
            return;
        }
        for manager in &mut self.0 {
            if !writer.is(manager, Operation::Update) {
                manager.fields = manager.fields.difference(&lost);
            }
        }
        let time = writer.now.clone();
        match self.0.iter_mut().find(|m| writer.is(m, Operation::Update)) {
            Some(manager) => {
                manager.fields = manager.fields.difference(&compared.removed).union(&own);
                if !own.is_empty() {
                    manager.time = time;
                }
            }
            None if !own.is_empty() => self.0.push(writer.manager(Operation::Update, own)),
            None => {}
        }
        self.0.retain(|m| !m.fields.is_empty());
        self.fold_ancient();
    }

    /// The object after applying a configuration.
    pub(crate) fn apply(
        &mut self,
        shape: &Shape,
        live: &Value,
        config: &Value,
        writer: &Writer,
        force: &Force,
    ) -> Result<Value, ApplyConflict> {
        let merged = merge(shape, live, config);
        let set = owned(&set_of(shape, config), &writer.reset);
        let mut others: Vec<Manager> = Vec::new();
        let mut last = Set::default();
        let mut last_time = None;
        for manager in self.0.drain(..) {
            if writer.is(&manager, Operation::Apply) {
                last_time = Some(manager.time.clone());
                last = manager.fields;
            } else {
                others.push(manager);
            }
        }
        let claimed = others.iter().fold(set.clone(), |all, m| all.union(&m.fields));
        let pruned = prune(shape, &merged, &last, &claimed);
        let compared = compare(shape, live, &pruned);
        let taken = owned(&compared.modified.union(&compared.added), &writer.reset);
        let conflicts: Vec<(usize, Set)> = others
            .iter()
            .enumerate()
            .map(|(i, m)| (i, m.fields.intersection(&taken)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        let blocking: Vec<(usize, Set)> = match force {
            Force::All => Vec::new(),
            Force::Only(allowed) => {
                conflicts.iter().map(|(i, set)| (*i, set.difference(allowed))).filter(|(_, s)| !s.is_empty()).collect()
            }
        };
        if !blocking.is_empty() {
            return Err(conflict(&others, &blocking));
        }
        for (i, set) in conflicts {
            others[i].fields = others[i].fields.difference(&set);
        }
        for manager in &mut others {
            manager.fields = manager.fields.difference(&compared.removed);
        }
        others.retain(|m| !m.fields.is_empty());
        if !set.is_empty() {
            let mut own = writer.manager(Operation::Apply, set);
            // Times tell of changes: whoever applies what is there already leaves none.
            if pruned == *live {
                own.time = last_time.unwrap_or_default();
            }
            others.push(own);
        }
        self.0 = others;
        Ok(pruned)
    }

    fn fold_ancient(&mut self) {
        let updaters = self.0.iter().filter(|m| m.operation == Operation::Update).count();
        if updaters <= MAX_UPDATERS {
            return;
        }
        let mut order: Vec<usize> = (0..self.0.len()).filter(|i| self.0[*i].operation == Operation::Update).collect();
        order.sort_by(|a, b| {
            let key = |i: usize| (self.0[i].time.clone(), self.0[i].name.clone(), self.0[i].subresource.clone());
            key(*a).cmp(&key(*b))
        });
        let folded: Vec<usize> = order[..=updaters - MAX_UPDATERS].to_vec();
        let mut ancient: Option<Manager> = None;
        for i in &folded {
            let manager = &self.0[*i];
            ancient = Some(match ancient {
                None => Manager { name: ANCIENT.to_owned(), subresource: String::new(), ..manager.clone() },
                Some(mut all) => {
                    all.fields = all.fields.union(&manager.fields);
                    all.time = all.time.max(manager.time.clone());
                    all
                }
            });
        }
        let mut i = 0;
        self.0.retain(|_| {
            i += 1;
            !folded.contains(&(i - 1))
        });
        self.0.extend(ancient);
    }
}

fn owned(set: &Set, reset: &Set) -> Set {
    static NOBODYS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(UNOWNED));
    set.difference(&NOBODYS).without(reset)
}

/// Takes out what the applier applied last time and nobody claims now.
fn prune(shape: &Shape, merged: &Value, last: &Set, claimed: &Set) -> Value {
    if last.is_empty() {
        return merged.clone();
    }
    let named = |set: &Set| set.with_named_fields(shape);
    let fields = |value: &Value| named(&set_of(shape, value));
    let all = fields(merged);
    let pruned = remove(shape, merged, &named(last));
    // Back comes what somebody owns, then what the applier never owned.
    let kept = fields(&pruned).union(&named(claimed));
    let pruned = remove(shape, merged, &all.difference(&kept));
    remove(shape, merged, &all.difference(&fields(&pruned)).intersection(&named(last)))
}

fn conflict(managers: &[Manager], conflicts: &[(usize, Set)]) -> ApplyConflict {
    let mut found: Vec<(String, Vec<String>)> = conflicts
        .iter()
        .map(|(i, set)| (managers[*i].printed(), set.paths().iter().map(|p| path_text(p)).collect()))
        .collect();
    found.sort();
    let causes = found.iter().flat_map(|(manager, paths)| {
        paths.iter().map(move |path| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path})
        })
    });
    let causes: Vec<Value> = causes.collect();
    let message = match found.as_slice() {
        [(manager, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
        }
        _ => {
            let lines = found.iter().flat_map(|(manager, paths)| {
                std::iter::once(format!("conflicts with {manager}:")).chain(paths.iter().map(|p| format!("- {p}")))
            });
            format!("Apply failed with {} conflicts: {}", causes.len(), lines.collect::<Vec<_>>().join("\n"))
        }
    };
    ApplyConflict { message, causes }
}

impl Writer {
    fn is(&self, manager: &Manager, operation: Operation) -> bool {
        manager.operation == operation
            && manager.name == self.manager
            && manager.subresource == self.subresource
            && (operation == Operation::Apply || manager.api_version == self.api_version)
    }

    fn manager(&self, operation: Operation, fields: Set) -> Manager {
        Manager {
            name: self.manager.clone(),
            operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            time: self.now.clone(),
            fields,
        }
    }
}

impl Manager {
    fn printed(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }
}

fn read(entry: &Value) -> Option<Manager> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operation = match entry.get("operation")?.as_str()? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    Some(Manager {
        name: text("manager"),
        operation,
        api_version: text("apiVersion"),
        subresource: text("subresource"),
        time: text("time"),
        fields: Set::decode(entry.get("fieldsV1")?)?,
    })
}

fn write(manager: &Manager) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(key.to_owned(), json!(value));
        }
    };
    put("manager", &manager.name);
    put("operation", manager.operation.name());
    put("apiVersion", &manager.api_version);
    put("time", &manager.time);
    put("fieldsType", "FieldsV1");
    put("subresource", &manager.subresource);
    entry.insert("fieldsV1".to_owned(), manager.fields.encode());
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape;

    fn writer(manager: &str) -> Writer {
        Writer {
            manager: manager.to_owned(),
            api_version: "v1".to_owned(),
            subresource: String::new(),
            now: "2026-01-01T00:00:00Z".to_owned(),
            reset: Set::default(),
        }
    }

    fn none() -> Force {
        Force::Only(Set::default())
    }

    fn config_map(data: impl Into<Value>) -> Value {
        let data: Value = data.into();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
    }

    #[test]
    fn what_an_applier_drops_goes_away() {
        let shape = shape::of_kind("", "v1", "ConfigMap").unwrap();
        let mut managed = Managed::default();
        let apply = |managed: &mut Managed, live: &Value, data: Value, who: &str| {
            managed.apply(&shape, live, &config_map(data), &writer(who), &none()).unwrap()
        };
        let live = apply(&mut managed, &config_map(Value::Null), json!({"a": "1", "b": "1"}), "one");
        let live = apply(&mut managed, &live, json!({"b": "1", "c": "1"}), "two");
        let live = apply(&mut managed, &live, json!({}), "one");
        assert_eq!(live["data"], json!({"b": "1", "c": "1"}), "b has another owner");
        let live = apply(&mut managed, &live, json!({"c": "1"}), "two");
        assert_eq!(live["data"], json!({"c": "1"}));
    }

    #[test]
    fn others_fields_are_a_conflict_unless_forced() {
        let shape = shape::of_kind("", "v1", "ConfigMap").unwrap();
        let mut managed = Managed::default();
        let live = config_map(json!({"a": "1", "b": "1"}));
        managed.update(&shape, &json!({"metadata": {}}), &live, &writer("curl"));
        let config = config_map(json!({"a": "2"}));
        let refused = managed.clone().apply(&shape, &live, &config, &writer("m"), &none()).unwrap_err();
        assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"curl\" using v1: .data.a");
        let same = managed.clone().apply(&shape, &live, &config_map(json!({"a": "1"})), &writer("m"), &none());
        assert!(same.is_ok(), "equal values are shared");
        let forced = managed.apply(&shape, &live, &config, &writer("m"), &Force::All).unwrap();
        let mut object = forced;
        managed.store(&mut object);
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
        assert_eq!(entries[1]["fieldsV1"], json!({"f:data": {".": {}, "f:b": {}}}));
    }

    #[test]
    fn many_updaters_are_folded() {
        let shape = shape::of_kind("", "v1", "ConfigMap").unwrap();
        let mut managed = Managed::default();
        let mut live = config_map(json!({}));
        for i in 0..15 {
            let mut next = live.clone();
            next["data"][format!("k{i}")] = json!("v");
            managed.update(&shape, &live, &next, &writer(&format!("m{i:02}")));
            live = next;
        }
        assert_eq!(managed.0.len(), 10);
        assert!(managed.0.iter().any(|m| m.name == ANCIENT));
    }
}
