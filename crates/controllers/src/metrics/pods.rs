//! How pods are and how long they took to get there (API-198, API-199, LIF-124, LIF-125, V15-17).
//!
//! A row per pod with shared texts; series are written when somebody asks. Durations are measured for pods that this
//! process saw Pending, so that a restart does not measure old pods again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodId;
use karpenter_model::resources::Resources;

use super::conditions::seconds_between;
use super::nodes::NodeUsage;
use super::{Catalogue, Samples};

/// What a pass decided about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has a place, on a node that exists or is being made.
    Schedulable,
    Unschedulable,
}

#[derive(Debug)]
struct Row {
    uid: String,
    owner: Arc<str>,
    node: Arc<str>,
    phase: Arc<str>,
    limits: Option<Arc<Resources>>,
    created: Timestamp,
    ready: bool,
    started: bool,
    daemon: bool,
    dynamic_resources: bool,
    /// Since when this process knows it as pending; `None` when it was first seen otherwise.
    pending_since: Option<Timestamp>,
    decided: bool,
    /// When it was first found a place, unless it lost it since.
    schedulable_since: Option<Timestamp>,
}

impl Row {
    fn is_terminal(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    fn is_bound(&self) -> bool {
        !self.node.is_empty()
    }

    /// Nothing more is measured.
    fn is_settled(&self) -> bool {
        self.is_terminal() || (self.is_bound() && self.started)
    }
}

#[derive(Debug, Default)]
struct Rows {
    pods: BTreeMap<PodId, Row>,
    texts: BTreeSet<Arc<str>>,
    /// Most pods of a cluster have one of few sizes.
    sizes: BTreeMap<String, Arc<Resources>>,
}

impl Rows {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn shared_size(&mut self, size: Resources) -> Option<Arc<Resources>> {
        (!size.is_empty()).then(|| self.sizes.entry(size.to_string()).or_insert_with(|| Arc::new(size)).clone())
    }
}

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

    /// The pod is new or has changed.
    pub fn seen(&self, pod: &Pod, now: Timestamp) {
        let id = id(pod);
        let mut rows = self.lock();
        let mut row = read(&mut rows, pod, now);
        let known = rows.pods.remove(&id).filter(|known| known.uid == row.uid);
        match &known {
            Some(known) => {
                row.pending_since = known.pending_since;
                row.decided = known.decided;
                row.schedulable_since = known.schedulable_since;
            }
            None => row.pending_since = (&*row.phase == "Pending").then_some(now),
        }
        if let Some(known) =
            known.filter(|known| known.pending_since.is_some() && !row.is_terminal() && !known.is_terminal())
        {
            self.measure(&known, &row, pod, now);
        }
        rows.pods.insert(id, row);
    }

    fn measure(&self, known: &Row, row: &Row, pod: &Pod, now: Timestamp) {
        let since = |type_: &str| transition(pod, type_).unwrap_or(now);
        let dynamic = [flag(row.dynamic_resources)];
        if row.is_bound() && !known.is_bound() {
            let bound = since("PodScheduled");
            self.metrics.pods_bound_duration.observe(dynamic, seconds_between(row.created, bound));
            if let Some(decided) = row.schedulable_since {
                self.metrics.pods_provisioning_bound_duration.observe(dynamic, seconds_between(decided, bound));
            }
        }
        if row.started && !known.started {
            let ready = since("Ready");
            self.metrics.pods_startup_duration.observe([], seconds_between(row.created, ready), now);
            if let Some(decided) = row.schedulable_since {
                self.metrics.pods_provisioning_startup_duration.observe([], seconds_between(decided, ready));
            }
        }
    }

    pub fn gone(&self, id: &PodId) {
        self.lock().pods.remove(id);
    }

    /// Drops what is not on a complete list.
    pub fn retain(&self, listed: impl Fn(&PodId) -> bool) {
        self.lock().pods.retain(|id, _| listed(id));
    }

    /// A pass has decided about a pod.
    pub fn decided(&self, id: &PodId, verdict: Verdict, now: Timestamp) {
        let mut rows = self.lock();
        let Some(row) = rows.pods.get_mut(id) else { return };
        if let Some(since) = row.pending_since.filter(|_| !row.decided) {
            self.metrics.pods_scheduling_decision_duration.observe([], seconds_between(since, now));
        }
        row.decided = true;
        row.schedulable_since = match verdict {
            Verdict::Schedulable => Some(row.schedulable_since.unwrap_or(now)),
            Verdict::Unschedulable => None,
        };
    }

    /// Limits of the pods on each node.
    pub fn usage(&self) -> BTreeMap<Arc<str>, NodeUsage> {
        let mut usage: BTreeMap<Arc<str>, NodeUsage> = BTreeMap::new();
        for row in self.lock().pods.values().filter(|row| row.is_bound() && !row.is_terminal()) {
            let of_node = usage.entry(row.node.clone()).or_default();
            if let Some(limits) = &row.limits {
                of_node.pod_limits.add(limits);
                if row.daemon {
                    of_node.daemon_limits.add(limits);
                }
            }
        }
        usage
    }

    /// The series of all pods; `nodes` by name.
    pub fn collect(&self, nodes: &BTreeMap<&str, &NodeView>, now: Timestamp, into: &mut Samples<'_>) {
        for (id, row) in &self.lock().pods {
            self.state_series(id, row, nodes.get(&*row.node).copied(), into);
            if row.is_settled() {
                continue;
            }
            let (name, dynamic) = ([id.name.as_str(), id.namespace.as_str()], flag(row.dynamic_resources));
            let age = seconds_between(row.created, now);
            let all = &self.metrics;
            if !row.started {
                into.add(all.pods_unstarted_time.family(), &name, age);
            }
            if !row.is_bound() {
                into.add(all.pods_unbound_time.family(), &[name[0], name[1], dynamic], age);
            }
            if let Some(decided) = row.schedulable_since {
                let since = seconds_between(decided, now);
                if !row.started {
                    into.add(all.pods_provisioning_unstarted_time.family(), &name, since);
                }
                if !row.is_bound() {
                    into.add(all.pods_provisioning_unbound_time.family(), &[name[0], name[1], dynamic], since);
                }
            }
            if let Some(since) = row.pending_since.filter(|_| !row.decided && !row.is_bound()) {
                into.add(all.pods_provisioning_undecided_time.family(), &name, seconds_between(since, now));
            }
        }
    }

    fn state_series(&self, id: &PodId, row: &Row, node: Option<&NodeView>, into: &mut Samples<'_>) {
        let label = |key: &str| node.and_then(|node| node.labels.get(key)).map_or("", String::as_str);
        let values: [&str; 13] = [
            &id.name,
            &id.namespace,
            &row.owner,
            &row.node,
            flag(row.is_bound()),
            label(labels::NODEPOOL),
            label(labels::ZONE),
            label(labels::ARCH),
            label(labels::CAPACITY_TYPE),
            label(labels::INSTANCE_TYPE),
            &row.phase,
            flag(row.ready),
            flag(!label(labels::NODEPOOL).is_empty()),
        ];
        into.add(self.metrics.pods_state.family(), &values, 1.0);
    }
}

fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn id(pod: &Pod) -> PodId {
    PodId {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}

fn read(rows: &mut Rows, pod: &Pod, now: Timestamp) -> Row {
    let spec = pod.spec.as_ref();
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let owner = owners.first().map(|owner| {
        let kind = owner.kind.to_lowercase();
        format!("/apis/{}/namespaces/{namespace}/{kind}s/{}", owner.api_version, owner.name)
    });
    let ready = condition(pod, "Ready").is_some_and(|condition| condition.status == "True");
    let limits = spec.map(limits).unwrap_or_default();
    Row {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        owner: rows.shared(owner.as_deref().unwrap_or_default()),
        node: rows.shared(spec.and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()),
        phase: rows.shared(pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")),
        limits: rows.shared_size(limits),
        created: pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0),
        ready,
        started: ready,
        daemon: owners.iter().any(|owner| owner.api_version == "apps/v1" && owner.kind == "DaemonSet"),
        dynamic_resources: spec.is_some_and(has_dynamic_resources),
        pending_since: None,
        decided: false,
        schedulable_since: None,
    }
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a k8s_openapi::api::core::v1::PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn transition(pod: &Pod, type_: &str) -> Option<Timestamp> {
    condition(pod, type_)?.last_transition_time.as_ref().map(|time| time.0)
}

fn has_dynamic_resources(spec: &PodSpec) -> bool {
    let in_container = |container: &Container| {
        container.resources.as_ref().and_then(|resources| resources.claims.as_ref()).is_some_and(|c| !c.is_empty())
    };
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
        || spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(in_container)
}

/// As requests are added up: what runs at the same time, or the largest step of the start. What cannot be read counts as
/// nothing; the conversion of the pod reports it.
fn limits(spec: &PodSpec) -> Resources {
    let of = |container: &Container| -> Resources {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let parsed = |(name, amount): (&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
            Some((name.clone(), amount.0.parse().ok()?))
        };
        limits.into_iter().flatten().filter_map(parsed).collect()
    };
    let mut running = Resources::new();
    for container in &spec.containers {
        running.add(&of(container));
    }
    let (mut sidecars, mut starting) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let mut step = of(container);
        step.add(&sidecars);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = step.clone();
        }
        starting.raise_to(&step);
    }
    running.add(&sidecars);
    running.raise_to(&starting);
    running
}

#[cfg(test)]
mod tests;
