//! Which objects belong together, and what pools have of everything, kept up to date change by change.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::resources::Resources;

/// Indexes by provider ID, and sums by pool.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    claims: BTreeMap<String, BTreeSet<String>>,
    nodes: BTreeMap<String, BTreeSet<String>>,
    /// Nodes that have no provider ID.
    unidentified: BTreeSet<String>,
    /// What each entry adds to its pool.
    counted: BTreeMap<String, (String, Resources)>,
    pools: BTreeMap<String, Resources>,
}

/// The key of a node's entry: its provider ID, else its name.
pub(crate) fn node_key(node: &NodeView) -> String {
    node.provider_id.clone().unwrap_or_else(|| node.name.clone())
}

/// A node of a pool is tracked once it can be told from others and its type is known (LIF-111, SCH-228).
pub(crate) fn is_tracked(node: &NodeView) -> bool {
    let owned = node.labels.get(labels::NODEPOOL).is_some_and(|pool| !pool.is_empty());
    !owned || (node.provider_id.is_some() && (node.is_initialized() || node.labels.contains_key(labels::INSTANCE_TYPE)))
}

impl Usage {
    pub(crate) fn index_claim(&mut self, old: Option<&ClaimView>, new: Option<&ClaimView>) {
        let id =
            |claim: Option<&ClaimView>| claim.and_then(|claim| Some((claim.provider_id.clone()?, claim.name.clone())));
        reindex(&mut self.claims, id(old), id(new));
    }

    pub(crate) fn index_node(&mut self, old: Option<&NodeView>, new: Option<&NodeView>) {
        let id = |node: Option<&NodeView>| node.and_then(|node| Some((node.provider_id.clone()?, node.name.clone())));
        reindex(&mut self.nodes, id(old), id(new));
        if let Some(old) = old {
            self.unidentified.remove(&old.name);
        }
        if let Some(new) = new.filter(|new| new.provider_id.is_none()) {
            self.unidentified.insert(new.name.clone());
        }
    }

    pub(crate) fn claims_at(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.claims.get(provider_id).into_iter().flatten()
    }

    pub(crate) fn nodes_at(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.nodes.get(provider_id).into_iter().flatten()
    }

    pub(crate) fn nodes_named(&self, name: &str) -> impl Iterator<Item = &String> {
        self.unidentified.get(name).into_iter()
    }

    /// Of all entries, each once.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        let claims = self.claims.keys().filter(|id| !self.nodes.contains_key(*id));
        claims.chain(self.nodes.keys()).chain(&self.unidentified)
    }

    /// What the entry under a key adds to its pool from now on.
    pub(crate) fn set(&mut self, key: &str, counted: Option<(String, Resources)>) {
        if let Some((pool, amounts)) = self.counted.remove(key) {
            let left = self.pools.get_mut(&pool).map(|sum| {
                sum.subtract(&amounts);
                sum.iter().all(|(_, amount)| amount.is_zero())
            });
            if left == Some(true) {
                self.pools.remove(&pool);
            }
        }
        if let Some((pool, amounts)) = counted {
            self.pools.entry(pool.clone()).or_default().add(&amounts);
            self.counted.insert(key.to_owned(), (pool, amounts));
        }
    }

    pub(crate) fn of(&self, pool: &str) -> Resources {
        let sum = self.pools.get(pool).into_iter().flat_map(Resources::iter);
        sum.filter(|(_, amount)| !amount.is_zero()).map(|(name, amount)| (name.to_owned(), amount)).collect()
    }
}

fn reindex(
    index: &mut BTreeMap<String, BTreeSet<String>>,
    old: Option<(String, String)>,
    new: Option<(String, String)>,
) {
    if let Some((id, name)) = old
        && let Some(names) = index.get_mut(&id)
    {
        names.remove(&name);
        if names.is_empty() {
            index.remove(&id);
        }
    }
    if let Some((id, name)) = new {
        index.entry(id).or_default().insert(name);
    }
}
