//! Which pods of lower priority would have to go so that a pod fits somewhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::cluster::{Cluster, Key};
use super::decision::{ask, histogram};
use super::filters::{Prepared, Refusal, Stop, prepare};
use super::pod_info::{PodInfo, nominated_node, priority};
use super::selector::Selector;

/// A node and the pods that have to leave it, the most important first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    pub node: String,
    pub victims: Vec<Key>,
}

/// What becomes of the node that the pod is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nomination {
    Keep,
    Clear,
    Set(Preemption),
}

/// The nomination, and what is said when nobody can be made to go.
pub(super) fn attempt(
    cluster: &Cluster,
    pod: &PodInfo,
    refusals: &BTreeMap<&str, Refusal>,
) -> (Nomination, Option<String>) {
    if let Some(text) = not_eligible(cluster, pod, refusals) {
        return (Nomination::Keep, Some(text.to_owned()));
    }
    let mut candidates = Vec::new();
    let mut reasons: BTreeMap<&str, Refusal> = BTreeMap::new();
    // One copy to try things on; every try is undone.
    let mut trial = None;
    for (&name, refusal) in refusals.iter().filter(|(_, r)| !r.lasting) {
        let lower = lower_pods(cluster, pod, name);
        let outcome = if lower.is_empty() {
            Err(Refusal::lasting(refusal.filter, "No preemption victims found for incoming pod"))
        } else {
            victims(cluster, trial.get_or_insert_with(|| cluster.clone()), pod, name, lower)
        };
        match outcome {
            Ok(found) => candidates.push(found),
            Err(refusal) => _ = reasons.insert(name, refusal),
        }
    }
    let best = candidates.into_iter().min_by_key(Candidate::rank);
    if let Some(Candidate { node, victims, .. }) = best {
        let victims = victims.iter().map(|v| v.key.clone()).collect();
        return (Nomination::Set(Preemption { node, victims }), None);
    }
    let nodes = cluster.nodes.len();
    let others = (nodes - reasons.len(), "Preemption is not helpful for scheduling");
    (Nomination::Clear, Some(format!("0/{nodes} nodes are available: {}", histogram(&reasons, others))))
}

/// A pod for which others are going already waits for them.
fn not_eligible(cluster: &Cluster, pod: &PodInfo, refusals: &BTreeMap<&str, Refusal>) -> Option<&'static str> {
    if pod.pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = nominated_node(&pod.pod)?;
    if refusals.get(nominated).is_some_and(|r| r.lasting) {
        return None;
    }
    let going = lower_pods(cluster, pod, nominated).iter().any(|p| is_preempted(&p.pod));
    going.then_some("not eligible due to a terminating pod on the nominated node.")
}

fn is_preempted(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let target = conditions.into_iter().find(|c| c.type_ == "DisruptionTarget");
    pod.metadata.deletion_timestamp.is_some()
        && target.is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some("PreemptionByScheduler"))
}

/// Pods on the node that matter less, the most important first.
fn lower_pods(cluster: &Cluster, pod: &PodInfo, node: &str) -> Vec<Arc<PodInfo>> {
    let pods = cluster.nodes.get(node).into_iter().flat_map(|n| n.pods.values());
    let mut lower: Vec<_> = pods.filter(|p| p.priority() < pod.priority()).cloned().collect();
    lower.sort_by_key(|p| (Reverse(p.priority()), started(&p.pod)));
    lower
}

/// One that has not started counts as the youngest.
fn started(pod: &Pod) -> Timestamp {
    pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |t| t.0)
}

#[derive(Debug)]
struct Candidate {
    node: String,
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

impl Candidate {
    /// Fewest budgets broken, least important, fewest, youngest; then the first name.
    fn rank(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>, String) {
        let highest = self.victims.iter().map(|v| v.priority()).max().unwrap_or(i32::MIN);
        // Shifted, so that many unimportant ones weigh more than few.
        let sum = self.victims.iter().map(|v| i64::from(v.priority()) + i64::from(i32::MAX) + 1).sum();
        let top = self.victims.iter().filter(|v| v.priority() == highest);
        let oldest = top.map(|v| started(&v.pod)).min().unwrap_or(Timestamp::MAX);
        (self.violations, highest, sum, self.victims.len(), Reverse(oldest), self.node.clone())
    }
}

/// All lower pods go; then each that can stay, stays: those first whose going would break a budget.
fn victims(
    cluster: &Cluster,
    trial: &mut Cluster,
    pod: &PodInfo,
    node: &str,
    lower: Vec<Arc<PodInfo>>,
) -> Result<Candidate, Refusal> {
    for victim in &lower {
        trial.remove(Arc::clone(&victim.pod));
    }
    let outcome = fits(trial, pod, node).map(|()| {
        let (protected, others): (Vec<_>, Vec<_>) = by_budget(cluster, &lower);
        let mut stay = |pods: Vec<Arc<PodInfo>>| {
            let mut gone = Vec::new();
            for victim in pods {
                trial.apply(Arc::clone(&victim.pod));
                if fits(trial, pod, node).is_err() {
                    trial.remove(Arc::clone(&victim.pod));
                    gone.push(victim);
                }
            }
            gone
        };
        let mut victims = stay(protected);
        let violations = victims.len();
        victims.extend(stay(others));
        victims.sort_by_key(|p| (Reverse(p.priority()), started(&p.pod)));
        Candidate { node: node.to_owned(), victims, violations }
    });
    for victim in lower {
        trial.apply(Arc::clone(&victim.pod));
    }
    outcome
}

fn fits(cluster: &Cluster, pod: &PodInfo, node: &str) -> Result<(), Refusal> {
    let lost = |filter| Refusal::lasting(filter, "node is gone");
    let refusal = match prepare(cluster, pod) {
        Prepared::Ask(question) => match cluster.nodes.get(node).map(|n| ask(cluster, pod, &question, n)) {
            Some(Ok(_)) => return Ok(()),
            Some(Err(Stop::Refused(refusal))) => refusal,
            Some(Err(Stop::Fault(fault))) => Refusal::lasting(super::Filter::VolumeBinding, fault.0),
            None => lost(super::Filter::NodeName),
        },
        Prepared::Refused(refusal) => refusal,
        Prepared::Fault(fault) => Refusal::lasting(super::Filter::VolumeBinding, fault.0),
    };
    Err(refusal)
}

/// Pods whose going would break a disruption budget, and the others. Each budget is used up as the list goes on.
fn by_budget(cluster: &Cluster, pods: &[Arc<PodInfo>]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut budgets: Vec<_> = cluster
        .budgets
        .values()
        .map(|b| {
            let allowed = b.status.as_ref().map_or(0, |s| s.disruptions_allowed);
            (b, Selector::new(b.spec.as_ref().and_then(|s| s.selector.as_ref())), allowed)
        })
        .collect();
    pods.iter().cloned().partition(|pod| {
        let mut broken = false;
        for (budget, selector, allowed) in &mut budgets {
            let known = budget.status.as_ref().and_then(|s| s.disrupted_pods.as_ref());
            let counted = budget.metadata.namespace.as_deref() == Some(&pod.key.namespace)
                && !pod.labels().is_empty()
                && !selector.is_everything()
                && selector.matches(pod.labels())
                && known.is_none_or(|k| !k.contains_key(&pod.key.name));
            if counted {
                *allowed -= 1;
                broken |= *allowed < 0;
            }
        }
        broken
    })
}

/// Pods that are meant for the node and matter less than the one that takes it.
pub(super) fn displaced(cluster: &Cluster, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
    let meant = cluster.nominated.get(node).into_iter().flatten().filter_map(|key| cluster.pods.get(key));
    meant.filter(|p| p.priority() < priority(pod)).map(|p| Arc::clone(&p.pod)).collect()
}
