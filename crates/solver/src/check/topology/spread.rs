//! Whether pods are spread as they ask.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement};
use karpenter_model::scheduling::{NodePolicy, SpreadConstraint};
use karpenter_model::taints::Taint;

use super::{Look, Relaxed, Tally, relaxations, selects};
use crate::check::kinds::{KindId, digest};
use crate::check::sites::{Site, is_soft};

/// Pools with the same taints, and the domains that they have between them.
type Taintwise<'c> = Vec<(&'c [Taint], BTreeSet<String>)>;

#[derive(Default)]
pub(super) struct Spreads<'c> {
    /// By kind of pod, which of its constraints, and how relaxed.
    of: BTreeMap<(KindId, usize, usize, bool), usize>,
    index: BTreeMap<u64, Vec<usize>>,
    all: Vec<Counted<'c>>,
    /// Domains of pools (SCH-126), by key.
    pools: BTreeMap<&'c str, Taintwise<'c>>,
}

/// One constraint, for all pods that follow it and may use the same nodes.
struct Counted<'c> {
    owner: &'c PodView,
    constraint: &'c SpreadConstraint,
    relaxed: Relaxed,
    /// Pods that follow the constraint. Others may have come later, so they are not held against it ...
    strict: Tally<'c>,
    /// ... but they do fill the emptier domains. How many there are in the emptiest.
    least: usize,
}

impl<'c, 'a> Look<'c, 'a> {
    /// Whether the pods of the kind may be on the site, as the constraint with this number has it.
    pub(super) fn is_spread(&mut self, site: &Site<'a>, kind: KindId, index: usize) -> bool {
        let owner: &'c PodView = self.check.sites.kinds.examples[kind];
        let constraint = &owner.scheduling.spread[index];
        let Some(domain) = site.certain(&constraint.key) else { return false };
        relaxations(owner).any(|relaxed| {
            let at = self.counted(kind, index, relaxed);
            let counted = &self.spreads.all[at];
            let count = counted.strict.get(domain).copied().unwrap_or(0);
            count <= counted.least + constraint.max_skew as usize
        })
    }

    fn counted(&mut self, kind: KindId, index: usize, relaxed: Relaxed) -> usize {
        let key = (kind, index, relaxed.first_term, relaxed.soft_taints);
        if let Some(known) = self.spreads.of.get(&key) {
            return *known;
        }
        let owner: &'c PodView = self.check.sites.kinds.examples[kind];
        let (wishes, constraint) = (&owner.scheduling, &owner.scheduling.spread[index]);
        let number = digest(&(
            (&owner.id.namespace, constraint, relaxed),
            (&wishes.tolerations, &wishes.node_selector, &wishes.required_terms),
        ));
        let same = |at: &&usize| {
            let other = &self.spreads.all[**at];
            other.constraint == constraint && other.relaxed == relaxed && are_alike(other.owner, owner)
        };
        let known = self.spreads.index.get(&number).and_then(|all| all.iter().find(same)).copied();
        let at = known.unwrap_or_else(|| {
            let counted = self.count(owner, constraint, relaxed);
            self.spreads.all.push(counted);
            self.spreads.index.entry(number).or_default().push(self.spreads.all.len() - 1);
            self.spreads.all.len() - 1
        });
        self.spreads.of.insert(key, at);
        at
    }

    fn count(&mut self, owner: &'c PodView, constraint: &'c SpreadConstraint, relaxed: Relaxed) -> Counted<'c> {
        let key = constraint.key.as_str();
        let wishes = &owner.scheduling;
        let terms = wishes.required_terms.get(relaxed.first_term..).unwrap_or_default();
        let tolerated = |taints: &[Taint]| {
            taints.iter().all(|taint| owner.tolerates(taint) || (relaxed.soft_taints && is_soft(taint)))
        };
        let filter = |site: &Site<'a>| {
            let labels = constraint.node_affinity_policy == NodePolicy::Ignore
                || (site.is_within(&wishes.node_selector)
                    && (terms.is_empty() || terms.iter().any(|term| site.is_within(term))));
            labels && (constraint.node_taints_policy == NodePolicy::Ignore || tolerated(&site.taints))
        };
        let selector = constraint.selector.as_ref();
        let (mut strict, mut all) = (Tally::new(), Tally::new());
        let sites = &self.check.sites;
        let mut passes: Vec<Option<bool>> = vec![None; sites.all.len()];
        let mut passes = |at: usize| *passes[at].get_or_insert_with(|| filter(&sites.all[at]));
        for (kind, example) in sites.kinds.examples.iter().enumerate() {
            if example.id.namespace != owner.id.namespace {
                continue;
            }
            if selector.is_none_or(|selector| selector.matches(&example.labels)) {
                for (at, count) in &sites.kinds.old[kind] {
                    let Some(domain) = sites.all[*at].counted_at(key).filter(|_| passes(*at)) else { continue };
                    *strict.entry(domain).or_default() += count;
                    *all.entry(domain).or_default() += count;
                }
            }
            if !selects(selector, example) {
                continue;
            }
            let follows = example.scheduling.spread.contains(constraint) && are_alike(example, owner);
            for (at, count) in &sites.kinds.new[kind] {
                let Some(domain) = sites.all[*at].certain(key).filter(|_| passes(*at)) else { continue };
                *all.entry(domain).or_default() += count;
                if follows {
                    *strict.entry(domain).or_default() += count;
                }
            }
        }
        let mut strictly = wishes.node_selector.clone();
        terms.first().into_iter().for_each(|term| strictly.add_all(term));
        let allowed = |domain: &str| strictly.get(key).is_none_or(|asked| asked.has(domain));
        let mut domains: BTreeSet<&str> = BTreeSet::new();
        let existing = sites.all.iter().filter(|site| site.node.is_some() && site.is_active() && filter(site));
        domains.extend(existing.filter_map(|site| site.counted_at(key)));
        let pools = self.spreads.pools.entry(key).or_insert_with(|| taintwise(self.check.snapshot, key));
        let ignored = constraint.node_taints_policy == NodePolicy::Ignore;
        for (_, own) in pools.iter().filter(|(taints, _)| ignored || tolerated(taints)) {
            domains.extend(own.iter().map(String::as_str));
        }
        domains.retain(|domain| allowed(domain));
        let seen = all.keys().filter(|domain| allowed(domain) && !domains.contains(*domain)).count();
        let enough = constraint.min_domains.is_none_or(|wanted| domains.len() + seen >= wanted as usize);
        let least = if key == labels::HOSTNAME || !enough {
            0
        } else {
            domains.iter().map(|domain| all.get(domain).copied().unwrap_or(0)).min().unwrap_or(0)
        };
        Counted { owner, constraint, relaxed, strict, least }
    }
}

/// They may use the same nodes.
fn are_alike(a: &PodView, b: &PodView) -> bool {
    let (one, other) = (&a.scheduling, &b.scheduling);
    a.id.namespace == b.id.namespace
        && one.tolerations == other.tolerations
        && one.node_selector == other.node_selector
        && one.required_terms == other.required_terms
}

/// Domains of pools (SCH-126).
fn taintwise<'c>(snapshot: &'c karpenter_model::snapshot::Snapshot, key: &str) -> Taintwise<'c> {
    let mut all: Taintwise<'c> = Vec::new();
    for offer in &snapshot.pools {
        let own = offer.pool.requirements.get(key);
        let mut domains = BTreeSet::new();
        let mut add = |source: &Requirement| {
            if source.operator() == Operator::In {
                domains.extend(source.values().map(ToOwned::to_owned));
            }
        };
        own.into_iter().for_each(&mut add);
        for theirs in offer.instance_types.iter().filter_map(|known| known.requirements.get(key)) {
            match own {
                Some(own) => add(&own.intersection(theirs)),
                None => add(theirs),
            }
        }
        match all.iter_mut().find(|(taints, _)| *taints == offer.pool.taints) {
            Some((_, known)) => known.append(&mut domains),
            None => all.push((&offer.pool.taints, domains)),
        }
    }
    all
}
