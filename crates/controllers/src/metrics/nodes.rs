//! What each node has and what its pods take of it (API-188 … API-190, LIF-122).

use jiff::Timestamp;
use karpenter_model::pod::PodOwner;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::ExistingNode;

use super::conditions::seconds_between;
use super::{Catalogue, Family, NodeMetrics, Samples, amounts};

/// What cannot be read off the cluster state: limits play no part in any decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUsage {
    pub pod_limits: Resources,
    pub daemon_limits: Resources,
}

/// The series of one entry; none while it has no Node.
pub fn node_series(
    metrics: &NodeMetrics,
    entry: &ExistingNode,
    usage: &NodeUsage,
    now: Timestamp,
    into: &mut Samples<'_>,
) {
    let Some(node) = &entry.node else { return };
    let labels = metrics.labels.values(&node.labels, &node.name, "", entry.is_managed());
    let mut daemon_requests = Resources::new();
    for pod in entry.pods.iter().filter(|pod| pod.owner == PodOwner::DaemonSet) {
        daemon_requests.add(&pod.requests);
    }
    let mut overhead = Resources::clone(&node.capacity);
    overhead.subtract(&node.allocatable);
    for (family, resources) in [
        (&metrics.allocatable, &*node.allocatable),
        (&metrics.pod_requests, &entry.requested),
        (&metrics.pod_limits, &usage.pod_limits),
        (&metrics.daemon_requests, &daemon_requests),
        (&metrics.daemon_limits, &usage.daemon_limits),
        (&metrics.system_overhead, &overhead),
    ] {
        resource_series(family, &labels, resources, into);
    }
    into.add(&metrics.current_lifetime, &labels, seconds_between(node.created_at, now));
}

fn resource_series(family: &Family, labels: &[&str], resources: &Resources, into: &mut Samples<'_>) {
    for (name, amount) in resources.iter() {
        let resource_type = amounts::resource_type(name);
        let labels: Vec<&str> = labels.iter().copied().chain([resource_type.as_str()]).collect();
        into.add(family, &labels, amounts::value(name, amount));
    }
}

/// `karpenter_cluster_utilization_percent`: what pods request of what all nodes have; resources that nobody has are left
/// out.
pub fn utilization(metrics: &Catalogue, entries: &[ExistingNode], into: &mut Samples<'_>) {
    let (mut requested, mut allocatable) = (Resources::new(), Resources::new());
    for entry in entries {
        requested.add(&entry.requested);
        allocatable.add(&entry.allocatable());
    }
    for (name, amount) in allocatable.iter().filter(|(_, amount)| *amount > Quantity::ZERO) {
        let share = requested.amount(name).as_f64() / amount.as_f64();
        into.add(metrics.cluster_utilization.family(), &[&amounts::resource_type(name)], 100.0 * share);
    }
}
