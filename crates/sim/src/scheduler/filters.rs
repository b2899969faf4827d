//! The filters, in the order in which kube-scheduler asks them. The first one that refuses a node gives the reason.

mod pod_affinity;
mod resources;
mod spread;
mod taints;
mod volume_binding;
mod volume_limits;
mod volume_restrictions;
mod volume_zone;

use std::collections::BTreeSet;
use std::fmt;

use self::pod_affinity::PodAffinity;
use self::spread::Spread;
use self::volume_binding::Binding;
pub use self::volume_binding::VolumePlan;
use self::volume_restrictions::Restrictions;
use self::volume_zone::Zones;
use super::cluster::{Cluster, NodeInfo};
use super::pod_info::{PodInfo, node_of};
use super::selector::{pod_selects_node, required_terms};

pub(super) use self::spread::soft_counts;
pub(super) use self::taints::untolerated_preferences;
pub(super) use self::volume_binding::is_bound;

/// Names as kube-scheduler calls its plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a pod may not go to a node, or to any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) filter: Filter,
    pub(super) reasons: Vec<String>,
    /// Evicting pods would not help.
    pub(super) lasting: bool,
}

impl Refusal {
    pub(super) fn lasting(filter: Filter, reason: impl Into<String>) -> Self {
        Self { filter, reasons: vec![reason.into()], lasting: true }
    }

    pub(super) fn passing(filter: Filter, reason: impl Into<String>) -> Self {
        Self { filter, reasons: vec![reason.into()], lasting: false }
    }
}

/// A pod cannot be judged before something else is there; kube-scheduler calls that an error and tries again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault(pub(super) String);

/// The outcome of asking once for all nodes.
#[derive(Debug)]
pub(super) enum Prepared<'a> {
    Ask(Box<Question<'a>>),
    /// No node will do.
    Refused(Refusal),
    Fault(Fault),
}

/// One pod's question, with what is the same for every node worked out.
#[derive(Debug)]
pub(super) struct Question<'a> {
    cluster: &'a Cluster,
    pod: &'a PodInfo,
    /// The only nodes that node affinity by name allows.
    pub(super) only: Option<BTreeSet<String>>,
    restrictions: Restrictions,
    binding: Binding<'a>,
    zones: Zones,
    spread: Spread,
    affinity: PodAffinity,
}

pub(super) fn prepare<'a>(cluster: &'a Cluster, pod: &'a PodInfo) -> Prepared<'a> {
    match try_prepare(cluster, pod) {
        Ok(question) => Prepared::Ask(Box::new(question)),
        Err(stop) => match stop {
            Stop::Refused(refusal) => Prepared::Refused(refusal),
            Stop::Fault(fault) => Prepared::Fault(fault),
        },
    }
}

/// Ends the preparation early.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(Refusal),
    Fault(Fault),
}

fn try_prepare<'a>(cluster: &'a Cluster, pod: &'a PodInfo) -> Result<Question<'a>, Stop> {
    let only = only_nodes(pod);
    if only.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(Stop::Refused(Refusal::lasting(Filter::NodeAffinity, "pod affinity terms conflict")));
    }
    Ok(Question {
        cluster,
        pod,
        only,
        restrictions: Restrictions::new(cluster, pod)?,
        binding: Binding::new(cluster, pod)?,
        zones: Zones::new(cluster, pod)?,
        spread: Spread::new(cluster, pod),
        affinity: PodAffinity::new(cluster, pod),
    })
}

impl Question<'_> {
    /// What has to be done for the pod's volumes when it goes to this node, or why it may not.
    pub(super) fn ask(&self, node: &NodeInfo) -> Result<VolumePlan, Stop> {
        let refuse = |refusal: Option<Refusal>| refusal.map_or(Ok(()), |r| Err(Stop::Refused(r)));
        refuse(taints::unschedulable(self.pod, node))?;
        refuse(node_name(self.pod, node))?;
        refuse(taints::untolerated(self.pod, node))?;
        refuse(node_affinity(self.pod, node))?;
        refuse(ports(self.pod, node))?;
        refuse(resources::insufficient(self.pod, node))?;
        refuse(self.restrictions.refuse(self.pod, node))?;
        refuse(volume_limits::exceeded(self.cluster, self.pod, node)?)?;
        let plan = self.binding.plan(node)?;
        refuse(self.zones.refuse(node))?;
        refuse(self.spread.refuse(self.pod, node))?;
        refuse(self.affinity.refuse(self.pod, node))?;
        Ok(plan)
    }
}

fn node_name(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    let wanted = node_of(&pod.pod)?;
    (wanted != node.name()).then(|| Refusal::lasting(Filter::NodeName, "node(s) didn't match the requested node name"))
}

fn node_affinity(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    (!pod_selects_node(&pod.pod, &node.node))
        .then(|| Refusal::lasting(Filter::NodeAffinity, "node(s) didn't match Pod's node affinity/selector"))
}

fn ports(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    let taken = |wanted| node.pods.values().any(|p| p.ports.iter().any(|used| used.conflicts(wanted)));
    pod.ports
        .iter()
        .any(taken)
        .then(|| Refusal::passing(Filter::NodePorts, "node(s) didn't have free ports for the requested pod ports"))
}

/// Names that every term of the required affinity insists on; `None` when some term does not name nodes.
fn only_nodes(pod: &PodInfo) -> Option<BTreeSet<String>> {
    let terms = &required_terms(&pod.pod)?.node_selector_terms;
    let mut all = BTreeSet::new();
    for term in terms {
        let fields = term.match_fields.iter().flatten();
        let names = fields
            .filter(|f| f.key == "metadata.name" && f.operator == "In")
            .map(|f| f.values.iter().flatten().cloned().collect::<BTreeSet<_>>())
            .reduce(|a, b| a.intersection(&b).cloned().collect())?;
        all.extend(names);
    }
    (!terms.is_empty()).then_some(all)
}
