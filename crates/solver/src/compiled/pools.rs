//! What pools can open new nodes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::PoolOffer;
use karpenter_model::taints::Effect;

use super::algebra::{Algebra, ReqId};
use super::amounts::{Amounts, Names};
use super::bits::Bits;
use super::catalogue::{Catalogue, Column};
use super::nodes::{TaintLists, TaintsId};
use crate::daemons::{accepts_taints, alternatives};
use crate::min_values;

/// A pool prepared for passes (SCH-85).
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) view: Arc<PoolView>,
    pub(crate) catalogue: usize,
    pub(crate) requirements: Requirements,
    pub(crate) req: ReqId,
    pub(crate) taints: TaintsId,
    pub(crate) prefers_no_schedule: bool,
    /// Types that the pool's requirements leave (SCH-86).
    pub(crate) rows: Bits,
    /// They do not offer as many values as the pool wants.
    pub(crate) too_few_values: bool,
    /// By the smallest type name.
    pub(crate) parts: Vec<Part>,
    pub(crate) columns: Arc<Vec<Column>>,
    pub(crate) limits: Vec<Limit>,
}

/// Types on which the same DaemonSets run (SCH-74).
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rows: Bits,
    pub(crate) overhead: Resources,
    pub(crate) ports: Vec<HostPort>,
}

/// A limited resource.
#[derive(Debug)]
pub(crate) struct Limit {
    is_nodes: bool,
    /// Limit less usage (SCH-78).
    pub(crate) left: Quantity,
    /// By row.
    capacity: Vec<Quantity>,
    /// Rows that the pool has, largest first.
    descending: Vec<usize>,
}

impl Limit {
    /// Removes rows that what is left does not allow (SCH-79).
    pub(crate) fn keep(&self, left: Quantity, rows: &mut Bits) {
        if self.is_nodes {
            if left < Quantity::units(1) {
                rows.words_mut().fill(0);
            }
            return;
        }
        let over = self.descending.iter().take_while(|row| self.capacity[**row] > left);
        over.for_each(|row| rows.clear(*row));
    }

    /// Some type is too large for what is left.
    pub(crate) fn binds(&self, left: Quantity) -> bool {
        let largest = self.descending.first().map(|row| self.capacity[*row]);
        if self.is_nodes { left < Quantity::units(1) } else { largest.is_some_and(|largest| largest > left) }
    }

    /// What opening a claim with these rows takes (SCH-80), one node of the `nodes` limit (Q6).
    pub(crate) fn charge(&self, rows: &[u64]) -> Quantity {
        if self.is_nodes {
            return Quantity::units(1);
        }
        let largest = self.descending.iter().find(|row| super::bits::has(rows, **row));
        largest.map_or(Quantity::ZERO, |row| self.capacity[*row])
    }
}

impl Pool {
    pub(crate) fn new(
        offer: &PoolOffer,
        (at, catalogue): (usize, &mut Catalogue),
        daemons: &[Arc<PodView>],
        (algebra, names, taints): (&mut Algebra, &mut Names, &mut TaintLists),
    ) -> Self {
        let view = &offer.pool;
        let mut requirements = view.requirements.clone();
        // Nodes will carry these once they run, and DaemonSets may select on them (SCH-73).
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            requirements.add(Requirement::any_of(key, ["true"]));
        }
        let req = algebra.intern(&requirements).req;
        let mut rows = catalogue.masks(req, algebra).offered.clone();
        catalogue.close(rows.words_mut());
        let too_few_values = algebra.has_min_values(req)
            && !min_values::unmet(&requirements, &catalogue.types_of(rows.words())).is_empty();
        let parts = parts(catalogue, &rows, &requirements, view, daemons, algebra);
        let columns = match &parts[..] {
            [] => Arc::new(Vec::new()),
            [one] => catalogue.columns_beside(&one.overhead, names),
            several => Arc::new(columns(catalogue, several, names)),
        };
        let mut left = view.limits.clone();
        left.subtract(&offer.usage);
        Self {
            limits: left.iter().map(|(name, left)| limit(catalogue, &rows, name, left)).collect(),
            view: view.clone(),
            catalogue: at,
            requirements,
            req,
            taints: taints.intern(&view.taints),
            prefers_no_schedule: view.taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule),
            rows,
            too_few_values,
            parts,
            columns,
        }
    }
}

impl Pool {
    /// Nothing has changed but how much of the limits is used.
    pub(crate) fn is_of(&self, offer: &PoolOffer, catalogue: usize, resources: usize) -> bool {
        self.catalogue == catalogue
            && (self.columns.len() == resources || self.rows.is_empty())
            && (Arc::ptr_eq(&self.view, &offer.pool) || self.view == offer.pool)
    }

    pub(crate) fn charge_usage(&mut self, offer: &PoolOffer) {
        self.view = offer.pool.clone();
        let mut left = offer.pool.limits.clone();
        left.subtract(&offer.usage);
        // Limits are those of the pool, in the same order.
        self.limits.iter_mut().zip(left.iter()).for_each(|(limit, (_, left))| limit.left = left);
    }
}

fn limit(catalogue: &Catalogue, rows: &Bits, name: &str, left: Quantity) -> Limit {
    let capacity: Vec<Quantity> =
        (0..catalogue.rows.len()).map(|row| catalogue.known(row).capacity.amount(name)).collect();
    let mut descending: Vec<(i128, usize)> = rows.iter().map(|row| (capacity[row].nanos(), row)).collect();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    let descending = descending.into_iter().map(|(_, row)| row).collect();
    Limit { is_nodes: name == NODES, left, capacity, descending }
}

fn columns(catalogue: &Catalogue, parts: &[Part], names: &mut Names) -> Vec<Column> {
    let overheads: Vec<Amounts> = parts.iter().map(|part| names.amounts(&part.overhead)).collect();
    let nothing = Amounts::new();
    let of = |row: usize| parts.iter().position(|part| part.rows.has(row)).map_or(&nothing, |part| &overheads[part]);
    catalogue.columns_of(names.len(), of)
}

fn parts(
    catalogue: &Catalogue,
    rows: &Bits,
    requirements: &Requirements,
    pool: &PoolView,
    daemons: &[Arc<PodView>],
    algebra: &Algebra,
) -> Vec<Part> {
    if rows.is_empty() {
        return Vec::new();
    }
    // What each DaemonSet asks for, as far as the pool can give it.
    let lenient = Undefined::WellKnownAllowed(algebra.rules());
    let accepted: Vec<(&Arc<PodView>, Vec<Requirements>)> = daemons
        .iter()
        .filter(|daemon| accepts_taints(daemon, &pool.taints))
        .map(|daemon| {
            (daemon, alternatives(daemon).filter(|asked| requirements.is_compatible(asked, lenient)).collect())
        })
        .collect();
    let mut by_daemons: BTreeMap<Vec<usize>, Bits> = BTreeMap::new();
    let runs =
        |known: &InstanceType, asked: &[Requirements]| asked.iter().any(|one| one.intersects(&known.requirements));
    for row in rows.iter() {
        let known = catalogue.known(row);
        let running = accepted.iter().enumerate().filter(|(_, (_, asked))| runs(known, asked)).map(|(at, _)| at);
        by_daemons.entry(running.collect()).or_default().set(row);
    }
    let mut parts: Vec<Part> = by_daemons
        .into_iter()
        .map(|(running, mut rows)| {
            let mut overhead = Resources::new();
            for at in &running {
                overhead.add(&accepted[*at].0.requests);
            }
            let ports = running.iter().flat_map(|at| accepted[*at].0.scheduling.host_ports.clone()).collect();
            // As long as all others, so that words can be compared.
            rows.union(&Bits::new(catalogue.rows.len()));
            Part { rows, overhead, ports }
        })
        .collect();
    // Rows follow names.
    parts.sort_by_key(|part| part.rows.iter().next());
    parts
}
