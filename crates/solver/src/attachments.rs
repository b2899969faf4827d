//! What pods take of a node besides resources: volumes and host ports.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

/// A driver that has reported to the node has its own limit or none; for the others the type's limit holds, when the
/// type is known (V15-103).
pub(crate) fn attachment_limits(node: &ExistingNode, snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let mut limits = known_type(node, snapshot).map(|known| known.attachment_limits.clone()).unwrap_or_default();
    for (driver, limit) in &node.volume_limits {
        match limit {
            Some(limit) => drop(limits.insert(driver.clone(), *limit)),
            None => drop(limits.remove(driver)),
        }
    }
    limits
}

fn known_type<'a>(node: &ExistingNode, snapshot: &'a Snapshot) -> Option<&'a InstanceType> {
    let offer = snapshot.pools.iter().find(|offer| Some(offer.pool.name.as_str()) == node.pool())?;
    let name = node.labels().get(labels::INSTANCE_TYPE)?;
    offer.instance_types.iter().find(|known| known.name == *name)
}

/// Volume claims on a node, by driver. One that several pods use counts once (SCH-159).
#[derive(Debug, Clone, Default)]
pub(crate) struct Attached(BTreeMap<String, BTreeSet<String>>);

impl Attached {
    pub(crate) fn add(&mut self, pod: &PodView) {
        for (driver, claims) in &pod.scheduling.volumes.claims {
            self.0.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
    }

    /// The first driver that could not attach everything, with how many volumes it would have; only drivers that the
    /// pod adds to are looked at (Q36).
    pub(crate) fn first_over<'p>(&self, pod: &'p PodView, limits: &BTreeMap<String, u32>) -> Option<(&'p str, usize)> {
        pod.scheduling.volumes.claims.iter().find_map(|(driver, claims)| {
            let limit = *limits.get(driver)? as usize;
            let here = self.0.get(driver);
            let new = claims.iter().filter(|claim| !here.is_some_and(|here| here.contains(*claim))).count();
            let total = here.map_or(0, BTreeSet::len) + new;
            (new > 0 && total > limit).then_some((driver.as_str(), total))
        })
    }
}

pub(crate) fn ports_of(pod: &PodView) -> impl Iterator<Item = (PodId, HostPort)> + '_ {
    pod.scheduling.host_ports.iter().map(|port| (pod.id.clone(), port.clone()))
}

/// A pod never conflicts with its own earlier entry (SCH-161).
pub(crate) fn conflicts(used: &[(PodId, HostPort)], pod: &PodView) -> bool {
    let wanted = &pod.scheduling.host_ports;
    wanted.iter().any(|port| used.iter().any(|(owner, taken)| *owner != pod.id && taken.conflicts(port)))
}

/// No restriction is one alternative that asks for nothing.
pub(crate) fn volume_alternatives(pod: &PodView) -> impl Iterator<Item = &Requirements> {
    static ANYWHERE: std::sync::LazyLock<Requirements> = std::sync::LazyLock::new(Requirements::new);
    let listed = &pod.scheduling.volumes.alternatives;
    let none = listed.is_empty().then(|| &*ANYWHERE);
    none.into_iter().chain(listed)
}
