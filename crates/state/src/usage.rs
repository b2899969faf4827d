//! Which objects belong together, and what pools have of everything, kept up to date change by change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::resources::Resources;

/// Indexes by provider ID, and sums by pool.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    claims: ByProviderId,
    nodes: ByProviderId,
    /// Nodes that have no provider ID.
    unidentified: BTreeSet<String>,
    /// What each entry adds to its pool.
    counted: BTreeMap<String, Arc<Counted>>,
    /// The same, each once: there are as many as pools have instance types.
    kinds: Vec<Arc<Counted>>,
    pools: BTreeMap<String, Resources>,
}

/// What an entry adds to a pool.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    pool: String,
    amounts: Resources,
}

/// Provider IDs with the names of the objects that have them. One set of pairs, since nearly every ID belongs to one object.
#[derive(Debug, Default)]
struct ByProviderId(BTreeSet<(String, String)>);

impl ByProviderId {
    /// The names under an ID, in order.
    fn at(&self, id: &str) -> impl Iterator<Item = &String> {
        let from = self.0.range((id.to_owned(), String::new())..);
        from.take_while(move |(known, _)| known == id).map(|(_, name)| name)
    }

    /// Each once.
    fn ids(&self) -> impl Iterator<Item = &String> {
        let mut last = None;
        self.0.iter().map(|(id, _)| id).filter(move |id| last.replace(*id) != Some(*id))
    }

    fn has(&self, id: &str) -> bool {
        self.at(id).next().is_some()
    }

    fn replace(&mut self, old: Option<(String, String)>, new: Option<(String, String)>) {
        if let Some(old) = old {
            self.0.remove(&old);
        }
        self.0.extend(new);
    }
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
        self.claims.replace(id(old), id(new));
    }

    pub(crate) fn index_node(&mut self, old: Option<&NodeView>, new: Option<&NodeView>) {
        let id = |node: Option<&NodeView>| node.and_then(|node| Some((node.provider_id.clone()?, node.name.clone())));
        self.nodes.replace(id(old), id(new));
        if let Some(old) = old {
            self.unidentified.remove(&old.name);
        }
        if let Some(new) = new.filter(|new| new.provider_id.is_none()) {
            self.unidentified.insert(new.name.clone());
        }
    }

    pub(crate) fn claims_at(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.claims.at(provider_id)
    }

    pub(crate) fn nodes_at(&self, provider_id: &str) -> impl Iterator<Item = &String> {
        self.nodes.at(provider_id)
    }

    pub(crate) fn nodes_named(&self, name: &str) -> impl Iterator<Item = &String> {
        self.unidentified.get(name).into_iter()
    }

    /// Of all entries, each once.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        let claims = self.claims.ids().filter(|id| !self.nodes.has(id));
        claims.chain(self.nodes.ids()).chain(&self.unidentified)
    }

    /// What the entry under a key adds to its pool from now on.
    pub(crate) fn set(&mut self, key: &str, counted: Option<(String, Resources)>) {
        if let Some(old) = self.counted.remove(key) {
            let left = self.pools.get_mut(&old.pool).map(|sum| {
                sum.subtract(&old.amounts);
                sum.iter().all(|(_, amount)| amount.is_zero())
            });
            if left == Some(true) {
                self.pools.remove(&old.pool);
            }
            // Nobody but this one and the list.
            if Arc::strong_count(&old) == 2 {
                self.kinds.retain(|kind| !Arc::ptr_eq(kind, &old));
            }
        }
        if let Some((pool, amounts)) = counted {
            self.pools.entry(pool.clone()).or_default().add(&amounts);
            let new = Counted { pool, amounts };
            let kind = match self.kinds.iter().find(|kind| ***kind == new) {
                Some(known) => known.clone(),
                None => Arc::new(new),
            };
            if Arc::strong_count(&kind) == 1 {
                self.kinds.push(kind.clone());
            }
            self.counted.insert(key.to_owned(), kind);
        }
    }

    pub(crate) fn of(&self, pool: &str) -> Resources {
        let sum = self.pools.get(pool).into_iter().flat_map(Resources::iter);
        sum.filter(|(_, amount)| !amount.is_zero()).map(|(name, amount)| (name.to_owned(), amount)).collect()
    }
}
