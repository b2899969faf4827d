//! Topology spread constraints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::taints::has_untolerated;
use super::{Filter, Refusal};
use crate::scheduler::cluster::{Cluster, NodeInfo};
use crate::scheduler::pod_info::PodInfo;
use crate::scheduler::selector::{Selector, Wanted, pod_selects_node};

/// The constraints that must hold, each with its pods per domain.
#[derive(Debug)]
pub(super) struct Spread(Vec<Counted>);

#[derive(Debug)]
struct Counted {
    constraint: Constraint,
    domains: BTreeMap<String, i64>,
}

#[derive(Debug)]
struct Constraint {
    topology_key: String,
    max_skew: i64,
    min_domains: usize,
    selector: Selector,
    honor_affinity: bool,
    honor_taints: bool,
}

impl Constraint {
    fn new(pod: &PodInfo, c: &TopologySpreadConstraint) -> Self {
        let selector = Selector::new(c.label_selector.as_ref()).with_label_keys(
            c.match_label_keys.as_deref(),
            pod.labels(),
            Wanted::Same,
        );
        Self {
            topology_key: c.topology_key.clone(),
            max_skew: c.max_skew.into(),
            min_domains: c.min_domains.and_then(|m| usize::try_from(m).ok()).unwrap_or(1),
            selector,
            honor_affinity: c.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: c.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    /// Nodes that the pod could not use anyway take no part, as far as the policies say.
    fn counts_node(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        (!self.honor_affinity || pod_selects_node(&pod.pod, &node.node))
            && (!self.honor_taints || !has_untolerated(pod, node))
    }

    /// Pods that are going do not count. A selector for everything counts nobody, which is how it is, if not how one
    /// would expect it.
    fn pods_on(&self, namespace: &str, node: &NodeInfo) -> i64 {
        if self.selector.is_everything() {
            return 0;
        }
        let counted = node.pods.values().filter(|p| {
            p.key.namespace == namespace
                && p.pod.metadata.deletion_timestamp.is_none()
                && self.selector.matches(p.labels())
        });
        i64::try_from(counted.count()).unwrap_or(i64::MAX)
    }
}

fn constraints(pod: &PodInfo, when_unsatisfiable: &str) -> Vec<Constraint> {
    let all = pod.pod.spec.iter().flat_map(|s| s.topology_spread_constraints.iter().flatten());
    all.filter(|c| c.when_unsatisfiable == when_unsatisfiable).map(|c| Constraint::new(pod, c)).collect()
}

impl Spread {
    pub(super) fn new(cluster: &Cluster, pod: &PodInfo) -> Self {
        let constraints = constraints(pod, "DoNotSchedule");
        let mut domains = vec![BTreeMap::new(); constraints.len()];
        if !constraints.is_empty() {
            // A node without one of the keys is in no domain of any.
            let nodes = cluster.nodes.values();
            let inside = nodes.filter(|n| constraints.iter().all(|c| n.labels().contains_key(&c.topology_key)));
            for node in inside {
                for (constraint, domains) in constraints.iter().zip(&mut domains) {
                    if constraint.counts_node(pod, node) {
                        let domain = node.labels()[&constraint.topology_key].clone();
                        *domains.entry(domain).or_insert(0) += constraint.pods_on(&pod.key.namespace, node);
                    }
                }
            }
        }
        let counted = constraints.into_iter().zip(domains);
        Self(counted.map(|(constraint, domains)| Counted { constraint, domains }).collect())
    }

    pub(super) fn refuse(&self, pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
        self.0.iter().find_map(|Counted { constraint, domains }| {
            let Some(domain) = node.labels().get(&constraint.topology_key) else {
                let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Some(Refusal::lasting(Filter::PodTopologySpread, reason));
            };
            let fewest = if domains.len() < constraint.min_domains {
                0
            } else {
                // Without any domain there is nothing to be uneven with.
                domains.values().copied().min().unwrap_or(i64::from(i32::MAX))
            };
            let itself = i64::from(constraint.selector.matches(pod.labels()));
            let here = domains.get(domain).copied().unwrap_or_default();
            (here + itself - fewest > constraint.max_skew).then(|| {
                let reason = "node(s) didn't match pod topology spread constraints";
                Refusal::passing(Filter::PodTopologySpread, reason)
            })
        })
    }
}

/// For scoring: how many pods the constraints that only prefer count in the node's domains.
pub(in crate::scheduler) fn soft_counts(cluster: &Cluster, pod: &PodInfo) -> BTreeMap<String, i64> {
    let constraints = constraints(pod, "ScheduleAnyway");
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for constraint in &constraints {
        let domain = |n: &NodeInfo| n.labels().get(&constraint.topology_key).cloned();
        let mut domains: BTreeMap<String, i64> = BTreeMap::new();
        for node in cluster.nodes.values().filter(|n| constraint.counts_node(pod, n)) {
            if let Some(domain) = domain(node) {
                *domains.entry(domain).or_default() += constraint.pods_on(&pod.key.namespace, node);
            }
        }
        for (name, node) in &cluster.nodes {
            let count = domain(node).and_then(|d| domains.get(&d).copied());
            *sums.entry(name.clone()).or_default() += count.unwrap_or(i64::from(i32::MAX));
        }
    }
    sums
}
