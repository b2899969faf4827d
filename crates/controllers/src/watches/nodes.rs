//! Nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::convert;
use karpenter_model::taints::Taint;
use karpenter_state::{Change, Source};
use kube::ResourceExt as _;

use super::{Follower, ObjectId, names};
use crate::context::Context;

pub(super) struct Nodes<'a>(pub(super) &'a Context);

impl Nodes<'_> {
    fn wake_claims(&self, provider_id: Option<&String>) {
        let claims = provider_id.map(|id| self.0.state().claims_by_provider_id(id)).unwrap_or_default();
        for claim in &claims {
            self.0.queues.wake_claim(&claim.name);
        }
    }
}

impl Follower for Nodes<'_> {
    type Object = Node;

    fn applied(&self, node: Node) {
        let node = self.0.note_node(node);
        self.wake_claims(node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()));
        self.0.listeners.tell(|listener| listener.node_seen(&node.name_any()));
        if node.metadata.deletion_timestamp.is_some() {
            self.0.queues.nodes.add(node.name_any());
        }
        if self.0.legacy_repair.is_some() {
            self.0.queues.sick.add(node.name_any());
        }
        let disrupted = Taint::disrupted();
        if convert::node(&node).view.taints.iter().any(|taint| taint.is_same(&disrupted)) {
            // Its pods will need another place (SCH-1).
            self.0.provision.trigger(&node.uid().unwrap_or_default());
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        self.0.nodes.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        let node = self.0.nodes.get(&id.name);
        if let Some(node) = &node {
            self.0.report.gone(node.as_ref());
        }
        self.0.nodes.remove(&id.name);
        self.0.state().apply(Change::NodeGone(id.name.clone()));
        let provider_id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
        self.wake_claims(provider_id);
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.nodes.retain(&names);
        self.0.state().apply(Change::Listed(Source::Nodes, names));
        // Nodes that went away unseen leave claims waiting.
        for claim in &self.0.claims.names() {
            self.0.queues.wake_claim(claim);
        }
        self.0.provision.notify_one();
    }
}
