//! What is known about each node from look to look, so that only those are looked at again that something has happened to.
//!
//! Whether a node may go depends on its own two halves, its pods, the PodDisruptionBudgets near these and its pool; on what commands,
//! nominations and the clock make of it. The first takes long to find out and is kept, with the moment until which it holds where a pod
//! is protected for a time; the rest is read from the node whenever somebody asks.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::node::NodeView;
use karpenter_model::pdb::{PdbIndex, PdbView};
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::shared::Shared;
use karpenter_model::snapshot::ExistingNode;

use crate::candidates::{Facts, Findings};

/// A node as it was looked at.
#[derive(Debug)]
struct Entry {
    node: Option<Arc<NodeView>>,
    claim: Option<Arc<ClaimView>>,
    pods: Shared<Vec<Arc<PodView>>>,
    found: Findings,
}

impl Entry {
    /// `before`: as it was, where only its pods have changed.
    fn new(node: &ExistingNode, facts: &Facts<'_>, budgets: &PdbIndex<'_>, before: Option<&Self>) -> Self {
        let known = before.map(|entry| (&entry.pods[..], &entry.found));
        Self {
            node: node.node.clone(),
            claim: node.claim.clone(),
            pods: node.pods.clone(),
            found: Findings::of(node, facts, budgets, known),
        }
    }

    /// Both halves are the same objects.
    fn is_of(&self, node: &ExistingNode) -> bool {
        is_one(self.node.as_ref(), node.node.as_ref()) && is_one(self.claim.as_ref(), node.claim.as_ref())
    }

    /// And so are its pods.
    fn is_same(&self, node: &ExistingNode) -> bool {
        self.is_of(node) && self.pods.has_same(&node.pods)
    }

    /// What was found is so no longer, though nothing has happened to the node.
    fn is_doubtful(&self, changed: &[bool], now: Timestamp) -> bool {
        self.found.until.is_some_and(|until| until <= now)
            || !changed.is_empty() && self.found.budgets.iter().any(|at| changed.get(*at as usize) != Some(&false))
    }
}

fn is_one<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// A pool as it was when nodes were looked at.
#[derive(Debug)]
struct OfPool {
    name: String,
    view: Arc<PoolView>,
    instance_types: Option<Arc<Vec<InstanceType>>>,
}

/// All nodes, in the order of the last look.
#[derive(Debug, Default)]
pub struct Roll {
    entries: Vec<Entry>,
    pools: Vec<OfPool>,
    budgets: Vec<Arc<PdbView>>,
    at: Option<Timestamp>,
}

impl Roll {
    /// Brings it up to date; how many nodes were looked at for that. Must be called before it is part of a look at these nodes and
    /// facts; what commands and nominations make of a node, and who is queued, may be another by then.
    pub fn refresh(&mut self, nodes: &[ExistingNode], facts: &Facts<'_>) -> usize {
        let changed = self.changed_budgets(facts.budgets);
        let Some(changed) = changed.filter(|_| self.has_pools(facts) && self.at.is_some_and(|at| at <= facts.now))
        else {
            return self.start_anew(nodes, facts);
        };
        self.at = Some(facts.now);
        if !changed.is_empty() {
            self.budgets = facts.budgets.to_vec();
        }
        let before = std::mem::take(&mut self.entries);
        if !is_aligned(&before, nodes) {
            return self.align(before, nodes, facts, &changed);
        }
        self.entries = before;
        let mut anew: Vec<usize> = Vec::new();
        for (at, (entry, node)) in self.entries.iter().zip(nodes).enumerate() {
            if !entry.is_same(node) || entry.is_doubtful(&changed, facts.now) {
                anew.push(at);
            }
        }
        if !anew.is_empty() {
            let budgets = PdbIndex::new(facts.budgets);
            for at in &anew {
                let (node, entry) = (&nodes[*at], &mut self.entries[*at]);
                let only_pods = entry.is_of(node) && !entry.is_doubtful(&changed, facts.now);
                *entry = Entry::new(node, facts, &budgets, only_pods.then_some(&*entry));
            }
        }
        anew.len()
    }

    /// What is known about the node at this place of the look that this was refreshed for.
    pub(crate) fn of(&self, at: usize, node: &ExistingNode) -> Option<&Findings> {
        self.entries
            .get(at)
            .filter(|entry| entry.is_of(node) && entry.pods.len() == node.pods.len())
            .map(|entry| &entry.found)
    }

    fn start_anew(&mut self, nodes: &[ExistingNode], facts: &Facts<'_>) -> usize {
        let pool = |(name, pool): (&String, &crate::candidates::PoolFacts)| OfPool {
            name: name.clone(),
            view: pool.view.clone(),
            instance_types: pool.instance_types.clone(),
        };
        self.pools = facts.pools.iter().map(pool).collect();
        self.budgets = facts.budgets.to_vec();
        self.at = Some(facts.now);
        let budgets = PdbIndex::new(facts.budgets);
        self.entries = nodes.iter().map(|node| Entry::new(node, facts, &budgets, None)).collect();
        nodes.len()
    }

    /// Nodes have come or gone.
    fn align(&mut self, before: Vec<Entry>, nodes: &[ExistingNode], facts: &Facts<'_>, changed: &[bool]) -> usize {
        let budgets = PdbIndex::new(facts.budgets);
        let mut anew = 0;
        let mut before = before.into_iter().peekable();
        self.entries.reserve(nodes.len());
        for node in nodes {
            // Both are by name; where they are not, more is looked at than has to be.
            while before.next_if(|entry| !entry.is_of(node) && entry.name() < node.name()).is_some() {}
            let known = before.next_if(|entry| entry.is_same(node) && !entry.is_doubtful(changed, facts.now));
            anew += usize::from(known.is_none());
            self.entries.push(known.unwrap_or_else(|| Entry::new(node, facts, &budgets, None)));
        }
        anew
    }

    fn has_pools(&self, facts: &Facts<'_>) -> bool {
        self.pools.len() == facts.pools.len()
            && self.pools.iter().zip(facts.pools).all(|(known, (name, now))| {
                known.name == *name
                    && Arc::ptr_eq(&known.view, &now.view)
                    && is_one(known.instance_types.as_ref(), now.instance_types.as_ref())
            })
    }

    /// By place, which budgets let go others than before; empty where none does, `None` where pods may have other budgets.
    fn changed_budgets(&self, now: &[Arc<PdbView>]) -> Option<Vec<bool>> {
        if self.budgets.len() != now.len() {
            return None;
        }
        let mut changed = Vec::new();
        for (at, (was, is)) in self.budgets.iter().zip(now).enumerate() {
            if Arc::ptr_eq(was, is) {
                continue;
            }
            if (&was.id, &was.selector) != (&is.id, &is.selector) {
                return None;
            }
            changed.resize(now.len(), false);
            changed[at] = true;
        }
        Some(changed)
    }
}

impl Entry {
    fn name(&self) -> &str {
        let named = self.node.as_ref().map(|node| node.name.as_str());
        named.or_else(|| self.claim.as_ref().map(|claim| claim.name.as_str())).unwrap_or_default()
    }
}

/// Each node has its entry where it is itself.
fn is_aligned(entries: &[Entry], nodes: &[ExistingNode]) -> bool {
    let name = |node: &ExistingNode| node.node.as_ref().map(|node| node.name.clone());
    let claim = |node: &ExistingNode| node.claim.as_ref().map(|claim| claim.name.clone());
    let is_named = |entry: &Entry, node: &ExistingNode| {
        entry.node.as_ref().map(|node| node.name.clone()) == name(node)
            && entry.claim.as_ref().map(|claim| claim.name.clone()) == claim(node)
    };
    entries.len() == nodes.len()
        && entries.iter().zip(nodes).all(|(entry, node)| entry.is_of(node) || is_named(entry, node))
}

#[cfg(test)]
mod tests;
