//! Keeps as many pods as a ReplicaSet asks for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::pods::{self, PodName, controller_key, pod_from};
use crate::cluster::{Cluster, Crowd, Outcome, Requeue, Stage};

/// A set of so many pods is looked at in its own time.
const CROWD: i32 = 500;

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<ReplicaSet>(&queue);
    cluster.wake_within::<Pod>(&queue, |cluster, pod| {
        let set = controller_key(pod, "ReplicaSet");
        set.into_iter().map(|key| (key, patience(cluster, pod))).collect()
    });
    cluster.synced().await;
    queue.work("replicaset", |key| async move { reconcile(cluster, &key).await }).await;
}

/// How long a pod's change may wait: in a crowd of thousands that come and go together each look at all of them takes a
/// while, and one look does for many.
pub(super) fn patience(cluster: &Cluster, pod: &Pod) -> Duration {
    let set = controller_key(pod, "ReplicaSet").and_then(|key| cluster.get::<ReplicaSet>(&key));
    let wanted = set.and_then(|set| set.spec.as_ref()?.replicas).unwrap_or(0);
    if wanted >= CROWD { Duration::from_millis(500) } else { Duration::ZERO }
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(set) = cluster.get::<ReplicaSet>(key) else { return Ok(Requeue::OnChange) };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    let (Some(spec), Some(uid)) = (&set.spec, set.uid()) else { return Ok(Requeue::OnChange) };
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let tally = Tally::counted(&cluster.crowds_of(&set.namespace().unwrap_or_default(), &uid));
    // Who is ready is available at once, and nobody has to be looked at.
    if tally.replicas == wanted && spec.min_ready_seconds.unwrap_or(0) == 0 {
        return write_status(cluster, &set, tally).await;
    }
    let mut active: Vec<Arc<Pod>> = cluster.pods_of(&uid).into_iter().filter(|pod| pods::is_active(pod)).collect();
    for _ in active.len()..wanted {
        let template = spec.template.clone().unwrap_or_default();
        let pod = pod_from(set.as_ref(), &template, PodName::StartingWith(format!("{}-", set.name_any())));
        active.push(cluster.create(&pod).await?);
    }
    if active.len() > wanted {
        order_for_removal(&mut active, cluster);
        let rest = active.split_off(active.len() - wanted);
        for pod in std::mem::replace(&mut active, rest) {
            cluster.delete(pod.as_ref(), None).await?;
        }
    }
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let (ready, available, next) = readiness(&active, min_ready, cluster.now());
    write_status(cluster, &set, Tally { replicas: active.len(), ready, available, next }).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    replicas: usize,
    ready: i32,
    available: i32,
    /// When one more becomes available.
    next: Option<Duration>,
}

impl Tally {
    fn counted(crowds: &[Crowd]) -> Self {
        let of = |stage: Stage| -> usize { crowds.iter().filter(|c| c.stage == stage).map(|c| c.size).sum() };
        let ready = i32::try_from(of(Stage::Ready)).unwrap_or(i32::MAX);
        Self { replicas: of(Stage::Ready) + of(Stage::Starting), ready, available: ready, next: None }
    }
}

/// First the ones that are missed least: not placed, not running, not ready, cheap to delete, on a node with many
/// others, young.
fn order_for_removal(active: &mut [Arc<Pod>], cluster: &Cluster) {
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in active.iter() {
        *per_node.entry(node(pod)).or_default() += 1;
    }
    active.sort_by_cached_key(|pod| {
        let phase_rank = match pods::phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost = pod.annotations().get("controller.kubernetes.io/pod-deletion-cost");
        let cost: i32 = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
        let crowd = per_node.get(&node(pod)).copied().unwrap_or(0);
        let created = pod.metadata.creation_timestamp.as_ref().map_or(cluster.now(), |time| time.0);
        (pods::is_bound(pod), phase_rank, pods::is_ready(pod), cost, Reverse(crowd), Reverse(created), pod.name_any())
    });
}

fn node(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

async fn write_status(cluster: &Cluster, set: &ReplicaSet, tally: Tally) -> Outcome {
    let Tally { replicas, ready, available, next } = tally;
    let observed = set.metadata.generation;
    let status = set.status.clone().unwrap_or_default();
    let is = (status.replicas, status.ready_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    let was_full = status.fully_labeled_replicas.unwrap_or(0);
    let count = i32::try_from(replicas).unwrap_or(i32::MAX);
    if is != (count, ready, available) || was_full != count || status.observed_generation != observed {
        let status = json!({
            "replicas": count, "fullyLabeledReplicas": count, "readyReplicas": ready, "availableReplicas": available,
            "observedGeneration": observed,
        });
        cluster.patch_status(set, status).await?;
    }
    Ok(next.map_or(Requeue::OnChange, Requeue::After))
}

/// How many are ready, how many available, and when the next one becomes so.
pub(super) fn readiness(active: &[Arc<Pod>], min_ready: i32, now: Timestamp) -> (i32, i32, Option<Duration>) {
    let (mut ready, mut available, mut next) = (0, 0, None);
    for at in active.iter().filter_map(|pod| pods::available_at(pod, min_ready)) {
        ready += 1;
        if at <= now {
            available += 1;
        } else {
            next = [next, Duration::try_from(at.duration_since(now)).ok()].into_iter().flatten().min();
        }
    }
    (ready, available, next)
}
