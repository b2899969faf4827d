//! Volumes that only one pod, or only readers, may use at a time.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;

use super::{Filter, Refusal, Stop};
use crate::scheduler::cluster::{Cluster, Key, NodeInfo};
use crate::scheduler::pod_info::{ClaimSource, PodInfo};

#[derive(Debug)]
pub(super) struct Restrictions {
    /// Another pod uses a claim that allows one pod.
    claim_in_use: bool,
}

impl Restrictions {
    pub(super) fn new(cluster: &Cluster, pod: &PodInfo) -> Result<Self, Stop> {
        let mut exclusive = BTreeSet::new();
        for (key, _) in pod.claims().filter(|(_, source)| *source == ClaimSource::Named) {
            let claim = cluster.claims.get(&key).ok_or_else(|| {
                let reason = format!("persistentvolumeclaim \"{}\" not found", key.name);
                Stop::Refused(Refusal::lasting(Filter::VolumeRestrictions, reason))
            })?;
            let modes = claim.spec.iter().flat_map(|s| s.access_modes.iter().flatten());
            if modes.into_iter().any(|m| m == "ReadWriteOncePod") {
                exclusive.insert(key);
            }
        }
        let used = |key: &Key| {
            let pods = cluster.nodes.values().flat_map(|n| n.pods.values());
            pods.into_iter().any(|p| p.claims().any(|(k, source)| source == ClaimSource::Named && k == *key))
        };
        Ok(Self { claim_in_use: exclusive.iter().any(used) })
    }

    pub(super) fn refuse(&self, pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
        let others = || node.pods.values().flat_map(|p| p.volumes());
        let reason = if pod.volumes().any(|v| others().any(|other| same_disk(v, other))) {
            "node(s) had no available disk"
        } else if self.claim_in_use {
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        } else {
            return None;
        };
        Some(Refusal::passing(Filter::VolumeRestrictions, reason))
    }
}

/// Disks named in the pod itself. Two readers get along, but for EBS.
fn same_disk(a: &Volume, b: &Volume) -> bool {
    let writes = |a: Option<bool>, b: Option<bool>| !(a.unwrap_or_default() && b.unwrap_or_default());
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk) {
        return a.pd_name == b.pd_name && writes(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi) {
        return a.iqn == b.iqn && writes(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        return a.monitors.iter().any(|m| b.monitors.contains(m))
            && a.pool == b.pool
            && a.image == b.image
            && writes(a.read_only, b.read_only);
    }
    false
}
