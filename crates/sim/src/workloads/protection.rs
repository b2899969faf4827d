//! Volumes and claims stay while somebody uses them: the API server marks them, this takes the mark away.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use serde_json::json;

use crate::cluster::{Cluster, Kind, Outcome, Requeue, key_of};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<PersistentVolumeClaim>(&queue);
    cluster.wake_self::<PersistentVolume>(&queue);
    cluster.wake::<Pod>(&queue, |_, pod| {
        let namespace = pod.namespace().unwrap_or_default();
        claims_of(pod).into_iter().map(|claim| format!("{namespace}/{claim}")).collect()
    });
    cluster.synced().await;
    queue.work("protection", |key| async move { reconcile(cluster, &key).await }).await;
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    if let Some(claim) = cluster.get::<PersistentVolumeClaim>(key) {
        let name = claim.name_any();
        let pods = cluster.in_namespace::<Pod>(&claim.namespace().unwrap_or_default());
        if !pods.iter().any(|pod| uses(pod, &name)) {
            return release(cluster, claim.as_ref(), CLAIM).await;
        }
    } else if let Some(volume) = cluster.get::<PersistentVolume>(key) {
        let bound = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        if !bound {
            return release(cluster, volume.as_ref(), VOLUME).await;
        }
    }
    Ok(Requeue::OnChange)
}

/// The names of the claims that a pod mounts.
fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| match (&volume.persistent_volume_claim, &volume.ephemeral)
    {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.name_any(), volume.name)),
        _ => None,
    };
    volumes.filter_map(claim).collect()
}

fn uses(pod: &Pod, claim: &str) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed")) && claims_of(pod).iter().any(|name| name == claim)
}

async fn release<K: Kind>(cluster: &Cluster, object: &K, mark: &str) -> Outcome {
    let deleted = object.meta().deletion_timestamp.is_some();
    if deleted && object.finalizers().iter().any(|finalizer| finalizer == mark) {
        let left: Vec<&String> = object.finalizers().iter().filter(|finalizer| *finalizer != mark).collect();
        let version = object.resource_version();
        tracing::debug!(key = key_of(object), mark, "nobody uses it any more");
        cluster.patch(object, json!({"metadata": {"finalizers": left, "resourceVersion": version}})).await?;
    }
    Ok(Requeue::OnChange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_use_claims_until_they_have_ended() {
        let pod = |phase: &str| -> Pod {
            let volumes = json!([
                {"name": "data", "persistentVolumeClaim": {"claimName": "own"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "own"}},
            ]);
            let spec = json!({"containers": [], "volumes": volumes});
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}))
                .unwrap()
        };
        assert_eq!(claims_of(&pod("Running")), ["own", "p-scratch"]);
        for (phase, claim, want) in [
            ("Pending", "own", true),
            ("Running", "p-scratch", true),
            ("Running", "scratch", false),
            ("Failed", "own", false),
        ] {
            assert_eq!(uses(&pod(phase), claim), want, "{phase} {claim}");
        }
    }
}
