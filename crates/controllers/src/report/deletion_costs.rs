//! What ReplicaSets are told about pods (V15-18).

use std::collections::BTreeMap;

use tracing::{info, warn};

use super::Report;

impl Report {
    /// How many nodes of each pool have pods that are to be written to.
    pub(crate) fn deletion_costs_pending(&self, nodes: &BTreeMap<&str, usize>) {
        let gauge = &self.metrics.all.pod_deletion_cost_pending;
        gauge.family().clear();
        for (pool, count) in nodes {
            gauge.set([pool], f64::from(u32::try_from(*count).unwrap_or(u32::MAX)));
        }
    }

    pub(crate) fn deletion_cost_written(&self, result: &str) {
        self.metrics.all.pod_deletion_cost_writes.increment([result]);
    }

    /// The gate was on once.
    pub fn deletion_costs_taken_back(&self, pods: usize) {
        info!(pod_count = pods, "deletion costs of pods are not managed any more, taking them back");
    }

    /// We may not.
    pub fn deletion_cost_stays(&self, pod: &str, error: &str) {
        warn!(
            pod,
            error,
            "could not take back the deletion cost of a pod: remove its annotations \
             controller.kubernetes.io/pod-deletion-cost and karpenter.sh/managed-pod-deletion-cost"
        );
    }
}
