//! One group: pods of a kind, counted per domain.

use std::collections::BTreeSet;

use karpenter_model::selector::Selector;

use super::bits::Bits;
use super::domains::Universe;
use super::pods::Badge;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Spread { max_skew: u32, min_domains: Option<u32> },
    Affinity,
    AntiAffinity,
}

/// Where a pod is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// The place of an existing node in the order of a pass.
    Node(usize),
    Claim(usize),
}

/// A domain of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    Domain(usize),
    /// A host of an existing node, whether or not pods can go there.
    Host(usize),
    Claim(usize),
}

/// What makes two groups the same (SCH-122).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) selector: Option<Selector>,
    pub(crate) filter: usize,
    /// Of pools (Q33); empty for hosts, which pools do not list.
    pub(crate) domains: Bits,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) identity: Identity,
    /// `None` for hosts.
    pub(crate) universe: Option<usize>,
    counts: Vec<u32>,
    present: Bits,
    pub(crate) hosts: Hosts,
    /// How many domains have pods.
    occupied: usize,
    /// Which nodes bring it domains.
    pub(crate) support: Option<usize>,
}

/// Counts per host. Every candidate is one host, so what a group says about hosts is a set of candidates.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    existing: Vec<u32>,
    planned: Vec<u32>,
    /// Candidates that have too many for a pod that is not counted, and for one that is; for affinity those that have
    /// any.
    pub(crate) nodes: [Bits; 2],
    pub(crate) claims: [Bits; 2],
}

impl Group {
    pub(crate) fn new(identity: Identity, universe: Option<(usize, &Universe)>) -> Self {
        let len = universe.map_or(0, |(_, universe)| universe.len());
        let mut present = Bits::new(len);
        present.union(&identity.domains);
        Self {
            universe: universe.map(|(at, _)| at),
            counts: vec![0; len],
            present,
            hosts: Hosts::default(),
            occupied: 0,
            support: None,
            identity,
        }
    }

    /// A group without a selector selects nothing (SCH-132).
    pub(crate) fn selects(&self, badge: &Badge) -> bool {
        let selector = self.identity.selector.as_ref();
        self.identity.namespaces.contains(&badge.namespace)
            && selector.is_some_and(|selector| selector.matches(&badge.labels))
    }

    /// ... but counts every pod that is there already.
    pub(crate) fn counts_existing(&self, badge: &Badge) -> bool {
        let selector = self.identity.selector.as_ref();
        self.identity.namespaces.contains(&badge.namespace)
            && selector.is_none_or(|selector| selector.matches(&badge.labels))
    }

    /// A domain that may be empty; whether it is new.
    pub(crate) fn add_domain(&mut self, domain: usize) -> bool {
        let new = !self.present.has(domain);
        self.present.set(domain);
        new
    }

    /// The domain is there, but no pool lists it and no pod is in it.
    pub(crate) fn is_only_remembered(&self, domain: usize) -> bool {
        self.present.has(domain) && !self.identity.domains.has(domain) && self.counts[domain] == 0
    }

    pub(crate) fn remove_domain(&mut self, domain: usize) {
        self.present.clear(domain);
    }

    /// Counts pods up, or down again. `slots`: the candidates that are this host.
    pub(crate) fn bump(&mut self, spot: Spot, pods: u32, up: bool, slots: &[usize]) {
        let count = match spot {
            Spot::Domain(at) => &mut self.counts[at],
            Spot::Host(at) => grown(&mut self.hosts.existing, at),
            Spot::Claim(at) => grown(&mut self.hosts.planned, at),
        };
        let before = *count;
        *count = if up { before.saturating_add(pods) } else { before.saturating_sub(pods) };
        let after = *count;
        match (before, after) {
            (0, 1..) => self.occupied += 1,
            (1.., 0) => self.occupied -= 1,
            _ => {}
        }
        let full = match self.identity.kind {
            Kind::Spread { max_skew, .. } => [after > max_skew, after.saturating_add(1) > max_skew],
            Kind::Affinity | Kind::AntiAffinity => [after > 0; 2],
        };
        let mark = |sets: &mut [Bits; 2], at: usize| {
            for (set, full) in sets.iter_mut().zip(full) {
                if full { set.set(at) } else { set.clear(at) }
            }
        };
        match spot {
            Spot::Domain(_) => {}
            Spot::Host(_) => slots.iter().for_each(|slot| mark(&mut self.hosts.nodes, *slot)),
            Spot::Claim(at) => mark(&mut self.hosts.claims, at),
        }
    }

    /// Domains that a pod may be in, whatever their counts. `pod`: those that it allows, all where there is none.
    pub(crate) fn domains<'g>(&'g self, pod: Option<&'g Bits>) -> impl Iterator<Item = usize> + 'g {
        self.present.iter().filter(move |domain| pod.is_none_or(|allowed| allowed.has(*domain)))
    }

    /// Nobody is anywhere.
    pub(crate) fn is_vacant(&self) -> bool {
        self.occupied == 0
    }

    /// Hosts of existing nodes, and claims, that have pods.
    pub(crate) fn occupied_hosts(&self) -> (impl Iterator<Item = usize> + '_, impl Iterator<Item = usize> + '_) {
        let some = |counts: &[u32]| -> Vec<usize> { (0..counts.len()).filter(|at| counts[*at] > 0).collect() };
        (some(&self.hosts.existing).into_iter(), some(&self.hosts.planned).into_iter())
    }

    /// Domains of the group's key, any of which lets the pod in; several where they are tied. `pod` and `node`: the
    /// domains that these allow, all where there is none. `false`: the group does not restrict.
    pub(crate) fn options(&self, own: bool, pod: Option<&Bits>, node: Option<&Bits>, picks: &mut Picks) -> bool {
        let for_pod = |domain: &usize| pod.is_none_or(|allowed| allowed.has(*domain));
        let for_node = |domain: &usize| node.is_none_or(|allowed| allowed.has(*domain));
        let count = |domain: &usize| self.counts[*domain];
        let here = || self.present.iter().filter(for_pod).filter(for_node);
        match self.identity.kind {
            Kind::Spread { max_skew, min_domains } => {
                let own = u32::from(own);
                let eligible = || self.present.iter().filter(for_pod);
                let enough = min_domains.is_none_or(|wanted| eligible().count() >= wanted as usize);
                let least = if enough { eligible().map(|domain| count(&domain)).min().unwrap_or(0) } else { 0 };
                let fits = |domain: &usize| for_node(domain) && (count(domain) + own).saturating_sub(least) <= max_skew;
                let lowest = self.present.iter().filter(fits).map(|domain| count(&domain)).min();
                let tied = self.present.iter().filter(fits).filter(|domain| Some(count(domain)) == lowest);
                picks.ones.extend(tied);
            }
            Kind::Affinity => {
                here().filter(|domain| count(domain) > 0).for_each(|domain| picks.any.set(domain));
                // Where nobody is yet, the pod itself may begin (SCH-141).
                let nobody_near = || self.present.iter().all(|domain| count(&domain) == 0 || !for_pod(&domain));
                if picks.any.is_empty() && own && (self.is_vacant() || nobody_near()) {
                    picks.ones.extend(here());
                }
            }
            // Nobody can share a domain of a key that has none (Q35).
            Kind::AntiAffinity if self.present.is_empty() => return false,
            Kind::AntiAffinity => here().filter(|domain| count(domain) == 0).for_each(|domain| picks.any.set(domain)),
        }
        true
    }

    /// All domains that would let the pod in, not only the best ones; `None`: the group does not restrict.
    pub(crate) fn admitted(&self, own: bool, pod: Option<&Bits>) -> Option<Bits> {
        let for_pod = |domain: &usize| pod.is_none_or(|allowed| allowed.has(*domain));
        if let Kind::Spread { max_skew, min_domains } = self.identity.kind {
            let eligible = || self.present.iter().filter(for_pod);
            let enough = min_domains.is_none_or(|wanted| eligible().count() >= wanted as usize);
            let least = if enough { eligible().map(|domain| self.counts[domain]).min().unwrap_or(0) } else { 0 };
            let own = u32::from(own);
            let fits = |domain: &usize| (self.counts[*domain] + own).saturating_sub(least) <= max_skew;
            return Some(self.set_of(eligible().filter(fits)));
        }
        let mut picks = Picks::default();
        if !self.options(own, pod, None, &mut picks) {
            return None;
        }
        let mut all = self.set_of(picks.ones.into_iter());
        all.union(&picks.any);
        Some(all)
    }

    fn set_of(&self, domains: impl Iterator<Item = usize>) -> Bits {
        let mut set = Bits::new(self.counts.len());
        domains.for_each(|domain| set.set(domain));
        set
    }
}

/// Where pods may be, as names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Zones {
    Nowhere,
    Anywhere,
    Only(BTreeSet<String>),
}

/// What a group lets a pod choose from: each of some domains alone, or any of several.
#[derive(Debug, Default)]
pub(crate) struct Picks {
    pub(crate) ones: Vec<usize>,
    pub(crate) any: Bits,
}

impl Picks {
    /// As new, for a key of so many domains.
    pub(crate) fn clear(&mut self, domains: usize) {
        self.ones.clear();
        self.any.clear_all(domains);
    }
}

fn grown(counts: &mut Vec<u32>, at: usize) -> &mut u32 {
    if at >= counts.len() {
        counts.resize(at + 1, 0);
    }
    &mut counts[at]
}
