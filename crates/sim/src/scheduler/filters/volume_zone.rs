//! Volumes that carry zone or region labels, as in-tree ones did.

use std::collections::BTreeSet;

use super::volume_binding::class_of;
use super::{Fault, Filter, Refusal, Stop};
use crate::scheduler::cluster::{Cluster, NodeInfo};
use crate::scheduler::pod_info::{ClaimSource, PodInfo};
use crate::scheduler::selector::labels_of;

/// Each with the label that took its place.
const KEYS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

#[derive(Debug)]
pub(super) struct Zones(Vec<(&'static str, &'static str, BTreeSet<String>)>);

impl Zones {
    pub(super) fn new(cluster: &Cluster, pod: &PodInfo) -> Result<Self, Stop> {
        let refuse = |reason: String| Stop::Refused(Refusal::lasting(Filter::VolumeZone, reason));
        let mut zones = Vec::new();
        for (key, _) in pod.claims().filter(|(_, source)| *source == ClaimSource::Named) {
            let claim = cluster
                .claims
                .get(&key)
                .ok_or_else(|| refuse(format!("persistentvolumeclaim \"{}\" not found", key.name)))?;
            let volume = claim.spec.as_ref().and_then(|s| s.volume_name.as_ref()).filter(|n| !n.is_empty());
            let Some(volume) = volume else {
                let class = class_of(claim)
                    .ok_or_else(|| refuse("PersistentVolumeClaim had no pv name and storageClass name".to_owned()))?;
                let class = cluster
                    .classes
                    .get(&class)
                    .ok_or_else(|| refuse(format!("storageclass.storage.k8s.io \"{class}\" not found")))?;
                match class.volume_binding_mode.as_deref() {
                    Some("WaitForFirstConsumer") => continue,
                    Some(_) => return Err(refuse("PersistentVolume had no name".to_owned())),
                    None => return Err(Stop::Fault(Fault("VolumeBindingMode not set".to_owned()))),
                }
            };
            let volume = cluster
                .volumes
                .get(volume)
                .ok_or_else(|| refuse(format!("persistentvolume \"{volume}\" not found")))?;
            let labels = labels_of(&volume.metadata);
            zones.extend(KEYS.iter().filter_map(|&(key, newer)| {
                // Several zones are joined by a double underscore.
                Some((key, newer, labels.get(key)?.split("__").map(str::to_owned).collect()))
            }));
        }
        Ok(Self(zones))
    }

    /// A node without any such label is taken to be where everything is.
    pub(super) fn refuse(&self, node: &NodeInfo) -> Option<Refusal> {
        let labels = node.labels();
        if self.0.is_empty() || !KEYS.iter().any(|(key, _)| labels.contains_key(*key)) {
            return None;
        }
        let fits = |(key, newer, values): &(&str, &str, BTreeSet<String>)| {
            labels.get(*key).or_else(|| labels.get(*newer)).is_some_and(|v| values.contains(v))
        };
        (!self.0.iter().all(fits)).then(|| Refusal::lasting(Filter::VolumeZone, "node(s) had no available volume zone"))
    }
}
