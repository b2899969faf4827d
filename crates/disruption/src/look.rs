//! One look at the cluster, shared by all methods of a pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::budget::DisruptionReason;
use karpenter_model::claim::ConditionView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pdb::PdbIndex;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::Options;

use crate::balanced::{Source, Totals};
use crate::budgets::{self, Allowance, Counted};
use crate::candidates::{Candidate, Class, Facts, candidate_with};
use crate::cost;
use crate::report::Note;

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
}

impl<'a> Look<'a> {
    /// Nodes that may go, by name; what keeps the others is noted.
    pub fn candidates(&self, class: Class, notes: &mut Vec<Note>) -> Vec<Candidate<'a>> {
        let mut found = Vec::new();
        let budgets = PdbIndex::new(self.facts.budgets);
        for node in &self.snapshot.nodes {
            match candidate_with(node, &self.facts, class, &budgets) {
                Ok(candidate) => found.push(candidate),
                Err(why) if why.is_silent() => {}
                Err(why) => notes.push(Note::blocked(node, why.to_string())),
            }
        }
        found
    }

    /// What each pool allows for a reason; pools that are closed are noted (DIS-57 … DIS-61).
    pub fn allowances(&self, reason: DisruptionReason, notes: &mut Vec<Note>) -> BTreeMap<String, Allowance> {
        let mut counted: BTreeMap<&str, Vec<Counted>> = BTreeMap::new();
        for node in self.snapshot.nodes.iter().filter(|node| node.is_managed()) {
            let Some(pool) = node.pool() else { continue };
            let claim = node.claim.as_ref();
            counted.entry(pool).or_default().push(Counted {
                initialized: node.node.as_ref().is_some_and(|node| node.is_initialized()),
                rebooting: claim.is_some_and(|claim| claim.rebooting),
                instance_terminating: claim
                    .is_some_and(|claim| claim.instance_terminating.is_some_and(ConditionView::is_true)),
                marked_for_deletion: node.is_going(),
                ready: node.node.as_ref().is_some_and(|node| node.ready),
            });
        }
        let none = Vec::new();
        let mut allowances = BTreeMap::new();
        for (name, pool) in self.facts.pools {
            let nodes = counted.get(name.as_str()).unwrap_or(&none);
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
        let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
        for candidate in candidates {
            totals.entry(candidate.pool_name().to_owned()).or_default().cost += candidate.price.per_hour();
        }
        for (pool, totals) in &mut totals {
            if let Some(known) = self.pool_costs.get(pool).filter(|known| **known > 0.0) {
                totals.cost = *known;
            }
        }
        for node in &self.snapshot.nodes {
            if let Some(totals) = node.pool().and_then(|pool| totals.get_mut(pool)) {
                totals.disruption += cost::reschedule_cost(&node.pods);
            }
        }
        totals
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
