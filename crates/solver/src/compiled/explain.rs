//! Why no pool can open a node for a pod. Asked only of pods that fail, so it works on the values that people read.

use std::collections::BTreeSet;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::taints::first_untolerated;

use super::bits;
use super::evaluation::Holding;
use super::groups::{GroupRef, placeholder};
use super::pass::{Pass, Trial};
use super::pools::Pool;
use crate::attachments::{Attached, volume_alternatives};
use crate::devices::DeviceRefusal;
use crate::min_values;
use crate::misfit::{Misses, candidate};
use crate::options::{MinValuesPolicy, Reserved};
use crate::plan::{Refusal, RefusedBy};

impl Pass<'_> {
    pub(crate) fn explain(&mut self, trial: Trial) -> Vec<RefusedBy> {
        let mut reasons = Vec::new();
        for pool in 0..self.pools.len() {
            let why = self.refusal(trial, pool);
            let blocks = why == Refusal::Reserved;
            reasons.push(RefusedBy { pool: self.compiled.pools[pool].view.name.clone(), why });
            if blocks {
                break;
            }
        }
        reasons
    }

    /// The steps of SCH-103 for a new claim; the last alternative's reason is the one reported.
    fn refusal(&mut self, trial: Trial, at: usize) -> Refusal {
        let pool = &self.compiled.pools[at];
        if pool.rows.is_empty() {
            return Refusal::NoInstanceType;
        }
        if pool.too_few_values && self.options.min_values == MinValuesPolicy::Strict {
            return Refusal::MinValues(Vec::new());
        }
        if self.pools[at].rows.is_empty() {
            return Refusal::Limit;
        }
        let wishes = self.variants[trial.variant].wishes.clone();
        if let Some(taint) = first_untolerated(&pool.view.taints, &wishes.all.tolerations) {
            return Refusal::Taint(taint.clone());
        }
        let rows = match self.attachable(trial, at) {
            Ok(rows) => rows,
            Err(why) => return why,
        };
        let rules = self.compiled.algebra.rules().clone();
        let lenient = Undefined::WellKnownAllowed(&rules);
        let mut requirements = pool.requirements.clone();
        requirements.replace(Requirement::any_of(labels::HOSTNAME, [placeholder(self.claims.len())]));
        let asked = wishes.requirements();
        let conflicts = requirements.incompatibilities(&asked, lenient);
        if !conflicts.is_empty() {
            return Refusal::Requirements(conflicts);
        }
        requirements.add_all(&asked);
        let pod = self.compiled.pods.all[trial.pod].clone();
        let mut refusal = Refusal::NoInstanceType;
        for alternative in volume_alternatives(&pod) {
            let conflicts = requirements.incompatibilities(alternative, lenient);
            if !conflicts.is_empty() {
                refusal = Refusal::Volumes(conflicts);
                continue;
            }
            let mut with_volumes = requirements.clone();
            with_volumes.add_all(alternative);
            let choices = self.topology_choices(trial, &with_volumes);
            if choices.is_empty() {
                refusal = Refusal::Topology;
            }
            for narrowed in choices {
                if !with_volumes.incompatibilities(&narrowed, lenient).is_empty() {
                    refusal = Refusal::Topology;
                    continue;
                }
                let mut all = with_volumes.clone();
                all.add_all(&narrowed);
                refusal = self.types_refusal(trial, at, &rows, &all);
            }
        }
        refusal
    }

    /// Rows whose types attach the pod's volumes, or which driver is in the way.
    fn attachable(&self, trial: Trial, at: usize) -> Result<Vec<u64>, Refusal> {
        let pool = &self.compiled.pools[at];
        let catalogue = &self.compiled.catalogues[pool.catalogue];
        let pod = &self.compiled.pods.all[trial.pod];
        let mut rows = self.pools[at].rows.words().to_vec();
        let mut overs = Vec::new();
        for (row, known) in self.in_parts(pool, &rows.clone()) {
            if let Some((driver, needed)) = Attached::default().first_over(pod, &known.attachment_limits) {
                overs.push((driver, needed, known.attachment_limits[driver]));
                // With all its rows.
                let of = catalogue.rows[row].of;
                let own = (0..catalogue.rows.len()).filter(|row| catalogue.rows[*row].of == of);
                own.for_each(|row| rows[row / 64] &= !(1 << (row % 64)));
            }
        }
        catalogue.close(&mut rows);
        if rows.iter().any(|word| *word != 0) {
            return Ok(rows);
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

    /// One row per type, part by part.
    fn in_parts<'a>(&'a self, pool: &'a Pool, rows: &[u64]) -> Vec<(usize, &'a InstanceType)> {
        let catalogue = &self.compiled.catalogues[pool.catalogue];
        let mut all = Vec::new();
        for part in &pool.parts {
            let mut last = usize::MAX;
            for row in part.rows.iter().filter(|row| bits::has(rows, *row)) {
                if std::mem::replace(&mut last, catalogue.rows[row].of) != catalogue.rows[row].of {
                    all.push((row, catalogue.known(row)));
                }
            }
        }
        all
    }

    /// As `Pass::choose` sees it for one candidate, in names.
    fn topology_choices(&mut self, trial: Trial, candidate: &Requirements) -> Vec<Requirements> {
        let Some(rules) = self.host_rules(trial) else { return Vec::new() };
        if !Self::takes_new_host(&rules) {
            return Vec::new();
        }
        let mut groups: Vec<GroupRef> = self.variants[trial.variant].owned[1].clone();
        groups.extend(&self.groups.against(trial.badge)[1]);
        groups.sort_by(|a, b| self.groups.key(*a).cmp(self.groups.key(*b)));
        let strict = self.variants[trial.variant].strict.req;
        let algebra = &mut self.compiled.algebra;
        let candidate = algebra.intern(candidate).req;
        let choices = self.groups.choices(&groups, trial.badge, strict, candidate, algebra);
        choices.into_iter().map(|sets| sets.into_iter().map(|set| algebra.requirement(set).clone()).collect()).collect()
    }

    fn types_refusal(&self, trial: Trial, at: usize, rows: &[u64], requirements: &Requirements) -> Refusal {
        let catalogue = &self.compiled.catalogues[self.compiled.pools[at].catalogue];
        let mut misses = Misses::new(requirements);
        let mut left = self.types_left(trial, at, rows, &mut misses);
        if left.is_empty() {
            return misses.into_refusal();
        }
        let devices = match self.devices_on_types(trial, requirements, catalogue, &left) {
            Ok(devices) => devices,
            Err(why) => return Refusal::Devices(why),
        };
        if let Some(attempt) = &devices {
            let given = |row: &usize| attempt.by_type.contains_key(&catalogue.known(*row).name);
            let narrowed = self.types_left(trial, at, rows, &mut Misses::new(&attempt.requirements));
            left = bits::Bits::new(catalogue.rows.len());
            narrowed.iter().filter(given).for_each(|row| left.set(row));
            if left.is_empty() {
                return Refusal::Devices(DeviceRefusal::NoDevices);
            }
        }
        let requirements = devices.as_ref().map_or(requirements, |attempt| &attempt.requirements);
        let unmet = min_values::unmet(requirements, &catalogue.types_of(left.words()));
        if !unmet.is_empty() && self.options.min_values == MinValuesPolicy::Strict {
            return Refusal::MinValues(unmet.into_keys().collect());
        }
        if self.options.reserved == Reserved::Untracked {
            return Refusal::NoInstanceType;
        }
        let rules = self.compiled.algebra.rules();
        let host = placeholder(self.claims.len());
        let nothing = BTreeSet::new();
        let holding = Holding { reservations: &self.reservations, host: &host, held: &nothing };
        let with = holding.with(catalogue, left.words(), requirements, rules, self.options.reserved);
        with.err().unwrap_or(Refusal::NoInstanceType)
    }

    /// The first row of each type that meets the requirements and holds the pod.
    fn types_left(&self, trial: Trial, at: usize, rows: &[u64], misses: &mut Misses<'_>) -> bits::Bits {
        let pool = &self.compiled.pools[at];
        let catalogue = &self.compiled.catalogues[pool.catalogue];
        let rules = self.compiled.algebra.rules();
        let pod = &self.compiled.pods.all[trial.pod];
        let wanted = &pod.scheduling.host_ports;
        let mut left = bits::Bits::new(catalogue.rows.len());
        for part in &pool.parts {
            if wanted.iter().any(|port| part.ports.iter().any(|daemon| daemon.conflicts(port))) {
                continue;
            }
            let mut needed = karpenter_model::resources::Resources::new();
            needed.add(&pod.requests);
            needed.add(&part.overhead);
            let mut last = usize::MAX;
            for row in part.rows.iter().filter(|row| bits::has(rows, *row)) {
                if std::mem::replace(&mut last, catalogue.rows[row].of) == catalogue.rows[row].of {
                    continue;
                }
                if misses.check(&candidate(catalogue.known(row)), &needed, rules) {
                    left.set(row);
                }
            }
        }
        left
    }
}
