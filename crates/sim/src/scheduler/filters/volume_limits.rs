//! How many volumes of a CSI driver a node can have attached.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::volume_binding::{class_of, owned_by};
use super::{Fault, Filter, Refusal, Stop};
use crate::scheduler::cluster::{Cluster, NodeInfo};
use crate::scheduler::pod_info::{ClaimSource, PodInfo};

/// Driver, and a name of the volume that is unique for it.
type Attached = (String, String);

pub(super) fn exceeded(cluster: &Cluster, pod: &PodInfo, node: &NodeInfo) -> Result<Option<Refusal>, Stop> {
    let mut new = BTreeSet::new();
    for (key, source) in pod.claims() {
        let claim = cluster.claims.get(&key).ok_or_else(|| {
            let reason = format!("looking up PVC {key}: persistentvolumeclaim \"{}\" not found", key.name);
            Stop::Refused(Refusal::lasting(Filter::NodeVolumeLimits, reason))
        })?;
        if source == ClaimSource::Template && !owned_by(claim, pod) {
            return Err(Stop::Fault(Fault(format!(
                "running \"NodeVolumeLimits\" filter plugin: PVC {key} was not created for pod {} (pod is not owner)",
                pod.key
            ))));
        }
        new.extend(attached(cluster, claim));
    }
    if new.is_empty() {
        return Ok(None);
    }
    let limits = limits(cluster, node.name());
    if limits.is_empty() {
        return Ok(None);
    }
    let mut present: BTreeSet<_> = node
        .pods
        .values()
        .flat_map(|p| p.claims())
        .filter_map(|(key, _)| attached(cluster, cluster.claims.get(&key)?))
        .collect();
    present.extend(cluster.attachments.values().filter(|a| a.spec.node_name == node.name()).filter_map(|a| {
        let volume = cluster.volumes.get(a.spec.source.persistent_volume_name.as_ref()?)?;
        Some((a.spec.attacher.clone(), volume.spec.as_ref()?.csi.as_ref()?.volume_handle.clone()))
    }));
    let over = limits.iter().any(|(driver, &limit)| {
        let of_driver = |set: &BTreeSet<Attached>| set.iter().filter(|(d, _)| d == driver).count();
        let more = new.difference(&present).filter(|(d, _)| d == driver).count();
        more > 0 && i64::try_from(of_driver(&present) + more).unwrap_or(i64::MAX) > i64::from(limit)
    });
    Ok(over.then(|| Refusal::passing(Filter::NodeVolumeLimits, "node(s) exceed max volume count")))
}

fn limits<'a>(cluster: &'a Cluster, node: &str) -> BTreeMap<&'a str, i32> {
    let drivers = cluster.csi_nodes.get(node).map(|n| n.spec.drivers.as_slice()).unwrap_or_default();
    drivers.iter().filter_map(|d| Some((d.name.as_str(), d.allocatable.as_ref()?.count?))).collect()
}

/// A claim without a volume counts for the driver that will make one.
fn attached(cluster: &Cluster, claim: &PersistentVolumeClaim) -> Option<Attached> {
    let volume = claim.spec.as_ref().and_then(|s| s.volume_name.as_ref()).filter(|n| !n.is_empty());
    if let Some(volume) = volume.and_then(|name| cluster.volumes.get(name)) {
        let csi = volume.spec.as_ref()?.csi.as_ref()?;
        return Some((csi.driver.clone(), csi.volume_handle.clone()));
    }
    let class = cluster.classes.get(&class_of(claim)?)?;
    let meta = &claim.metadata;
    // `/` cannot be in a volume handle of ours by chance: it starts with a name that is not a driver's.
    let handle = format!("unbound/{}/{}", meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some((class.provisioner.clone(), handle))
}
