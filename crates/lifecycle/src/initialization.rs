//! Whether a registered node is ready for everything it was launched for.

use std::collections::BTreeMap;

use karpenter_model::annotations::REQUESTED_DRA_DRIVERS;
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::taints::Taint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initialization {
    Done,
    /// Not registered, or rebooting, so there is nothing to look at (V15-67).
    NotConcerned,
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
    DriverNotPublished(String),
}

impl NotInitialized {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NodeNotFound => "NodeNotFound",
            Self::NodeNotReady => "NodeNotReady",
            Self::StartupTaint(_) => "StartupTaintsExist",
            Self::EphemeralTaint(_) => "KnownEphemeralTaintsExist",
            Self::ResourceNotRegistered(_) => "ResourceNotRegistered",
            Self::DriverNotPublished(_) => "DRADriverPoolsNotPublished",
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
            Self::DriverNotPublished(driver) => {
                format!("DRA driver \"{driver}\" has not published a complete resource pool")
            }
        }
    }
}

/// One ResourceSlice of a node: a part of a pool of devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceView {
    pub driver: String,
    pub pool: String,
    pub generation: i64,
    /// How many slices the pool has at this generation, by its own word.
    pub slices_in_pool: i64,
}

/// The slices that a node publishes; `None` where dynamic resources are not looked at at all (LC-32).
pub type Slices<'a> = Option<&'a [SliceView]>;

pub fn initialization(claim: &ClaimView, nodes: &[&NodeView], slices: Slices<'_>) -> Initialization {
    if claim.initialized.is_true() {
        return Initialization::Done;
    }
    if !claim.registered.is_true() || claim.rebooting {
        return Initialization::NotConcerned;
    }
    let [node] = nodes else { return Initialization::NotYet(NotInitialized::NodeNotFound) };
    let obstacle = first_obstacle(claim, node).or_else(|| {
        let missing = missing_driver(claim, slices?)?;
        Some(NotInitialized::DriverNotPublished(missing))
    });
    match obstacle {
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

/// The first driver that has no complete pool on the node (LIF-29).
fn missing_driver(claim: &ClaimView, slices: &[SliceView]) -> Option<String> {
    let requested = claim.annotations.get(REQUESTED_DRA_DRIVERS)?;
    let mut drivers = requested.split(',').map(str::trim).filter(|driver| !driver.is_empty());
    drivers.find(|driver| !has_complete_pool(driver, slices)).map(ToOwned::to_owned)
}

fn has_complete_pool(driver: &str, slices: &[SliceView]) -> bool {
    let mut pools: BTreeMap<&str, Vec<&SliceView>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.driver == driver) {
        pools.entry(&slice.pool).or_default().push(slice);
    }
    pools.values().any(|pool| is_complete(pool))
}

fn is_complete(pool: &[&SliceView]) -> bool {
    let Some(newest) = pool.iter().map(|slice| slice.generation).max() else { return false };
    let current: Vec<_> = pool.iter().filter(|slice| slice.generation == newest).collect();
    let published = i64::try_from(current.len()).unwrap_or(i64::MAX);
    published > 0 && current.iter().all(|slice| slice.slices_in_pool == published)
}
