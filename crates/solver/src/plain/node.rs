//! Existing nodes as candidates (SCH-99).

use std::collections::BTreeMap;

use karpenter_model::devices::TypeDevices;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodId;
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use crate::attachments::{Attached, attachment_limits, conflicts, ports_of, volume_alternatives};
use crate::compiled::nodes::node_requirements;
use crate::daemons::missing_daemons;
use crate::devices::{Attempt, Candidate, DeviceRefusal, Devices, TypeOption, claims_of};
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
    /// The type of a node that has not published its devices yet.
    to_come: Option<&'a InstanceType>,
}

impl<'a> NodeSlot<'a> {
    pub(crate) fn new(node: &'a ExistingNode, snapshot: &'a Snapshot, rules: &LabelRules) -> Self {
        let requirements = node_requirements(node, rules);
        let mut available = node.available();
        available.subtract(&missing_daemons(snapshot, node, &requirements));
        let mut volumes = Attached::default();
        node.pods.iter().for_each(|pod| volumes.add(pod));
        let ports = node.pods.iter().flat_map(|pod| ports_of(pod)).collect();
        let limits = attachment_limits(node, snapshot);
        let label = |key: &str| node.labels().get(key).map(String::as_str);
        let to_come = label(labels::NODEPOOL).zip(label(labels::INSTANCE_TYPE)).filter(|_| !node.is_initialized());
        let to_come = to_come.and_then(|(pool, name)| {
            let offer = snapshot.pools.iter().find(|offer| offer.pool.name == pool)?;
            offer.instance_types.iter().find(|known| known.name == name)
        });
        Self { node, requirements, taints: node.taints(), available, ports, volumes, limits, to_come }
    }

    /// What the node's requirements become with the pod; `None` when it cannot go there.
    pub(crate) fn try_add(
        &self,
        trial: &Trial<'_>,
        topology: &Topology<'_>,
        devices: Option<&Devices>,
    ) -> Option<(Requirements, Option<Attempt>)> {
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
                if !with_volumes.is_compatible(&narrowed, Undefined::Denied) {
                    return None;
                }
                let mut all = with_volumes.clone();
                all.add_all(&narrowed);
                let Some(devices) = devices.filter(|_| !pod.resource_claims.is_empty()) else {
                    return Some((all, None));
                };
                let attempt = self.devices(&all, trial, devices).ok()?;
                Some((attempt.requirements.clone(), Some(attempt)))
            })
        })
    }

    pub(crate) fn candidate(&self) -> String {
        format!("node/{}", self.node.name())
    }

    fn devices(
        &self,
        requirements: &Requirements,
        trial: &Trial<'_>,
        devices: &Devices,
    ) -> Result<Attempt, DeviceRefusal> {
        let nothing = TypeDevices::default();
        let option = match self.to_come {
            Some(known) => TypeOption { name: &known.name, devices: &known.devices },
            None => TypeOption { name: "", devices: &nothing },
        };
        let candidate = Candidate {
            name: &self.candidate(),
            node: self.node.node.as_ref().map(|node| node.name.as_str()),
            requirements,
            types: vec![option],
        };
        devices.allocate(&candidate, &claims_of(trial.pod))
    }

    pub(crate) fn commit(&mut self, trial: &Trial<'_>, requirements: Requirements, topology: &mut Topology<'_>) {
        self.requirements = requirements;
        self.available.subtract(&trial.pod.requests);
        self.ports.extend(ports_of(trial.pod));
        self.volumes.add(trial.pod);
        topology.record(trial, &Place { requirements: &self.requirements, taints: &self.taints });
    }
}
