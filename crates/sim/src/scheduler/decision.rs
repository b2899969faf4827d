//! One pod's way: which nodes will do, which is taken, and what is said when there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::cluster::{Cluster, NodeInfo};
use super::filters::{Filter, Prepared, Question, Refusal, Stop, VolumePlan, prepare};
use super::pod_info::{PodInfo, nominated_node};
use super::preemption::{Nomination, attempt};
use super::score::best;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Bind(Placement),
    /// No node will do; the pod waits for a change.
    Unschedulable(Unfit),
    /// Something that the decision needs is not there; the pod is tried again after a while.
    Error(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub node: String,
    pub volumes: VolumePlan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// In kube-scheduler's words.
    pub message: String,
    /// Who refused, so that only changes which matter to them wake the pod.
    pub filters: BTreeSet<Filter>,
    /// Whether others have to make room for it, and where.
    pub nomination: Nomination,
}

/// Where the pod goes. The pod itself need not be in the cluster.
pub fn decide(cluster: &Cluster, pod: &Pod) -> Decision {
    let info = PodInfo::new(Arc::new(pod.clone()));
    if cluster.nodes.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return Decision::Unschedulable(Unfit { message, filters: BTreeSet::new(), nomination: Nomination::Clear });
    }
    match ask_all(cluster, &info) {
        Answers::Fault(message) => Decision::Error(message),
        Answers::Refused(refusal) => {
            // "not found" is what a later step of kube-scheduler says that misses the outcome of a skipped earlier one.
            let reasons = refusal.reasons.join(", ");
            let message = format!("0/{} nodes are available: {reasons}. not found", cluster.nodes.len());
            let filters = BTreeSet::from([refusal.filter]);
            Decision::Unschedulable(Unfit { message, filters, nomination: Nomination::Keep })
        }
        Answers::ByNode { plans, refusals, others } => {
            // The nominated node first: room was made there for this pod.
            let nominated = nominated_node(pod).filter(|n| plans.contains_key(n));
            if let Some(node) = nominated.or_else(|| best(cluster, &info, plans.keys().copied())) {
                let volumes = plans.get(node).cloned().unwrap_or_default();
                return Decision::Bind(Placement { node: node.to_owned(), volumes });
            }
            let named = (others, "node(s) didn't satisfy plugin(s) [NodeAffinity]");
            unschedulable(cluster, &info, &histogram(&refusals, named), &refusals)
        }
    }
}

/// The names of all nodes that pass every filter, or the error that keeps the pod from being judged.
pub fn feasible(cluster: &Cluster, pod: &Pod) -> Result<BTreeSet<String>, String> {
    let info = PodInfo::new(Arc::new(pod.clone()));
    match ask_all(cluster, &info) {
        Answers::Fault(message) => Err(message),
        Answers::Refused(_) => Ok(BTreeSet::new()),
        Answers::ByNode { plans, .. } => Ok(plans.keys().map(|&n| n.to_owned()).collect()),
    }
}

enum Answers<'a> {
    Fault(String),
    Refused(Refusal),
    ByNode {
        plans: BTreeMap<&'a str, VolumePlan>,
        refusals: BTreeMap<&'a str, Refusal>,
        /// How many nodes were not asked, because the pod names others.
        others: usize,
    },
}

fn ask_all<'a>(cluster: &'a Cluster, pod: &PodInfo) -> Answers<'a> {
    let question = match prepare(cluster, pod) {
        Prepared::Ask(question) => question,
        Prepared::Refused(refusal) => return Answers::Refused(refusal),
        Prepared::Fault(fault) => return Answers::Fault(fault.0),
    };
    let asked = |name: &str| question.only.as_ref().is_none_or(|only| only.contains(name));
    let (mut plans, mut refusals, mut others) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (name, node) in &cluster.nodes {
        if !asked(name) {
            others += 1;
            continue;
        }
        match ask(cluster, pod, &question, node) {
            Ok(plan) => _ = plans.insert(name.as_str(), plan),
            Err(Stop::Refused(refusal)) => _ = refusals.insert(name.as_str(), refusal),
            Err(Stop::Fault(fault)) => return Answers::Fault(fault.0),
        }
    }
    Answers::ByNode { plans, refusals, others }
}

/// Pods of no lower priority that are meant for this node count as being there, and the pod has to fit without them too:
/// it must not lean on a pod that may go elsewhere.
pub(super) fn ask(
    cluster: &Cluster,
    pod: &PodInfo,
    question: &Question<'_>,
    node: &NodeInfo,
) -> Result<VolumePlan, Stop> {
    let meant = cluster.nominated.get(node.name()).into_iter().flatten().filter_map(|key| cluster.pods.get(key));
    let others: Vec<_> = meant.filter(|p| p.key != pod.key && p.priority() >= pod.priority()).collect();
    if !others.is_empty() {
        let mut fuller = cluster.clone();
        for other in others {
            let mut bound = Pod::clone(&other.pod);
            bound.spec.get_or_insert_default().node_name = Some(node.name().to_owned());
            fuller.apply(bound);
        }
        let Some(node) = fuller.nodes.get(node.name()) else { return question.ask(node) };
        match prepare(&fuller, pod) {
            Prepared::Ask(question) => _ = question.ask(node)?,
            Prepared::Refused(refusal) => return Err(Stop::Refused(refusal)),
            Prepared::Fault(fault) => return Err(Stop::Fault(fault)),
        }
    }
    question.ask(node)
}

fn unschedulable(cluster: &Cluster, pod: &PodInfo, reasons: &str, refusals: &BTreeMap<&str, Refusal>) -> Decision {
    let (nomination, text) = attempt(cluster, pod, refusals);
    let mut message = format!("0/{} nodes are available: {reasons}", cluster.nodes.len());
    if let Some(text) = text {
        // What is said of claims is about devices, of which no pod here has any.
        message = format!("{message} no new claims to deallocate, preemption: {text}");
    }
    let filters = refusals.values().map(|r| r.filter).collect();
    Decision::Unschedulable(Unfit { message, filters, nomination })
}

/// Each reason with the number of nodes it holds for, sorted as text.
pub(super) fn histogram(refusals: &BTreeMap<&str, Refusal>, others: (usize, &str)) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.values().flat_map(|r| &r.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    joined(counts.into_iter().map(|(reason, n)| (n, reason)).chain([others]))
}

fn joined<'a>(counts: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    let mut texts: Vec<_> = counts.map(|(n, reason)| format!("{n} {reason}")).collect();
    texts.sort();
    format!("{}.", texts.join(", "))
}
