//! Which pod is next.
//!
//! Pods are tried by priority, then by time. One that no node will take waits until something changes that could help, five
//! minutes at most, and meanwhile collects a back-off of 1 s to 10 s. As in kube-scheduler since 1.33, a pod that backs off
//! is tried early when nobody else is there, so its back-off only decides the order; after an error it is always waited out.
//! A crowd has to wait: trying takes time, and the real one may send fifty requests a second. Here both take none, and every
//! change of every node would be a try for every pod.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::cluster::Key;
use super::filters::Filter;
use super::pod_info::priority;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// Whatever the filters say, a pod is tried again after this long.
const FLUSH: Duration = Duration::from_mins(5);
/// After so many refusals within a second nobody is tried before his time until it is over.
const EARLY: u32 = 50;

/// Something happened that may let a waiting pod in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    /// A pod is on a node that was not there before.
    PodAssigned,
    /// A pod left its node, or takes up less of it.
    PodRemoved,
    /// A pod is about to leave its node; it still takes up room, but no longer counts for spreading.
    PodGoing,
    PodLabels,
    /// A claim, a volume or anything that describes them.
    Volume,
    Namespace,
}

impl Change {
    fn helps(self, filter: Filter) -> bool {
        use Change::{
            Namespace, NodeAdded, NodeChanged, NodeRemoved, PodAssigned, PodGoing, PodLabels, PodRemoved, Volume,
        };
        match filter {
            Filter::NodeUnschedulable | Filter::TaintToleration | Filter::NodeAffinity => {
                matches!(self, NodeAdded | NodeChanged)
            }
            Filter::NodeName => self == NodeAdded,
            Filter::NodePorts => matches!(self, NodeAdded | PodRemoved),
            Filter::NodeResourcesFit => matches!(self, NodeAdded | NodeChanged | PodRemoved),
            Filter::VolumeRestrictions | Filter::NodeVolumeLimits => matches!(self, NodeAdded | PodRemoved | Volume),
            Filter::VolumeBinding | Filter::VolumeZone => matches!(self, NodeAdded | NodeChanged | Volume),
            Filter::PodTopologySpread => {
                let pods = matches!(self, PodAssigned | PodRemoved | PodGoing | PodLabels);
                pods || matches!(self, NodeAdded | NodeChanged | NodeRemoved)
            }
            Filter::InterPodAffinity => {
                matches!(self, NodeAdded | NodeChanged | PodAssigned | PodRemoved | PodLabels | Namespace)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// To be tried as soon as possible.
    Active,
    /// Would be, but was tried a moment ago.
    BackingOff { until: Timestamp },
    /// To be tried at this time, not before.
    AfterError { until: Timestamp },
    /// Until something helps one of these filters. None at all: until there is a node.
    Waiting { filters: BTreeSet<Filter> },
    /// Handed out and not yet reported on.
    InHand,
    /// Not to be tried at all yet.
    Gated,
}

#[derive(Debug, Clone)]
struct Entry {
    pod: Arc<Pod>,
    state: State,
    since: Timestamp,
    /// Decides between pods of one instant: who came first.
    sequence: u64,
    refusals: u32,
    errors: u32,
}

/// Higher priority first, then the one that waits longer.
type Rank = (Reverse<i32>, Timestamp, u64, Key);

/// The pods that are on no node yet.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    entries: BTreeMap<Key, Entry>,
    active: BTreeSet<Rank>,
    backing_off: BTreeSet<(Timestamp, Rank)>,
    timers: BTreeSet<(Timestamp, Key)>,
    /// Who waits, by each filter that refused it, or by none.
    waiting: BTreeMap<Option<Filter>, BTreeSet<Key>>,
    next_sequence: u64,
    /// Of which second the refusals are that were counted, and how many.
    refused: (i64, u32),
}

impl Queue {
    /// Takes over a new or changed pod. A change of anything but its status may be what it waited for.
    pub fn set(&mut self, pod: Arc<Pod>, now: Timestamp) {
        let key = Key::of(&pod.metadata);
        let gated = pod.spec.as_ref().is_some_and(|s| s.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()));
        let known = self.entries.get_mut(&key).filter(|e| e.pod.metadata.uid == pod.metadata.uid);
        let Some(entry) = known else {
            self.remove(&key);
            let state = if gated { State::Gated } else { State::Active };
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.put(key, Entry { pod, state, since: now, sequence, refusals: 0, errors: 0 });
            return;
        };
        let same = entry.pod.spec == pod.spec
            && entry.pod.metadata.labels == pod.metadata.labels
            && entry.pod.metadata.deletion_timestamp == pod.metadata.deletion_timestamp;
        let retry = !same && matches!(entry.state, State::Waiting { .. });
        let opened = !gated && entry.state == State::Gated;
        let Some(mut entry) = self.take(&key) else { return };
        entry.pod = pod;
        if gated {
            entry.state = State::Gated;
        } else if opened {
            entry.state = State::Active;
            entry.since = now;
        } else if retry {
            entry.state = woken(&entry, now);
        }
        self.put(key, entry);
    }

    /// The pod is gone or on a node.
    pub fn remove(&mut self, key: &Key) {
        self.take(key);
    }

    /// The pod to try now. Report with [`set_waiting`](Self::set_waiting), [`set_failed`](Self::set_failed) or
    /// [`remove`](Self::remove) before the next one.
    pub fn pop(&mut self, now: Timestamp) -> Option<Arc<Pod>> {
        self.advance(now);
        let crowded = self.refused.0 == now.as_second() && self.refused.1 >= EARLY;
        let early = self.backing_off.first().filter(|_| !crowded).map(|(_, rank)| rank);
        let key = self.active.first().or(early)?.3.clone();
        let mut entry = self.take(&key)?;
        entry.state = State::InHand;
        let pod = Arc::clone(&entry.pod);
        self.put(key, entry);
        Some(pod)
    }

    /// No node would take it, for reasons that these filters gave.
    pub fn set_waiting(&mut self, key: &Key, filters: BTreeSet<Filter>, now: Timestamp) {
        let second = now.as_second();
        self.refused = (second, if self.refused.0 == second { self.refused.1 + 1 } else { 1 });
        let Some(mut entry) = self.take(key) else { return };
        entry.refusals += 1;
        entry.errors = 0;
        entry.since = now;
        entry.state = State::Waiting { filters };
        self.put(key.clone(), entry);
    }

    /// The attempt failed for a reason outside of the decision.
    pub fn set_failed(&mut self, key: &Key, now: Timestamp) {
        let Some(mut entry) = self.take(key) else { return };
        entry.errors += 1;
        entry.since = now;
        entry.state = State::AfterError { until: after(now, backoff(entry.errors)) };
        self.put(key.clone(), entry);
    }

    /// Wakes the pods that the change may help.
    pub fn wake(&mut self, change: Change, now: Timestamp) {
        let helps = |filter: &Option<Filter>| filter.map_or(change == Change::NodeAdded, |f| change.helps(f));
        let helped: BTreeSet<_> = self.waiting.iter().filter(|(f, _)| helps(f)).flat_map(|(_, keys)| keys).collect();
        for key in helped.into_iter().cloned().collect::<Vec<_>>() {
            if let Some(mut entry) = self.take(&key) {
                entry.state = woken(&entry, now);
                self.put(key, entry);
            }
        }
    }

    /// When to ask again if nothing happens before.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Back-offs and waits that are over.
    fn advance(&mut self, now: Timestamp) {
        while let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            let Some(mut entry) = self.take(&key) else { return };
            entry.state = State::Active;
            self.put(key, entry);
        }
    }

    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        let rank = entry.rank(key);
        match &entry.state {
            State::Active => _ = self.active.remove(&rank),
            State::BackingOff { until } => _ = self.backing_off.remove(&(*until, rank)),
            State::Waiting { filters } => {
                for filter in reasons(filters) {
                    if let Some(keys) = self.waiting.get_mut(&filter) {
                        keys.remove(key);
                    }
                }
            }
            _ => {}
        }
        if let Some(at) = entry.timer() {
            self.timers.remove(&(at, key.clone()));
        }
        Some(entry)
    }

    fn put(&mut self, key: Key, entry: Entry) {
        let rank = entry.rank(&key);
        match &entry.state {
            State::Active => _ = self.active.insert(rank),
            State::BackingOff { until } => _ = self.backing_off.insert((*until, rank)),
            State::Waiting { filters } => {
                for filter in reasons(filters) {
                    self.waiting.entry(filter).or_default().insert(key.clone());
                }
            }
            _ => {}
        }
        if let Some(at) = entry.timer() {
            self.timers.insert((at, key.clone()));
        }
        self.entries.insert(key, entry);
    }
}

impl Entry {
    fn rank(&self, key: &Key) -> Rank {
        (Reverse(priority(&self.pod)), self.since, self.sequence, key.clone())
    }

    fn timer(&self) -> Option<Timestamp> {
        match &self.state {
            State::BackingOff { until } | State::AfterError { until } => Some(*until),
            State::Waiting { .. } => Some(after(self.since, FLUSH)),
            State::Active | State::InHand | State::Gated => None,
        }
    }
}

fn reasons(filters: &BTreeSet<Filter>) -> impl Iterator<Item = Option<Filter>> {
    let none = filters.is_empty().then_some(None);
    filters.iter().copied().map(Some).chain(none)
}

fn woken(entry: &Entry, now: Timestamp) -> State {
    let until = after(entry.since, backoff(entry.refusals));
    if until <= now { State::Active } else { State::BackingOff { until } }
}

/// 0 for none, then 1, 2, 4, 8 and 10 seconds.
fn backoff(times: u32) -> Duration {
    match times {
        0 => Duration::ZERO,
        n => FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(n - 1)).min(LAST_BACKOFF),
    }
}

fn after(time: Timestamp, wait: Duration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
