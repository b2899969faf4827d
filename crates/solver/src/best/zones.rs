//! A zone for every pod, chosen before anything is packed.
//!
//! Rules about zones tie pods together that a packing knows nothing about. So a pass first puts every pod on a node of its
//! own, in an order that suits the rules, each time in a zone that they allow. Whoever then packs the pods of one zone at a
//! time and keeps to the order breaks none of those rules, whatever shares a node.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use karpenter_model::instance_type::Price;
use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::scheduling::{AffinityTerm, SpreadConstraint};
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::Snapshot;

use super::Engine;

/// Which pod goes to which zone.
#[derive(Debug, Default)]
pub(crate) struct Zones<'a> {
    pub(crate) names: Vec<&'a str>,
    of: BTreeMap<&'a PodId, usize>,
    /// Pods in the order in which the rules allow this.
    pub(crate) order: Vec<&'a PodView>,
    /// Label sets, by number, that some rule about zones looks at, or that belong to pods with such rules.
    tied: BTreeMap<u64, bool>,
}

impl<'a> Zones<'a> {
    pub(crate) fn of(&self, pod: &PodId) -> Option<usize> {
        self.of.get(pod).copied()
    }

    /// Some rule about zones is about the pod.
    pub(crate) fn is_tied(&self, pod: &PodView) -> bool {
        self.tied.get(&kin(pod)).copied().unwrap_or(false)
    }

    /// Gives zones to pods, each with the pool that it had its node from. `None` where no rule is about zones, or there is
    /// only one.
    pub(crate) fn assigned(
        snapshot: &'a Snapshot,
        pods: &[(&'a PodView, usize)],
        engine: &mut impl Engine<'a>,
    ) -> Option<Self> {
        let rules: Vec<Option<&Selector>> = distinct(pods.iter().flat_map(|(pod, _)| zone_rules(pod)));
        let mut zones = Self { names: names(snapshot), ..Self::default() };
        if rules.is_empty() || zones.names.len() < 2 {
            return None;
        }
        for (pod, _) in pods {
            let matched = || rules.iter().flatten().any(|selector| selector.matches(&pod.labels));
            zones.tied.entry(kin(pod)).or_insert_with(|| has_zone_rules(pod) || matched());
        }
        let mut order: Vec<(&'a PodView, usize)> = pods.to_vec();
        // Who depends on others on the same host first, then on others in the same zone: the rest fits in anywhere.
        order.sort_by_key(|(pod, _)| std::cmp::Reverse((host_rules(pod), zone_rules(pod).count())));
        let levels = levels(snapshot, &zones.names);
        // By number of a label set: how many are in each zone.
        let mut counts: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let mut totals = vec![0_u32; zones.names.len()];
        for (pod, pool) in order {
            let own = counts.entry(alike(pod)).or_insert_with(|| vec![0; zones.names.len()]);
            let mut choice: Vec<usize> = (0..zones.names.len()).collect();
            if zones.tied.get(&kin(pod)).copied().unwrap_or(false) {
                choice.sort_by_key(|zone| (own[*zone], levels[*zone], totals[*zone], *zone));
            } else {
                choice.sort_by_key(|zone| (levels[*zone], totals[*zone], *zone));
            }
            let found = choice.into_iter().find(|zone| engine.open_in(pod, pool, zones.names[*zone]).is_some());
            if let Some(zone) = found {
                own[zone] += 1;
                totals[zone] += 1;
                zones.of.insert(&pod.id, zone);
                zones.order.push(pod);
            }
        }
        Some(zones)
    }
}

/// Zones that something can be launched in.
pub(super) fn names(snapshot: &Snapshot) -> Vec<&str> {
    let types = snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter());
    let offerings = types.flat_map(|known| &known.offerings).filter(|offering| offering.is_launchable());
    let mut zones: Vec<&str> = offerings.filter_map(|offering| offering.zone()).collect();
    zones.sort_unstable();
    zones.dedup();
    zones
}

/// How dear each zone is, in hundredths of the cheapest.
#[expect(clippy::cast_precision_loss, reason = "a handful of thousands")]
fn levels(snapshot: &Snapshot, zones: &[&str]) -> Vec<u32> {
    let mean = |zone: &&str| {
        let types = snapshot.pools.iter().flat_map(|offer| offer.instance_types.iter());
        let cheapest = types.filter_map(|known| {
            let here = known.offerings.iter().filter(|one| one.is_launchable() && one.zone() == Some(*zone));
            here.map(|one| one.price).min()
        });
        let prices: Vec<f64> = cheapest.map(Price::per_hour).collect();
        prices.iter().sum::<f64>() / prices.len().max(1) as f64
    };
    let means: Vec<f64> = zones.iter().map(mean).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min).max(1e-12);
    means.iter().map(|mean| crate::packing::whole((mean / least * 100.0).min(1e9))).collect()
}

fn spreads(pod: &PodView) -> impl Iterator<Item = &SpreadConstraint> {
    pod.scheduling.spread.iter()
}

fn terms(pod: &PodView) -> impl Iterator<Item = &AffinityTerm> {
    let wishes = &pod.scheduling;
    let preferred = wishes.preferred_affinity.iter().chain(&wishes.preferred_anti_affinity).map(|one| &one.value);
    wishes.affinity.iter().chain(&wishes.anti_affinity).chain(preferred)
}

/// Whom rules of the pod about zones select.
fn zone_rules(pod: &PodView) -> impl Iterator<Item = Option<&Selector>> {
    let spread = spreads(pod).filter(|one| one.key == labels::ZONE).map(|one| one.selector.as_ref());
    spread.chain(terms(pod).filter(|term| term.key == labels::ZONE).map(|term| term.selector.as_ref()))
}

fn has_zone_rules(pod: &PodView) -> bool {
    zone_rules(pod).next().is_some()
}

fn host_rules(pod: &PodView) -> usize {
    spreads(pod).filter(|one| one.key == labels::HOSTNAME).count()
        + terms(pod).filter(|term| term.key == labels::HOSTNAME).count()
}

fn distinct<'p>(all: impl Iterator<Item = Option<&'p Selector>>) -> Vec<Option<&'p Selector>> {
    let mut found: Vec<Option<&Selector>> = all.collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Pods that rules about labels cannot tell apart.
fn alike(pod: &PodView) -> u64 {
    number(&(&pod.id.namespace, &pod.labels))
}

/// The same for pods that have the same rules.
fn kin(pod: &PodView) -> u64 {
    number(&(&pod.labels, has_zone_rules(pod)))
}
