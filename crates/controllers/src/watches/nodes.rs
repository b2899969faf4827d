//! Nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use karpenter_state::{Change, Source};
use kube::ResourceExt as _;

use super::{Follower, ObjectId, names};
use crate::context::Context;

pub(super) struct Nodes<'a>(pub(super) &'a Context);

impl Follower for Nodes<'_> {
    type Object = Node;

    fn applied(&self, node: Node) {
        self.0.note_node(node);
    }

    /// Whatever was missed before a list is made up for.
    fn found(&self, node: Node) {
        let node = self.0.note_node(node);
        let known = self.0.state().node(&node.name_any()).cloned();
        if let Some(known) = known {
            self.0.wake_for_node(&known);
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        self.0.nodes.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        self.0.lose_node(&id.name);
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.nodes.retain(&names);
        self.0.state().apply(Change::Listed(Source::Nodes, names));
        // Nodes that went away unseen leave claims waiting.
        for claim in &self.0.claims.names() {
            self.0.queues.wake_claim(claim);
        }
        self.0.provision.nudge();
    }
}
