//! Attaches the volumes of bound pods to their nodes, and detaches them when the last pod has left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde_json::json;

use super::Patience;
use super::pods;
use crate::chance::Chance;
use crate::cluster::{Cluster, Outcome, Requeue, is_already_there};

pub(super) async fn run(cluster: &Cluster, patience: Patience) {
    let queue = super::queue();
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    cluster.wake::<Pod>(&queue, move |_, pod| node(pod).into_iter().collect());
    cluster.wake::<Node>(&queue, |_, node| vec![node.name_any()]);
    cluster.wake::<VolumeAttachment>(&queue, |_, attachment| vec![attachment.spec.node_name.clone()]);
    cluster.wake::<PersistentVolumeClaim>(&queue, |cluster, claim| {
        let pods = cluster.in_namespace::<Pod>(&claim.namespace().unwrap_or_default());
        let uses = |pod: &&Arc<Pod>| claims_of(pod).any(|name| name == claim.name_any());
        pods.iter().filter(uses).filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect()
    });
    cluster.synced().await;
    queue.work("attach-detach", |key| async move { reconcile(cluster, patience, &key).await }).await;
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
}

/// A pod needs its volumes until its containers have ended.
fn wanted_on(cluster: &Cluster, node: &str) -> BTreeSet<String> {
    let running = cluster.pods_on(node).into_iter().filter(|pod| !pods::is_finished(pod));
    running
        .flat_map(|pod| {
            let namespace = pod.namespace().unwrap_or_default();
            claims_of(&pod).map(move |name| format!("{namespace}/{name}")).collect::<Vec<_>>()
        })
        .filter_map(|key| cluster.get::<PersistentVolumeClaim>(&key)?.spec.as_ref()?.volume_name.clone())
        .collect()
}

async fn reconcile(cluster: &Cluster, patience: Patience, node: &str) -> Outcome {
    let wanted = wanted_on(cluster, node);
    let there: Vec<Arc<VolumeAttachment>> =
        cluster.all::<VolumeAttachment>().into_iter().filter(|a| a.spec.node_name == node).collect();
    let mut next: Option<Duration> = None;
    for name in &wanted {
        let attachment = there.iter().find(|a| a.spec.source.persistent_volume_name.as_ref() == Some(name));
        if let Some(wait) = attach(cluster, patience, node, name, attachment).await? {
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
    }
    for attachment in there {
        let volume = attachment.spec.source.persistent_volume_name.clone().unwrap_or_default();
        if wanted.contains(&volume) || attachment.metadata.deletion_timestamp.is_some() {
            continue;
        }
        // Unmounting takes a while after the last container has ended; a vanished node needs no unmounting.
        let left = unused_since(&attachment).and_then(|since| since.checked_add(seconds(patience.detach)).ok());
        match left {
            _ if cluster.get::<Node>(node).is_none() => cluster.delete(attachment.as_ref(), None).await?,
            None => {
                let mark = json!({"metadata": {"annotations": {UNUSED: cluster.now().to_string()}}});
                cluster.patch(attachment.as_ref(), mark).await?;
                next = Some(next.map_or(patience.detach, |next| next.min(patience.detach)));
            }
            Some(at) if at > cluster.now() => {
                let wait = Duration::try_from(at.duration_since(cluster.now())).unwrap_or_default();
                next = Some(next.map_or(wait, |next| next.min(wait)));
            }
            Some(_) => cluster.delete(attachment.as_ref(), None).await?,
        }
    }
    Ok(next.map_or(Requeue::OnChange, Requeue::After))
}

const UNUSED: &str = "sim.karpenter.sh/unused-since";

fn unused_since(attachment: &VolumeAttachment) -> Option<jiff::Timestamp> {
    attachment.annotations().get(UNUSED)?.parse().ok()
}

fn seconds(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

/// Creates the attachment, then says it is done; answers how long that still takes.
async fn attach(
    cluster: &Cluster,
    patience: Patience,
    node: &str,
    volume: &str,
    attachment: Option<&Arc<VolumeAttachment>>,
) -> Result<Option<Duration>, kube::Error> {
    let Some(attachment) = attachment else {
        let driver =
            cluster.get::<PersistentVolume>(volume).and_then(|v| Some(v.spec.as_ref()?.csi.as_ref()?.driver.clone()));
        let Some(driver) = driver else { return Ok(None) };
        let digest = Chance::about(0, &[volume, &driver, node]).number();
        let object = VolumeAttachment {
            metadata: ObjectMeta { name: Some(format!("csi-{digest:016x}")), ..ObjectMeta::default() },
            spec: VolumeAttachmentSpec {
                attacher: driver,
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(volume.to_owned()),
                    inline_volume_spec: None,
                },
            },
            status: None,
        };
        return match cluster.create(&object).await {
            Err(error) if !is_already_there(&error) => Err(error),
            _ => Ok(Some(patience.volume)),
        };
    };
    if unused_since(attachment).is_some() && attachment.metadata.deletion_timestamp.is_none() {
        cluster.patch(attachment.as_ref(), json!({"metadata": {"annotations": {UNUSED: null}}})).await?;
    }
    if attachment.status.as_ref().is_some_and(|status| status.attached) {
        return Ok(None);
    }
    let created = attachment.metadata.creation_timestamp.as_ref().map_or(cluster.now(), |time| time.0);
    let age: Duration = cluster.now().duration_since(created).try_into().unwrap_or_default();
    if age < patience.volume {
        return Ok(Some(patience.volume.saturating_sub(age)));
    }
    cluster.patch_status(attachment.as_ref(), json!({"attached": true})).await?;
    Ok(None)
}
