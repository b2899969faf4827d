//! A snapshot read as a packing problem.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::{PoolView, by_precedence};
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::{PodScheduling, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_model::taints::{Effect, Taint, Toleration, first_untolerated};

use super::caps::{self, Cap};
use super::zones::{self, Zones};
use crate::options::{Options, Preferences, Reserved};
use crate::packing::bits::Bits;
use crate::packing::{Bin, Item, Problem, fits};

/// What is read: wishes as a pass tries them first, or only what must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// For planning: with preferences, and only pools of the heaviest weight that will do.
    Wished,
    /// For bounds: nothing that any valid plan could do without.
    Required,
}

/// Bins that there is a number of: what is left on existing nodes, and reserved instances.
#[derive(Debug, Clone)]
pub(crate) struct Limited {
    pub(crate) bin: Bin,
    pub(crate) count: u32,
}

#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) problem: Problem,
    /// By bin: the pool, by precedence.
    pub(crate) pools: Vec<usize>,
    /// By item: pods that ask for the same, in the order of the pass.
    pub(crate) members: Vec<Vec<Vec<&'a PodView>>>,
    pub(crate) limited: Vec<Limited>,
    /// Names of the first dimensions; the others are caps.
    pub(crate) resources: Vec<String>,
    /// How many zones pods must spread over; 0 when none must, or when each has its zone.
    pub(crate) zones: u32,
    /// By item: the zone that its pods shall go to.
    pub(crate) item_zones: Vec<Option<usize>>,
    /// By item: a rule about zones is about its pods.
    pub(crate) is_tied: Vec<bool>,
    pub(crate) zone_names: Vec<String>,
    /// The order in which pods are to be placed, where each has its zone.
    pub(crate) order: Vec<&'a PodView>,
}

/// What a pod asks of its node, without amounts.
#[derive(Debug, PartialEq)]
struct Place {
    /// Any of these must be met.
    alternatives: Vec<Requirements>,
    tolerations: Vec<Toleration>,
}

/// What is read, and how.
pub(crate) struct Source<'a, 's> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) rules: &'s LabelRules,
    pub(crate) options: &'s Options,
    pub(crate) strictness: Strictness,
    /// Where pods shall go.
    pub(crate) zones: Option<&'s Zones<'a>>,
}

/// Reads the pods with everything that they could be put on.
pub(crate) fn read<'a>(source: &Source<'a, '_>, pods: &[&'a PodView]) -> Reading<'a> {
    let mut resources: Vec<String> = Vec::new();
    for (name, amount) in pods.iter().flat_map(|pod| pod.requests.iter()) {
        if !amount.is_zero() && !resources.iter().any(|known| known == name) {
            resources.push(name.to_owned());
        }
    }
    resources.sort();
    let mut places: Vec<Place> = Vec::new();
    let mut all_caps: Vec<Cap> = Vec::new();
    let mut groups: Vec<Group<'a>> = Vec::new();
    // By number and zone, and by the address of what pods of one workload share.
    let mut known: BTreeMap<(u64, Option<usize>), Vec<usize>> = BTreeMap::new();
    let mut shared: BTreeMap<(usize, &str, Option<usize>), usize> = BTreeMap::new();
    for pod in pods {
        let zone = source.zones.and_then(|zones| zones.of(&pod.id));
        let address = (Arc::as_ptr(&pod.class).addr(), pod.id.namespace.as_str(), zone);
        if let Some(group) = shared.get(&address) {
            groups[*group].pods.push(pod);
            continue;
        }
        let same = known.entry((number(pod), zone)).or_default();
        if let Some(group) = same.iter().find(|group| are_alike(groups[**group].pods[0], pod)) {
            groups[*group].pods.push(pod);
            shared.insert(address, *group);
            continue;
        }
        shared.insert(address, groups.len());
        same.push(groups.len());
        let place = source.place(&pod.scheduling, zone);
        let index = places.iter().position(|known| *known == place).unwrap_or(places.len());
        if index == places.len() {
            places.push(place);
        }
        let wishes = source.strictness == Strictness::Wished && source.options.preferences == Preferences::Respect;
        let caps = caps::of(pod, wishes, &mut all_caps);
        groups.push(Group { place: index, caps, zone, pods: vec![pod] });
    }
    let mut columns = source.columns(&places, &resources);
    for (bin, _) in columns.bins.iter_mut().map(|(bin, pool, _)| (bin, pool)) {
        bin.capacity.extend(all_caps.iter().map(|cap| f64::from(cap.most)));
    }
    for limited in &mut columns.limited {
        // Nodes that exist may have pods that count already; a bound must not rely on them.
        limited.bin.capacity.extend(all_caps.iter().map(|_| f64::MAX));
    }
    let spread = source.zones.is_none() && pods.iter().any(|pod| spreads_over_zones(pod));
    let zones = if spread { u32::try_from(zones::names(source.snapshot).len()).unwrap_or(0) } else { 0 };
    let mut reading = Reading { zones, ..items(groups, columns, resources, all_caps.len(), source) };
    if let Some(zones) = source.zones {
        reading.order.clone_from(&zones.order);
        reading.zone_names = zones.names.iter().map(|&name| name.to_owned()).collect();
        let tied = |groups: &Vec<Vec<&PodView>>| groups.iter().any(|group| zones.is_tied(group[0]));
        reading.is_tied = reading.members.iter().map(tied).collect();
    }
    reading
}

/// Equal pods have the same number; others hardly ever.
fn number(pod: &PodView) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&pod.id.namespace, &pod.labels, &pod.scheduling).hash(&mut hasher);
    pod.requests.iter().for_each(|(name, amount)| (name, amount.nanos()).hash(&mut hasher));
    hasher.finish()
}

fn are_alike(a: &PodView, b: &PodView) -> bool {
    a.requests == b.requests && a.id.namespace == b.id.namespace && a.labels == b.labels && a.scheduling == b.scheduling
}

fn spreads_over_zones(pod: &PodView) -> bool {
    let hard = |one: &SpreadConstraint| one.when == WhenUnsatisfiable::DoNotSchedule && one.key == labels::ZONE;
    pod.scheduling.spread.iter().any(hard)
}

/// Pods that ask for the same.
struct Group<'a> {
    place: usize,
    caps: Vec<usize>,
    zone: Option<usize>,
    pods: Vec<&'a PodView>,
}

struct Columns {
    /// With its pool and the places that can use it.
    bins: Vec<(Bin, usize, Bits)>,
    limited: Vec<Limited>,
    weights: Vec<u32>,
}

fn items<'a>(
    groups: Vec<Group<'a>>,
    columns: Columns,
    resources: Vec<String>,
    caps: usize,
    source: &Source<'_, '_>,
) -> Reading<'a> {
    let mut index: BTreeMap<(Vec<u64>, usize), usize> = BTreeMap::new();
    let mut list: Vec<Item> = Vec::new();
    let mut members: Vec<Vec<Vec<&'a PodView>>> = Vec::new();
    let mut item_zones: Vec<Option<usize>> = Vec::new();
    for group in groups {
        let mut need: Vec<f64> =
            resources.iter().map(|name| group.pods[0].requests.amount(name).as_f64().max(0.0)).collect();
        need.extend((0..caps).map(|cap| f64::from(u8::from(group.caps.contains(&cap)))));
        let key = (need.iter().map(|amount| amount.to_bits()).collect(), group.place);
        let at = *index.entry(key).or_insert_with(|| {
            let mut bins = Bits::new(columns.bins.len());
            for (at, (bin, _, places)) in columns.bins.iter().enumerate() {
                if places.contains(group.place) && fits(&need, &bin.capacity) {
                    bins.insert(at);
                }
            }
            if source.strictness == Strictness::Wished {
                keep_heaviest(&mut bins, &columns);
            }
            list.push(Item { need, count: 0, bins });
            members.push(Vec::new());
            item_zones.push(group.zone);
            list.len() - 1
        });
        list[at].count += u32::try_from(group.pods.len()).unwrap_or(u32::MAX);
        members[at].push(group.pods);
    }
    let pools: Vec<usize> = columns.bins.iter().map(|(_, pool, _)| *pool).collect();
    let bins: Vec<Bin> = columns.bins.into_iter().map(|(bin, _, _)| bin).collect();
    let (problem, kept) = Problem::new(list, &bins);
    Reading {
        problem,
        pools: kept.iter().map(|bin| pools[*bin]).collect(),
        members,
        limited: columns.limited,
        resources,
        zones: 0,
        item_zones,
        is_tied: Vec::new(),
        zone_names: Vec::new(),
        order: Vec::new(),
    }
}

/// Where a heavier pool will do, lighter ones are not asked (SCH-84).
fn keep_heaviest(bins: &mut Bits, columns: &Columns) {
    let weight = |bin: usize| columns.weights[columns.bins[bin].1];
    let Some(heaviest) = bins.iter().map(weight).max() else { return };
    let mut kept = Bits::new(columns.bins.len());
    bins.iter().filter(|bin| weight(*bin) == heaviest).for_each(|bin| kept.insert(bin));
    *bins = kept;
}

impl Source<'_, '_> {
    fn place(&self, wishes: &PodScheduling, zone: Option<usize>) -> Place {
        let nodes: Vec<Requirements> = match self.strictness {
            Strictness::Wished if self.options.preferences == Preferences::Respect => vec![wishes.requirements()],
            Strictness::Wished => vec![wishes.strict_requirements()],
            Strictness::Required if wishes.required_terms.is_empty() => vec![wishes.node_selector.clone()],
            Strictness::Required => {
                wishes.required_terms.iter().map(|term| together(&wishes.node_selector, term)).collect()
            }
        };
        let volumes = &wishes.volumes.alternatives;
        let alternatives = if volumes.is_empty() {
            nodes
        } else {
            nodes.iter().flat_map(|one| volumes.iter().map(|volume| together(one, volume))).collect()
        };
        let zone = self.zones.zip(zone).map(|(zones, zone)| zones.names[zone]);
        let here = zone.map(|zone| Requirements::from_iter([Requirement::any_of(labels::ZONE, [zone])]));
        let alternatives = match here {
            Some(here) => alternatives.iter().map(|one| together(one, &here)).collect(),
            None => alternatives,
        };
        Place { alternatives, tolerations: wishes.tolerations.clone() }
    }

    fn columns(&self, places: &[Place], resources: &[String]) -> Columns {
        let mut offers: Vec<&PoolOffer> = self.snapshot.pools.iter().collect();
        offers.sort_by(|a, b| by_precedence(&a.pool, &b.pool));
        let weights = offers.iter().map(|offer| offer.pool.weight).collect();
        let mut columns = Columns { bins: Vec::new(), limited: Vec::new(), weights };
        for (pool, offer) in offers.iter().enumerate() {
            self.add_pool(pool, offer, places, resources, &mut columns);
        }
        if self.strictness == Strictness::Required {
            columns.limited.extend(self.free(resources));
        }
        // However types and offerings were listed (SC-368).
        columns.bins.sort_by(|a, b| (a.1, in_order(&a.0), &a.2).cmp(&(b.1, in_order(&b.0), &b.2)));
        columns.limited.sort_by_cached_key(|limited| (in_order(&limited.bin), limited.count));
        columns
    }

    fn add_pool(&self, pool: usize, offer: &PoolOffer, places: &[Place], resources: &[String], columns: &mut Columns) {
        let mut template = offer.pool.requirements.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            template.add(Requirement::any_of(key, ["true"]));
        }
        let lenient = Undefined::WellKnownAllowed(self.rules);
        // What a claim of the pool asks for once it has a pod of the place.
        let asked: Vec<Vec<Requirements>> = places
            .iter()
            .map(|place| {
                if !self.tolerates(&offer.pool.taints, &place.tolerations) {
                    return Vec::new();
                }
                let possible = place.alternatives.iter().filter(|asked| template.is_compatible(asked, lenient));
                possible.map(|asked| together(&template, asked)).collect()
            })
            .collect();
        let daemons = self.daemons(&offer.pool, &template);
        for known in offer.instance_types.iter().filter(|known| known.requirements.intersects(&template)) {
            let meets: Vec<Vec<&Requirements>> = asked
                .iter()
                .map(|asked| asked.iter().filter(|asked| known.requirements.intersects(asked)).collect())
                .collect();
            if meets.iter().all(Vec::is_empty) {
                continue;
            }
            let mut overhead = Resources::new();
            let runs = |asked: &[Requirements]| asked.iter().any(|one| known.requirements.intersects(one));
            daemons.iter().filter(|(_, asked)| runs(asked)).for_each(|(daemon, _)| overhead.add(&daemon.requests));
            self.add_type(pool, known, &meets, &overhead, resources, columns);
        }
    }

    fn add_type(
        &self,
        pool: usize,
        known: &InstanceType,
        meets: &[Vec<&Requirements>],
        overhead: &Resources,
        resources: &[String],
        columns: &mut Columns,
    ) {
        for group in known.allocatable_groups() {
            let mut left = group.allocatable.clone();
            let over = overhead.first_shortage(&left).is_some() || left.iter().any(|(_, amount)| amount.is_negative());
            left.subtract(overhead);
            if over {
                continue;
            }
            let capacity: Vec<f64> = resources.iter().map(|name| left.amount(name).as_f64()).collect();
            let mut cheapest: BTreeMap<Bits, f64> = BTreeMap::new();
            for offering in group.offerings.iter().filter(|offering| self.is_to_be_had(offering)) {
                let mut users = Bits::new(meets.len());
                let usable = |asked: &&Requirements| offering.is_compatible(asked, self.rules);
                for (place, _) in meets.iter().enumerate().filter(|(_, asked)| asked.iter().any(usable)) {
                    users.insert(place);
                }
                if users.is_empty() {
                    continue;
                }
                let price = offering.price.per_hour();
                // Only provisioning keeps count of who gets an instance of a reservation (SCH-113).
                let counted = offering.reservation(self.rules).is_some();
                let uncounted = self.strictness == Strictness::Required && self.options.reserved != Reserved::Strict;
                if !counted || uncounted {
                    cheapest.entry(users).and_modify(|known| *known = known.min(price)).or_insert(price);
                } else if self.strictness == Strictness::Required {
                    let count = offering.reservation_capacity.unwrap_or(0);
                    let credit =
                        offering.reservation(self.rules).and_then(|id| self.snapshot.reservation_credits.get(id));
                    let bin = Bin { capacity: capacity.clone(), price };
                    columns.limited.push(Limited { bin, count: count + credit.copied().unwrap_or(0) });
                }
            }
            let bins = cheapest.into_iter();
            columns.bins.extend(bins.map(|(users, price)| (Bin { capacity: capacity.clone(), price }, pool, users)));
        }
    }

    /// Full reservations can be had when a simulation gives instances back.
    fn is_to_be_had(&self, offering: &karpenter_model::instance_type::Offering) -> bool {
        let credit = offering.reservation(self.rules).and_then(|id| self.snapshot.reservation_credits.get(id));
        offering.is_launchable() || (offering.available && credit.is_some_and(|credit| *credit > 0))
    }

    /// Soft taints may be put up with in the end.
    fn tolerates(&self, taints: &[Taint], tolerations: &[Toleration]) -> bool {
        let hard = |taint: &&Taint| self.strictness == Strictness::Wished || taint.effect != Effect::PreferNoSchedule;
        let taints: Vec<Taint> = taints.iter().filter(hard).cloned().collect();
        first_untolerated(&taints, tolerations).is_none()
    }

    /// DaemonSets of the pool, with what they ask for as far as the pool can give it (SCH-72).
    fn daemons<'s>(&'s self, pool: &PoolView, template: &Requirements) -> Vec<(&'s PodView, Vec<Requirements>)> {
        let lenient = Undefined::WellKnownAllowed(self.rules);
        let accepted = self.snapshot.daemons.iter().filter(|daemon| {
            let mut tolerations = daemon.scheduling.tolerations.clone();
            tolerations.push(Toleration::prefer_no_schedule());
            first_untolerated(&pool.taints, &tolerations).is_none()
        });
        accepted
            .map(|daemon| {
                let wishes = &daemon.scheduling;
                let none = wishes.required_terms.is_empty().then(Requirements::new);
                let terms = none.iter().chain(&wishes.required_terms);
                let asked = terms.map(|term| together(&wishes.node_selector, term));
                (&**daemon, asked.filter(|asked| template.is_compatible(asked, lenient)).collect())
            })
            .collect()
    }

    /// What existing nodes have left, for pods of any kind.
    fn free(&self, resources: &[String]) -> Vec<Limited> {
        let active = self.snapshot.nodes.iter().filter(|node| node.stays());
        let free = active.map(|node| {
            let available = node.available();
            let capacity = resources.iter().map(|name| available.amount(name).as_f64().max(0.0)).collect();
            Limited { bin: Bin { capacity, price: 0.0 }, count: 1 }
        });
        free.collect()
    }
}

/// Amounts as integers that sort alike; none of them is negative.
fn in_order(bin: &Bin) -> (u64, Vec<u64>) {
    (bin.price.to_bits(), bin.capacity.iter().map(|amount| amount.to_bits()).collect())
}

fn together(a: &Requirements, b: &Requirements) -> Requirements {
    let mut all = a.clone();
    all.add_all(b);
    all
}
