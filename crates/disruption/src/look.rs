//! One look at the cluster, shared by all methods of a pass.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::budget::DisruptionReason;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pdb::PdbIndex;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_solver::Options;

use crate::balanced::{Source, Totals};
use crate::budgets::{self, Allowance, Counted};
use crate::candidates::{Candidate, Class, Facts, Findings, PoolFacts, candidate_with, counted_by_itself};
use crate::cost;
use crate::report::Note;
use crate::roll::Roll;

/// Which of the optional behaviours are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gates {
    pub spot_to_spot: bool,
    pub terminate_first_drift: bool,
    /// Nodes that go together are looked for within the specified limits, 100 nodes and one replacement, instead of by what
    /// they are worth.
    pub specified_search: bool,
}

/// What all methods of a pass look at.
#[derive(Debug, Clone)]
pub struct Look<'a> {
    /// Usable pools, all nodes; pods that wait, and pods of nodes that are going, are pending.
    pub snapshot: &'a Snapshot,
    pub facts: Facts<'a>,
    /// Pods as a pass plans them, where that differs from what is written.
    pub planned: &'a BTreeMap<PodId, Arc<PodView>>,
    /// Virtual pods of capacity buffers, by node.
    pub buffer_pods: &'a BTreeMap<String, u32>,
    /// What the nodes of a pool cost in all, where somebody keeps count (DIS-133).
    pub pool_costs: &'a BTreeMap<String, f64>,
    pub rules: &'a LabelRules,
    pub options: Options,
    pub gates: Gates,
    /// What is known from earlier looks about the nodes, refreshed for these facts; `None` where all is looked at anew.
    pub roll: Option<&'a Roll>,
}

impl<'a> Look<'a> {
    /// Nodes that may go, by name; what keeps the others is noted.
    pub fn candidates(&self, class: Class, notes: &mut Vec<Note>) -> Vec<Candidate<'a>> {
        let mut found = Vec::with_capacity(self.snapshot.nodes.len());
        let pools: Vec<&PoolFacts> = self.facts.pools.values().collect();
        let budgets = OnceCell::new();
        for (at, node) in self.snapshot.nodes.iter().enumerate() {
            let candidate = if let Some(known) = self.known(at, node) {
                known.candidate(node, &self.facts, class, &pools)
            } else {
                let budgets = budgets.get_or_init(|| PdbIndex::new(self.facts.budgets));
                candidate_with(node, &self.facts, class, (budgets, &pools))
            };
            match candidate {
                Ok(candidate) => found.push(candidate),
                Err(why) if why.is_silent() => {}
                Err(why) => notes.push(Note::blocked(node, why.to_string())),
            }
        }
        found
    }

    /// What is known already about a node of the snapshot.
    fn known(&self, at: usize, node: &ExistingNode) -> Option<&'a Findings> {
        self.roll.and_then(|roll| roll.of(at, node))
    }

    /// What each pool allows for a reason; pools that are closed are noted (DIS-57 … DIS-61).
    pub fn allowances(&self, reason: DisruptionReason, notes: &mut Vec<Note>) -> BTreeMap<String, Allowance> {
        let mut counted: Vec<Vec<Counted>> = vec![Vec::new(); self.facts.pools.len()];
        let places: BTreeMap<&str, usize> =
            self.facts.pools.keys().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        for (at, node) in self.snapshot.nodes.iter().enumerate() {
            let (pool, known) = match self.known(at, node) {
                Some(known) => (known.pool(), known.counted),
                None => (node.pool().and_then(|pool| places.get(pool).copied()), counted_by_itself(node)),
            };
            let Some((pool, known)) = pool.zip(known) else { continue };
            let marked_for_deletion = known.marked_for_deletion || node.marked;
            counted[pool].push(Counted { marked_for_deletion, ..known });
        }
        let mut allowances = BTreeMap::new();
        for ((name, pool), nodes) in self.facts.pools.iter().zip(&counted) {
            let allowance = budgets::allowance(&pool.view.budgets, reason, nodes, self.facts.now);
            if allowance.is_closed() {
                notes.push(Note::PoolClosed { pool: name.clone(), reason });
            }
            allowances.insert(name.clone(), allowance);
        }
        allowances
    }

    /// What each pool that has a candidate costs and what moving all its pods would (DIS-132, DIS-133).
    pub fn totals(&self, candidates: &[Candidate<'_>]) -> BTreeMap<String, Totals> {
        let mut totals: BTreeMap<&str, Totals> = BTreeMap::new();
        for candidate in candidates {
            totals.entry(candidate.pool_name()).or_default().cost += candidate.price.per_hour();
        }
        for (pool, totals) in &mut totals {
            if let Some(known) = self.pool_costs.get(*pool).filter(|known| **known > 0.0) {
                totals.cost = *known;
            }
        }
        let names: Vec<&str> = self.facts.pools.keys().map(String::as_str).collect();
        for (at, node) in self.snapshot.nodes.iter().enumerate() {
            let known = self.known(at, node);
            let pool = known.map_or_else(|| node.pool(), |known| known.pool().map(|at| names[at]));
            if let Some(totals) = pool.and_then(|pool| totals.get_mut(pool)) {
                totals.disruption +=
                    known.map_or_else(|| cost::reschedule_cost(&node.pods), |known| known.reschedule_cost);
            }
        }
        totals.into_iter().map(|(pool, totals)| (pool.to_owned(), totals)).collect()
    }

    /// The types that a pool is offered.
    pub fn instance_types(&self, pool: &str) -> &'a [InstanceType] {
        let offer = self.snapshot.pools.iter().find(|offer| offer.pool.name == pool);
        offer.map_or(&[], |offer| offer.instance_types.as_slice())
    }
}

/// What a move takes from each of its pools (DIS-136).
pub fn sources(candidates: &[&Candidate<'_>]) -> BTreeMap<String, Source> {
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    for candidate in candidates {
        let balanced = candidate.pool.view.consolidation_policy == ConsolidationPolicy::Balanced;
        let none = Source { balanced, cost: 0.0, disruption: 0.0 };
        let source = sources.entry(candidate.pool_name().to_owned()).or_insert(none);
        source.cost += candidate.price.per_hour();
        source.disruption += candidate.reschedule_cost;
    }
    sources
}
