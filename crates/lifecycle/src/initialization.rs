//! Whether a registered node is ready for everything it was launched for.

use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::taints::Taint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initialization {
    Done,
    /// Not registered, so there is nothing to look at.
    NotRegistered,
    NotYet(NotInitialized),
    /// Label the node, then the claim is initialized.
    Initialize {
        node: String,
    },
}

/// In the order in which the checks are made (LIF-27).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotInitialized {
    NodeNotFound,
    NodeNotReady,
    StartupTaint(Taint),
    EphemeralTaint(Taint),
    ResourceNotRegistered(String),
}

impl NotInitialized {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NodeNotFound => "NodeNotFound",
            Self::NodeNotReady => "NodeNotReady",
            Self::StartupTaint(_) => "StartupTaintsExist",
            Self::EphemeralTaint(_) => "KnownEphemeralTaintsExist",
            Self::ResourceNotRegistered(_) => "ResourceNotRegistered",
        }
    }

    /// API-350.
    pub fn message(&self) -> String {
        match self {
            Self::NodeNotFound => "Node not registered with cluster".to_owned(),
            Self::NodeNotReady => "Node status is NotReady".to_owned(),
            Self::StartupTaint(taint) => format!("StartupTaint \"{taint}\" still exists"),
            Self::EphemeralTaint(taint) => format!("KnownEphemeralTaint \"{taint}\" still exists"),
            Self::ResourceNotRegistered(name) => format!("Resource \"{name}\" was requested but not registered"),
        }
    }
}

pub fn initialization(claim: &ClaimView, nodes: &[&NodeView]) -> Initialization {
    if claim.initialized.is_true() {
        return Initialization::Done;
    }
    if !claim.registered.is_true() {
        return Initialization::NotRegistered;
    }
    let [node] = nodes else { return Initialization::NotYet(NotInitialized::NodeNotFound) };
    match first_obstacle(claim, node) {
        Some(obstacle) => Initialization::NotYet(obstacle),
        None => Initialization::Initialize { node: node.name.clone() },
    }
}

fn first_obstacle(claim: &ClaimView, node: &NodeView) -> Option<NotInitialized> {
    if !node.ready {
        return Some(NotInitialized::NodeNotReady);
    }
    let is_startup = |taint: &&Taint| claim.startup_taints.iter().any(|startup| startup.is_same(taint));
    if let Some(taint) = node.taints.iter().find(is_startup) {
        return Some(NotInitialized::StartupTaint(taint.clone()));
    }
    if let Some(taint) = node.taints.iter().find(|taint| taint.is_known_ephemeral()) {
        return Some(NotInitialized::EphemeralTaint(taint.clone()));
    }
    claim
        .requests
        .iter()
        .find(|(name, amount)| !amount.is_zero() && node.allocatable.amount(name).is_zero())
        .map(|(name, _)| NotInitialized::ResourceNotRegistered(name.to_owned()))
}
