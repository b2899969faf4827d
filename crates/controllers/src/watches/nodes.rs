//! Nodes, and what drivers publish about their devices.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_api::convert;
use karpenter_lifecycle::SliceView;
use karpenter_model::taints::Taint;
use karpenter_state::{Change, Source};
use kube::{Api, ResourceExt as _};

use super::{Follower, ObjectId, follow, names};
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

/// Clusters without dynamic resources do not have the kind.
pub(super) async fn follow_slices(ctx: &Context) {
    if ctx.features.dynamic_resources {
        follow(ctx, Api::all(ctx.client.clone()), Slices(ctx)).await;
    }
}

pub(super) struct Slices<'a>(pub(super) &'a Context);

impl Slices<'_> {
    fn wake(&self, node: &str) {
        let node = self.0.nodes.get(node);
        let provider_id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
        Nodes(self.0).wake_claims(provider_id);
    }
}

impl Follower for Slices<'_> {
    type Object = ResourceSlice;

    /// Slices for the whole cluster say nothing about a node (LIF-29).
    fn applied(&self, slice: ResourceSlice) {
        let owners = slice.owner_references().iter();
        let owner = owners.filter(|owner| owner.kind == "Node").map(|owner| owner.name.clone()).next();
        let node = slice.spec.node_name.clone().filter(|name| !name.is_empty()).or(owner);
        let pool = &slice.spec.pool;
        let view = SliceView {
            driver: slice.spec.driver.clone(),
            pool: pool.name.clone(),
            generation: pool.generation,
            slices_in_pool: pool.resource_slice_count,
        };
        self.0.memory.note_slice(&slice.name_any(), node.clone(), view);
        if let Some(node) = node {
            self.wake(&node);
        }
    }

    fn gone(&self, id: &ObjectId) {
        if let Some(node) = self.0.memory.forget_slice(&id.name) {
            self.wake(&node);
        }
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.memory.retain_slices(&names(ids));
    }
}
