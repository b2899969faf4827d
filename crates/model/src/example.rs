//! Plain views for tests: each has only a name, and everything else as unremarkable as it can be.
//!
//! A test says what it is about by changing these (`PodView { critical: true, ..example::pod("a") }`, or `but` for what pods share), so a new field is
//! added in one place. Behind the feature `example`, which only tests turn on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::budget::Budgets;
use crate::claim::ClaimView;
use crate::duration::{GoDuration, NillableDuration};
use crate::node::NodeView;
use crate::pod::{PodId, PodOwner, PodPhase, PodView};
use crate::pool::{ConsolidationPolicy, NodeClassRef, PoolView};
use crate::requirements::Requirements;
use crate::resources::Resources;

/// A pod of namespace `default` that asks for nothing and has no node.
pub fn pod(name: &str) -> PodView {
    PodView {
        id: PodId::new("default", name),
        uid: format!("uid-of-{name}").into(),
        created_at: Timestamp::UNIX_EPOCH.into(),
        deleting_since: None,
        started_at: None,
        node_name: None,
        nominated_node_name: None,
        class: Arc::default(),
        priority: 0,
        disruption_cost: 0,
        deletion_cost: 0,
        phase: PodPhase::Pending,
        owner: PodOwner::Other,
        unschedulable: false,
        unjudged: false,
        unready: false,
        ready: false,
        critical: false,
    }
}

/// A node without labels, taints, resources or provider ID, not ready.
pub fn node(name: &str) -> NodeView {
    NodeView { uid: format!("uid-of-{name}"), ..NodeView::new(name) }
}

/// A claim without a pool that nothing has happened to.
pub fn claim(name: &str) -> ClaimView {
    ClaimView { uid: format!("uid-of-{name}"), ..ClaimView::new(name, node_class()) }
}

/// A ready pool without restrictions.
pub fn pool(name: &str) -> PoolView {
    PoolView {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        deleting: false,
        ready: true,
        weight: 0,
        limits: Resources::new(),
        replicas: None,
        node_class: node_class(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        requirements: Requirements::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        expire_after: NillableDuration::Never,
        termination_grace_period: None,
        budgets: Budgets::Parsed(Vec::new()),
        consolidation_policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
        consolidate_after: NillableDuration::After(GoDuration::ZERO),
        hash: None,
    }
}

pub fn node_class() -> NodeClassRef {
    NodeClassRef { group: "example.com".to_owned(), kind: "ExampleClass".to_owned(), name: "default".to_owned() }
}
