//! Which objects are to be looked at: filled by the watches of the core.

use karpenter_api::kinds::NodeClaim;
use karpenter_controllers::listeners::Listener;
use karpenter_controllers::queue::Queue;

#[derive(Debug, Default)]
pub struct Wakes {
    pub(crate) classes: Queue,
    pub(crate) hashes: Queue,
    /// Claims whose instances may lack tags.
    pub(crate) tags: Queue,
    /// Nodes that may show how much their instance type has.
    pub(crate) nodes: Queue,
}

impl Listener for Wakes {
    fn class_changed(&self, name: &str) {
        self.classes.add(name);
        self.hashes.add(name);
    }

    fn claim_seen(&self, name: &str) {
        self.tags.add(name);
    }

    /// A class that is to go waits for its claims; how they come and change otherwise says nothing about it (AWS-35).
    fn claim_gone(&self, claim: &NodeClaim) {
        self.classes.add(&claim.spec.node_class_ref.name);
    }

    fn node_seen(&self, name: &str) {
        self.nodes.add(name);
    }
}
