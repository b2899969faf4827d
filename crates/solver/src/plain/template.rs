//! What a pool can open new nodes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::{PoolOffer, Snapshot};

use crate::daemons::{accepts_taints, alternatives};
use crate::min_values;
use crate::misfit::{Candidate, candidate};
use crate::options::{MinValuesPolicy, Options};

/// A pool prepared for one pass (SCH-85).
pub(crate) struct Template<'a> {
    pub(crate) pool: &'a Arc<PoolView>,
    pub(crate) requirements: Requirements,
    /// Instance types by the DaemonSets that will run on them (SCH-74), by the smallest type name.
    pub(crate) parts: Vec<Part<'a>>,
    /// Limit less usage, for limited resources only (SCH-78).
    pub(crate) remaining: Resources,
    /// Why no node can be opened, if so.
    pub(crate) unusable: Option<Unusable>,
}

/// Why a template has no types (SCH-86).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    NoInstanceType,
    MinValues,
}

/// Types on which the same DaemonSets run.
pub(crate) struct Part<'a> {
    pub(crate) types: Vec<Candidate<'a>>,
    pub(crate) overhead: Resources,
    pub(crate) ports: Vec<HostPort>,
}

impl<'a> Template<'a> {
    pub(crate) fn new(offer: &'a PoolOffer, snapshot: &'a Snapshot, rules: &LabelRules, options: &Options) -> Self {
        let pool = &offer.pool;
        let mut requirements = pool.requirements.clone();
        // Nodes will carry these once they run, and DaemonSets may select on them (SCH-73).
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            requirements.add(Requirement::any_of(key, ["true"]));
        }
        let mut types: Vec<&InstanceType> = offer
            .instance_types
            .iter()
            .filter(|known| {
                known.requirements.intersects(&requirements) && !known.usable_offerings(&requirements, rules).is_empty()
            })
            .collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let unmet = min_values::unmet(&requirements, &types.iter().copied());
        let unusable = match options.min_values {
            _ if types.is_empty() => Some(Unusable::NoInstanceType),
            MinValuesPolicy::Strict if !unmet.is_empty() => Some(Unusable::MinValues),
            _ => None,
        };
        let mut remaining = pool.limits.clone();
        remaining.subtract(&offer.usage);
        let parts = if unusable.is_some() { Vec::new() } else { parts(&types, &requirements, pool, snapshot, rules) };
        Self { pool, requirements, parts, remaining, unusable }
    }

    pub(crate) fn prefers_no_schedule(&self) -> bool {
        self.pool.taints.iter().any(|taint| taint.effect == karpenter_model::taints::Effect::PreferNoSchedule)
    }

    /// Types that the pool's limits still allow (SCH-79).
    pub(crate) fn within_limits(&self, known: &InstanceType) -> bool {
        self.remaining.iter().all(|(name, left)| match name {
            NODES => left >= Quantity::units(1),
            _ => known.capacity.amount(name) <= left,
        })
    }

    /// SCH-80, with one node for the `nodes` limit (Q6).
    pub(crate) fn charge(&mut self, largest: &Resources) {
        self.remaining.subtract(&largest.clone().with(NODES, Quantity::units(1)));
    }
}

fn parts<'a>(
    types: &[&'a InstanceType],
    requirements: &Requirements,
    pool: &PoolView,
    snapshot: &'a Snapshot,
    rules: &LabelRules,
) -> Vec<Part<'a>> {
    let accepted: Vec<&Arc<PodView>> =
        snapshot.daemons.iter().filter(|pod| accepts_taints(pod, &pool.taints)).collect();
    let mut by_daemons: BTreeMap<Vec<usize>, Vec<&'a InstanceType>> = BTreeMap::new();
    for known in types {
        let running: Vec<usize> = accepted
            .iter()
            .enumerate()
            .filter(|(_, daemon)| runs_on(daemon, requirements, known, rules))
            .map(|(index, _)| index)
            .collect();
        by_daemons.entry(running).or_default().push(known);
    }
    let mut parts: Vec<Part<'a>> = by_daemons
        .into_iter()
        .map(|(running, types)| {
            let daemons = running.iter().map(|index| accepted[*index]);
            let mut overhead = Resources::new();
            daemons.clone().for_each(|daemon| overhead.add(&daemon.requests));
            Part {
                types: types.into_iter().map(candidate).collect(),
                overhead,
                ports: daemons.flat_map(|daemon| daemon.scheduling.host_ports.clone()).collect(),
            }
        })
        .collect();
    parts.sort_by(|a, b| first_name(a).cmp(&first_name(b)));
    parts
}

fn first_name<'a>(part: &Part<'a>) -> Option<&'a str> {
    part.types.iter().map(|candidate| candidate.instance_type.name.as_str()).min()
}

/// Any required term may match; preferences and spread do not matter (SCH-72).
fn runs_on(daemon: &PodView, template: &Requirements, known: &InstanceType, rules: &LabelRules) -> bool {
    alternatives(daemon).any(|asked| {
        template.is_compatible(&asked, Undefined::WellKnownAllowed(rules)) && known.requirements.intersects(&asked)
    })
}
