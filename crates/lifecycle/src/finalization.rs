//! How a deleted claim goes: first its nodes, then its instance, then its finalizer.

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;

use crate::deadline::deadline_to_write;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finalization {
    /// Not being deleted, or without our finalizer.
    NotOurs,
    /// Write down by when the node has to be empty.
    WriteDeadline(Timestamp),
    /// Delete these nodes; node termination drains them. Wait until they are gone.
    DeleteNodes(Vec<String>),
    /// All nodes are being deleted: wait for them.
    WaitForNodes,
    /// No instance is known, but one may have been launched without anybody writing it down: ask the provider (Y1). If there
    /// is one, terminate it, else remove the finalizer.
    FindInstance,
    /// Ask the provider to terminate, until it says the instance is gone; then remove the finalizer.
    TerminateInstance,
}

/// LIF-38 to LIF-44. A node that never registered is left to the cloud's own controller.
pub fn finalization(claim: &ClaimView, nodes: &[&NodeView]) -> Finalization {
    if claim.deleting_since.is_none() || !claim.has_finalizer {
        return Finalization::NotOurs;
    }
    if let Some(deadline) = deadline_to_write(claim) {
        return Finalization::WriteDeadline(deadline);
    }
    if claim.registered.is_true() && !nodes.is_empty() {
        let living: Vec<String> =
            nodes.iter().filter(|node| node.deleting_since.is_none()).map(|node| node.name.clone()).collect();
        return if living.is_empty() { Finalization::WaitForNodes } else { Finalization::DeleteNodes(living) };
    }
    if claim.provider_id.is_some() { Finalization::TerminateInstance } else { Finalization::FindInstance }
}
