//! What this process remembers. All of it can be lost: whatever matters is found again from the API and the cloud (D7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_lifecycle::{Collector, EvictionKey, Insistence, Ring, SliceView};
use karpenter_model::node::NodeView;
use karpenter_platform::Instance;
use karpenter_state::Prices;

use crate::disruption::{Commands, Setbacks, Slots};
use crate::pod_deletion_cost::DeletionCosts;

#[derive(Debug, Default)]
pub struct Memory {
    /// What was launched but is not on the claim yet, by claim UID (API-239).
    launches: Mutex<BTreeMap<String, Instance>>,
    /// Since when the provider has not known the instance of a node, by node UID.
    missing: Mutex<BTreeMap<String, Timestamp>>,
    evictions: Mutex<BTreeMap<EvictionKey, Asked>>,
    /// Outcomes of registrations, by pool UID.
    rings: Mutex<BTreeMap<String, Ring>>,
    /// UIDs of claims whose outcome is in a ring.
    recorded: Mutex<BTreeSet<String>>,
    collector: Mutex<Collector>,
    /// When a claim was last compared with its node, by claim UID.
    checked: Mutex<BTreeMap<String, Timestamp>>,
    /// When the instance type of a claim was last seen on the list, by claim UID.
    found_types: Mutex<BTreeMap<String, Timestamp>>,
    /// What drivers have published, by slice, with the node it is about.
    slices: Mutex<BTreeMap<String, (String, SliceView)>>,
    /// When something last happened to pods, by node.
    pod_events: Mutex<BTreeMap<String, Timestamp>>,
    prices: Mutex<Prices>,
    /// Disruption commands under way. They are on the claims they concern too.
    commands: Mutex<Commands>,
    /// What lately went wrong with replacements.
    setbacks: Mutex<Setbacks>,
    /// Reserved instances that are kept for the pods that had to leave them.
    slots: Mutex<Slots>,
    /// What ReplicaSets are told about pods, and what they are to be told.
    deletion_costs: Mutex<DeletionCosts>,
}

/// A pod that was asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    insistence: Insistence,
    /// The API took the eviction on.
    agreed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that could panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(crate) fn launched(&self, claim_uid: &str) -> Option<Instance> {
        lock(&self.launches).get(claim_uid).cloned()
    }

    pub(crate) fn remember_launch(&self, claim_uid: &str, instance: &Instance) {
        lock(&self.launches).insert(claim_uid.to_owned(), instance.clone());
    }

    pub(crate) fn launched_ids(&self) -> Vec<String> {
        lock(&self.launches).values().map(|instance| instance.provider_id.clone()).collect()
    }

    pub(crate) fn forget_launch(&self, claim_uid: &str) {
        lock(&self.launches).remove(claim_uid);
    }

    /// The first time counts.
    pub(crate) fn note_missing(&self, node_uid: &str, now: Timestamp) -> Timestamp {
        *lock(&self.missing).entry(node_uid.to_owned()).or_insert(now)
    }

    pub(crate) fn forget_missing(&self, node_uid: &str) {
        lock(&self.missing).remove(node_uid);
    }

    /// Whether the pod was not asked to leave before.
    pub(crate) fn ask_to_leave(&self, key: &EvictionKey, insistence: Insistence) -> bool {
        let mut evictions = lock(&self.evictions);
        let known = evictions.get(key).copied();
        let merged = known.map_or(insistence, |known| known.insistence.merged(insistence));
        let agreed = known.is_some_and(|known| known.agreed);
        evictions.insert(key.clone(), Asked { insistence: merged, agreed });
        // A tighter deadline is news too: the next attempt may be far away.
        known.map(|known| known.insistence) != Some(merged)
    }

    pub(crate) fn insistence(&self, key: &EvictionKey) -> Option<Insistence> {
        lock(&self.evictions).get(key).map(|asked| asked.insistence)
    }

    pub(crate) fn note_agreed(&self, key: &EvictionKey) {
        if let Some(asked) = lock(&self.evictions).get_mut(key) {
            asked.agreed = true;
        }
    }

    pub(crate) fn has_agreed(&self, key: &EvictionKey) -> bool {
        lock(&self.evictions).get(key).is_some_and(|asked| asked.agreed)
    }

    /// The pod is seen to go: it need not be asked again, unless it takes too long (Y31).
    pub(crate) fn note_leaving(&self, key: &EvictionKey) {
        if self.has_agreed(key) {
            self.stop_asking(key);
        }
    }

    pub(crate) fn stop_asking(&self, key: &EvictionKey) {
        lock(&self.evictions).remove(key);
    }

    /// Who is being asked to leave in a namespace, and has not agreed.
    pub(crate) fn asked_in(&self, namespace: &str) -> Vec<EvictionKey> {
        let evictions = lock(&self.evictions);
        let asked = evictions.iter().filter(|(key, asked)| key.id.namespace == namespace && !asked.agreed);
        asked.map(|(key, _)| key.clone()).collect()
    }

    pub fn evictions_under_way(&self) -> usize {
        lock(&self.evictions).len()
    }

    pub(crate) fn is_recorded(&self, claim_uid: &str) -> bool {
        lock(&self.recorded).contains(claim_uid)
    }

    pub(crate) fn note_recorded(&self, claim_uid: &str) {
        lock(&self.recorded).insert(claim_uid.to_owned());
    }

    pub(crate) fn rings(&self) -> MutexGuard<'_, BTreeMap<String, Ring>> {
        lock(&self.rings)
    }

    pub(crate) fn prices(&self) -> MutexGuard<'_, Prices> {
        lock(&self.prices)
    }

    pub(crate) fn commands(&self) -> MutexGuard<'_, Commands> {
        lock(&self.commands)
    }

    pub(crate) fn setbacks(&self) -> MutexGuard<'_, Setbacks> {
        lock(&self.setbacks)
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        lock(&self.slots)
    }

    pub(crate) fn deletion_costs(&self) -> MutexGuard<'_, DeletionCosts> {
        lock(&self.deletion_costs)
    }

    pub(crate) fn collector(&self) -> MutexGuard<'_, Collector> {
        lock(&self.collector)
    }

    pub(crate) fn checks(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        lock(&self.checked)
    }

    pub(crate) fn found_types(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        lock(&self.found_types)
    }

    /// What concerned a claim that is gone.
    pub(crate) fn forget_claim(&self, claim_uid: &str) {
        self.forget_launch(claim_uid);
        lock(&self.checked).remove(claim_uid);
        lock(&self.recorded).remove(claim_uid);
        lock(&self.found_types).remove(claim_uid);
    }

    pub(crate) fn note_slice(&self, name: &str, node: Option<String>, slice: SliceView) {
        match node {
            Some(node) => lock(&self.slices).insert(name.to_owned(), (node, slice)),
            None => lock(&self.slices).remove(name),
        };
    }

    /// The node that the slice was about.
    pub(crate) fn forget_slice(&self, name: &str) -> Option<String> {
        lock(&self.slices).remove(name).map(|(node, _)| node)
    }

    pub(crate) fn retain_slices(&self, names: &BTreeSet<String>) {
        lock(&self.slices).retain(|name, _| names.contains(name));
    }

    pub(crate) fn slices_of(&self, nodes: &[&NodeView]) -> Vec<SliceView> {
        let slices = lock(&self.slices);
        let own = slices.values().filter(|(name, _)| nodes.iter().any(|node| node.name == *name));
        own.map(|(_, slice)| slice.clone()).collect()
    }

    /// The latest of what happened on a node, until somebody takes it.
    pub(crate) fn note_pod_event(&self, node: &str, at: Timestamp) {
        let mut events = lock(&self.pod_events);
        let latest = events.entry(node.to_owned()).or_insert(at);
        *latest = at.max(*latest);
    }

    pub(crate) fn take_pod_event(&self, node: &str) -> Option<Timestamp> {
        lock(&self.pod_events).remove(node)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::pod::PodId;

    use super::*;

    /// LIF-58, LC-72: concurrent additions neither lose nor repeat an entry.
    #[test]
    fn a_thousand_pods_are_asked_once_each() {
        let memory = Arc::new(Memory::default());
        let key = |number: usize| EvictionKey {
            id: PodId::new("default", format!("pod-{number}")),
            uid: number.to_string().into(),
        };
        let news: usize = std::thread::scope(|scope| {
            let ask = |memory: Arc<Memory>| {
                scope.spawn(move || {
                    let asked =
                        (0..1000).filter(|n| memory.ask_to_leave(&key(*n), Insistence::Delete { deadline: None }));
                    asked.count()
                })
            };
            let asking: Vec<_> = (0..4).map(|_| ask(memory.clone())).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((news, memory.evictions_under_way()), (1000, 1000));
        let tighter = Insistence::Delete { deadline: Some(Timestamp::UNIX_EPOCH) };
        assert!(memory.ask_to_leave(&key(1), tighter), "a deadline is news");
        assert!(!memory.ask_to_leave(&key(1), Insistence::Delete { deadline: None }), "LC-69: the tight one stays");
        assert_eq!(memory.insistence(&key(1)), Some(tighter));
        memory.stop_asking(&key(1));
        assert_eq!(memory.evictions_under_way(), 999);
    }
}
