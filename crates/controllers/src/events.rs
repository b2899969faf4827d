//! Kubernetes events: what we tell the users of the cluster, each thing once in a while (API-169 … API-172).
//!
//! [`catalogue`] has one function per event. [`Recorder::publish`] decides at once whether it is said again;
//! [`publisher`] writes what is to be said to the API, in its own time, so that nobody waits for an event.

pub mod catalogue;
mod limits;
mod publisher;
mod reference;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_platform::Clock;
use tokio::sync::Notify;

use self::limits::TokenBucket;
pub use self::reference::reference;

/// The component that events and field managers name.
pub const COMPONENT: &str = "karpenter";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Subject {
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> Self {
        let [api_version, kind, namespace, name, uid] = [api_version, kind, namespace, name, uid].map(str::to_owned);
        Self { api_version, kind, namespace, name, uid }
    }

    pub fn pod(id: &karpenter_model::pod::PodId, uid: &karpenter_model::uid::Uid) -> Self {
        Self::new("v1", "Pod", &id.namespace, &id.name, &uid.to_string())
    }

    pub fn node(name: &str, uid: &str) -> Self {
        Self::new("v1", "Node", "", name, uid)
    }

    pub fn claim(name: &str, uid: &str) -> Self {
        Self::new("karpenter.sh/v1", "NodeClaim", "", name, uid)
    }

    pub fn pool(name: &str, uid: &str) -> Self {
        Self::new("karpenter.sh/v1", "NodePool", "", name, uid)
    }

    pub fn of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
        }
    }
}

/// Events that many objects may cause at once share a budget, and what is too much is dropped (API-172, V15-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Budget {
    Nominations,
    PodsWithoutCapacity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub subject: Subject,
    pub type_: EventType,
    pub reason: String,
    pub message: String,
    /// What makes it the same event again; empty means that it never is.
    pub dedupe: Vec<String>,
    /// How long it is not said again.
    pub timeout: SignedDuration,
    pub budget: Option<Budget>,
}

impl Event {
    /// API-170: neither kind nor namespace are part of it.
    fn key(&self) -> Option<String> {
        (!self.dedupe.is_empty()).then(|| format!("{}-{}", self.reason.to_lowercase(), self.dedupe.join("-")))
    }
}

/// Tens of thousands of keys are silent at a time, so they are not kept as text.
fn digest(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// What waits to be written at most. At 200 requests per second this is under a minute of writing; whoever has more to say
/// than that is not read.
const LONGEST_QUEUE: usize = 10_000;

#[derive(Debug, Default)]
struct Memory {
    /// Until when a key is silent, by its digest.
    silent: BTreeMap<u64, Timestamp>,
    /// How many keys there may be before those that are over are looked for.
    tidy_at: usize,
    buckets: BTreeMap<Budget, TokenBucket>,
    waiting: VecDeque<(Timestamp, Event)>,
    dropped: u64,
}

/// Says each thing once in a while.
#[derive(Debug)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
    changed: Notify,
}

impl Recorder {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, memory: Mutex::default(), changed: Notify::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Nothing under the lock panics.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the event unless it was said lately. An event that its budget drops silences its key all the same
    /// (API-171).
    pub fn publish(&self, event: Event) {
        let now = self.clock.now();
        let mut memory = self.lock();
        if let Some(key) = event.key().map(|key| digest(&key)) {
            if memory.silent.get(&key).is_some_and(|until| *until > now) {
                return;
            }
            let until = now.saturating_add(event.timeout).unwrap_or(Timestamp::MAX);
            memory.silent.insert(key, until);
            if memory.silent.len() > memory.tidy_at {
                memory.silent.retain(|_, until| *until > now);
                memory.tidy_at = memory.silent.len().saturating_mul(2).max(1024);
            }
        }
        if let Some(budget) = event.budget
            && !memory.buckets.entry(budget).or_insert_with(|| TokenBucket::new(5.0, 10.0, now)).take(now)
        {
            return;
        }
        if memory.waiting.len() >= LONGEST_QUEUE {
            memory.dropped += 1;
            return;
        }
        memory.waiting.push_back((now, event));
        drop(memory);
        self.changed.notify_one();
    }

    /// What waits to be written, with when it was said.
    pub fn take(&self) -> Vec<(Timestamp, Event)> {
        self.lock().waiting.drain(..).collect()
    }

    fn next(&self) -> Option<(Timestamp, Event)> {
        let mut memory = self.lock();
        let next = memory.waiting.pop_front();
        if memory.waiting.is_empty() {
            // A crowd of events is rare, and the room it took is megabytes.
            memory.waiting = VecDeque::new();
        }
        next
    }

    /// Writes events until the future is dropped.
    pub async fn run(&self, client: kube::Client) {
        let mut publisher = publisher::Publisher::new(client);
        loop {
            match self.next() {
                Some((at, event)) => publisher.write(at, &event).await,
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
