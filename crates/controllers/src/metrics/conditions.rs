//! What conditions and deletions of objects say: series, and changes worth an event (API-178, API-179, API-205 … API-209).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::{Collector, KindMetrics, Metrics, Samples};

#[derive(Debug, Clone, Copy)]
pub struct ObservedCondition<'a> {
    pub type_: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct ObservedObject<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub finalizers: &'a [String],
    pub deleting_since: Option<Timestamp>,
    pub conditions: Vec<ObservedCondition<'a>>,
}

/// Something that happened to an object since it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionChange {
    Transition { type_: String, from: String, to: String, reason: String, message: String },
    Finalized(String),
}

/// What a condition says. There are ten thousand nodes, but few things that conditions say.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Saying {
    type_: Arc<str>,
    status: Arc<str>,
    reason: Arc<str>,
}

#[derive(Debug, Clone)]
struct Condition {
    says: Arc<Saying>,
    since: Timestamp,
}

impl Deref for Condition {
    type Target = Saying;

    fn deref(&self) -> &Saying {
        &self.says
    }
}

/// What is remembered of an object, with all but its name and times shared between objects.
#[derive(Debug, Clone)]
struct Remembered {
    uid: Box<str>,
    extra: Arc<[Arc<str>]>,
    finalizers: Arc<[Arc<str>]>,
    deleting_since: Option<Timestamp>,
    conditions: Box<[Condition]>,
}

/// By namespace and name.
type Key = (Arc<str>, Box<str>);

#[derive(Debug, Default)]
struct Memory {
    objects: BTreeMap<Key, Remembered>,
    texts: BTreeSet<Arc<str>>,
    lists: BTreeSet<Arc<[Arc<str>]>>,
    sayings: BTreeSet<Arc<Saying>>,
}

impl Memory {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn shared_list<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> Arc<[Arc<str>]> {
        let list: Arc<[Arc<str>]> = texts.into_iter().map(|text| self.shared(text)).collect();
        let known = self.lists.get(&list).cloned();
        known.unwrap_or_else(|| {
            self.lists.insert(list.clone());
            list
        })
    }

    fn saying(&mut self, condition: &ObservedCondition<'_>) -> Arc<Saying> {
        let says = Arc::new(Saying {
            type_: self.shared(condition.type_),
            status: self.shared(condition.status),
            reason: self.shared(condition.reason),
        });
        let known = self.sayings.get(&says).cloned();
        known.unwrap_or_else(|| {
            self.sayings.insert(says.clone());
            says
        })
    }

    fn remember(&mut self, object: &ObservedObject<'_>, extra: &[String], now: Timestamp) -> Remembered {
        let mut conditions = Vec::with_capacity(object.conditions.len());
        for condition in &object.conditions {
            conditions.push(Condition { says: self.saying(condition), since: condition.since.unwrap_or(now) });
        }
        Remembered {
            uid: object.uid.into(),
            extra: self
                .shared_list(extra.iter().map(|key| object.labels.get(key).map(String::as_str).unwrap_or_default())),
            finalizers: self.shared_list(object.finalizers.iter().map(String::as_str)),
            deleting_since: object.deleting_since,
            conditions: conditions.into(),
        }
    }
}

/// Follows the objects of one kind.
#[derive(Debug)]
pub struct Tracker {
    metrics: Arc<Metrics>,
    kind: KindMetrics,
    memory: Mutex<Memory>,
}

impl Tracker {
    /// `None` when the kind is not among those that are measured.
    pub fn new(metrics: &Arc<Metrics>, kind: &str) -> Option<Arc<Self>> {
        let kind = metrics.kind(kind)?.clone();
        let tracker = Arc::new(Self { metrics: metrics.clone(), kind, memory: Mutex::default() });
        metrics.add_collector(tracker.clone());
        Some(tracker)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Nothing under the lock panics.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an object and says what changed. Nothing has changed for an object that is seen for the first time.
    pub fn seen(&self, object: &ObservedObject<'_>, now: Timestamp) -> Vec<ConditionChange> {
        let mut changes = Vec::new();
        let mut memory = self.lock();
        let key: Key = (memory.shared(object.namespace), object.name.into());
        let known = match memory.objects.remove(&key) {
            Some(known) if &*known.uid != object.uid => {
                changes.extend(self.ended(&known, now));
                None
            }
            known => known,
        };
        let new = memory.remember(object, &self.kind.kind.extra, now);
        for (condition, observed) in new.conditions.iter().zip(&object.conditions) {
            let before = known.as_ref().and_then(|known| known.conditions.iter().find(|c| c.type_ == condition.type_));
            match before {
                Some(before) if before.status == condition.status => {}
                Some(before) => {
                    self.count_transition(condition, &new.extra);
                    self.time_transition(before, condition, &new.extra);
                    changes.push(ConditionChange::Transition {
                        type_: condition.type_.to_string(),
                        from: before.status.to_string(),
                        to: condition.status.to_string(),
                        reason: condition.reason.to_string(),
                        message: observed.message.to_owned(),
                    });
                }
                None if &*condition.status != "Unknown" => self.count_transition(condition, &new.extra),
                None => {}
            }
        }
        let gone = known.iter().flat_map(|known| &*known.finalizers).filter(|had| !new.finalizers.contains(had));
        changes.extend(gone.map(|finalizer| ConditionChange::Finalized(finalizer.to_string())));
        memory.objects.insert(key, new);
        changes
    }

    /// The object is no more.
    pub fn gone(&self, namespace: &str, name: &str, now: Timestamp) -> Vec<ConditionChange> {
        let key: Key = (namespace.into(), name.into());
        let known = self.lock().objects.remove(&key);
        known.map(|known| self.ended(&known, now)).unwrap_or_default()
    }

    fn ended(&self, known: &Remembered, now: Timestamp) -> Vec<ConditionChange> {
        if let Some(since) = known.deleting_since {
            let seconds = seconds_between(since, now);
            let extra: Vec<&str> = known.extra.iter().map(|text| &**text).collect();
            self.kind.termination_duration.observe(&extra, seconds, now);
            if let Some([group, kind]) = self.twin() {
                self.metrics.all.any_termination_duration.observe([group, kind], seconds);
            }
        }
        known.finalizers.iter().map(|finalizer| ConditionChange::Finalized(finalizer.to_string())).collect()
    }

    fn twin(&self) -> Option<[&str; 2]> {
        self.kind.kind.twins.then_some([&self.kind.kind.group, &self.kind.kind.kind])
    }

    fn count_transition(&self, to: &Condition, extra: &[Arc<str>]) {
        let labels = with_extra(&[&to.type_, &to.status, &to.reason], extra);
        self.kind.condition_transitions.add(&labels, 1.0);
        if let Some([group, kind]) = self.twin() {
            self.metrics.all.any_condition_transitions.increment([group, kind, &to.type_, &to.status, &to.reason]);
        }
    }

    fn time_transition(&self, from: &Condition, to: &Condition, extra: &[Arc<str>]) {
        let seconds = seconds_between(from.since, to.since);
        let labels = with_extra(&[&from.type_, &from.status, &to.status], extra);
        self.kind.condition_transition.observe(&labels, seconds, to.since);
        if let Some([group, kind]) = self.twin() {
            let labels = [group, kind, &from.type_, &from.status, &to.status];
            self.metrics.all.any_condition_transition.observe(labels, seconds);
        }
    }
}

impl Collector for Tracker {
    fn collect(&self, now: Timestamp, into: &mut Samples<'_>) {
        let all = &self.metrics.all;
        for ((namespace, name), object) in &self.lock().objects {
            for Condition { says, since } in &object.conditions {
                let Saying { type_, status, reason } = &**says;
                let labels = with_extra(&[namespace, name, type_, status, reason], &object.extra);
                let seconds = seconds_between(*since, now);
                into.add(&self.kind.condition_count, &labels, 1.0);
                into.add(&self.kind.condition_current_status, &labels, seconds);
                if let Some([group, kind]) = self.twin() {
                    let labels = [group, kind, namespace, name, type_, status, reason];
                    into.add(all.any_condition_count.family(), &labels, 1.0);
                    into.add(all.any_condition_current_status.family(), &labels, seconds);
                }
            }
            if let Some(since) = object.deleting_since {
                let seconds = seconds_between(since, now);
                into.add(&self.kind.termination_current_time, &with_extra(&[namespace, name], &object.extra), seconds);
                if let Some([group, kind]) = self.twin() {
                    let labels = [group, kind, namespace, name];
                    into.add(all.any_termination_current_time.family(), &labels, seconds);
                }
            }
        }
    }
}

fn with_extra<'a>(labels: &[&'a str], extra: &'a [Arc<str>]) -> Vec<&'a str> {
    labels.iter().copied().chain(extra.iter().map(|text| &**text)).collect()
}

/// Never negative: clocks of two machines disagree a little.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
