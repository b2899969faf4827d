//! Everything the controllers say, in one place: one function per thing that happens, which logs it, counts it and tells
//! the users of the cluster, as far as each of them wants to know.

mod claims;
mod deletion_costs;
mod disruption;
mod nodes;
mod objects;
mod passes;
mod reconciles;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::names;
use karpenter_platform::{Call, CallObserver, Clock, CloudProvider, NodeClassKind};

use crate::events::Recorder;
use crate::metrics::{Metrics, PodTracker, Running, Tracker, WatchedKind};

pub(crate) use nodes::FORCEFUL;
pub use objects::Observed;

/// Whether pods, nodes, pools and conditions are measured and their changes told (API-156, API-180).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observability {
    On,
    Off,
}

#[derive(Debug)]
pub struct Report {
    pub metrics: Arc<Metrics>,
    pub events: Arc<Recorder>,
    clock: Arc<dyn Clock>,
    pods: Arc<PodTracker>,
    running: Arc<Running>,
    observability: Observability,
    /// By kind.
    trackers: BTreeMap<String, Arc<Tracker>>,
}

impl Report {
    pub fn new(provider: &dyn CloudProvider, clock: Arc<dyn Clock>, observability: Observability) -> Self {
        let kinds = watched_kinds(provider.node_classes());
        let metrics = Arc::new(Metrics::new(provider.label_rules(), kinds.clone()));
        let running = Arc::new(Running::new(&metrics.all));
        metrics.add_collector(running.clone());
        let trackers = match observability {
            Observability::On => kinds
                .into_iter()
                .filter_map(|kind| Some((kind.kind.clone(), Tracker::new(&metrics, &kind.kind)?)))
                .collect(),
            Observability::Off => BTreeMap::new(),
        };
        Self {
            events: Arc::new(Recorder::new(clock.clone())),
            pods: Arc::new(PodTracker::new(&metrics.all)),
            running,
            metrics,
            clock,
            observability,
            trackers,
        }
    }

    pub(crate) fn pods(&self) -> &PodTracker {
        &self.pods
    }

    pub(crate) fn is_observing(&self) -> bool {
        self.observability == Observability::On
    }

    /// What the provider is wrapped with, so that its calls are measured.
    pub fn calls(&self) -> Arc<dyn CallObserver> {
        Arc::new(Calls(self.metrics.clone()))
    }
}

/// API-205, API-206, API-208: which kinds are followed, and which of their labels their series carry.
fn watched_kinds(classes: &[NodeClassKind]) -> Vec<WatchedKind> {
    let kind = |group: &str, kind: &str, extra: Vec<String>| WatchedKind {
        group: group.to_owned(),
        kind: kind.to_owned(),
        extra,
        twins: kind != "Node",
    };
    let class_labels = classes.iter().map(|class| names::node_class_label(&class.group, &class.kind));
    let of_claims: Vec<String> = class_labels.chain([names::labels::NODEPOOL.to_owned()]).collect();
    let of_nodes: Vec<String> = of_claims.iter().cloned().chain([names::labels::INITIALIZED.to_owned()]).collect();
    let mut kinds = vec![
        kind(names::GROUP, "NodeClaim", of_claims),
        kind(names::GROUP, "NodePool", Vec::new()),
        kind("", "Node", of_nodes),
        kind("autoscaling.x-k8s.io", "CapacityBuffer", Vec::new()),
    ];
    kinds.extend(classes.iter().map(|class| kind(&class.group, &class.kind, Vec::new())));
    kinds
}

/// An error with everything it was caused by.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[derive(Debug)]
struct Calls(Arc<Metrics>);

impl CallObserver for Calls {
    fn call_ended(&self, call: Call<'_>) {
        let Call { controller, method, provider, took, failure } = call;
        let method = method.to_string();
        let metrics = &self.0.all;
        metrics.cloudprovider_duration.observe([controller, &method, provider], took.as_secs_f64());
        if let Some((error, pool)) = failure {
            metrics.cloudprovider_errors.increment([controller, &method, provider, error, pool]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
