//! Existing nodes as candidates (SCH-99).

use std::collections::BTreeMap;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use crate::attachments::{Attached, attachment_limits, conflicts, ports_of, volume_alternatives};
use crate::compiled::nodes::node_requirements;
use crate::daemons::missing_daemons;
use crate::plain::relax::Trial;
use crate::plain::topology::{Place, Topology};

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
