//! Spread, affinity and anti-affinity at the end of a pass.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::scheduling::{AffinityTerm, NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;
use karpenter_model::taints::Taint;

use super::sites::{Site, is_soft};
use super::{Check, Rule};

fn selects(selector: Option<&Selector>, pod: &PodView) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}

/// How far the pod may have been relaxed: the required terms before this one given up, soft taints put up with.
#[derive(Clone, Copy)]
struct Relaxed {
    first_term: usize,
    soft_taints: bool,
}

impl<'a> Check<'a> {
    pub(super) fn topology(&mut self) {
        for site in self.sites.all.clone() {
            for pod in &site.new_pods {
                let hard = |constraint: &&SpreadConstraint| constraint.when == WhenUnsatisfiable::DoNotSchedule;
                for constraint in pod.scheduling.spread.iter().filter(hard) {
                    let fine = relaxations(pod).any(|relaxed| self.is_spread(&site, pod, constraint, relaxed));
                    if !fine {
                        self.report(Rule::Spread, format!("{} on {} over {}", pod.id, site.name, constraint.key));
                    }
                }
                for term in &pod.scheduling.affinity {
                    if !self.is_near(&site, pod, term) {
                        self.report(Rule::Affinity, format!("{} on {} by {}", pod.id, site.name, term.key));
                    }
                }
                for term in &pod.scheduling.anti_affinity {
                    self.is_apart(&site, pod, term, true);
                }
            }
            for pod in &site.old_pods {
                for term in &pod.scheduling.anti_affinity {
                    self.is_apart(&site, pod, term, false);
                }
            }
        }
    }

    /// The values of a key that the pool's types could bring.
    fn of_types(&self, site: &Site<'a>, key: &str) -> BTreeSet<String> {
        let Some(claim) = site.claim else { return BTreeSet::new() };
        let types = claim.instance_types.iter().filter_map(|name| self.type_of(&claim.pool.name, name));
        let listed = types.filter_map(|known| known.requirements.get(key));
        listed
            .filter(|own| own.operator() == Operator::In)
            .flat_map(Requirement::values)
            .map(ToOwned::to_owned)
            .collect()
    }

    fn possible(&self, site: &Site<'a>, key: &str) -> BTreeSet<String> {
        site.possible(key, |key| self.of_types(site, key))
    }

    /// Old pods by domain and new pods whose domain is certain; `counts` says which.
    fn tally(
        &self,
        key: &str,
        nodes: impl Fn(&Site<'a>) -> bool,
        old: impl Fn(&PodView) -> bool,
        new: impl Fn(&PodView) -> bool,
    ) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for site in self.sites.all.iter().filter(|site| nodes(site)) {
            let staying = site.old_pods.iter().filter(|pod| pod.deleting_since.is_none() && old(pod)).count();
            if let Some(domain) = site.counted_at(key).filter(|_| staying > 0) {
                *counts.entry(domain.to_owned()).or_default() += staying;
            }
            let coming = site.new_pods.iter().filter(|pod| new(pod)).count();
            if let Some(domain) = site.certain(key).filter(|_| coming > 0) {
                *counts.entry(domain.to_owned()).or_default() += coming;
            }
        }
        counts
    }

    /// Domains of pools (SCH-126) whose taints do not matter or are put up with, and of nodes that pass the filter.
    fn domains(
        &self,
        key: &str,
        tolerated: impl Fn(&[Taint]) -> bool,
        nodes: impl Fn(&Site<'a>) -> bool,
    ) -> BTreeSet<String> {
        let mut domains = BTreeSet::new();
        for offer in self.snapshot.pools.iter().filter(|offer| tolerated(&offer.pool.taints)) {
            let own = offer.pool.requirements.get(key);
            let mut sources: Vec<Requirement> = own.cloned().into_iter().collect();
            for known in offer.instance_types.iter() {
                let theirs = known.requirements.get(key);
                sources.extend(match (own, theirs) {
                    (Some(own), Some(theirs)) => Some(own.intersection(theirs)),
                    (None, theirs) => theirs.cloned(),
                    (Some(_), None) => None,
                });
            }
            for source in sources.iter().filter(|source| source.operator() == Operator::In) {
                domains.extend(source.values().map(ToOwned::to_owned));
            }
        }
        let existing = self.sites.all.iter().filter(|site| site.node.is_some() && site.is_active() && nodes(site));
        domains.extend(existing.filter_map(|site| site.counted_at(key)).map(ToOwned::to_owned));
        domains
    }

    fn is_spread(&self, site: &Site<'a>, pod: &PodView, constraint: &SpreadConstraint, relaxed: Relaxed) -> bool {
        let key = &constraint.key;
        let Some(domain) = site.certain(key) else { return false };
        let wishes = &pod.scheduling;
        let terms = wishes.required_terms.get(relaxed.first_term..).unwrap_or_default();
        let tolerated = |taints: &[Taint]| {
            taints.iter().all(|taint| pod.tolerates(taint) || (relaxed.soft_taints && is_soft(taint)))
        };
        let filter = |site: &Site<'a>| {
            let labels = constraint.node_affinity_policy == NodePolicy::Ignore
                || (site.is_within(&wishes.node_selector)
                    && (terms.is_empty() || terms.iter().any(|term| site.is_within(term))));
            labels && (constraint.node_taints_policy == NodePolicy::Ignore || tolerated(&site.taints))
        };
        let own = |other: &PodView| {
            let same =
                other.scheduling.spread.contains(constraint) && other.scheduling.tolerations == wishes.tolerations;
            let place = other.scheduling.node_selector == wishes.node_selector
                && other.scheduling.required_terms == wishes.required_terms;
            same && place && other.id.namespace == pod.id.namespace
        };
        let here = |other: &PodView| other.id.namespace == pod.id.namespace;
        let selector = constraint.selector.as_ref();
        let counted = |other: &PodView| here(other) && selector.is_none_or(|selector| selector.matches(&other.labels));
        // Pods that do not follow the constraint may have come later, so they are not held against it ...
        let strict = self.tally(key, filter, counted, |other| own(other) && selects(selector, other));
        // ... but they do fill the emptier domains.
        let all = self.tally(key, filter, counted, |other| here(other) && selects(selector, other));
        let mut strictly = wishes.node_selector.clone();
        terms.first().into_iter().for_each(|term| strictly.add_all(term));
        let allowed = |domain: &String| strictly.get(key).is_none_or(|asked| asked.has(domain));
        let mut domains = self.domains(
            key,
            |taints| constraint.node_taints_policy == NodePolicy::Ignore || tolerated(taints),
            filter,
        );
        domains.retain(allowed);
        let seen = all.keys().filter(|domain| allowed(domain) && !domains.contains(*domain)).count();
        let enough = constraint.min_domains.is_none_or(|wanted| domains.len() + seen >= wanted as usize);
        let least = if key == labels::HOSTNAME || !enough {
            0
        } else {
            domains.iter().map(|domain| all.get(domain).copied().unwrap_or(0)).min().unwrap_or(0)
        };
        let count = strict.get(domain).copied().unwrap_or(0);
        count <= least + constraint.max_skew as usize
    }

    fn matching(&self, term: &AffinityTerm) -> impl Fn(&PodView) -> bool + use<> {
        let (namespaces, selector) = (term.namespaces.resolve(&self.snapshot.namespaces), term.selector.clone());
        move |pod: &PodView| namespaces.contains(&pod.id.namespace) && selects(selector.as_ref(), pod)
    }

    fn is_near(&self, site: &Site<'a>, pod: &PodView, term: &AffinityTerm) -> bool {
        let matches = self.matching(term);
        let others = self.tally(&term.key, |_| true, &matches, |other| other.id != pod.id && matches(other));
        let values = self.possible(site, &term.key);
        if !values.is_empty() && values.iter().all(|value| others.contains_key(value)) {
            return true;
        }
        // The first of its kind may begin, unless some were there that it could have joined.
        let before = self.tally(&term.key, |_| true, &matches, |_| false);
        let reachable = |first: usize| {
            let mut strictly = pod.scheduling.node_selector.clone();
            pod.scheduling.required_terms.get(first).into_iter().for_each(|one| strictly.add_all(one));
            before.keys().any(|domain| allows(&strictly, &term.key, domain))
        };
        let may_begin = relaxations(pod).any(|relaxed| !reachable(relaxed.first_term));
        matches(pod) && values.len() == 1 && may_begin
    }

    /// Nobody whom the term selects shares a domain with its owner.
    fn is_apart(&mut self, site: &Site<'a>, pod: &PodView, term: &AffinityTerm, owner_is_new: bool) {
        let matches = self.matching(term);
        let own: BTreeSet<String> = if owner_is_new {
            self.possible(site, &term.key)
        } else {
            site.counted_at(&term.key).map(ToOwned::to_owned).into_iter().collect()
        };
        let mut clashes = Vec::new();
        for other in &self.sites.all {
            let new = other.new_pods.iter().filter(|one| one.id != pod.id && matches(one));
            let theirs = self.possible(other, &term.key);
            if theirs.intersection(&own).next().is_some() {
                clashes.extend(new.map(|one| one.id.clone()));
            }
            let counted = other.counted_at(&term.key).filter(|_| owner_is_new);
            if counted.is_some_and(|domain| own.contains(domain)) {
                let old = other.old_pods.iter().filter(|one| one.deleting_since.is_none() && matches(one));
                clashes.extend(old.map(|one| one.id.clone()));
            }
        }
        for clash in clashes {
            let what = format!("{} of {} clashes with {clash} by {}", pod.id, site.name, term.key);
            self.report(Rule::AntiAffinity, what);
        }
    }
}

fn allows(asked: &Requirements, key: &str, value: &str) -> bool {
    asked.get(key).is_none_or(|asked| asked.has(value))
}

fn relaxations(pod: &PodView) -> impl Iterator<Item = Relaxed> {
    let terms = pod.scheduling.required_terms.len().max(1);
    (0..terms).flat_map(|first_term| [false, true].map(|soft_taints| Relaxed { first_term, soft_taints }))
}
