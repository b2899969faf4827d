//! Which objects are to be looked at: filled by the watches of the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use karpenter_api::kinds::NodeClaim;
use karpenter_aws::provider_id::instance_id;
use karpenter_controllers::listeners::Listener;
use karpenter_controllers::queue::Queue;
use kube::ResourceExt as _;

#[derive(Debug, Default)]
pub struct Wakes {
    pub(crate) classes: Queue,
    pub(crate) hashes: Queue,
    /// Claims whose instances may lack tags.
    pub(crate) tags: Queue,
    /// Nodes that may show how much their instance type has.
    pub(crate) nodes: Queue,
    pub(crate) instances: Instances,
}

/// Which claims have an instance, by its id. Claims are read when somebody asks, and only those that have changed since: of
/// fifteen thousand claims, ten messages of the queue need ten.
#[derive(Debug, Default)]
pub(crate) struct Instances(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    changed: BTreeSet<String>,
    by_id: BTreeMap<String, BTreeSet<String>>,
    id_of: BTreeMap<String, String>,
}

impl Known {
    fn learn(&mut self, claim: &str, id: Option<String>) {
        if let Some(old) = self.id_of.remove(claim)
            && let Some(names) = self.by_id.get_mut(&old)
        {
            names.remove(claim);
            if names.is_empty() {
                self.by_id.remove(&old);
            }
        }
        if let Some(id) = id {
            self.by_id.entry(id.clone()).or_default().insert(claim.to_owned());
            self.id_of.insert(claim.to_owned(), id);
        }
    }
}

impl Instances {
    fn changed(&self, claim: String) {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).changed.insert(claim);
    }

    /// The claims of these instances; `provider_id` tells a claim's as it is now.
    pub(crate) fn claims_of(
        &self,
        ids: &BTreeSet<&str>,
        provider_id: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in std::mem::take(&mut known.changed) {
            let id = provider_id(&claim).and_then(|id| instance_id(&id).ok().map(str::to_owned));
            known.learn(&claim, id);
        }
        let mut found = Vec::new();
        for id in ids {
            let claims = known.by_id.get(*id).into_iter().flatten();
            found.extend(claims.map(|claim| ((*id).to_owned(), claim.clone())));
        }
        found
    }
}

impl Listener for Wakes {
    fn class_changed(&self, name: &str) {
        self.classes.add(name);
        self.hashes.add(name);
    }

    fn claim_seen(&self, name: &str) {
        self.tags.add(name);
        self.instances.changed(name.to_owned());
    }

    /// A class that is to go waits for its claims; how they come and change otherwise says nothing about it (AWS-35).
    fn claim_gone(&self, claim: &NodeClaim) {
        self.classes.add(&claim.spec.node_class_ref.name);
        self.instances.changed(claim.name_any());
    }

    fn node_seen(&self, name: &str) {
        self.nodes.add(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has changed is read again, and nothing else.
    #[test]
    fn claims_are_found_by_their_instances() {
        let instances = Instances::default();
        let mut claims = BTreeMap::from([("a", "aws:///z/i-1"), ("b", "aws:///z/i-2"), ("c", "nonsense")]);
        let found = |claims: &BTreeMap<&str, &str>, id: &str| -> Vec<String> {
            let all = instances.claims_of(&[id].into(), |claim| claims.get(claim).map(|id| (*id).to_owned()));
            all.into_iter().map(|(_, claim)| claim).collect()
        };
        for claim in ["a", "b", "c"] {
            instances.changed(claim.to_owned());
        }
        assert_eq!((found(&claims, "i-1"), found(&claims, "i-3")), (vec!["a".to_owned()], vec![]));
        claims.insert("b", "aws:///z/i-1");
        assert_eq!(found(&claims, "i-2"), ["b"], "nobody has said so");
        instances.changed("b".to_owned());
        assert_eq!((found(&claims, "i-1"), found(&claims, "i-2")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        claims.remove("a");
        instances.changed("a".to_owned());
        assert_eq!(found(&claims, "i-1"), ["b"]);
    }
}
