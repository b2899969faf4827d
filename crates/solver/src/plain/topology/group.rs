//! One group: pods of a kind, counted per domain.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::scheduling::{NodePolicy, PodScheduling, SpreadConstraint};
use karpenter_model::selector::Selector;
use karpenter_model::taints::{Toleration, first_untolerated};

use super::Place;
use crate::plain::relax::Trial;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Spread { max_skew: u32, min_domains: Option<u32> },
    Affinity,
    AntiAffinity,
}

/// What makes two groups the same (SCH-122).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    pub(super) key: String,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) selector: Option<Selector>,
    pub(super) filter: NodeFilter,
    pub(super) domains: BTreeSet<String>,
}

/// Which nodes count for a spread constraint (SCH-130). Kept in its printed form too, which orders it.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeFilter {
    /// Any of these must hold; `None`: labels do not matter.
    terms: Option<Vec<Requirements>>,
    /// `None`: taints do not matter.
    tolerations: Option<Vec<Toleration>>,
    printed: String,
}

impl PartialEq for NodeFilter {
    fn eq(&self, other: &Self) -> bool {
        self.printed == other.printed
    }
}
impl Eq for NodeFilter {}
impl PartialOrd for NodeFilter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for NodeFilter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.printed.cmp(&other.printed)
    }
}

impl NodeFilter {
    pub(super) fn of_spread(wishes: &PodScheduling, constraint: &SpreadConstraint) -> Self {
        let terms = (constraint.node_affinity_policy == NodePolicy::Honor).then(|| {
            let with_selector = |term: &Requirements| {
                let mut all = wishes.node_selector.clone();
                all.add_all(term);
                all
            };
            match &wishes.required_terms[..] {
                [] => vec![wishes.node_selector.clone()],
                terms => terms.iter().map(with_selector).collect(),
            }
        });
        let tolerations = (constraint.node_taints_policy == NodePolicy::Honor).then(|| wishes.tolerations.clone());
        let printed = format!("{terms:?} {tolerations:?}");
        Self { terms, tolerations, printed }
    }

    pub(super) fn accepts(&self, place: &Place<'_>) -> bool {
        let labels = self
            .terms
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| place.requirements.is_compatible(term, Undefined::Denied)));
        let taints = self.tolerations.as_ref();
        labels && taints.is_none_or(|tolerations| first_untolerated(place.taints, tolerations).is_none())
    }
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) key: String,
    namespaces: BTreeSet<String>,
    selector: Option<Selector>,
    pub(super) filter: NodeFilter,
    counts: BTreeMap<String, u32>,
    pub(super) owners: BTreeSet<PodId>,
}

impl Group {
    pub(super) fn new(identity: &Identity) -> Self {
        Self {
            kind: identity.kind,
            key: identity.key.clone(),
            namespaces: identity.namespaces.clone(),
            selector: identity.selector.clone(),
            filter: identity.filter.clone(),
            counts: identity.domains.iter().map(|domain| (domain.clone(), 0)).collect(),
            owners: BTreeSet::new(),
        }
    }

    pub(super) fn add_domain(&mut self, domain: &str) {
        if !self.counts.contains_key(domain) {
            self.counts.insert(domain.to_owned(), 0);
        }
    }

    pub(super) fn add(&mut self, domain: &str, pods: u32) {
        *self.counts.entry(domain.to_owned()).or_default() += pods;
    }

    /// A group without a selector selects nothing (SCH-132).
    pub(super) fn selects(&self, pod: &PodView) -> bool {
        self.namespaces.contains(pod.id.namespace.as_str())
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// ... but counts every pod that is there already.
    pub(super) fn counts_existing(&self, pod: &PodView) -> bool {
        self.namespaces.contains(pod.id.namespace.as_str())
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&pod.labels))
    }

    fn count(&self, domain: &str) -> u32 {
        self.counts.get(domain).copied().unwrap_or(0)
    }

    /// Requirements on the group's key, any of which lets the pod in; several where domains are tied. `None`: the group
    /// does not restrict, an empty list: nothing is left.
    pub(super) fn options(&self, trial: &Trial<'_>, candidate: &Requirements) -> Option<Vec<Requirement>> {
        let anything = Requirement::exists(&self.key);
        let pod = trial.strict.get(&self.key).unwrap_or(&anything);
        let node = candidate.get(&self.key).unwrap_or(&anything);
        let host = (self.key == labels::HOSTNAME).then(|| node.single_value()).flatten();
        match self.kind {
            Kind::Spread { max_skew, min_domains } => Some(self.spread(trial, pod, node, host, max_skew, min_domains)),
            Kind::Affinity => Some(self.affinity(trial, pod, node, host)),
            // Nobody can share a domain of a key that has none (Q35).
            Kind::AntiAffinity if self.counts.is_empty() => None,
            Kind::AntiAffinity => Some(self.anti_affinity(pod, node, host)),
        }
    }

    fn only(&self, domain: &str) -> Requirement {
        Requirement::any_of(&self.key, [domain])
    }

    /// SCH-138, SCH-139.
    fn spread(
        &self,
        trial: &Trial<'_>,
        pod: &Requirement,
        node: &Requirement,
        host: Option<&str>,
        max_skew: u32,
        min_domains: Option<u32>,
    ) -> Vec<Requirement> {
        let own = u32::from(self.selects(trial.pod));
        if let Some(host) = host {
            let fits = self.count(host).saturating_add(own) <= max_skew;
            return if fits { vec![self.only(host)] } else { Vec::new() };
        }
        let eligible = || self.counts.iter().filter(|(domain, _)| pod.has(domain));
        let enough = min_domains.is_none_or(|wanted| eligible().count() >= wanted as usize);
        let least = if enough && self.key != labels::HOSTNAME {
            eligible().map(|(_, count)| *count).min().unwrap_or(0)
        } else {
            0
        };
        let valid: Vec<(&String, u32)> = self
            .counts
            .iter()
            .filter(|(domain, count)| node.has(domain) && (**count + own).saturating_sub(least) <= max_skew)
            .map(|(domain, count)| (domain, *count))
            .collect();
        let lowest = valid.iter().map(|(_, count)| *count).min();
        valid.iter().filter(|(_, count)| Some(*count) == lowest).map(|(domain, _)| self.only(domain)).collect()
    }

    /// SCH-140, SCH-141: where the others are; where nobody is yet, the pod itself may begin.
    fn affinity(
        &self,
        trial: &Trial<'_>,
        pod: &Requirement,
        node: &Requirement,
        host: Option<&str>,
    ) -> Vec<Requirement> {
        let may_begin = || {
            let nobody = self.counts.values().all(|count| *count == 0);
            let nobody_near = self.counts.iter().all(|(domain, count)| *count == 0 || !pod.has(domain));
            self.selects(trial.pod) && (nobody || nobody_near)
        };
        if let Some(host) = host {
            let fits = pod.has(host) && (self.count(host) > 0 || may_begin());
            return if fits { vec![self.only(host)] } else { Vec::new() };
        }
        let near: Vec<&String> = self
            .counts
            .iter()
            .filter(|(domain, count)| **count > 0 && pod.has(domain) && node.has(domain))
            .map(|(domain, _)| domain)
            .collect();
        if !near.is_empty() {
            return vec![Requirement::any_of(&self.key, near)];
        }
        if !may_begin() {
            return Vec::new();
        }
        let both = self.counts.keys().filter(|domain| pod.has(domain) && node.has(domain));
        both.map(|domain| self.only(domain)).collect()
    }

    /// SCH-142.
    fn anti_affinity(&self, pod: &Requirement, node: &Requirement, host: Option<&str>) -> Vec<Requirement> {
        if let Some(host) = host {
            return if self.count(host) == 0 { vec![self.only(host)] } else { Vec::new() };
        }
        let free: Vec<&String> = self
            .counts
            .iter()
            .filter(|(domain, count)| **count == 0 && pod.has(domain) && node.has(domain))
            .map(|(domain, _)| domain)
            .collect();
        if free.is_empty() { Vec::new() } else { vec![Requirement::any_of(&self.key, free)] }
    }
}
