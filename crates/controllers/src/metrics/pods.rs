//! How pods are and how long they took to get there (API-198, API-199, LIF-124, LIF-125, V15-17).
//!
//! Series are written from the pods of the state when somebody asks; a row is kept only for pods that have not started yet. Durations
//! are measured for pods that this process saw Pending, so that a restart does not measure old pods again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodId, PodOwner, PodPhase, PodView};
use karpenter_state::{ByName, PodSet};

use super::conditions::seconds_between;
use super::nodes::NodeUsage;
use super::{Catalogue, Samples};
use crate::watches::SeenPod;

/// What a pass decided about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has a place, on a node that exists or is being made.
    Schedulable,
    Unschedulable,
}

/// Of a pod of which something may still be measured. A large cluster has 300,000 pods, and nearly all have settled.
#[derive(Debug)]
struct Row {
    /// Of pods that this process has seen pending.
    progress: Option<Progress>,
    /// It has been ready once.
    started: bool,
}

/// Of a pod that this process has seen pending.
#[derive(Debug)]
struct Progress {
    pending_since: Timestamp,
    decided: bool,
    /// When it was first found a place, unless it lost it since.
    schedulable_since: Option<Timestamp>,
    bound_at: Option<Timestamp>,
}

impl Progress {
    /// Until when the pod waited for a node: up to now, or, while it is bound but does not run yet, up to then (LC-128).
    fn unbound_until(&self, pod: &PodView, now: Timestamp) -> Option<Timestamp> {
        if is_bound(pod) { self.bound_at.filter(|_| pod.phase == PodPhase::Pending) } else { Some(now) }
    }
}

fn is_bound(pod: &PodView) -> bool {
    pod.node_name.is_some()
}

impl Row {
    /// Nothing more is measured.
    fn is_settled(&self, pod: &PodView) -> bool {
        pod.is_terminal() || (is_bound(pod) && self.started)
    }
}

type Rows = BTreeMap<ByName, Row>;

#[derive(Debug)]
pub struct PodTracker {
    metrics: Catalogue,
    rows: Mutex<Rows>,
}

impl PodTracker {
    pub fn new(metrics: &Catalogue) -> Self {
        Self { metrics: metrics.clone(), rows: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rows> {
        // Nothing under the lock panics.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod is new or has changed. `before` is what was known under its name.
    pub fn seen(&self, pod: &SeenPod, before: Option<&PodView>, now: Timestamp) {
        let view = &pod.view;
        let mut rows = self.lock();
        let known = rows.remove_entry(&view.id).filter(|(known, _)| known.uid == view.uid);
        if known.is_none() && before.is_some_and(|before| before.uid == view.uid) {
            // It has settled.
            return;
        }
        let started = view.ready || known.as_ref().is_some_and(|(_, known)| known.started);
        let mut row = Row { progress: None, started };
        match known {
            Some((before, known)) => {
                if let Some(mut progress) = known.progress {
                    if is_bound(view) && !is_bound(&before) {
                        progress.bound_at = Some(pod.scheduled_at.unwrap_or(now));
                    }
                    if !view.is_terminal() {
                        self.measure(&Step { before: &before, was_started: known.started, after: pod }, &progress, now);
                    }
                    row.progress = Some(progress);
                }
            }
            None if view.phase == PodPhase::Pending => {
                row.progress =
                    Some(Progress { pending_since: now, decided: false, schedulable_since: None, bound_at: None });
            }
            None => {}
        }
        if !row.is_settled(view) {
            rows.insert(ByName(view.clone()), row);
        }
    }

    fn measure(&self, step: &Step<'_>, progress: &Progress, now: Timestamp) {
        let Step { before, was_started, after } = step;
        let created = after.view.created_at.time();
        let dynamic = [flag(after.view.uses_devices)];
        if is_bound(&after.view) && !is_bound(before) {
            let bound = after.scheduled_at.unwrap_or(now);
            self.metrics.pods_bound_duration.observe(dynamic, seconds_between(created, bound));
            if let Some(decided) = progress.schedulable_since {
                self.metrics.pods_provisioning_bound_duration.observe(dynamic, seconds_between(decided, bound));
            }
        }
        if after.view.ready && !was_started {
            let ready = after.ready_at.unwrap_or(now);
            self.metrics.pods_startup_duration.observe([], seconds_between(created, ready), now);
            if let Some(decided) = progress.schedulable_since {
                self.metrics.pods_provisioning_startup_duration.observe([], seconds_between(decided, ready));
            }
        }
    }

    pub fn gone(&self, id: &PodId) {
        self.lock().remove(id);
    }

    /// A pass has decided about a pod.
    pub fn decided(&self, id: &PodId, verdict: Verdict, now: Timestamp) {
        let mut rows = self.lock();
        let Some(progress) = rows.get_mut(id).and_then(|row| row.progress.as_mut()) else { return };
        if !progress.decided {
            let waited = seconds_between(progress.pending_since, now);
            self.metrics.pods_scheduling_decision_duration.observe([], waited);
        }
        progress.decided = true;
        progress.schedulable_since = match verdict {
            Verdict::Schedulable => Some(progress.schedulable_since.unwrap_or(now)),
            Verdict::Unschedulable => None,
        };
    }

    /// The series of these pods, which are all that there are; `nodes` by name.
    pub fn collect(&self, pods: &PodSet, nodes: &BTreeMap<&str, &NodeView>, now: Timestamp, into: &mut Samples<'_>) {
        // By name, as whoever compares two answers expects it.
        let mut pods: Vec<&ByName> = pods.iter().collect();
        pods.sort_unstable();
        let rows = self.lock();
        for pod in pods {
            let node = pod.node_name.as_deref().and_then(|name| nodes.get(name)).copied();
            self.state_series(pod, node, into);
            let Some((_, row)) = rows.get_key_value(&pod.id).filter(|(known, _)| known.uid == pod.uid) else {
                continue;
            };
            let name = [pod.id.name.as_str(), pod.id.namespace.as_str()];
            let dynamic = flag(pod.uses_devices);
            let age = seconds_between(pod.created_at.time(), now);
            let all = &self.metrics;
            if !row.started {
                into.add(all.pods_unstarted_time.family(), &name, age);
            }
            let until = match &row.progress {
                Some(progress) => progress.unbound_until(pod, now),
                None => (!is_bound(pod)).then_some(now),
            };
            if let Some(until) = until {
                let waited = seconds_between(pod.created_at.time(), until);
                into.add(all.pods_unbound_time.family(), &[name[0], name[1], dynamic], waited);
            }
            let Some(progress) = &row.progress else { continue };
            if let Some(decided) = progress.schedulable_since {
                if !row.started {
                    into.add(all.pods_provisioning_unstarted_time.family(), &name, seconds_between(decided, now));
                }
                if let Some(until) = until {
                    let waited = seconds_between(decided, until);
                    into.add(all.pods_provisioning_unbound_time.family(), &[name[0], name[1], dynamic], waited);
                }
            }
            if !progress.decided && !is_bound(pod) {
                let since = seconds_between(progress.pending_since, now);
                into.add(all.pods_provisioning_undecided_time.family(), &name, since);
            }
        }
    }

    fn state_series(&self, pod: &PodView, node: Option<&NodeView>, into: &mut Samples<'_>) {
        let label = |key: &str| node.and_then(|node| node.labels.get(key)).map_or("", String::as_str);
        let values: [&str; 13] = [
            &pod.id.name,
            &pod.id.namespace,
            &pod.owner_path,
            pod.node_name.as_deref().unwrap_or_default(),
            flag(is_bound(pod)),
            label(labels::NODEPOOL),
            label(labels::ZONE),
            label(labels::ARCH),
            label(labels::CAPACITY_TYPE),
            label(labels::INSTANCE_TYPE),
            phase(pod.phase),
            flag(pod.ready),
            flag(!label(labels::NODEPOOL).is_empty()),
        ];
        into.add(self.metrics.pods_state.family(), &values, 1.0);
    }
}

/// Limits of the pods on each node.
pub fn pod_limits(pods: &PodSet) -> BTreeMap<&str, NodeUsage> {
    let mut usage: BTreeMap<&str, NodeUsage> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.is_terminal() && !pod.limits.is_empty()) {
        let Some(node) = pod.node_name.as_deref() else { continue };
        let of_node = usage.entry(node).or_default();
        of_node.pod_limits.add(&pod.limits);
        if pod.owner == PodOwner::DaemonSet {
            of_node.daemon_limits.add(&pod.limits);
        }
    }
    usage
}

/// A pod as it was and as it is.
struct Step<'a> {
    before: &'a PodView,
    was_started: bool,
    after: &'a SeenPod,
}

fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests;
