//! Whether a claim can take a pod, and what it becomes (SCH-103, SCH-105).

use std::collections::BTreeSet;

use super::Compiled;
use super::algebra::{ANYTHING, ReqId};
use super::amounts::{Amounts, nanos};
use super::catalogue::Catalogue;
use super::groups::placeholder;
use super::intern::{Id, NONE};
use super::pass::{Trial, Variant};
use crate::attachments::Attached;
use crate::devices::{Attempt, Devices};
use crate::min_values;
use crate::options::{MinValuesPolicy, Options, Reserved};
use crate::plan::Refusal;
use crate::reservations::Reservations;
use karpenter_model::labels::LabelRules;
use karpenter_model::requirements::Requirements;

/// What a claim becomes with one more pod.
#[derive(Debug)]
pub(crate) struct Addition {
    pub(crate) req: ReqId,
    pub(crate) rows: Vec<u64>,
    pub(crate) held: BTreeSet<String>,
    pub(crate) min_values_relaxed: bool,
    pub(crate) devices: Option<Attempt>,
}

/// Why a claim does not take a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    /// No type that is left is large enough, and it will not get better.
    Full,
    /// Reserved capacity exists, but others hold it.
    Reserved,
    Other,
}

/// Whether a new claim is being opened: only then may minimums be lowered (SCH-49).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    New,
    Open,
}

/// A claim as far as a pod is tried on it.
pub(crate) struct Host<'a> {
    pub(crate) at: usize,
    pub(crate) pool: usize,
    pub(crate) req: ReqId,
    pub(crate) rows: &'a [u64],
    pub(crate) requests: &'a Amounts,
    /// Pods with host ports.
    pub(crate) ports: &'a [Id],
    pub(crate) volumes: Option<&'a Attached>,
    pub(crate) held: &'a BTreeSet<String>,
    pub(crate) min_values_relaxed: bool,
}

/// What the answer depends on besides the claim. Taints, requirements and topology are in the choices already.
pub(crate) struct Evaluation<'a> {
    pub(crate) compiled: &'a mut Compiled,
    pub(crate) options: &'a Options,
    pub(crate) variant: &'a Variant,
    pub(crate) choices: &'a [(usize, ReqId)],
    pub(crate) reservations: &'a Reservations,
    pub(crate) devices: Option<&'a Devices>,
    /// Work space.
    pub(crate) rows: &'a mut Vec<u64>,
}

impl Evaluation<'_> {
    pub(crate) fn run(mut self, trial: Trial, host: &Host<'_>, stage: Stage) -> Result<Addition, Miss> {
        self.keep_large_enough(trial, host, stage)?;
        self.keep_attachable(trial, host);
        self.keep_free_ports(trial, host);
        let variant = self.variant;
        let no_host = |asked: &super::algebra::Asked| asked.host.is_some() && !asked.allows_host(&placeholder(host.at));
        if no_host(&variant.asked) || self.rows.iter().all(|word| *word == 0) {
            return Err(Miss::Other);
        }
        let mut last = Miss::Other;
        for (turn, (alternative, req)) in self.choices.iter().enumerate() {
            last = Miss::Other;
            if *req == NONE || no_host(&variant.volumes[*alternative]) {
                continue;
            }
            let Compiled { algebra, catalogues, pools, .. } = &mut *self.compiled;
            let catalogue = &mut catalogues[pools[host.pool].catalogue];
            let offered = catalogue.masks(*req, algebra).offered.words();
            // The last choice needs no copy.
            let mut rows = if turn + 1 == self.choices.len() { std::mem::take(self.rows) } else { self.rows.clone() };
            rows.iter_mut().zip(offered).for_each(|(row, mask)| *row &= mask);
            if rows.iter().all(|word| *word == 0) {
                continue;
            }
            let Ok((req, devices)) = self.allocated(trial, host, *req, &mut rows) else { continue };
            let Compiled { catalogues, pools, .. } = &*self.compiled;
            catalogues[pools[host.pool].catalogue].close(&mut rows);
            match self.finish(host, req, rows, stage, devices) {
                Ok(addition) => return Ok(addition),
                Err(miss) => last = miss,
            }
        }
        Err(last)
    }

    fn keep_large_enough(&mut self, trial: Trial, host: &Host<'_>, stage: Stage) -> Result<(), Miss> {
        let Compiled { algebra, catalogues, pools, pods, .. } = &mut *self.compiled;
        let pool = &pools[host.pool];
        let asked = &pods.shapes[trial.shape as usize].amounts;
        self.rows.clear();
        self.rows.extend_from_slice(host.rows);
        // Rows that are left have enough of what nobody asks more of, unless a type is kept for another of its rows.
        let catalogue = &catalogues[pool.catalogue];
        let settled = stage == Stage::Open && !catalogue.several;
        for (at, column) in pool.columns.iter().enumerate() {
            if settled && nanos(asked, at) == 0 {
                continue;
            }
            if !column.keep(self.rows, nanos(host.requests, at) + nanos(asked, at)) {
                return Err(Miss::Full);
            }
        }
        if self.variant.asked.req != ANYTHING {
            let met = algebra.lenient(host.req, self.variant.asked.req).ok_or(Miss::Other)?;
            let types = catalogues[pool.catalogue].masks(met, algebra).types.words();
            let mut some = 0;
            for (row, mask) in self.rows.iter_mut().zip(types) {
                *row &= mask;
                some |= *row;
            }
            if some == 0 {
                return Err(Miss::Full);
            }
        }
        Ok(())
    }

    /// Types that can attach the pod's volumes beside those that are there (V15-102).
    fn keep_attachable(&mut self, trial: Trial, host: &Host<'_>) {
        if self.compiled.pods.kinds[trial.kind as usize].example.scheduling.volumes.claims.is_empty() {
            return;
        }
        let pod = &self.compiled.pods.all[trial.pod];
        let catalogue = &self.compiled.catalogues[self.compiled.pools[host.pool].catalogue];
        let none = Attached::default();
        let here = host.volumes.unwrap_or(&none);
        for row in 0..catalogue.rows.len() {
            if here.first_over(pod, &catalogue.known(row).attachment_limits).is_some() {
                self.rows[row / 64] &= !(1 << (row % 64));
            }
        }
    }

    fn keep_free_ports(&mut self, trial: Trial, host: &Host<'_>) {
        let pending = &self.compiled.pods.all;
        let wanted = &self.compiled.pods.kinds[trial.kind as usize].example.scheduling.host_ports;
        if wanted.is_empty() {
            return;
        }
        let taken = |port: &karpenter_model::scheduling::HostPort| {
            let others = host.ports.iter().flat_map(|other| &pending[*other as usize].scheduling.host_ports);
            others.into_iter().any(|other| other.conflicts(port))
        };
        if wanted.iter().any(taken) {
            self.rows.fill(0);
        }
        for part in &self.compiled.pools[host.pool].parts {
            if wanted.iter().any(|port| part.ports.iter().any(|daemon| daemon.conflicts(port))) {
                self.rows.iter_mut().zip(part.rows.words()).for_each(|(row, mask)| *row &= !mask);
            }
        }
    }

    /// minValues and reservations.
    fn finish(
        &mut self,
        host: &Host<'_>,
        mut req: ReqId,
        rows: Vec<u64>,
        stage: Stage,
        devices: Option<Attempt>,
    ) -> Result<Addition, Miss> {
        let Compiled { algebra, catalogues, pools, .. } = &mut *self.compiled;
        let catalogue = &catalogues[pools[host.pool].catalogue];
        let mut min_values_relaxed = host.min_values_relaxed;
        if algebra.has_min_values(req) {
            let mut requirements = algebra.requirements(req);
            let unmet = min_values::unmet(&requirements, &catalogue.types_of(&rows));
            if !unmet.is_empty() {
                if self.options.min_values == MinValuesPolicy::Strict || stage == Stage::Open {
                    return Err(Miss::Other);
                }
                min_values::lower(&mut requirements, &unmet);
                req = algebra.intern(&requirements).req;
                min_values_relaxed = true;
            }
        }
        let reserved = rows.iter().zip(catalogue.reserved.words()).any(|(row, mask)| row & mask != 0);
        let mut held = BTreeSet::new();
        if self.options.reserved != Reserved::Untracked && (reserved || !host.held.is_empty()) {
            let holding = Holding { reservations: self.reservations, host: &placeholder(host.at), held: host.held };
            let requirements = algebra.requirements(req);
            held = holding
                .with(catalogue, &rows, &requirements, algebra.rules(), self.options.reserved)
                .map_err(|refusal| if refusal == Refusal::Reserved { Miss::Reserved } else { Miss::Other })?;
        }
        Ok(Addition { req, rows, held, min_values_relaxed, devices })
    }
}

/// What a claim holds of reservations, and what it could.
pub(crate) struct Holding<'a> {
    pub(crate) reservations: &'a Reservations,
    pub(crate) host: &'a str,
    pub(crate) held: &'a BTreeSet<String>,
}

impl Holding<'_> {
    /// Which reservations the claim would hold with these types (V15-84).
    pub(crate) fn with(
        &self,
        catalogue: &Catalogue,
        rows: &[u64],
        requirements: &Requirements,
        rules: &LabelRules,
        mode: Reserved,
    ) -> Result<BTreeSet<String>, Refusal> {
        let mut held = BTreeSet::new();
        let (mut others, mut with_room, mut full) = (false, false, false);
        let types = catalogue.types_of(rows);
        for offering in types.flat_map(|known| known.usable_offerings(requirements, rules)) {
            match offering.reservation(rules) {
                None => others = true,
                Some(id) if offering.is_launchable() || self.reservations.has_credit(id) => {
                    with_room = true;
                    if self.reservations.can_reserve(self.host, id) {
                        held.insert(id.to_owned());
                    }
                }
                Some(_) => full = true,
            }
        }
        let taken = with_room && held.is_empty();
        let lost = !self.held.is_empty() && held.is_empty();
        let only_full = full && !with_room && !others;
        match mode {
            Reserved::Strict if taken || lost || only_full => Err(Refusal::Reserved),
            // Promising one instance to two claims helps nobody (Q40).
            Reserved::Fallback if only_full || (taken && !others) => Err(Refusal::ReservationsFull),
            _ => Ok(held),
        }
    }
}
