//! Whether the claim's node has joined, and what it gets when it does.

use std::collections::BTreeMap;

use karpenter_model::claim::{ClaimView, Status};
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::taints::{self, Taint};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Registered already, or failed for good.
    Done,
    NotYet(NotRegistered),
    /// Write this to the node, then the claim is registered.
    Register(RegisteredNode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRegistered {
    NodeNotFound,
    /// Several nodes share the provider ID. Final.
    MultipleNodes,
}

/// What a node looks like once it is registered (LIF-23, LIF-25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredNode {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// The node came without the guard taint, so pods may have been bound too early (LIF-22).
    pub guard_was_missing: bool,
}

pub fn registration(claim: &ClaimView, nodes: &[&NodeView]) -> Registration {
    if claim.registered.status != Status::Unknown {
        return Registration::Done;
    }
    match nodes {
        _ if claim.provider_id.is_none() => Registration::NotYet(NotRegistered::NodeNotFound),
        [] => Registration::NotYet(NotRegistered::NodeNotFound),
        [node] => Registration::Register(registered_node(claim, node)),
        _ => Registration::NotYet(NotRegistered::MultipleNodes),
    }
}

fn registered_node(claim: &ClaimView, node: &NodeView) -> RegisteredNode {
    let guard = Taint::unregistered();
    let has_guard = node.taints.iter().any(|taint| taint.is_same(&guard));
    let mut labels = node.labels.clone();
    labels.extend(claim.labels.clone());
    labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
    let mut annotations = node.annotations.clone();
    annotations.extend(claim.annotations.clone());
    let mut node_taints = node.taints.clone();
    if !node.opts_out_of_taint_sync() {
        taints::merge(&mut node_taints, &claim.taints);
        taints::merge(&mut node_taints, &claim.startup_taints);
    }
    node_taints.retain(|taint| !taint.is_same(&guard));
    RegisteredNode {
        name: node.name.clone(),
        labels,
        annotations,
        taints: node_taints,
        guard_was_missing: !has_guard && !node.is_registered(),
    }
}
