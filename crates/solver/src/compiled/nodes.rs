//! Existing nodes, each looked at once for as long as it stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::scheduling::{AffinityTerm, HostPort};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use super::algebra::{Algebra, ReqId};
use super::amounts::{Amounts, Names};
use super::intern::{Id, id};
use super::pods::{BadgeId, Pods};
use super::refresh::has;
use crate::attachments::{Attached, attachment_limits, ports_of};
use crate::daemons::missing_daemons;

pub(crate) type TaintsId = Id;

/// Lists of taints, each kept once.
#[derive(Debug, Default)]
pub(crate) struct TaintLists(pub(crate) Vec<Vec<Taint>>);

impl TaintLists {
    pub(crate) fn intern(&mut self, taints: &[Taint]) -> TaintsId {
        if let Some(at) = self.0.iter().position(|known| known == taints) {
            return id(at);
        }
        self.0.push(taints.to_vec());
        id(self.0.len() - 1)
    }

    pub(crate) fn tolerated(&self, list: TaintsId, by: &[karpenter_model::taints::Toleration]) -> bool {
        first_untolerated(&self.0[list as usize], by).is_none()
    }
}

/// What a pass needs to know about an existing node. The node itself is kept, to see whether it is still the same.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) source: ExistingNode,
    pub(crate) name: String,
    pub(crate) hostname: String,
    pub(crate) going: bool,
    pub(crate) initialized: bool,
    /// Labels that somebody asks about; without the host name.
    pub(crate) req: ReqId,
    pub(crate) taints: TaintsId,
    /// Less what DaemonSets will still take.
    pub(crate) available: Amounts,
    pub(crate) ports: Vec<(PodId, HostPort)>,
    pub(crate) volumes: Attached,
    pub(crate) limits: BTreeMap<String, u32>,
    /// Pods that count where pods are counted, by badge.
    pub(crate) badges: Vec<(BadgeId, u32)>,
    /// Pods that are to move, by namespace and name.
    pub(crate) moving: Vec<PodId>,
    /// Required anti-affinity of the pods that are there, whatever their state (SCH-136).
    pub(crate) shy: Vec<(Arc<PodView>, AffinityTerm)>,
}

/// What nodes are read with.
pub(crate) struct Reading<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) algebra: &'a mut Algebra,
    pub(crate) names: &'a mut Names,
    pub(crate) taints: &'a mut TaintLists,
    pub(crate) pods: &'a mut Pods,
    /// Keys of labels that somebody asks about.
    pub(crate) keys: &'a BTreeSet<String>,
}

impl Node {
    pub(crate) fn new(source: &ExistingNode, with: &mut Reading<'_>) -> Self {
        let rules = with.algebra.rules().clone();
        let requirements = node_requirements(source, &rules);
        let asked: Requirements = requirements.iter().filter(|one| with.keys.contains(one.key())).cloned().collect();
        let mut available = source.available();
        if !with.snapshot.daemons.is_empty() {
            available.subtract(&missing_daemons(with.snapshot, source, &requirements));
        }
        let mut volumes = Attached::default();
        let mut shy = Vec::new();
        let mut moving = Vec::new();
        let mut badges: BTreeMap<BadgeId, u32> = BTreeMap::new();
        for pod in &source.pods {
            volumes.add(pod);
            if with.snapshot.pending.contains_key(&pod.id) {
                moving.push(pod.id.clone());
            } else if !pod.is_terminal() {
                shy.extend(pod.scheduling.anti_affinity.iter().map(|term| (pod.clone(), term.clone())));
                if pod.deleting_since.is_none() {
                    *badges.entry(with.pods.badge(pod)).or_default() += 1;
                }
            }
        }
        moving.sort_unstable();
        Self {
            name: source.name().to_owned(),
            moving,
            hostname: source.hostname().to_owned(),
            going: !source.stays(),
            initialized: source.is_initialized(),
            req: with.algebra.intern(&asked).req,
            taints: with.taints.intern(&source.taints()),
            available: with.names.amounts(&available),
            ports: source.pods.iter().flat_map(|pod| ports_of(pod)).collect(),
            volumes,
            limits: attachment_limits(source, with.snapshot),
            badges: badges.into_iter().collect(),
            shy,
            source: source.clone(),
        }
    }

    /// The same node with other pods, where nothing else about it has changed, nobody waits and no DaemonSet is to come.
    pub(crate) fn with_other_pods(&self, source: &ExistingNode, with: &mut Reading<'_>) -> Self {
        let counts = |pod: &&Arc<PodView>| !pod.is_terminal();
        let left = || self.source.pods.iter().filter(|pod| !has(&source.pods, pod)).filter(counts);
        let came = || source.pods.iter().filter(|pod| !has(&self.source.pods, pod)).filter(counts);
        let mut badges: BTreeMap<BadgeId, u32> = self.badges.iter().copied().collect();
        for pod in left().filter(|pod| pod.deleting_since.is_none()) {
            if let Some(count) = badges.get_mut(&with.pods.badge(pod)) {
                *count -= 1;
            }
        }
        for pod in came().filter(|pod| pod.deleting_since.is_none()) {
            *badges.entry(with.pods.badge(pod)).or_default() += 1;
        }
        badges.retain(|_, count| *count > 0);
        let mut shy = self.shy.clone();
        shy.retain(|(pod, _)| has(&source.pods, pod));
        shy.extend(came().flat_map(|pod| pod.scheduling.anti_affinity.iter().map(|term| (pod.clone(), term.clone()))));
        let mut volumes = Attached::default();
        source.pods.iter().for_each(|pod| volumes.add(pod));
        Self {
            source: source.clone(),
            name: self.name.clone(),
            hostname: self.hostname.clone(),
            going: self.going,
            initialized: self.initialized,
            req: self.req,
            taints: self.taints,
            available: with.names.amounts(&source.available()),
            ports: source.pods.iter().flat_map(|pod| ports_of(pod)).collect(),
            volumes,
            limits: self.limits.clone(),
            badges: badges.into_iter().collect(),
            moving: Vec::new(),
            shy,
        }
    }

    /// Nothing about the node has changed. `moving`: pods that are to move, by their node.
    pub(crate) fn is_same(&self, other: &ExistingNode, moving: &BTreeMap<&str, Vec<&PodId>>) -> bool {
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            }
        }
        let known = &self.source;
        let node = other.node.as_ref().map_or("", |node| node.name.as_str());
        let moving = moving.get(node).map_or(&[][..], |pods| pods);
        self.moving.iter().eq(moving.iter().copied())
            && same(known.node.as_ref(), other.node.as_ref())
            && same(known.claim.as_ref(), other.claim.as_ref())
            // Which pods of a node that goes are part of the batch is not the node's to know.
            && known.stays()
            && other.stays()
            && (known.unsettled, known.held_up) == (other.unsettled, other.held_up)
            && known.pods.len() == other.pods.len()
            && known.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
            && known.requested == other.requested
            && known.volume_limits == other.volume_limits
    }

    /// The node's label as it is; its name where the host is asked for and the label is missing.
    pub(crate) fn domain(&self, key: &str) -> Option<&str> {
        let labels = &self.source.node.as_ref()?.labels;
        match labels.get(key) {
            Some(value) => Some(value),
            None if key == labels::HOSTNAME => Some(&self.name),
            None => None,
        }
    }
}

/// What a node's labels say, with its host name (SCH-99).
pub(crate) fn node_requirements(node: &ExistingNode, rules: &LabelRules) -> Requirements {
    let mut requirements = Requirements::from_labels(rules, node.labels());
    requirements.replace(Requirement::any_of(labels::HOSTNAME, [node.hostname()]));
    requirements
}
