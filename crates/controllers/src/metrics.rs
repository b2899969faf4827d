//! Metrics: the table of all of them, their series, and the text that Prometheus reads (API-181).
//!
//! An own registry instead of a library: the libraries have no summaries, write counters and bounds in another form, or
//! give series in an order that differs from run to run. See `docs/decisions/0004-own-metrics-registry.md`.
//!
//! What can be told from the cluster at any time (pods, nodes, pools, conditions) is not stored as series: a [`Collector`]
//! writes it when somebody asks, so it costs no memory in between and is never old (API-184, API-190).

mod amounts;
mod catalogue;
mod cluster;
mod conditions;
mod family;
mod nodepools;
mod nodes;
mod per_kind;
mod pods;
mod running;
mod summary;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_model::labels::LabelRules;

pub use catalogue::Catalogue;
pub use cluster::ClusterSeries;
pub use conditions::{ConditionChange, ObservedCondition, ObservedObject, Tracker};
pub use family::{Counter, Description, Family, Gauge, Histogram, Kind, Stability, Summary};
pub use nodepools::pool_series;
pub use nodes::{NodeUsage, node_series, utilization};
pub use per_kind::{KindMetrics, NodeLabels, NodeMetrics, WatchedKind};
pub use pods::{PodTracker, Verdict, pod_limits};
pub use running::Running;
pub(crate) use running::RunningPass;
pub use text::CONTENT_TYPE;

/// Writes series that are not stored.
pub trait Collector: fmt::Debug + Send + Sync {
    fn collect(&self, now: Timestamp, into: &mut Samples<'_>);
}

/// Where collectors write to.
pub struct Samples<'a>(&'a mut BTreeMap<String, String>);

impl fmt::Debug for Samples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").finish_non_exhaustive()
    }
}

impl Samples<'_> {
    /// One sample of a gauge or counter.
    pub fn add(&mut self, family: &Family, labels: &[&str], value: f64) {
        let Description { name, labels: names, .. } = family.description();
        if let Some(text) = self.0.get_mut(name) {
            text::sample(text, (name, ""), names, labels, None, value);
        }
    }
}

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    pub all: Catalogue,
    pub nodes: NodeMetrics,
    kinds: Vec<KindMetrics>,
    /// By name.
    families: BTreeMap<String, Arc<Family>>,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
}

impl Metrics {
    pub fn new(rules: &LabelRules, kinds: Vec<WatchedKind>) -> Self {
        let all = Catalogue::new();
        let nodes = NodeMetrics::new(NodeLabels::new(rules));
        let kinds: Vec<KindMetrics> = kinds.into_iter().map(KindMetrics::new).collect();
        let families = all.families().into_iter().chain(nodes.families());
        let families = families.chain(kinds.iter().flat_map(KindMetrics::families));
        let families = families.map(|family| (family.description().name.clone(), family)).collect();
        for kind in ["multi", "single"] {
            // API-194: there from the start.
            all.disruption_consolidation_timeouts.family().touch(&[kind]);
        }
        Self { all, nodes, kinds, families, collectors: Mutex::default() }
    }

    pub fn kind(&self, kind: &str) -> Option<&KindMetrics> {
        self.kinds.iter().find(|metrics| metrics.kind.kind == kind)
    }

    pub fn family(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.get(name)
    }

    /// By name.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.families.values().map(|family| family.description())
    }

    pub fn add_collector(&self, collector: Arc<dyn Collector>) {
        self.collectors.lock().unwrap_or_else(PoisonError::into_inner).push(collector);
    }

    /// Everything, in the text format. A metric without series is left out.
    pub fn render(&self, now: Timestamp) -> String {
        self.parts(now).concat()
    }

    /// The same in pieces: the series of 300,000 pods are a hundred megabytes, which nobody should have to hold twice.
    pub fn parts(&self, now: Timestamp) -> Vec<String> {
        let collectors = self.collectors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut collected: BTreeMap<String, String> =
            self.families.keys().map(|name| (name.clone(), String::new())).collect();
        for collector in collectors {
            collector.collect(now, &mut Samples(&mut collected));
        }
        let mut parts = Vec::new();
        for (name, family) in &self.families {
            let mut samples = collected.remove(name).unwrap_or_default();
            family.render(now, &mut samples);
            if !samples.is_empty() {
                let Description { kind, help, .. } = family.description();
                let mut header = String::new();
                text::header(&mut header, name, kind.name(), help);
                parts.extend([header, samples]);
            }
        }
        parts
    }
}

/// The reference page: every metric with what it means.
pub fn reference() -> String {
    let metrics = Metrics::new(&LabelRules::core(), Vec::new());
    let mut rows: Vec<Description> = metrics.descriptions().cloned().chain(per_kind::placeholder()).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let row = |metric: &Description| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let Description { name, kind, stability, help, .. } = metric;
        format!("| `{name}` | {} | {labels} | {stability} | {help} |\n", kind.name())
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
