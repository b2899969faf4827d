//! A NodePool as decisions see it.

use std::collections::BTreeMap;
use std::fmt;

use crate::budget::Budgets;
use crate::duration::{GoDuration, NillableDuration};
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::Taint;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeClassRef {
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl NodeClassRef {
    /// The label that marks objects of this class (API-126).
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

impl fmt::Display for NodeClassRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.kind, self.group, self.name)
    }
}

/// Which nodes of a pool consolidation may take (DIS §16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsolidationPolicy {
    WhenEmpty,
    #[default]
    WhenEmptyOrUnderutilized,
    /// Only where the saving is worth the disturbance.
    Balanced,
}

impl ConsolidationPolicy {
    pub const ALL: [Self; 3] = [Self::WhenEmpty, Self::WhenEmptyOrUnderutilized, Self::Balanced];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WhenEmpty => "WhenEmpty",
            Self::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
            Self::Balanced => "Balanced",
        }
    }
}

/// What claims are compared with to find out that their pool's template changed (API-216).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateHash {
    pub value: u64,
    /// Hashes of different versions say nothing about each other.
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    pub name: String,
    pub uid: String,
    pub deleting: bool,
    /// The `Ready` condition is True.
    pub ready: bool,
    pub weight: u32,
    pub limits: Resources,
    /// Set on static pools.
    pub replicas: Option<u64>,
    pub node_class: NodeClassRef,
    /// Template labels, the pool's own label and the class label.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Template requirements together with the labels.
    pub requirements: Requirements,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub expire_after: NillableDuration,
    pub termination_grace_period: Option<GoDuration>,
    pub budgets: Budgets,
    pub consolidation_policy: ConsolidationPolicy,
    pub consolidate_after: NillableDuration,
    /// The static hash of the template; `None` when the template cannot be read.
    pub hash: Option<TemplateHash>,
}

impl PoolView {
    /// Takes part in scheduling (SCH-22).
    pub fn is_schedulable(&self) -> bool {
        self.ready && !self.deleting && self.replicas.is_none()
    }
}

/// How many claims a pool has, by what becomes of them (SCH-240).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimCounts {
    /// Not being deleted, the pending ones left out.
    pub active: u64,
    pub deleting: u64,
    /// About to be replaced by a disruption command, which brings the replacement along.
    pub pending: u64,
    /// Granted but not created yet.
    pub reserved: u64,
}

impl ClaimCounts {
    fn all(self) -> u64 {
        self.active.saturating_add(self.deleting).saturating_add(self.pending).saturating_add(self.reserved)
    }

    /// How many of `wanted` the limit allows (LIF-109).
    pub fn grant(self, wanted: u64, limit: Option<u64>) -> u64 {
        limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(self.all())))
    }
}

/// Heavier pools first, equal weights by name, later in the alphabet first (API-52).
pub fn by_precedence(a: &PoolView, b: &PoolView) -> std::cmp::Ordering {
    b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn pool(name: &str, weight: u32) -> PoolView {
        PoolView { weight, ..example::pool(name) }
    }

    /// API-52: weight first, then the later name.
    #[test]
    fn precedence() {
        let mut pools = [pool("a", 0), pool("b", 0), pool("c", 100), pool("d", 1)];
        pools.sort_by(by_precedence);
        assert_eq!(pools.map(|pool| pool.name), ["c", "d", "b", "a"]);
    }

    /// API-53, API-58, SCH-22, LIF-92: static, deleted and unready pools take no part.
    #[test]
    fn schedulable_pools() {
        let ready = pool("a", 0);
        assert!(ready.is_schedulable());
        assert!(!PoolView { replicas: Some(0), ..ready.clone() }.is_schedulable());
        assert!(!PoolView { ready: false, ..ready.clone() }.is_schedulable());
        assert!(!PoolView { deleting: true, ..ready }.is_schedulable());
    }

    /// API-126.
    #[test]
    fn class_label() {
        assert_eq!(example::node_class().label_key(), "example.com/exampleclass");
    }
}
