//! Existing nodes as candidates (SCH-99).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels::LabelRules;
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
    /// Volume claims by driver.
    volumes: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> NodeSlot<'a> {
    pub(crate) fn new(node: &'a ExistingNode, snapshot: &Snapshot, rules: &LabelRules) -> Self {
        let requirements = node_requirements(node, rules);
        let mut available = node.available();
        available.subtract(&missing_daemons(snapshot, node, &requirements));
        let mut volumes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in &node.pods {
            for (driver, claims) in &pod.scheduling.volumes.claims {
                volumes.entry(driver.clone()).or_default().extend(claims.iter().cloned());
            }
        }
        let ports = node.pods.iter().flat_map(|pod| ports_of(pod)).collect();
        Self { node, requirements, taints: node.taints(), available, ports, volumes }
    }

    /// What the node's requirements become with the pod; `None` when it cannot go there.
    pub(crate) fn try_add(&self, trial: &Trial<'_>, topology: &Topology<'_>) -> Option<Requirements> {
        let pod = trial.pod;
        if first_untolerated(&self.taints, &trial.wishes.tolerations).is_some()
            || !self.volumes_fit(pod)
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
        for (driver, claims) in &trial.pod.scheduling.volumes.claims {
            self.volumes.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
        topology.record(trial, &Place { requirements: &self.requirements, taints: &self.taints });
    }

    /// Only drivers that the pod adds a claim to are checked (Q36).
    fn volumes_fit(&self, pod: &PodView) -> bool {
        pod.scheduling.volumes.claims.iter().all(|(driver, claims)| {
            let Some(limit) = self.node.volume_limits.get(driver) else { return true };
            let here = self.volumes.get(driver);
            let new = claims.iter().filter(|claim| !here.is_some_and(|here| here.contains(*claim))).count();
            new == 0 || here.map_or(0, BTreeSet::len) + new <= *limit as usize
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
