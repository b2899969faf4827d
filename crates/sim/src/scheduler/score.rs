//! Which of several feasible nodes is taken.
//!
//! The parts and their weights are those of kube-scheduler's default profile; the parts themselves are simpler. Each part
//! gives 0 to 100. Least allocated (weight 1): the free share of CPU and memory after the pod, averaged. Balanced (1): how
//! equal these two shares are. Preferred node affinity (2), preferred pod affinity and anti-affinity (2), taints that only
//! prefer (3) and spread constraints that only prefer (2): the raw sum, stretched so that the best node has 100 and the
//! worst 0. Images and default spread constraints are left out. All in integers; the first name wins a tie.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::WeightedPodAffinityTerm;

use super::cluster::{Cluster, NodeInfo};
use super::filters::{soft_counts, untolerated_preferences};
use super::pod_info::{AffinityTerm, PodInfo};
use super::selector::term_matches;

const FULL: i64 = 100;

pub(super) fn best<'a>(cluster: &Cluster, pod: &PodInfo, feasible: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nodes: Vec<_> = feasible.filter_map(|name| Some((name, cluster.nodes.get(name)?.as_ref()))).collect();
    if nodes.len() < 2 {
        return nodes.first().map(|(name, _)| *name);
    }
    let mut scores = vec![0; nodes.len()];
    let mut add = |weight: i64, part: Vec<i64>| {
        for (score, value) in scores.iter_mut().zip(part) {
            *score += weight * value;
        }
    };
    let each = |f: &dyn Fn(&NodeInfo) -> i64| nodes.iter().map(|(_, node)| f(node)).collect::<Vec<_>>();
    add(1, each(&|n| least_allocated(pod, n)));
    add(1, each(&|n| balanced(pod, n)));
    add(2, stretched(each(&|n| node_affinity(pod, n))));
    add(3, stretched(each(&|n| -i64::try_from(untolerated_preferences(pod, n)).unwrap_or(i64::MAX))));
    let near = pod_affinity(cluster, pod);
    if !near.is_empty() {
        add(2, stretched(each(&|n| near.get(n.name()).copied().unwrap_or_default())));
    }
    let crowds = soft_counts(cluster, pod);
    if !crowds.is_empty() {
        add(2, stretched(each(&|n| -crowds.get(n.name()).copied().unwrap_or_default())));
    }
    let best = scores.iter().copied().max()?;
    nodes.iter().zip(&scores).find(|(_, score)| **score == best).map(|((name, _), _)| *name)
}

fn stretched(raw: Vec<i64>) -> Vec<i64> {
    let (low, high) = (raw.iter().copied().min().unwrap_or_default(), raw.iter().copied().max().unwrap_or_default());
    if low == high {
        return vec![0; raw.len()];
    }
    raw.into_iter().map(|v| (v - low) * FULL / (high - low)).collect()
}

/// Shares of CPU and memory, in percent, that are taken once the pod is there.
fn taken(pod: &PodInfo, node: &NodeInfo) -> [i64; 2] {
    let has = [node.allocatable.milli_cpu, node.allocatable.memory];
    let asked = pod.weight();
    [0, 1].map(|i| {
        let used = node.weight[i].saturating_add(asked[i]);
        // A node that has nothing is full.
        used.saturating_mul(FULL).checked_div(has[i]).unwrap_or(FULL).clamp(0, FULL)
    })
}

fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let [cpu, memory] = taken(pod, node);
    (FULL - cpu).midpoint(FULL - memory)
}

fn balanced(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let [cpu, memory] = taken(pod, node);
    FULL - (cpu - memory).abs()
}

fn node_affinity(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let affinity = pod.pod.spec.as_ref().and_then(|s| s.affinity.as_ref()).and_then(|a| a.node_affinity.as_ref());
    let terms = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().filter(|t| term_matches(&t.preference, &node.node)).map(|t| i64::from(t.weight)).sum()
}

/// Sums of weights by node, of the pods in the same place that the preferred terms select.
fn pod_affinity(cluster: &Cluster, pod: &PodInfo) -> BTreeMap<String, i64> {
    let affinity = pod.pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let together = affinity
        .and_then(|a| a.pod_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let apart = affinity
        .and_then(|a| a.pod_anti_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let signed = |terms: Option<&Vec<WeightedPodAffinityTerm>>, sign: i64| -> Vec<_> {
        let terms = terms.into_iter().flatten();
        terms.map(|t| (AffinityTerm::new(&pod.pod, &t.pod_affinity_term), sign * i64::from(t.weight))).collect()
    };
    let terms: Vec<_> = signed(together, 1).into_iter().chain(signed(apart, -1)).collect();
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (term, weight) in &terms {
        let mut places: BTreeMap<&String, i64> = BTreeMap::new();
        for node in cluster.nodes.values() {
            let matching = node.pods.values().filter(|p| term.matches(p, cluster)).count();
            if let Some(place) = node.labels().get(&term.topology_key) {
                *places.entry(place).or_default() += weight * i64::try_from(matching).unwrap_or(i64::MAX);
            }
        }
        for (name, node) in &cluster.nodes {
            let here = node.labels().get(&term.topology_key).and_then(|p| places.get(p)).copied();
            *sums.entry(name.clone()).or_default() += here.unwrap_or_default();
        }
    }
    sums
}
