//! Existing nodes as candidates (SCH-99).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use crate::relax::Trial;
use crate::template::missing_daemons;
use crate::topology::{Place, Topology, node_requirements};

pub(crate) struct NodeSlot<'a> {
    pub(crate) node: &'a ExistingNode,
    requirements: Requirements,
    taints: Vec<Taint>,
    available: Resources,
    ports: Vec<(PodId, HostPort)>,
    volumes: Attached,
    limits: BTreeMap<String, u32>,
}

impl<'a> NodeSlot<'a> {
    pub(crate) fn new(node: &'a ExistingNode, snapshot: &Snapshot, rules: &LabelRules) -> Self {
        let requirements = node_requirements(node, rules);
        let mut available = node.available();
        available.subtract(&missing_daemons(snapshot, node, &requirements));
        let mut volumes = Attached::default();
        node.pods.iter().for_each(|pod| volumes.add(pod));
        let ports = node.pods.iter().flat_map(|pod| ports_of(pod)).collect();
        let limits = attachment_limits(node, snapshot);
        Self { node, requirements, taints: node.taints(), available, ports, volumes, limits }
    }

    /// What the node's requirements become with the pod; `None` when it cannot go there.
    pub(crate) fn try_add(&self, trial: &Trial<'_>, topology: &Topology<'_>) -> Option<Requirements> {
        let pod = trial.pod;
        if first_untolerated(&self.taints, &trial.wishes.tolerations).is_some()
            || self.volumes.first_over(pod, &self.limits).is_some()
            || conflicts(&self.ports, pod)
            || !pod.requests.fits(&self.available)
            || !self.requirements.is_compatible(&trial.requirements, Undefined::Denied)
        {
            return None;
        }
        let mut requirements = self.requirements.clone();
        requirements.add_all(&trial.requirements);
        volume_alternatives(pod).find_map(|alternative| {
            if !requirements.is_compatible(alternative, Undefined::Denied) {
                return None;
            }
            let mut with_volumes = requirements.clone();
            with_volumes.add_all(alternative);
            let choices = topology.choices(trial, &with_volumes);
            choices.into_iter().find_map(|narrowed| {
                let met = with_volumes.is_compatible(&narrowed, Undefined::Denied);
                met.then(|| {
                    let mut all = with_volumes.clone();
                    all.add_all(&narrowed);
                    all
                })
            })
        })
    }

    pub(crate) fn commit(&mut self, trial: &Trial<'_>, requirements: Requirements, topology: &mut Topology<'_>) {
        self.requirements = requirements;
        self.available.subtract(&trial.pod.requests);
        self.ports.extend(ports_of(trial.pod));
        self.volumes.add(trial.pod);
        topology.record(trial, &Place { requirements: &self.requirements, taints: &self.taints });
    }
}

/// A driver that has reported to the node has its own limit or none; for the others the type's limit holds, when the
/// type is known (V15-103).
fn attachment_limits(node: &ExistingNode, snapshot: &Snapshot) -> BTreeMap<String, u32> {
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
