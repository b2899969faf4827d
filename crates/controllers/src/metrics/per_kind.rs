//! Metrics whose labels depend on the provider: those per node, and those per kind with conditions (API-189, API-205).

use std::sync::Arc;

use karpenter_model::labels::LabelRules;
use karpenter_model::shared::Labels;

use super::catalogue::{CONDITION, description};
use super::family::{Description, Family, Kind, Stability};

/// The labels of a node's series, and where their values come from.
#[derive(Debug, Clone)]
pub struct NodeLabels {
    /// Name of the metric label and the key of the node's label.
    known: Vec<(String, String)>,
}

impl NodeLabels {
    /// One label per well-known key, named by what follows the slash; keys with the same ending share one (API-189).
    pub fn new(rules: &LabelRules) -> Self {
        let mut known: Vec<(String, String)> = Vec::new();
        for key in rules.well_known_keys() {
            let ending = key.rsplit_once('/').map_or(key, |(_, ending)| ending);
            let name = ending.to_lowercase().replace('-', "_");
            if !known.iter().any(|(taken, _)| *taken == name) {
                known.push((name, key.to_owned()));
            }
        }
        known.sort();
        Self { known }
    }

    fn names(&self) -> Vec<&str> {
        let known = self.known.iter().map(|(name, _)| name.as_str());
        known.chain(["node_name", "phase", "managed"]).collect()
    }

    /// The values for one node, in the order of the labels.
    pub fn values<'a>(&'a self, labels: &'a Labels, node_name: &'a str, phase: &'a str, managed: bool) -> Vec<&'a str> {
        let known = self.known.iter().map(|(_, key)| labels.get(key).map_or("", String::as_str));
        known.chain([node_name, phase, if managed { "true" } else { "false" }]).collect()
    }
}

/// The gauges about one node (API-188, LIF-122).
#[derive(Debug, Clone)]
pub struct NodeMetrics {
    pub labels: NodeLabels,
    pub allocatable: Arc<Family>,
    pub pod_requests: Arc<Family>,
    pub pod_limits: Arc<Family>,
    pub daemon_requests: Arc<Family>,
    pub daemon_limits: Arc<Family>,
    pub system_overhead: Arc<Family>,
    pub current_lifetime: Arc<Family>,
}

impl NodeMetrics {
    pub fn new(labels: NodeLabels) -> Self {
        let family = |name: &str, stability: Stability, help: &str| {
            let mut names = labels.names();
            if name != "current_lifetime_seconds" {
                names.push("resource_type");
            }
            let name = format!("karpenter_nodes_{name}");
            Family::new(description(&name, Kind::Gauge, &[], &names, (stability, help)))
        };
        Self {
            allocatable: family("allocatable", Stability::Beta, "What pods on the node can have."),
            pod_requests: family("total_pod_requests", Stability::Beta, "Requests of the pods on the node."),
            pod_limits: family("total_pod_limits", Stability::Beta, "Limits of the pods on the node."),
            daemon_requests: family("total_daemon_requests", Stability::Beta, "Requests of the node's daemon pods."),
            daemon_limits: family("total_daemon_limits", Stability::Beta, "Limits of the node's daemon pods."),
            system_overhead: family("system_overhead", Stability::Beta, "What the node keeps for itself."),
            current_lifetime: family("current_lifetime_seconds", Stability::Alpha, "Age of the node."),
            labels,
        }
    }

    pub fn families(&self) -> Vec<Arc<Family>> {
        [
            &self.allocatable,
            &self.pod_requests,
            &self.pod_limits,
            &self.daemon_requests,
            &self.daemon_limits,
            &self.system_overhead,
            &self.current_lifetime,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}

/// A kind whose conditions and deletion are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedKind {
    pub group: String,
    pub kind: String,
    /// Keys of labels whose values become labels of the series (API-206).
    pub extra: Vec<String>,
    /// Whether the metrics without the kind in their name are kept too (API-208).
    pub twins: bool,
}

/// The metrics of one kind (API-205).
#[derive(Debug, Clone)]
pub struct KindMetrics {
    pub kind: WatchedKind,
    pub condition_count: Arc<Family>,
    pub condition_current_status: Arc<Family>,
    pub condition_transition: Arc<Family>,
    pub condition_transitions: Arc<Family>,
    pub termination_current_time: Arc<Family>,
    pub termination_duration: Arc<Family>,
}

impl KindMetrics {
    pub fn new(kind: WatchedKind) -> Self {
        let extra: Vec<String> = kind.extra.iter().map(|key| key.replace(['/', '.', '-'], "_")).collect();
        let name = kind.kind.to_lowercase();
        let family = |suffix: &str, metric: Kind, labels: &[&str], stability: Stability, help: &str| {
            let labels: Vec<&str> = labels.iter().copied().chain(extra.iter().map(String::as_str)).collect();
            let buckets = if metric == Kind::Histogram { CONDITION } else { &[] };
            let about = (stability, help);
            Family::new(description(&format!("operator_{name}_{suffix}"), metric, buckets, &labels, about))
        };
        let condition = ["namespace", "name", "type", "status", "reason"];
        let stable = Stability::Stable;
        Self {
            condition_count: family(
                "status_condition_count",
                Kind::Gauge,
                &condition,
                stable,
                "Always 1; one series per condition of an object.",
            ),
            condition_current_status: family(
                "status_condition_current_status_seconds",
                Kind::Gauge,
                &condition,
                stable,
                "How long a condition has had its status.",
            ),
            condition_transition: family(
                "status_condition_transition_seconds",
                Kind::Histogram,
                &["type", "status", "to_status"],
                stable,
                "How long conditions had the status that they left.",
            ),
            condition_transitions: family(
                "status_condition_transitions_total",
                Kind::Counter,
                &["type", "status", "reason"],
                stable,
                "How often conditions came into a status.",
            ),
            termination_current_time: family(
                "termination_current_time_seconds",
                Kind::Gauge,
                &["namespace", "name"],
                Stability::Beta,
                "Since when an object is being deleted.",
            ),
            termination_duration: family(
                "termination_duration_seconds",
                Kind::Histogram,
                &[],
                Stability::Beta,
                "From the deletion of an object until it was gone.",
            ),
            kind,
        }
    }

    pub fn families(&self) -> Vec<Arc<Family>> {
        [
            &self.condition_count,
            &self.condition_current_status,
            &self.condition_transition,
            &self.condition_transitions,
            &self.termination_current_time,
            &self.termination_duration,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}

/// What the reference page says about metrics of kinds: one set, with a placeholder in the names.
pub(super) fn placeholder() -> Vec<Description> {
    let kind = WatchedKind { group: String::new(), kind: "KIND".to_owned(), extra: Vec::new(), twins: false };
    let shown = |family: Arc<Family>| {
        let mut description = family.description().clone();
        description.name = description.name.replace("operator_kind_", "operator_KIND_");
        description
    };
    KindMetrics::new(kind).families().into_iter().map(shown).collect()
}
