//! Keeps one pod of a DaemonSet on each node that may have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use kube::ResourceExt as _;
use serde_json::json;

use super::deployment::differs;
use super::pods::{self, PodName, Rounding, controller_key, pod_from, scaled, template_hash};
use super::selection::{may_be_on, tolerates};
use crate::cluster::{Cluster, Outcome, Requeue, key_of};

const REVISION: &str = "controller-revision-hash";

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<DaemonSet>(&queue);
    cluster.wake::<Pod>(&queue, |_, pod| controller_key(pod, "DaemonSet").into_iter().collect());
    // Heartbeats change nodes all the time; asking every set again is cheap beside writing the heartbeat.
    cluster
        .wake::<Node>(&queue, |cluster, _| cluster.all::<DaemonSet>().iter().map(|set| key_of(set.as_ref())).collect());
    cluster.synced().await;
    queue.work("daemonset", |key| async move { reconcile(cluster, &key).await }).await;
}

/// Where a set's pod belongs on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A pod should be there.
    Runs,
    /// None is started, but one that is there stays: the node is tainted against scheduling only.
    Stays,
    Never,
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(set) = cluster.get::<DaemonSet>(key) else { return Ok(Requeue::OnChange) };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    let (Some(spec), Some(uid)) = (&set.spec, set.uid()) else { return Ok(Requeue::OnChange) };
    let revision = template_hash(&spec.template);
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in cluster.pods_of(&uid) {
        by_node.entry(node_of(&pod)).or_default().push(pod);
    }
    let pod_spec = with_tolerations(spec.template.spec.clone().unwrap_or_default());
    let mut tally = Tally::default();
    for node in cluster.all::<Node>() {
        let mut there = by_node.remove(&node.name_any()).unwrap_or_default();
        let place = if node.metadata.deletion_timestamp.is_some() { Place::Stays } else { place(&pod_spec, &node) };
        there.retain(|pod| !pods::is_deleting(pod));
        for pod in there.iter().filter(|pod| pods::is_finished(pod) || place == Place::Never) {
            cluster.delete(pod.as_ref(), None).await?;
        }
        there.retain(|pod| pods::is_active(pod) && place != Place::Never);
        if place == Place::Runs && there.is_empty() {
            let pod = new_pod(&set, spec, pod_spec.clone(), &node.name_any(), &revision);
            there.push(cluster.create(&pod).await?);
        }
        // Two pods of one set on a node: the oldest stays.
        there.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()));
        for pod in there.iter().skip(1) {
            cluster.delete(pod.as_ref(), None).await?;
        }
        tally.count(place, there.first(), &revision, spec.min_ready_seconds.unwrap_or(0), cluster);
    }
    for pod in by_node.into_values().flatten().filter(|pod| !pods::is_deleting(pod)) {
        cluster.delete(pod.as_ref(), None).await?;
    }
    remove_outdated(cluster, spec, &tally).await?;
    write_status(cluster, &set, &tally).await
}

#[derive(Debug, Default)]
struct Tally {
    desired: usize,
    current: usize,
    misplaced: usize,
    ready: usize,
    available: usize,
    updated: usize,
    outdated: Vec<Arc<Pod>>,
}

impl Tally {
    fn count(&mut self, place: Place, pod: Option<&Arc<Pod>>, revision: &str, min_ready: i32, cluster: &Cluster) {
        self.desired += usize::from(place == Place::Runs);
        let Some(pod) = pod else { return };
        if place != Place::Runs {
            self.misplaced += 1;
            return;
        }
        self.current += 1;
        self.ready += usize::from(pods::is_ready(pod));
        self.available += usize::from(pods::is_available(pod, min_ready, cluster.now()));
        if pod.labels().get(REVISION).is_some_and(|r| r == revision) {
            self.updated += 1;
        } else {
            self.outdated.push(pod.clone());
        }
    }
}

/// The node a pod was made for, which is not yet the one it is bound to.
fn node_of(pod: &Pod) -> String {
    let Some(spec) = &pod.spec else { return String::new() };
    let affinity = || {
        let required = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = &required.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        terms.first()?.match_fields.as_ref()?.first()?.values.as_ref()?.first().cloned()
    };
    spec.node_name.clone().or_else(affinity).unwrap_or_default()
}

fn place(spec: &PodSpec, node: &Node) -> Place {
    if !may_be_on(spec, node) {
        return Place::Never;
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let refused = |effect: &str| {
        let mut of_effect = taints.into_iter().flatten().filter(|taint| taint.effect == effect);
        of_effect.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    if refused("NoExecute") {
        Place::Never
    } else if refused("NoSchedule") {
        Place::Stays
    } else {
        Place::Runs
    }
}

/// The pods of every DaemonSet stay through a node's troubles.
fn with_tolerations(mut spec: PodSpec) -> PodSpec {
    let host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let node = |name: &str, effect: &str| Toleration {
        key: Some(format!("node.kubernetes.io/{name}")),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let mut more = vec![node("not-ready", "NoExecute"), node("unreachable", "NoExecute")];
    more.extend(["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"].map(|n| node(n, "NoSchedule")));
    if host_network {
        more.push(node("network-unavailable", "NoSchedule"));
    }
    for toleration in more {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec
}

fn new_pod(set: &DaemonSet, spec: &DaemonSetSpec, pod_spec: PodSpec, node: &str, revision: &str) -> Pod {
    let mut pod = pod_from(set, &spec.template, PodName::StartingWith(format!("{}-", set.name_any())));
    pod.metadata.labels.get_or_insert_default().insert(REVISION.to_owned(), revision.to_owned());
    pod.spec = Some(bound_to(pod_spec, node));
    pod
}

/// The scheduler places it, but on this node only.
fn bound_to(mut spec: PodSpec, node: &str) -> PodSpec {
    let field = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(|| NodeSelector { node_selector_terms: vec![NodeSelectorTerm::default()] });
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![field.clone()]);
    }
    spec
}

/// Pods of an old template go as far as the strategy allows pods to be missing.
async fn remove_outdated(cluster: &Cluster, spec: &DaemonSetSpec, tally: &Tally) -> Result<(), kube::Error> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let total = i32::try_from(tally.desired).unwrap_or(i32::MAX);
    let allowed = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), "1", total, Rounding::Up).max(1);
    let missing = tally.desired - tally.available.min(tally.desired);
    let spare = usize::try_from(allowed).unwrap_or(0).saturating_sub(missing);
    // One that does not work is no loss.
    let (well, sick): (Vec<_>, Vec<_>) = tally.outdated.iter().partition(|pod| pods::is_ready(pod));
    for pod in sick.into_iter().chain(well.into_iter().take(spare)) {
        cluster.delete(pod.as_ref(), None).await?;
    }
    Ok(())
}

async fn write_status(cluster: &Cluster, set: &DaemonSet, tally: &Tally) -> Outcome {
    let status = json!({
        "observedGeneration": set.metadata.generation,
        "desiredNumberScheduled": tally.desired, "currentNumberScheduled": tally.current,
        "numberMisscheduled": tally.misplaced, "numberReady": tally.ready, "numberAvailable": tally.available,
        "updatedNumberScheduled": tally.updated,
        "numberUnavailable": tally.desired - tally.available.min(tally.desired),
    });
    if differs(&serde_json::to_value(&set.status).unwrap_or_default(), &status) {
        cluster.patch_status(set, status).await?;
    }
    Ok(Requeue::OnChange)
}

#[cfg(test)]
mod tests {
    use karpenter_testkit::build;

    use super::*;

    #[test]
    fn places() {
        let plain = with_tolerations(PodSpec::default());
        let picky = with_tolerations(build::pod("p").node_selector("disk", "ssd").build().spec.unwrap());
        for (name, spec, node, want) in [
            ("a plain node", &plain, build::node("n"), Place::Runs),
            ("selected", &picky, build::node("n").label("disk", "ssd"), Place::Runs),
            ("not selected", &picky, build::node("n"), Place::Never),
            ("cordoned", &plain, build::node("n").taint("node.kubernetes.io/unschedulable", "NoSchedule"), Place::Runs),
            ("unreachable", &plain, build::node("n").taint("node.kubernetes.io/unreachable", "NoExecute"), Place::Runs),
            ("kept from new pods", &plain, build::node("n").taint("mine", "NoSchedule"), Place::Stays),
            ("kept from all", &plain, build::node("n").taint("mine", "NoExecute"), Place::Never),
        ] {
            assert_eq!(place(spec, &node.build()), want, "{name}");
        }
        let bound = bound_to(picky, "n1");
        assert!(may_be_on(&bound, &build::node("n1").label("disk", "ssd").build()));
        assert!(!may_be_on(&bound, &build::node("n2").label("disk", "ssd").build()));
    }
}
