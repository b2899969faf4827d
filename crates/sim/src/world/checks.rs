//! What must always hold, whatever goes wrong.
//!
//! The checks look at the plain JSON of the API server and at the machines, and share no code with the controllers that
//! they judge: not even how an amount is read.

mod amounts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_apiserver as apiserver;
use serde_json::Value;

use self::amounts::{Amounts, allocatable, requests};
use crate::cloud::Cloud;
use crate::fleet::{Fleet, Health};

/// What is broken, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    NodeOverfull {
        node: String,
        resource: String,
        requested: i128,
        allocatable: i128,
    },
    /// A machine runs that no claim stands for.
    MachineWithoutClaim {
        machine: String,
        claim_uid: String,
    },
    /// A pod is on a node that has been gone for too long, and nobody has taken care of it.
    PodLost {
        pod: String,
        node: String,
    },
    /// Evictions have taken more pods than their budget allows.
    BudgetBroken {
        budget: String,
        healthy: i64,
        desired: i64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeOverfull { node, resource, requested, allocatable } => {
                write!(
                    f,
                    "node {node} is overfull: pods request {requested} of {allocatable} thousandths of {resource}"
                )
            }
            Self::MachineWithoutClaim { machine, claim_uid } => {
                write!(f, "machine {machine} runs, but its claim {claim_uid} does not exist")
            }
            Self::PodLost { pod, node } => write!(f, "pod {pod} is lost: its node {node} is gone"),
            Self::BudgetBroken { budget, healthy, desired } => {
                write!(f, "budget {budget} is broken: {healthy} pods are healthy, {desired} have to be")
            }
        }
    }
}

/// A pod may be on a node that is gone for this long: its collector waits 40 s and has to be told first.
const LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// After a machine was lost or a kubelet fell silent, pods may be missing for this long.
const INVOLUNTARY: SignedDuration = SignedDuration::from_mins(20);

/// Remembers what a single look cannot see.
#[derive(Debug)]
pub(super) struct Watcher {
    orphaned_since: BTreeMap<String, Timestamp>,
    /// Budgets that had enough healthy pods.
    satisfied: BTreeSet<String>,
    /// Until then pods may be missing for reasons that no budget covers.
    excused_until: Option<Timestamp>,
}

impl Watcher {
    pub(super) fn new() -> Self {
        Self { orphaned_since: BTreeMap::new(), satisfied: BTreeSet::new(), excused_until: None }
    }

    /// Something is about to happen that no budget covers.
    pub(super) fn excuse(&mut self, now: Timestamp) {
        self.excused_until = now.checked_add(INVOLUNTARY).ok();
    }

    pub(super) fn look(
        &mut self,
        api: &apiserver::Api,
        fleet: &Fleet,
        cloud: &Cloud,
        now: Timestamp,
    ) -> Vec<Violation> {
        let registry = api.registry();
        let all = |group: &str, kind: &str| -> Vec<Arc<Value>> {
            registry.by_kind(group, "v1", kind).map(|kind| api.list(kind)).unwrap_or_default()
        };
        let (nodes, pods) = (all("", "Node"), all("", "Pod"));
        let mut found = overfull(&nodes, &pods);
        found.extend(unclaimed(&all("karpenter.sh", "NodeClaim"), cloud));
        found.extend(self.lost(&nodes, &pods, now));
        if !cloud.interruptions().is_empty() || fleet.all().iter().any(|machine| machine.health != Health::Well) {
            self.excuse(now);
        }
        found.extend(self.budgets(&all("policy", "PodDisruptionBudget"), now));
        found
    }

    fn lost(&mut self, nodes: &[Arc<Value>], pods: &[Arc<Value>], now: Timestamp) -> Vec<Violation> {
        let names: BTreeSet<&str> = nodes.iter().map(|node| name(node)).collect();
        let orphans: BTreeMap<String, &str> = pods
            .iter()
            .filter_map(|pod| Some((name(pod).to_owned(), pod["spec"]["nodeName"].as_str()?)))
            .filter(|(_, node)| !names.contains(node))
            .collect();
        self.orphaned_since.retain(|pod, _| orphans.contains_key(pod));
        let mut lost = Vec::new();
        for (pod, node) in orphans {
            let since = *self.orphaned_since.entry(pod.clone()).or_insert(now);
            if now.duration_since(since) > LOST_AFTER {
                lost.push(Violation::PodLost { pod, node: node.to_owned() });
            }
        }
        lost
    }

    fn budgets(&mut self, budgets: &[Arc<Value>], now: Timestamp) -> Vec<Violation> {
        let excused = self.excused_until.is_some_and(|until| now < until);
        let mut broken = Vec::new();
        for budget in budgets {
            let number = |member: &str| budget["status"][member].as_i64().unwrap_or(0);
            let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
            let key = name(budget).to_owned();
            if healthy >= desired {
                self.satisfied.insert(key);
            } else if excused {
                self.satisfied.remove(&key);
            } else if self.satisfied.contains(&key) {
                broken.push(Violation::BudgetBroken { budget: key, healthy, desired });
            }
        }
        broken
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn overfull(nodes: &[Arc<Value>], pods: &[Arc<Value>]) -> Vec<Violation> {
    let mut used: BTreeMap<&str, Amounts> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))) {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            let used = used.entry(node).or_default();
            for (resource, amount) in requests(pod) {
                *used.entry(resource).or_default() += amount;
            }
        }
    }
    let mut found = Vec::new();
    for node in nodes {
        let has = allocatable(node);
        for (resource, requested) in used.get(name(node)).into_iter().flatten() {
            let allocatable = has.get(resource).copied().unwrap_or(0);
            if *requested > allocatable {
                let (node, resource) = (name(node).to_owned(), resource.clone());
                found.push(Violation::NodeOverfull { node, resource, requested: *requested, allocatable });
            }
        }
    }
    found
}

fn unclaimed(claims: &[Arc<Value>], cloud: &Cloud) -> Vec<Violation> {
    let uids: BTreeSet<&str> = claims.iter().filter_map(|claim| claim["metadata"]["uid"].as_str()).collect();
    let running = cloud.running().into_iter();
    running
        .filter(|(_, uid)| !uids.contains(uid.as_str()))
        .map(|(machine, claim_uid)| Violation::MachineWithoutClaim { machine, claim_uid })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overfull_nodes_are_found() {
        let node =
            json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}});
        let pod = |cpu: &str, phase: &str| {
            Arc::new(json!({
                "metadata": {"name": "p"}, "status": {"phase": phase},
                "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            }))
        };
        let nodes = [Arc::new(node)];
        let found = |pods: &[Arc<Value>]| overfull(&nodes, pods).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(found(&[pod("1", "Running"), pod("1", "Pending"), pod("9", "Succeeded")]).is_empty());
        let too_much = found(&[pod("1", "Running"), pod("1001m", "Running")]);
        assert_eq!(too_much, ["node n is overfull: pods request 2001 of 2000 thousandths of cpu"]);
        let too_many = found(&[pod("0", "Running"), pod("0", "Running"), pod("0", "Running"), pod("0", "Running")]);
        assert_eq!(too_many, ["node n is overfull: pods request 4000 of 3000 thousandths of pods"]);
    }

    #[test]
    fn lost_pods_are_found_after_a_while() {
        let mut watcher = Watcher::new();
        let pods = [Arc::new(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "gone"}}))];
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        assert!(watcher.lost(&[], &pods, at(0)).is_empty());
        assert!(watcher.lost(&[], &pods, at(5)).is_empty());
        assert_eq!(watcher.lost(&[], &pods, at(6)).len(), 1);
        assert!(watcher.lost(&[], &[], at(7)).is_empty());
        assert!(watcher.lost(&[], &pods, at(8)).is_empty(), "another pod of that name");
    }

    #[test]
    fn budgets_must_not_be_broken_once_they_were_kept() {
        let budget = |healthy: i64| {
            [Arc::new(json!({"metadata": {"name": "b"}, "status": {"currentHealthy": healthy, "desiredHealthy": 2}}))]
        };
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut watcher = Watcher::new();
        assert!(watcher.budgets(&budget(0), at(0)).is_empty(), "still starting");
        assert!(watcher.budgets(&budget(2), at(1)).is_empty());
        assert_eq!(watcher.budgets(&budget(1), at(2)).len(), 1);
        watcher.excuse(at(3));
        assert!(watcher.budgets(&budget(1), at(4)).is_empty(), "a machine was lost");
        assert!(watcher.budgets(&budget(1), at(30)).is_empty(), "and it has not recovered yet");
    }
}
