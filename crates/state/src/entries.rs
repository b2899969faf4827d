//! Nodes and claims, joined by provider ID.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::{ClaimView, ConditionView};
use karpenter_model::node::NodeView;
use karpenter_model::pdb;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::ClaimCounts;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::ExistingNode;

use crate::{ClusterState, refusals, usage};

impl ClusterState {
    pub(crate) fn apply_node(&mut self, node: &Arc<NodeView>) {
        if self.nodes.get(&node.name) == Some(node) {
            return;
        }
        self.changed_if(true);
        let old = self.nodes.insert(node.name.clone(), node.clone());
        if old.as_ref().is_none_or(|old| old.is_initialized() != node.is_initialized()) {
            self.stamp.touch();
        }
        self.usage.index_node(old.as_deref(), Some(node));
        self.count([old.as_deref().map(usage::node_key), Some(usage::node_key(node))]);
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        let Some(old) = self.nodes.remove(name) else { return };
        self.changed_if(true);
        self.stamp.touch();
        self.nominations.remove(name);
        self.usage.index_node(Some(&old), None);
        self.count([Some(usage::node_key(&old)), None]);
    }

    pub(crate) fn apply_claim(&mut self, claim: &Arc<ClaimView>) {
        if self.claims.get(&claim.name) == Some(claim) {
            return;
        }
        let old = self.claims.insert(claim.name.clone(), claim.clone());
        self.note_launching(claim);
        self.world.all += 1;
        self.world.room += u64::from(old.as_ref().is_none_or(|old| refusals::offers_other(old, claim)));
        if old.as_ref().is_none_or(|old| old.deleting_since.is_some() != claim.deleting_since.is_some()) {
            self.stamp.touch();
        }
        self.usage.index_claim(old.as_deref(), Some(claim));
        self.count([old.and_then(|old| old.provider_id.clone()), claim.provider_id.clone()]);
    }

    pub(crate) fn remove_claim(&mut self, name: &str) {
        self.nominations.remove(name);
        self.forget_launching(name);
        self.marked.remove(name);
        self.expiring.remove(name);
        self.ledger.set_pending(name, false);
        let Some(old) = self.claims.remove(name) else { return };
        self.changed_if(true);
        self.stamp.touch();
        self.usage.index_claim(Some(&old), None);
        self.count([old.provider_id.clone(), None]);
    }

    /// Counts the entries under these keys again.
    fn count(&mut self, keys: [Option<String>; 2]) {
        for key in keys.into_iter().flatten() {
            let entry = self.entry(&key);
            let counted = entry.filter(|entry| !entry.is_going() && !self.is_marked(entry));
            self.usage.set(&key, counted.and_then(|entry| Some((entry.pool()?.to_owned(), entry.capacity()))));
        }
    }

    pub fn is_deleting_node(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.deleting_since.is_some())
    }

    pub fn node(&self, name: &str) -> Option<&Arc<NodeView>> {
        self.nodes.get(name)
    }

    /// Claims of a pool, by name.
    pub fn claims_of(&self, pool: &str) -> Vec<Arc<ClaimView>> {
        self.claims.values().filter(|claim| claim.pool.as_deref() == Some(pool)).cloned().collect()
    }

    /// Nodes with a provider ID; none for an empty one (LIF-2).
    pub fn nodes_by_provider_id(&self, provider_id: &str) -> Vec<Arc<NodeView>> {
        self.usage.nodes_at(provider_id).filter_map(|name| self.nodes.get(name)).cloned().collect()
    }

    pub fn claims_by_provider_id(&self, provider_id: &str) -> Vec<Arc<ClaimView>> {
        self.usage.claims_at(provider_id).filter_map(|name| self.claims.get(name)).cloned().collect()
    }

    /// The pods on the nodes of a claim.
    pub fn pods_of_claim(&self, claim: &ClaimView) -> Vec<Arc<PodView>> {
        let nodes = claim.provider_id.as_deref().map(|id| self.nodes_by_provider_id(id)).unwrap_or_default();
        nodes.iter().flat_map(|node| self.pods_on(&node.name)).collect()
    }

    /// Nodes and claims joined by provider ID, by name (SCH-228). A claim without one is not an entry yet.
    pub fn nodes(&self) -> Vec<ExistingNode> {
        let mut nodes: Vec<ExistingNode> = self.usage.keys().filter_map(|key| self.entry(key)).collect();
        for entry in &mut nodes {
            if let Some(node) = &entry.node {
                (entry.pods, entry.requested) = self.bound.shared(&node.name);
                entry.volume_limits = self.volumes.limits(&node.name);
            }
            let nominated = entry.claim.as_ref().map_or(entry.name(), |claim| claim.name.as_str());
            entry.nominated_until = self.nominations.get(nominated).copied();
            entry.marked = self.is_marked(entry) || self.is_expiring(entry);
        }
        nodes.sort_by(|a, b| a.name().cmp(b.name()));
        nodes
    }

    /// What has this provider ID, or, for a node without one, this name; without its pods.
    ///
    /// Of several the first by name; a node of a pool is not there before it can be told from others (LIF-111, SCH-228).
    pub(crate) fn entry(&self, key: &str) -> Option<ExistingNode> {
        let claim = self.usage.claims_at(key).find_map(|name| self.claims.get(name)).cloned();
        let named = self.usage.nodes_named(key);
        let node = self.usage.nodes_at(key).chain(named).find_map(|name| self.nodes.get(name));
        let node = node.filter(|node| usage::is_tracked(node)).cloned();
        (claim.is_some() || node.is_some()).then(|| ExistingNode { node, claim, ..ExistingNode::default() })
    }

    /// Capacity per pool of what is not going away (SCH-239, LIF-119).
    pub fn usage(&self, pool: &str) -> Resources {
        self.usage.of(pool)
    }

    /// Claims that a disruption command has chosen go away, or stay after all (SCH-232).
    pub fn mark(&mut self, claim: &str, going: bool) {
        let news = if going { self.marked.insert(claim.to_owned()) } else { self.marked.remove(claim) };
        let id = self.claims.get(claim).and_then(|claim| claim.provider_id.clone());
        if news {
            self.changed_if(true);
            self.stamp.touch();
            self.count([id, None]);
        }
    }

    /// The claim will soon have lived long enough: its pods are planned for elsewhere while they still run (Y18). It still
    /// counts against the limits of its pool, so that these hold at every moment.
    pub fn mark_expiring(&mut self, claim: &str) {
        if self.expiring.insert(claim.to_owned()) {
            self.changed_if(true);
        }
    }

    fn is_expiring(&self, entry: &ExistingNode) -> bool {
        entry.claim.as_ref().is_some_and(|claim| self.expiring.contains(&claim.name))
    }

    fn is_marked(&self, entry: &ExistingNode) -> bool {
        entry.claim.as_ref().is_some_and(|claim| self.marked.contains(&claim.name))
    }

    pub(crate) fn needs_place_for_pods(&self, entry: &ExistingNode) -> bool {
        entry.is_going() || self.is_marked(entry) || self.is_expiring(entry)
    }

    /// Pods that have to find another node because theirs is going (SCH-14).
    pub fn moving_pods(&self, now: Timestamp) -> BTreeMap<PodId, Arc<PodView>> {
        let entries = self.usage.keys().filter_map(|key| self.entry(key));
        let going = entries.filter(|entry| self.needs_place_for_pods(entry));
        let pods = going.filter_map(|entry| entry.node).flat_map(|node| self.pods_on(&node.name));
        let moves = |pod: &Arc<PodView>| {
            pod.is_reschedulable() && pod.is_disruptable(now) && !pdb::is_fully_blocked(pod, self.pdbs.values(), now)
        };
        pods.filter(moves).map(|pod| (pod.id.clone(), self.planned(&pod))).collect()
    }

    /// How many claims a pool has, by what becomes of them (SCH-240; by deletion timestamp, Y28).
    pub fn counts(&self, pool: &str) -> ClaimCounts {
        let mut counts = ClaimCounts { reserved: self.ledger.reserved(pool), ..ClaimCounts::default() };
        for claim in self.claims.values().filter(|claim| claim.pool.as_deref() == Some(pool)) {
            let going = claim.deleting_since.is_some()
                || claim.instance_terminating.is_some_and(ConditionView::is_true)
                || self.marked.contains(&claim.name);
            match (going, self.ledger.is_pending(&claim.name)) {
                (true, _) => counts.deleting += 1,
                (false, true) => counts.pending += 1,
                (false, false) => counts.active += 1,
            }
        }
        counts
    }

    /// Keeps room for up to `wanted` new claims of a pool; how many there is room for (LIF-109).
    pub fn reserve(&mut self, pool: &str, wanted: u64, limit: Option<u64>) -> u64 {
        let granted = self.counts(pool).grant(wanted, limit);
        self.ledger.reserve(pool, granted);
        granted
    }

    pub fn release(&mut self, pool: &str, count: u64) {
        self.ledger.release(pool, count);
    }

    /// A disruption command is about to replace the claim, and brings the replacement along.
    pub fn set_pending(&mut self, claim: &str, pending: bool) {
        self.ledger.set_pending(claim, pending);
    }

    pub fn is_pending(&self, claim: &str) -> bool {
        self.ledger.is_pending(claim)
    }
}
