//! Whether the claim's node has joined, and what it gets when it does.

use std::collections::BTreeMap;

use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::taints::{self, Taint};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    Done,
    NotYet(NotRegistered),
    /// Write this to the node; then, if nobody objects, the claim is registered.
    Write(SyncedNode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRegistered {
    NodeNotFound,
    /// Several nodes share the provider ID. Looked at again when their number changes (Y7).
    MultipleNodes,
}

/// What the provider's hooks say about the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    Satisfied,
    /// The node gets everything but the permission to run pods (LIF-24).
    Pending,
}

/// What a node looks like once it has what its claim says (LIF-23, LIF-25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncedNode {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// Those that it gets; it keeps what it has beside them.
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// The node came without the guard taint, so pods may have been bound too early (LIF-22).
    pub guard_was_missing: bool,
}

/// LIF-20 to LIF-26.
pub fn registration(claim: &ClaimView, nodes: &[&NodeView], hooks: Hooks) -> Registration {
    if claim.registered.is_true() {
        return Registration::Done;
    }
    match nodes {
        _ if claim.provider_id.is_none() => Registration::NotYet(NotRegistered::NodeNotFound),
        [] => Registration::NotYet(NotRegistered::NodeNotFound),
        [node] => Registration::Write(synced_node(claim, node, hooks)),
        _ => Registration::NotYet(NotRegistered::MultipleNodes),
    }
}

fn synced_node(claim: &ClaimView, node: &NodeView, hooks: Hooks) -> SyncedNode {
    let guard = Taint::unregistered();
    let has_guard = node.taints.iter().any(|taint| taint.is_same(&guard));
    let mut labels = node.labels.to_map();
    labels.extend(claim.labels.to_map());
    let mut node_taints = node.taints.clone();
    if !node.opts_out_of_taint_sync() {
        taints::merge(&mut node_taints, &claim.taints);
        taints::merge(&mut node_taints, &claim.startup_taints);
    }
    if hooks == Hooks::Satisfied {
        labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
        node_taints.retain(|taint| !taint.is_same(&guard));
    }
    SyncedNode {
        name: node.name.clone(),
        labels,
        annotations: claim.annotations.to_map(),
        taints: node_taints,
        guard_was_missing: !has_guard && !node.is_registered(),
    }
}
