//! Binds claims to volumes, and makes volumes for classes that provision them.
//!
//! A class that waits for the first consumer provisions when the scheduler has chosen a node, in the zone of that node.
//! Every class with a provisioner is taken to be simulated: the volume exists as soon as its object does.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::Patience;
use crate::cluster::{Cluster, Outcome, Requeue, is_already_there, key_of};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) async fn run(cluster: &Cluster, patience: Patience) {
    let queue = super::queue();
    cluster.wake_self::<PersistentVolumeClaim>(&queue);
    cluster.wake::<PersistentVolume>(&queue, |cluster, volume| {
        let of_claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        match of_claim {
            Some(claim) if claim.uid.is_some() => {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                vec![format!("{}/{}", part(&claim.namespace), part(&claim.name))]
            }
            // The volume itself, by a key without a namespace, and whoever could have it.
            _ => waiting(cluster).into_iter().chain([volume.name_any()]).collect(),
        }
    });
    cluster.wake::<StorageClass>(&queue, |cluster, _| waiting(cluster));
    cluster.synced().await;
    queue.work("volumes", |key| async move { reconcile(cluster, patience, &key).await }).await;
}

fn waiting(cluster: &Cluster) -> Vec<String> {
    let claims = cluster.all::<PersistentVolumeClaim>();
    claims.iter().filter(|claim| volume_name(claim).is_none()).map(|claim| key_of(claim.as_ref())).collect()
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

async fn reconcile(cluster: &Cluster, patience: Patience, key: &str) -> Outcome {
    if !key.contains('/') {
        return offer(cluster, key).await;
    }
    let Some(claim) = cluster.get::<PersistentVolumeClaim>(key) else { return reclaim(cluster, key).await };
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    if let Some(name) = volume_name(&claim) {
        return match cluster.get::<PersistentVolume>(name) {
            Some(volume) => bind(cluster, &claim, &volume).await,
            None => Ok(Requeue::OnChange),
        };
    }
    let ours = |volume: &&Arc<PersistentVolume>| {
        volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).is_some_and(|of| of.uid == claim.uid())
    };
    let volumes = cluster.all::<PersistentVolume>();
    if let Some(volume) = volumes.iter().find(ours) {
        return bind(cluster, &claim, volume).await;
    }
    let class = class_of(cluster, &claim);
    let waits = class.as_ref().is_some_and(|c| c.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
    let node = claim.annotations().get(SELECTED_NODE).cloned();
    if waits && node.is_none() {
        return Ok(Requeue::OnChange);
    }
    if let Some(volume) = volumes.iter().find(|volume| fits(volume, &claim)) {
        return bind(cluster, &claim, volume).await;
    }
    match class {
        Some(class) if class.provisioner != "kubernetes.io/no-provisioner" => {
            // Provisioning takes its time, counted from the claim's last write.
            let age = claim_age(cluster, &claim);
            if age < patience.volume {
                return Ok(Requeue::After(patience.volume.saturating_sub(age)));
            }
            provision(cluster, &claim, &class, node.as_deref()).await
        }
        _ => Ok(Requeue::OnChange),
    }
}

fn claim_age(cluster: &Cluster, claim: &PersistentVolumeClaim) -> std::time::Duration {
    let created = claim.metadata.creation_timestamp.as_ref().map_or(cluster.now(), |time| time.0);
    cluster.now().duration_since(created).try_into().unwrap_or_default()
}

fn class_of(cluster: &Cluster, claim: &PersistentVolumeClaim) -> Option<Arc<StorageClass>> {
    let name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    match name {
        Some(name) => cluster.get::<StorageClass>(name),
        None => cluster.all::<StorageClass>().into_iter().find(|class| {
            class.annotations().get("storageclass.kubernetes.io/is-default-class").is_some_and(|is| is == "true")
        }),
    }
}

/// A volume of nobody, of the same class, with the modes that are asked for. The smallest would be better; the first does.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(has), Some(asks)) = (&volume.spec, &claim.spec) else { return false };
    let free = has.claim_ref.as_ref().is_none_or(|of| of.uid.is_none() && of.name == claim.metadata.name);
    let bytes = |amounts: Option<
        &std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    >| {
        let text = amounts.and_then(|amounts| amounts.get("storage"));
        text.and_then(|text| text.0.parse::<karpenter_model::quantity::Quantity>().ok()).unwrap_or_default()
    };
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let asked = asks.access_modes.as_deref().unwrap_or_default();
    free && has.storage_class_name.as_deref().unwrap_or_default()
        == asks.storage_class_name.as_deref().unwrap_or_default()
        && asked.iter().all(|mode| modes.contains(mode))
        && bytes(has.capacity.as_ref()) >= bytes(asks.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

async fn provision(
    cluster: &Cluster,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&str>,
) -> Outcome {
    let uid = claim.uid().unwrap_or_default();
    let name = format!("pvc-{uid}");
    let zone = node.and_then(|node| cluster.get::<Node>(node)).and_then(|node| node.labels().get(ZONE).cloned());
    let spec = claim.spec.clone().unwrap_or_default();
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": class.provisioner}},
        "spec": {
            "accessModes": spec.access_modes, "storageClassName": class.name_any(),
            "capacity": spec.resources.and_then(|resources| resources.requests),
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "csi": {"driver": class.provisioner, "volumeHandle": format!("vol-{uid}")},
            "claimRef": claim_ref(claim),
        },
    });
    if let Some(zone) = zone {
        let terms = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    let volume: PersistentVolume = match serde_json::from_value(volume) {
        Ok(volume) => volume,
        Err(error) => return Err(kube::Error::SerdeError(error)),
    };
    match cluster.create(&volume).await {
        Ok(volume) => bind(cluster, claim, &volume).await,
        Err(error) if is_already_there(&error) => Ok(Requeue::OnChange),
        Err(error) => Err(error),
    }
}

fn claim_ref(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name_any(),
        "uid": claim.uid(),
    })
}

/// A volume that nobody has is there to be had.
async fn offer(cluster: &Cluster, name: &str) -> Outcome {
    let Some(volume) = cluster.get::<PersistentVolume>(name) else { return Ok(Requeue::OnChange) };
    let taken = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).is_some_and(|of| of.uid.is_some());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if !taken && phase != Some("Available") && volume.metadata.deletion_timestamp.is_none() {
        cluster.patch_status(volume.as_ref(), json!({"phase": "Available"})).await?;
    }
    Ok(Requeue::OnChange)
}

/// Volume first, claim last: a claim that names its volume is bound for good.
async fn bind(cluster: &Cluster, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Outcome {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec.claim_ref.as_ref().and_then(|of| of.uid.as_ref()) != claim.uid().as_ref() {
        let taken = spec.claim_ref.is_some_and(|of| of.uid.is_some());
        if taken {
            return Ok(Requeue::OnChange);
        }
        cluster.patch(volume, json!({"spec": {"claimRef": claim_ref(claim)}})).await?;
    }
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        cluster.patch_status(volume, json!({"phase": "Bound"})).await?;
    }
    if volume_name(claim).is_none() {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name_any()}});
        cluster.patch(claim, patch).await?;
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        let status = json!({"phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity});
        cluster.patch_status(claim, status).await?;
    }
    Ok(Requeue::OnChange)
}

/// The claim is gone: its volume is released, and removed where its policy says so.
async fn reclaim(cluster: &Cluster, key: &str) -> Outcome {
    for volume in cluster.all::<PersistentVolume>() {
        let Some(spec) = &volume.spec else { continue };
        let Some(of) = spec.claim_ref.as_ref().filter(|of| of.uid.is_some()) else { continue };
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        if format!("{}/{}", part(&of.namespace), part(&of.name)) != key || volume.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        // Released first: a volume that counts as bound is protected from its end.
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Released") {
            cluster.patch_status(volume.as_ref(), json!({"phase": "Released"})).await?;
        }
        if spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
            cluster.delete(volume.as_ref(), None).await?;
        }
    }
    Ok(Requeue::OnChange)
}
