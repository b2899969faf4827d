//! A node being planned: which types can still hold its pods (SCH-102 … SCH-108).

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::taints::first_untolerated;

use crate::min_values;
use crate::node::{Attached, conflicts, ports_of, volume_alternatives};
use crate::options::{MinValuesPolicy, Options, Reserved};
use crate::plan::{PlannedClaim, Refusal};
use crate::relax::Trial;
use crate::reservations::Reservations;
use crate::template::{Candidate, Template, Unusable};
use crate::topology::{Place, Topology};

pub(crate) struct OpenClaim<'a> {
    pub(crate) pool: &'a Arc<PoolView>,
    hostname: String,
    requirements: Requirements,
    requests: Resources,
    parts: Vec<ClaimPart<'a>>,
    volumes: Attached,
    /// Reservations that the node may be taken from; all of them are kept free for it (SCH-112).
    held: BTreeSet<String>,
    pub(crate) pods: Vec<PodId>,
    min_values_relaxed: bool,
}

/// The types of one template part that the claim still has.
#[derive(Clone)]
struct ClaimPart<'a> {
    types: Vec<Candidate<'a>>,
    overhead: Resources,
    daemon_ports: Vec<HostPort>,
    ports: Vec<(PodId, HostPort)>,
}

/// What a claim becomes with one more pod.
pub(crate) struct Addition<'a> {
    requirements: Requirements,
    parts: Vec<ClaimPart<'a>>,
    held: BTreeSet<String>,
    min_values_relaxed: bool,
}

/// Whether a new claim is being opened: only then may minimums be lowered (SCH-49).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Open,
}

/// What every attempt looks at.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) labels: &'a LabelRules,
    pub(crate) options: &'a Options,
    pub(crate) reservations: &'a Reservations,
}

impl<'a> OpenClaim<'a> {
    /// A claim of the template with its first pod, uncommitted; `number` makes its host name unique.
    pub(crate) fn open(
        template: &Template<'a>,
        number: usize,
        trial: &Trial<'_>,
        topology: &Topology<'_>,
        rules: Rules<'_>,
    ) -> Result<(Self, Addition<'a>), Refusal> {
        match template.unusable {
            Some(Unusable::NoInstanceType) => return Err(Refusal::NoInstanceType),
            Some(Unusable::MinValues) => return Err(Refusal::MinValues(Vec::new())),
            None => {}
        }
        let parts: Vec<ClaimPart<'a>> = template
            .parts
            .iter()
            .map(|part| ClaimPart {
                types: part.types.iter().filter(|c| template.within_limits(c.instance_type)).cloned().collect(),
                overhead: part.overhead.clone(),
                daemon_ports: part.ports.clone(),
                ports: Vec::new(),
            })
            .filter(|part| !part.types.is_empty())
            .collect();
        if parts.is_empty() {
            return Err(Refusal::Limit);
        }
        let hostname = format!("hostname-placeholder-{number:04}");
        let mut requirements = template.requirements.clone();
        requirements.replace(Requirement::any_of(labels::HOSTNAME, [hostname.as_str()]));
        let claim = Self {
            pool: template.pool,
            hostname,
            requirements,
            requests: Resources::new(),
            parts,
            volumes: Attached::default(),
            held: BTreeSet::new(),
            pods: Vec::new(),
            min_values_relaxed: false,
        };
        let addition = claim.evaluate(trial, topology, rules, Stage::New)?;
        Ok((claim, addition))
    }

    /// What the claim becomes with the pod, or why it cannot take it.
    pub(crate) fn try_add(
        &self,
        trial: &Trial<'_>,
        topology: &Topology<'_>,
        rules: Rules<'_>,
    ) -> Result<Addition<'a>, Refusal> {
        self.evaluate(trial, topology, rules, Stage::Open)
    }

    /// SCH-103, in its order; the last alternative's reason is the one reported.
    fn evaluate(
        &self,
        trial: &Trial<'_>,
        topology: &Topology<'_>,
        rules: Rules<'_>,
        stage: Stage,
    ) -> Result<Addition<'a>, Refusal> {
        let lenient = Undefined::WellKnownAllowed(rules.labels);
        if let Some(taint) = first_untolerated(&self.pool.taints, &trial.wishes.tolerations) {
            return Err(Refusal::Taint(taint.clone()));
        }
        let parts = self.parts_that_attach(trial.pod)?;
        let conflicts = self.requirements.incompatibilities(&trial.requirements, lenient);
        if !conflicts.is_empty() {
            return Err(Refusal::Requirements(conflicts));
        }
        let mut requirements = self.requirements.clone();
        requirements.add_all(&trial.requirements);
        let mut refusal = Refusal::NoInstanceType;
        for alternative in volume_alternatives(trial.pod) {
            let conflicts = requirements.incompatibilities(alternative, lenient);
            if !conflicts.is_empty() {
                refusal = Refusal::Volumes(conflicts);
                continue;
            }
            let mut with_volumes = requirements.clone();
            with_volumes.add_all(alternative);
            let choices = topology.choices(trial, &with_volumes);
            if choices.is_empty() {
                refusal = Refusal::Topology;
            }
            for narrowed in choices {
                let conflicts = with_volumes.incompatibilities(&narrowed, lenient);
                if !conflicts.is_empty() {
                    refusal = Refusal::Topology;
                    continue;
                }
                let mut all = with_volumes.clone();
                all.add_all(&narrowed);
                match self.filter_types(&parts, trial.pod, all, rules, stage) {
                    Ok(addition) => return Ok(addition),
                    Err(why) => refusal = why,
                }
            }
        }
        Err(refusal)
    }

    /// Types that can attach the pod's volumes beside those that are there (V15-102).
    fn parts_that_attach(&self, pod: &PodView) -> Result<Vec<ClaimPart<'a>>, Refusal> {
        let mut overs = Vec::new();
        let mut parts = Vec::new();
        for part in &self.parts {
            let mut types = part.types.clone();
            types.retain(|candidate| {
                let limits = &candidate.instance_type.attachment_limits;
                let over = self.volumes.first_over(pod, limits);
                overs.extend(over.map(|(driver, needed)| (driver, needed, limits[driver])));
                over.is_none()
            });
            if !types.is_empty() {
                parts.push(ClaimPart { types, ..part.clone() });
            }
        }
        if !parts.is_empty() {
            return Ok(parts);
        }
        let largest = overs.iter().max_by_key(|(_, _, limit)| *limit);
        let explains = |driver: &str| overs.iter().all(|(other, _, _)| *other == driver);
        Err(match largest {
            Some((driver, needed, limit)) if explains(driver) => {
                Refusal::Attachments { driver: (*driver).to_owned(), needed: *needed, limit: *limit }
            }
            _ => Refusal::NoAttachments,
        })
    }

    /// SCH-105: types that meet the requirements and hold everything, then minValues.
    fn filter_types(
        &self,
        of: &[ClaimPart<'a>],
        pod: &PodView,
        mut requirements: Requirements,
        rules: Rules<'_>,
        stage: Stage,
    ) -> Result<Addition<'a>, Refusal> {
        let mut requests = self.requests.clone();
        requests.add(&pod.requests);
        let mut misses = Misses::default();
        let mut parts = Vec::new();
        for part in of {
            let wanted = &pod.scheduling.host_ports;
            let taken = wanted.iter().any(|port| part.daemon_ports.iter().any(|daemon| daemon.conflicts(port)));
            if taken || conflicts(&part.ports, pod) {
                misses.ports = true;
                continue;
            }
            let mut needed = requests.clone();
            needed.add(&part.overhead);
            let types: Vec<Candidate<'a>> = part
                .types
                .iter()
                .filter(|candidate| misses.check(candidate, &requirements, &needed, rules.labels))
                .cloned()
                .collect();
            if !types.is_empty() {
                parts.push(ClaimPart { types, ..part.clone() });
            }
        }
        if parts.is_empty() {
            return Err(misses.refusal());
        }
        let types = parts.iter().flat_map(|part| &part.types).map(|candidate| candidate.instance_type);
        let unmet = min_values::unmet(&requirements, &types);
        let mut min_values_relaxed = self.min_values_relaxed;
        if !unmet.is_empty() {
            if rules.options.min_values == MinValuesPolicy::Strict || stage == Stage::Open {
                return Err(Refusal::MinValues(unmet.into_keys().collect()));
            }
            min_values::lower(&mut requirements, &unmet);
            min_values_relaxed = true;
        }
        let held = self.reservations(&parts, &requirements, rules)?;
        Ok(Addition { requirements, parts, held, min_values_relaxed })
    }

    /// Which reservations the claim would hold (V15-84).
    fn reservations(
        &self,
        parts: &[ClaimPart<'a>],
        requirements: &Requirements,
        rules: Rules<'_>,
    ) -> Result<BTreeSet<String>, Refusal> {
        let mut held = BTreeSet::new();
        if rules.options.reserved == Reserved::Untracked {
            return Ok(held);
        }
        let (mut others, mut with_room, mut full) = (false, false, false);
        let types = parts.iter().flat_map(|part| &part.types).map(|candidate| candidate.instance_type);
        for offering in types.flat_map(|known| known.usable_offerings(requirements, rules.labels)) {
            match offering.reservation(rules.labels) {
                None => others = true,
                Some(id) if offering.is_launchable() || rules.reservations.has_credit(id) => {
                    with_room = true;
                    if rules.reservations.can_reserve(&self.hostname, id) {
                        held.insert(id.to_owned());
                    }
                }
                Some(_) => full = true,
            }
        }
        let taken = with_room && held.is_empty();
        let lost = !self.held.is_empty() && held.is_empty();
        let only_full = full && !with_room && !others;
        match rules.options.reserved {
            Reserved::Strict if taken || lost || only_full => Err(Refusal::Reserved),
            // Promising one instance to two claims helps nobody (Q40).
            Reserved::Fallback if only_full || (taken && !others) => Err(Refusal::ReservationsFull),
            _ => Ok(held),
        }
    }

    /// SCH-108.
    pub(crate) fn commit(
        &mut self,
        trial: &Trial<'_>,
        addition: Addition<'a>,
        topology: &mut Topology<'_>,
        reservations: &mut Reservations,
    ) {
        reservations.hold(&self.hostname, &self.held, &addition.held);
        self.held = addition.held;
        self.requirements = addition.requirements;
        self.parts = addition.parts;
        self.min_values_relaxed = addition.min_values_relaxed;
        self.requests.add(&trial.pod.requests);
        self.pods.push(trial.pod.id.clone());
        self.volumes.add(trial.pod);
        for part in &mut self.parts {
            part.ports.extend(ports_of(trial.pod));
        }
        topology.add_hostname(&self.hostname);
        topology.record(trial, &Place { requirements: &self.requirements, taints: &self.pool.taints });
    }

    /// Element-wise maximum over the types left, as the pool's limits are charged (SCH-80).
    pub(crate) fn largest_capacity(&self) -> Resources {
        let mut largest = Resources::new();
        self.types().for_each(|known| largest.raise_to(&known.capacity));
        largest
    }

    fn types(&self) -> impl Iterator<Item = &'a InstanceType> + Clone + '_ {
        self.parts.iter().flat_map(|part| &part.types).map(|candidate| candidate.instance_type)
    }

    /// SCH-116, SCH-117, SCH-221; the pods without a node when the types kept do not meet the minimums.
    pub(crate) fn finish(mut self, rules: Rules<'_>) -> Result<PlannedClaim, Vec<PodId>> {
        self.requirements.remove(labels::HOSTNAME);
        self.take_reserved(rules.labels);
        self.requests.add(&self.least_overhead());
        let requirements = &self.requirements;
        let mut types: Vec<&InstanceType> = self.types().collect();
        types.sort_by_cached_key(|known| (known.cheapest_price(requirements, rules.labels), known.name.clone()));
        types.truncate(rules.options.max_instance_types);
        let strict = rules.options.min_values == MinValuesPolicy::Strict;
        if strict && !min_values::unmet(requirements, &types.iter().copied()).is_empty() {
            return Err(self.pods);
        }
        let price = types.first().map_or(Price::MAX, |known| known.cheapest_price(requirements, rules.labels));
        let capacity_types: Vec<&str> = types
            .iter()
            .flat_map(|known| known.launchable_offerings(requirements, rules.labels))
            .filter_map(|offering| offering.capacity_type())
            .collect();
        let instance_types: Vec<String> = types.iter().map(|known| known.name.clone()).collect();
        let mut narrowed = requirements.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            narrowed.remove(key);
        }
        narrowed.add(Requirement::any_of(labels::INSTANCE_TYPE, &instance_types));
        if !capacity_types.is_empty() {
            narrowed.add(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types));
        }
        Ok(PlannedClaim {
            pool: self.pool.clone(),
            requirements: narrowed,
            instance_types,
            requests: self.requests,
            pods: self.pods,
            price,
            min_values_relaxed: self.min_values_relaxed,
        })
    }

    /// A claim that holds reservations is launched from one of them (SCH-115).
    fn take_reserved(&mut self, rules: &LabelRules) {
        if let Some(key) = rules.reservation_key().filter(|_| !self.held.is_empty()) {
            let reserved = Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]);
            self.requirements.replace(reserved);
            self.requirements.add(Requirement::any_of(key, self.held.iter().cloned()));
        }
    }

    /// What DaemonSets take on every type that is left: the smallest amount of what all parts name (SCH-75, Q30).
    fn least_overhead(&self) -> Resources {
        let mut parts = self.parts.iter().map(|part| &part.overhead);
        let Some(first) = parts.next() else { return Resources::new() };
        parts.fold(first.clone(), |least, overhead| {
            let common = least.iter().filter_map(|(name, amount)| Some((name, amount.min(overhead.get(name)?))));
            common.map(|(name, amount)| (name.to_owned(), amount)).collect()
        })
    }
}

/// Remembers how close the types came.
#[derive(Default)]
struct Misses {
    ports: bool,
    /// The smallest shortage of a resource on a type that was offered.
    nearest: Option<(String, karpenter_model::quantity::Quantity)>,
}

impl Misses {
    /// Whether some group of the type's offerings holds everything.
    fn check(
        &mut self,
        candidate: &Candidate<'_>,
        requirements: &Requirements,
        needed: &Resources,
        rules: &LabelRules,
    ) -> bool {
        if !candidate.instance_type.requirements.intersects(requirements) {
            return false;
        }
        let offered = candidate
            .groups
            .iter()
            .filter(|group| group.offerings.iter().any(|offering| offering.is_compatible(requirements, rules)));
        for group in offered {
            if needed.fits(&group.allocatable) {
                return true;
            }
            if let Some((resource, short_by)) = needed.first_shortage(&group.allocatable)
                && self.nearest.as_ref().is_none_or(|(_, known)| short_by < *known)
            {
                self.nearest = Some((resource.to_owned(), short_by));
            }
        }
        false
    }

    fn refusal(self) -> Refusal {
        match self.nearest {
            Some((resource, short_by)) => Refusal::TooSmall { resource, short_by },
            None if self.ports => Refusal::HostPort,
            None => Refusal::NoInstanceType,
        }
    }
}
