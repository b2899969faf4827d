//! Removes pods that nobody else will: bound to a node that is gone, or deleted before they were ever bound.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::Patience;
use crate::cluster::{Cluster, Outcome, Requeue, key_of};

pub(super) async fn run(cluster: &Cluster, patience: Patience) {
    let queue = super::queue();
    cluster.wake_self::<Pod>(&queue);
    cluster.wake::<Node>(&queue, |cluster, node| {
        cluster.pods_on(&node.name_any()).iter().map(|pod| key_of(pod.as_ref())).collect()
    });
    let missing = &Missing::default();
    cluster.synced().await;
    queue.work("pod-orphans", |key| async move { reconcile(cluster, patience, missing, &key).await }).await;
}

type Missing = std::sync::Mutex<std::collections::BTreeMap<String, jiff::Timestamp>>;

async fn reconcile(cluster: &Cluster, patience: Patience, missing: &Missing, key: &str) -> Outcome {
    let lock = || missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(pod) = cluster.get::<Pod>(key) else {
        lock().remove(key);
        return Ok(Requeue::OnChange);
    };
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    match node {
        None if pod.metadata.deletion_timestamp.is_some() => {
            // No kubelet will ever see it.
            cluster.delete(pod.as_ref(), Some(0)).await?;
            Ok(Requeue::OnChange)
        }
        Some(node) if cluster.get::<Node>(node).is_none() => {
            let now = cluster.now();
            let since = *lock().entry(key.to_owned()).or_insert(now);
            let age: Duration = now.duration_since(since).try_into().unwrap_or_default();
            if age < patience.orphan {
                return Ok(Requeue::After(patience.orphan.saturating_sub(age)));
            }
            cluster.delete(pod.as_ref(), Some(0)).await?;
            lock().remove(key);
            Ok(Requeue::OnChange)
        }
        _ => {
            lock().remove(key);
            Ok(Requeue::OnChange)
        }
    }
}
