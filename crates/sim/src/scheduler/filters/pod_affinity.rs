//! Required affinity and anti-affinity between pods, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Filter, Refusal};
use crate::scheduler::cluster::{Cluster, NodeInfo};
use crate::scheduler::pod_info::{PodInfo, node_of};

/// A label of a node: the place that a term speaks of.
type Place = (String, String);

#[derive(Debug)]
pub(super) struct PodAffinity {
    /// Where pods are that every affinity term of the pod selects.
    wanted: BTreeSet<Place>,
    /// Where pods are that an anti-affinity term of the pod selects.
    avoided: BTreeSet<Place>,
    /// Where pods are that have an anti-affinity term which selects the pod.
    closed: BTreeSet<Place>,
    selects_itself: bool,
}

impl PodAffinity {
    pub(super) fn new(cluster: &Cluster, pod: &PodInfo) -> Self {
        let (mut wanted, mut avoided, mut closed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let place = |node: &NodeInfo, key: &String| Some((key.clone(), node.labels().get(key)?.clone()));
        if !pod.affinity.is_empty() || !pod.anti_affinity.is_empty() {
            for node in cluster.nodes.values() {
                for other in node.pods.values() {
                    if selected_by_all(pod, other, cluster) {
                        wanted.extend(pod.affinity.iter().filter_map(|t| place(node, &t.topology_key)));
                    }
                    let terms = pod.anti_affinity.iter().filter(|t| t.matches(other, cluster));
                    avoided.extend(terms.filter_map(|t| place(node, &t.topology_key)));
                }
            }
        }
        for other in cluster.repelling.iter().filter_map(|key| cluster.pods.get(key)) {
            let Some(node) = node_of(&other.pod).and_then(|name| cluster.nodes.get(name)) else { continue };
            let terms = other.anti_affinity.iter().filter(|t| t.matches(pod, cluster));
            closed.extend(terms.filter_map(|t| place(node, &t.topology_key)));
        }
        Self { wanted, avoided, closed, selects_itself: selected_by_all(pod, pod, cluster) }
    }

    pub(super) fn refuse(&self, pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
        let place = |key: &String| Some((key.clone(), node.labels().get(key)?.clone()));
        let reason = if !self.affinity_holds(pod, node) {
            return Some(Refusal::lasting(Filter::InterPodAffinity, "node(s) didn't match pod affinity rules"));
        } else if pod.anti_affinity.iter().filter_map(|t| place(&t.topology_key)).any(|p| self.avoided.contains(&p)) {
            "node(s) didn't match pod anti-affinity rules"
        } else if self.closed.iter().any(|(key, value)| node.labels().get(key) == Some(value)) {
            "node(s) didn't satisfy existing pods anti-affinity rules"
        } else {
            return None;
        };
        Some(Refusal::passing(Filter::InterPodAffinity, reason))
    }

    /// The first of a group that wants to be together has nobody to join; any node with the labels will do for it.
    fn affinity_holds(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let labels: &BTreeMap<_, _> = node.labels();
        let all_labels = pod.affinity.iter().all(|t| labels.contains_key(&t.topology_key));
        let joined = || {
            pod.affinity.iter().all(|t| {
                labels.get(&t.topology_key).is_some_and(|v| self.wanted.contains(&(t.topology_key.clone(), v.clone())))
            })
        };
        all_labels && (joined() || (self.wanted.is_empty() && self.selects_itself))
    }
}

fn selected_by_all(pod: &PodInfo, other: &PodInfo, cluster: &Cluster) -> bool {
    !pod.affinity.is_empty() && pod.affinity.iter().all(|t| t.matches(other, cluster))
}
