//! Nodes on their way out.

use jiff::Timestamp;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use tracing::{debug, info};

use super::Report;
use crate::events::catalogue::DrainObstacle;
use crate::events::{Subject, catalogue};

fn label<'a>(node: &'a NodeView, key: &str) -> &'a str {
    node.labels.get(key).map_or("", String::as_str)
}

fn subject(node: &NodeView) -> Subject {
    Subject::node(&node.name, &node.uid)
}

/// Why a pod left its node when the claim does not say (API-198).
pub(crate) const FORCEFUL: &str = "Forceful Termination";

impl Report {
    pub fn tainted(&self, node: &NodeView) {
        info!(node = node.name, taint = karpenter_model::taints::DISRUPTED, "tainted node");
    }

    /// Pods still have to leave before the deadline of the node's grace period.
    pub fn grace_period_expiring(&self, node: &NodeView, deadline: Timestamp) {
        self.events.publish(catalogue::termination_grace_period_expiring(&subject(node), deadline));
    }

    pub fn draining(&self, node: &NodeView, obstacle: &DrainObstacle<'_>) {
        debug!(node = node.name, ?obstacle, "node is not drained yet");
        self.events.publish(catalogue::failed_draining(&subject(node), obstacle));
    }

    /// The API accepted an eviction; `reason` is that of the claim's `DisruptionReason`.
    pub fn evicted(&self, node: &str, pod: &PodView, reason: &str) {
        debug!(node, pod = %pod.id, reason, "evicted pod");
        self.metrics.all.pods_eviction_requests.increment(["200"]);
        self.metrics.all.pods_drained.increment([reason]);
        self.events.publish(catalogue::evicted(&Subject::pod(&pod.id, &pod.uid), reason));
    }

    /// The API answered an eviction with an error.
    pub fn eviction_failed(&self, code: u16) {
        self.metrics.all.pods_eviction_requests.increment([&code.to_string()]);
    }

    /// The pod is deleted ahead of the deadline, whatever protects it (LIF-62).
    pub fn force_deleting(&self, pod: &PodView, deadline: Timestamp, granted_seconds: u32) {
        info!(pod = %pod.id, %deadline, granted_seconds, "deleting pod before the deadline of its node");
        let grace = pod.termination_grace_seconds.unwrap_or_default();
        let subject = Subject::pod(&pod.id, &pod.uid);
        self.events.publish(catalogue::disrupted(&subject, deadline, i64::from(granted_seconds), grace));
    }

    pub fn count_drained(&self, reason: &str) {
        self.metrics.all.pods_drained.increment([reason]);
    }

    pub fn awaiting_volumes(&self, node: &NodeView, attachments: &[String]) {
        debug!(node = node.name, ?attachments, "waiting for volumes to be detached");
        self.events.publish(catalogue::awaiting_volume_detachment(&subject(node), attachments));
    }

    pub fn drained(&self, node: &NodeView) {
        info!(node = node.name, "drained node");
        self.metrics.all.nodes_drained.increment([label(node, labels::NODEPOOL)]);
    }

    /// The finalizer was removed.
    pub fn deleted_node(&self, node: &NodeView) {
        info!(node = node.name, "deleted node");
        let (now, pool) = (self.clock.now(), label(node, labels::NODEPOOL));
        let since = |at: Timestamp| now.duration_since(at).as_secs_f64().max(0.0);
        self.metrics.all.nodes_terminated.increment([pool, label(node, labels::ZONE)]);
        self.metrics.all.nodes_lifetime_duration.observe([pool], since(node.created_at));
        if let Some(deleting) = node.deleting_since {
            self.metrics.all.nodes_termination_duration.observe([pool], since(deleting), now);
        }
    }
}
