//! Spread, affinity and anti-affinity: how many pods are where, and where one more may go.

mod domains;
mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::scheduling::{AffinityTerm, NodePolicy, PodScheduling, SpreadConstraint};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, Toleration};

use self::domains::Universe;
use self::group::{Group, Identity, Kind, NodeFilter};
use crate::compiled::nodes::node_requirements;
use crate::plain::relax::Trial;

/// The most combinations of tied domains that are tried for one candidate (SCH-251).
const MAX_COMBINATIONS: usize = 64;

/// A place that pods are counted on: a node or a claim, as far as filters look at it.
pub(crate) struct Place<'a> {
    pub(crate) requirements: &'a Requirements,
    pub(crate) taints: &'a [Taint],
}

/// All groups of a pass.
pub(crate) struct Topology<'a> {
    snapshot: &'a Snapshot,
    universe: Universe,
    /// Active nodes that exist, with their labels as requirements.
    nodes: Vec<(&'a ExistingNode, Requirements)>,
    groups: Vec<Group>,
    by_identity: BTreeMap<Identity, usize>,
    /// Groups of required anti-affinity seen from the other side: they count the pods that own the term.
    inverse: Vec<Group>,
    inverse_by_identity: BTreeMap<Identity, usize>,
    /// Host names of claims opened in this pass.
    hostnames: BTreeSet<String>,
    /// Where the pods of this pass went so far.
    placed: Vec<Placed<'a>>,
}

struct Placed<'a> {
    pod: &'a PodView,
    requirements: Requirements,
    taints: Vec<Taint>,
}

impl<'a> Topology<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, rules: &LabelRules) -> Self {
        let nodes = snapshot.nodes.iter().filter(|node| node.node.is_some());
        let nodes = nodes.map(|node| (node, node_requirements(node, rules))).collect();
        let mut topology = Self {
            snapshot,
            universe: Universe::new(snapshot),
            nodes,
            groups: Vec::new(),
            by_identity: BTreeMap::new(),
            inverse: Vec::new(),
            inverse_by_identity: BTreeMap::new(),
            hostnames: BTreeSet::new(),
            placed: Vec::new(),
        };
        topology.add_inverse_of_bound_pods();
        topology
    }

    /// Makes the pod an owner of the groups of its wishes, and of no others (SCH-123, SCH-124).
    pub(crate) fn register(&mut self, trial: &Trial<'_>) {
        let pod = trial.pod;
        for group in &mut self.groups {
            group.owners.remove(&pod.id);
        }
        let wishes = &trial.wishes;
        for constraint in &wishes.spread {
            self.own_spread(pod, wishes, constraint);
        }
        for term in wishes.affinity.iter().chain(wishes.preferred_affinity.iter().map(|preferred| &preferred.value)) {
            self.own_term(pod, wishes, Kind::Affinity, term);
        }
        let anti = wishes.anti_affinity.iter();
        for term in anti.chain(wishes.preferred_anti_affinity.iter().map(|preferred| &preferred.value)) {
            self.own_term(pod, wishes, Kind::AntiAffinity, term);
        }
        for term in &wishes.anti_affinity {
            let index = self.inverse_group(&pod.scheduling, term);
            self.inverse[index].owners.insert(pod.id.clone());
        }
    }

    fn own_spread(&mut self, pod: &PodView, wishes: &PodScheduling, constraint: &SpreadConstraint) {
        let filter = NodeFilter::of_spread(wishes, constraint);
        let domains = match constraint.node_taints_policy {
            NodePolicy::Ignore => self.universe.all(&constraint.key),
            NodePolicy::Honor => self.universe.tolerated(&constraint.key, &wishes.tolerations),
        };
        let identity = Identity {
            kind: Kind::Spread { max_skew: constraint.max_skew, min_domains: constraint.min_domains },
            key: constraint.key.clone(),
            namespaces: BTreeSet::from([pod.id.namespace.to_string()]),
            selector: constraint.selector.clone(),
            filter,
            domains,
        };
        let index = self.group(identity);
        self.groups[index].owners.insert(pod.id.clone());
    }

    fn own_term(&mut self, pod: &PodView, wishes: &PodScheduling, kind: Kind, term: &AffinityTerm) {
        let identity = self.term_identity(wishes, kind, term);
        let index = self.group(identity);
        self.groups[index].owners.insert(pod.id.clone());
    }

    /// Pool domains of affinity depend on tolerations, so they are part of what a group is (Q33).
    fn term_identity(&self, wishes: &PodScheduling, kind: Kind, term: &AffinityTerm) -> Identity {
        Identity {
            kind,
            key: term.key.clone(),
            namespaces: term.namespaces.resolve(&self.snapshot.namespaces),
            selector: term.selector.clone(),
            filter: NodeFilter::default(),
            domains: self.universe.tolerated(&term.key, &wishes.tolerations),
        }
    }

    fn group(&mut self, identity: Identity) -> usize {
        if let Some(index) = self.by_identity.get(&identity) {
            return *index;
        }
        let mut group = Group::new(&identity);
        self.add_node_domains(&mut group);
        self.count_bound_pods(&mut group);
        // Relaxing changes tolerations and terms, so a group may begin in the middle of a pass.
        for placed in &self.placed {
            count(&mut group, placed.pod, &Place { requirements: &placed.requirements, taints: &placed.taints });
        }
        self.groups.push(group);
        self.by_identity.insert(identity, self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn inverse_group(&mut self, wishes: &PodScheduling, term: &AffinityTerm) -> usize {
        // Relaxing may let the owner put up with soft taints later, and then those domains count as well.
        let mut wishes = wishes.clone();
        wishes.tolerations.push(Toleration::prefer_no_schedule());
        let identity = self.term_identity(&wishes, Kind::AntiAffinity, term);
        if let Some(index) = self.inverse_by_identity.get(&identity) {
            return *index;
        }
        let mut group = Group::new(&identity);
        // Domains that exist on nodes only count here too (Q34).
        self.add_node_domains(&mut group);
        self.inverse.push(group);
        self.inverse_by_identity.insert(identity, self.inverse.len() - 1);
        self.inverse.len() - 1
    }

    /// SCH-129: active nodes bring the domain of their label, hosts bring themselves.
    fn add_node_domains(&self, group: &mut Group) {
        for (node, requirements) in self.nodes.iter().filter(|(node, _)| node.stays()) {
            let taints = node.taints();
            if group.filter.accepts(&Place { requirements, taints: &taints })
                && let Some(domain) = domain_of(node, &group.key)
            {
                group.add_domain(domain);
            }
        }
        if group.key == labels::HOSTNAME {
            self.hostnames.iter().for_each(|hostname| group.add_domain(hostname));
        }
    }

    /// SCH-131.
    fn count_bound_pods(&self, group: &mut Group) {
        for (node, requirements) in &self.nodes {
            let Some(domain) = domain_of(node, &group.key) else { continue };
            let taints = node.taints();
            if !group.filter.accepts(&Place { requirements, taints: &taints }) {
                continue;
            }
            let counted = node.pods.iter().filter(|pod| {
                let stays = pod.deleting_since.is_none() && !pod.is_terminal();
                stays && !self.is_in_batch(&pod.id) && group.counts_existing(pod)
            });
            let count = u32::try_from(counted.count()).unwrap_or(u32::MAX);
            if count > 0 {
                group.add(domain, count);
            }
        }
    }

    fn is_in_batch(&self, pod: &PodId) -> bool {
        self.snapshot.pending.contains_key(pod)
    }

    /// SCH-124, SCH-136: bound pods with required anti-affinity keep others away; terminating ones still do.
    fn add_inverse_of_bound_pods(&mut self) {
        let snapshot = self.snapshot;
        for node in &snapshot.nodes {
            let others = |pod: &&Arc<PodView>| !snapshot.pending.contains_key(&pod.id) && !pod.is_terminal();
            for pod in node.pods.iter().filter(others) {
                for term in &pod.scheduling.anti_affinity {
                    let index = self.inverse_group(&pod.scheduling, term);
                    if let Some(domain) = domain_of(node, &term.key) {
                        self.inverse[index].add(domain, 1);
                    }
                }
            }
        }
    }

    /// A claim's host is a domain from the moment it takes a pod.
    pub(crate) fn add_hostname(&mut self, hostname: &str) {
        if self.hostnames.insert(hostname.to_owned()) {
            let hosts = self.groups.iter_mut().chain(&mut self.inverse);
            hosts.filter(|group| group.key == labels::HOSTNAME).for_each(|group| group.add_domain(hostname));
        }
    }

    /// The ways in which the candidate's requirements can be narrowed so that the pod may go there, best first; empty
    /// when it may not (SCH-137, SCH-251).
    pub(crate) fn choices(&self, trial: &Trial<'_>, candidate: &Requirements) -> Vec<Requirements> {
        let owned = self.groups.iter().filter(|group| group.owners.contains(&trial.pod.id));
        let against = self.inverse.iter().filter(|group| group.selects(trial.pod));
        let mut groups: Vec<&Group> = owned.chain(against).collect();
        groups.sort_by(|a, b| a.key.cmp(&b.key));
        let mut combinations = vec![Requirements::new()];
        for group in groups {
            let options = group.options(trial, candidate);
            let Some(options) = options else { continue };
            combinations = combinations
                .iter()
                .flat_map(|narrowed| {
                    options.iter().filter_map(|option| {
                        let mut narrowed = narrowed.clone();
                        narrowed.add(option.clone());
                        // Groups that agree on no domain fail here: without values, a node that lacks the key would
                        // seem to do (SCH-137).
                        narrowed.get(&group.key).is_some_and(|left| !left.is_empty()).then_some(narrowed)
                    })
                })
                .take(MAX_COMBINATIONS)
                .collect();
        }
        combinations
    }

    /// Counts a pod that was placed (SCH-135).
    pub(crate) fn record(&mut self, trial: &Trial<'_>, place: &Place<'_>) {
        for group in &mut self.groups {
            count(group, trial.pod, place);
        }
        if let Some(pod) = self.snapshot.pending.get(&trial.pod.id) {
            self.placed.push(Placed { pod, requirements: place.requirements.clone(), taints: place.taints.to_vec() });
        }
        for group in self.inverse.iter_mut().filter(|group| group.owners.contains(&trial.pod.id)) {
            let values = place.requirements.get(&group.key).and_then(listed).unwrap_or_default();
            for value in &values {
                group.add(value, 1);
            }
        }
    }
}

/// Ordinary groups count whom they select, where the domain is certain; anti-affinity counts wherever the pod may be.
fn count(group: &mut Group, pod: &PodView, place: &Place<'_>) {
    if !group.selects(pod) || !group.filter.accepts(place) {
        return;
    }
    let Some(values) = place.requirements.get(&group.key).and_then(listed) else { return };
    match (group.kind, &values[..]) {
        (Kind::AntiAffinity, all) => all.iter().for_each(|value| group.add(value, 1)),
        (_, [one]) => group.add(one, 1),
        _ => {}
    }
}

/// The values of an `In`.
fn listed(requirement: &Requirement) -> Option<Vec<String>> {
    let is_in = requirement.operator() == karpenter_model::requirements::Operator::In;
    is_in.then(|| requirement.values().map(ToOwned::to_owned).collect())
}

/// The node's label; its name where the host is asked for and the label is missing.
fn domain_of<'a>(node: &'a ExistingNode, key: &str) -> Option<&'a str> {
    let labels = &node.node.as_ref()?.labels;
    match labels.get(key) {
        Some(value) => Some(value),
        None if key == labels::HOSTNAME => Some(node.name()),
        None => None,
    }
}
