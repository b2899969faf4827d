//! How many pods of a PodDisruptionBudget may be evicted now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use kube::ResourceExt as _;
use serde_json::json;

use super::pods::{self, Rounding, controller_key, scaled};
use super::replicaset::patience;
use super::selection::selects;
use crate::cluster::{Cluster, Crowd, Outcome, Requeue, Stage, key_of};

/// An eviction that was granted and not seen through by then was for nothing.
const GRANT: SignedDuration = SignedDuration::from_secs(120);

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<PodDisruptionBudget>(&queue);
    cluster.wake_within::<Pod>(&queue, |cluster, pod| {
        let all = cluster.in_namespace::<PodDisruptionBudget>(&pod.namespace().unwrap_or_default());
        let concerned = all.iter().filter(|budget| covers(budget, pod)).map(|budget| key_of(budget.as_ref()));
        let pause = patience(cluster, pod);
        concerned.map(|key| (key, pause)).collect()
    });
    // The size of the owners is part of the arithmetic.
    cluster.wake::<ReplicaSet>(&queue, |cluster, set| in_namespace(cluster, set.namespace()));
    cluster.wake::<StatefulSet>(&queue, |cluster, set| in_namespace(cluster, set.namespace()));
    cluster.wake::<Deployment>(&queue, |cluster, deployment| in_namespace(cluster, deployment.namespace()));
    cluster.synced().await;
    queue.work("disruption-budget", |key| async move { reconcile(cluster, &key).await }).await;
}

fn in_namespace(cluster: &Cluster, namespace: Option<String>) -> Vec<String> {
    let all = cluster.in_namespace::<PodDisruptionBudget>(&namespace.unwrap_or_default());
    all.iter().map(|budget| key_of(budget.as_ref())).collect()
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    selects(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()), pod.metadata.labels.as_ref())
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(budget) = cluster.get::<PodDisruptionBudget>(key) else { return Ok(Requeue::OnChange) };
    let Some(spec) = &budget.spec else { return Ok(Requeue::OnChange) };
    let namespace = budget.namespace().unwrap_or_default();
    let mut crowds = cluster.crowds(&namespace);
    crowds.retain(|crowd| crowd.stage != Stage::Ended && covers(&budget, &crowd.pod));
    let count = |wanted: &dyn Fn(Stage) -> bool| -> usize {
        crowds.iter().filter(|crowd| wanted(crowd.stage)).map(|crowd| crowd.size).sum()
    };
    let disrupted = still_granted(cluster, &budget, &namespace);
    let granted_ready = disrupted.values().filter(|(pod, _)| pods::is_ready(pod)).count();
    let healthy = count(&|stage| stage == Stage::Ready).saturating_sub(granted_ready);
    let (expected, desired) = needed(spec, count(&|_| true), owners_size(cluster, &crowds));
    let allowed = if expected == 0 { 0 } else { (i32::try_from(healthy).unwrap_or(i32::MAX) - desired).max(0) };
    let next = disrupted.values().filter_map(|(_, since)| since.checked_add(GRANT).ok()).min();
    let status = json!({
        "observedGeneration": budget.metadata.generation, "expectedPods": expected, "currentHealthy": healthy,
        "desiredHealthy": desired, "disruptionsAllowed": allowed,
    });
    let before = serde_json::to_value(&budget.status).unwrap_or_default();
    let granted_before: BTreeSet<&String> =
        budget.status.iter().flat_map(|s| s.disrupted_pods.iter().flatten()).map(|(name, _)| name).collect();
    let outdated: Vec<&&String> = granted_before.iter().filter(|name| !disrupted.contains_key(**name)).collect();
    let changed = ["observedGeneration", "expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .iter()
        .any(|member| before[member] != status[member]);
    if changed || !outdated.is_empty() {
        let mut status = status;
        for name in outdated {
            status["disruptedPods"][name.as_str()] = serde_json::Value::Null;
        }
        status["conditions"] = json!([condition(&budget, allowed, cluster)]);
        // The API server counts evictions in the same status.
        cluster.patch_status_locked(budget.as_ref(), status).await?;
    }
    Ok(match next.map(|next| Duration::try_from(next.duration_since(cluster.now())).unwrap_or(Duration::ZERO)) {
        Some(wait) => Requeue::After(wait.max(Duration::from_millis(100))),
        None => Requeue::OnChange,
    })
}

/// Pods whose eviction was granted and that are still to go, by name, with when that was.
fn still_granted(
    cluster: &Cluster,
    budget: &PodDisruptionBudget,
    namespace: &str,
) -> BTreeMap<String, (Arc<Pod>, Timestamp)> {
    let granted = budget.status.iter().flat_map(|status| status.disrupted_pods.iter().flatten());
    let still = granted.filter_map(|(name, since)| {
        let pod = cluster.get::<Pod>(&format!("{namespace}/{name}")).filter(|pod| covers(budget, pod))?;
        let in_time = since.0.checked_add(GRANT).is_ok_and(|end| cluster.now() < end);
        (in_time && pods::is_active(&pod)).then(|| (name.clone(), (pod, since.0)))
    });
    still.collect()
}

/// How many pods the owners of these pods want in all.
fn owners_size(cluster: &Cluster, crowds: &[Crowd]) -> i32 {
    let mut sizes: BTreeMap<String, i32> = BTreeMap::new();
    for pod in crowds.iter().map(|crowd| &crowd.pod) {
        if let Some(key) = controller_key(pod.as_ref(), "ReplicaSet")
            && let Some(set) = cluster.get::<ReplicaSet>(&key)
        {
            let of_deployment = controller_key(set.as_ref(), "Deployment");
            let deployment = of_deployment.as_ref().and_then(|key| cluster.get::<Deployment>(key));
            let (owner, size) = match deployment {
                Some(owner) => (owner.uid(), owner.spec.as_ref().and_then(|spec| spec.replicas)),
                None => (set.uid(), set.spec.as_ref().and_then(|spec| spec.replicas)),
            };
            sizes.insert(owner.unwrap_or_default(), size.unwrap_or(1));
        } else if let Some(key) = controller_key(pod.as_ref(), "StatefulSet")
            && let Some(set) = cluster.get::<StatefulSet>(&key)
        {
            let size = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            sizes.insert(set.uid().unwrap_or_default(), size);
        }
    }
    sizes.values().sum()
}

/// Expected pods and how many of them must stay healthy.
fn needed(spec: &PodDisruptionBudgetSpec, pods: usize, owners_size: i32) -> (i32, i32) {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let missing = scaled(Some(most), "0", owners_size, Rounding::Up);
            (owners_size, (owners_size - missing).max(0))
        }
        (None, Some(IntOrString::Int(least))) => (pods, *least),
        (None, Some(least)) => (owners_size, scaled(Some(least), "0", owners_size, Rounding::Up)),
        (None, None) => (pods, 0),
    }
}

fn condition(budget: &PodDisruptionBudget, allowed: i32, cluster: &Cluster) -> serde_json::Value {
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let known = budget.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let since =
        known.filter(|c| c.type_ == "DisruptionAllowed" && c.status == status).map(|c| c.last_transition_time.clone());
    json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": since.into_iter().next().unwrap_or_else(|| cluster.time()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        for (spec, pods, size, want) in [
            (json!({"minAvailable": 2}), 3, 0, (3, 2)),
            (json!({"minAvailable": "50%"}), 3, 5, (5, 3)),
            (json!({"maxUnavailable": 1}), 3, 4, (4, 3)),
            (json!({"maxUnavailable": "30%"}), 3, 4, (4, 2)),
            (json!({"maxUnavailable": 9}), 3, 4, (4, 0)),
        ] {
            assert_eq!(needed(&serde_json::from_value(spec).unwrap(), pods, size), want);
        }
    }
}
