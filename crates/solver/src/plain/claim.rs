//! A node being planned: which types can still hold its pods (SCH-102 … SCH-108).

mod finish;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::taints::first_untolerated;

use crate::attachments::{Attached, conflicts, ports_of, volume_alternatives};
use crate::devices::{self, Attempt, DeviceRefusal, Devices, TypeOption, claims_of};
use crate::min_values;
use crate::misfit::{Candidate, Misses};
use crate::options::{MinValuesPolicy, Options, Reserved};
use crate::plain::relax::Trial;
use crate::plain::template::{Template, Unusable};
use crate::plain::topology::{Place, Topology};
use crate::plan::Refusal;
use crate::reservations::Reservations;

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
    devices: Option<Attempt>,
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
    pub(crate) devices: Option<&'a Devices>,
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
        let mut misses = Misses::new(&requirements);
        let mut parts = fitting(of, pod, &requests, &mut misses, rules.labels);
        if parts.is_empty() {
            return Err(misses.into_refusal());
        }
        let devices = self.devices(&parts, pod, &requirements, rules).map_err(Refusal::Devices)?;
        if let Some(attempt) = &devices {
            requirements = attempt.requirements.clone();
            parts = fitting(&parts, pod, &requests, &mut Misses::new(&requirements), rules.labels);
            for part in &mut parts {
                part.types.retain(|candidate| attempt.by_type.contains_key(&candidate.instance_type.name));
            }
            parts.retain(|part| !part.types.is_empty());
            if parts.is_empty() {
                return Err(Refusal::Devices(DeviceRefusal::NoDevices));
            }
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
        Ok(Addition { requirements, parts, held, min_values_relaxed, devices })
    }

    /// What the pod's resource claims would get.
    fn devices(
        &self,
        parts: &[ClaimPart<'a>],
        pod: &PodView,
        requirements: &Requirements,
        rules: Rules<'_>,
    ) -> Result<Option<Attempt>, DeviceRefusal> {
        let Some(devices) = rules.devices.filter(|_| !pod.resource_claims.is_empty()) else { return Ok(None) };
        let types = parts.iter().flat_map(|part| &part.types).map(|candidate| candidate.instance_type);
        let mut types: Vec<TypeOption<'_>> =
            types.map(|known| TypeOption { name: &known.name, devices: &known.devices }).collect();
        types.sort_by_key(|option| option.name);
        let candidate = devices::Candidate { name: &self.hostname, node: None, requirements, types };
        devices.allocate(&candidate, &claims_of(pod)).map(Some)
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
        devices: Option<&mut Devices>,
    ) {
        reservations.hold(&self.hostname, &self.held, &addition.held);
        if let Some(devices) = devices {
            addition.devices.into_iter().for_each(|attempt| devices.commit(attempt));
            let types = addition.parts.iter().flat_map(|part| &part.types);
            let kept = types.map(|candidate| candidate.instance_type.name.as_str()).collect();
            devices.keep_types(&self.hostname, &kept);
        }
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
}

/// Types that meet the requirements and hold everything.
fn fitting<'a>(
    of: &[ClaimPart<'a>],
    pod: &PodView,
    requests: &Resources,
    misses: &mut Misses<'_>,
    labels: &LabelRules,
) -> Vec<ClaimPart<'a>> {
    let mut parts = Vec::new();
    for part in of {
        let wanted = &pod.scheduling.host_ports;
        let taken = wanted.iter().any(|port| part.daemon_ports.iter().any(|daemon| daemon.conflicts(port)));
        if taken || conflicts(&part.ports, pod) {
            continue;
        }
        let mut needed = requests.clone();
        needed.add(&part.overhead);
        let mut types = part.types.clone();
        types.retain(|candidate| misses.check(candidate, &needed, labels));
        if !types.is_empty() {
            parts.push(ClaimPart { types, ..part.clone() });
        }
    }
    parts
}
