//! What every controller has at hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::convert;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_api::names::LabelPolicy;
use karpenter_platform::{Clock, CloudProvider, Instance, Measured};
use karpenter_solver::Options as PlanningOptions;
use karpenter_state::{Change, ClusterState};
use kube::core::DynamicObject;
use kube::{Api, Client};
use tokio::sync::Notify;

use crate::objects::Objects;
use crate::queue::Queue;
use crate::report::{Observability, Report};

/// How pending pods are gathered before a pass (API-159).
#[derive(Debug, Clone, Copy)]
pub struct Batching {
    pub idle: Duration,
    pub longest: Duration,
}

/// What the controllers are told once, at the start.
#[derive(Debug, Clone)]
pub struct Options {
    /// What manifests may say about labels on the chosen provider.
    pub policy: LabelPolicy,
    pub batching: Batching,
    pub planning: PlanningOptions,
    /// How many objects a controller works on at a time.
    pub workers: usize,
    pub observability: Observability,
}

#[derive(Debug, Default)]
pub struct Queues {
    pub claims: Queue,
    pub nodes: Queue,
    pub pools: Queue,
}

/// Shared by all controllers. Object stores hold what the API last said; `state` holds the same as decisions see it.
pub struct Context {
    pub client: Client,
    pub provider: Arc<dyn CloudProvider>,
    pub clock: Arc<dyn Clock>,
    pub policy: LabelPolicy,
    pub batching: Batching,
    pub planning: PlanningOptions,
    /// How many objects a controller works on at a time.
    pub workers: usize,
    /// Where everything that happens is told.
    pub report: Report,
    pub claims: Objects<NodeClaim>,
    pub nodes: Objects<Node>,
    pub pools: Objects<NodePool>,
    pub node_classes: Objects<DynamicObject>,
    pub queues: Queues,
    /// Some pod waits for capacity, or something changed that could give it some.
    pub provision: Notify,
    /// What was launched but is not on the claim yet, by claim UID (API-239).
    pub launched: Mutex<BTreeMap<String, Instance>>,
    state: Mutex<ClusterState>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("provider", &self.provider)
            .field("batching", &self.batching)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub fn new(client: Client, provider: Arc<dyn CloudProvider>, clock: Arc<dyn Clock>, options: Options) -> Self {
        let Options { policy, batching, planning, workers, observability } = options;
        let report = Report::new(provider.as_ref(), clock.clone(), observability);
        let provider = Arc::new(Measured::new(provider, report.calls()));
        Self {
            client,
            provider,
            clock,
            policy,
            batching,
            planning,
            workers,
            report,
            claims: Objects::default(),
            nodes: Objects::default(),
            pools: Objects::default(),
            node_classes: Objects::default(),
            queues: Queues::default(),
            provision: Notify::new(),
            launched: Mutex::default(),
            state: Mutex::default(),
        }
    }

    pub fn claims_api(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    pub fn nodes_api(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub fn pools_api(&self) -> Api<NodePool> {
        Api::all(self.client.clone())
    }

    /// Held for a moment only, never across a wait.
    pub fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a claim that the API answered with or the watch brought.
    pub fn note_claim(&self, claim: NodeClaim) -> Arc<NodeClaim> {
        let claim = Arc::new(claim);
        if self.claims.put(claim.clone()) {
            self.report.seen(claim.as_ref());
            let converted = convert::claim(&claim, self.provider.label_rules());
            self.report.problems(&converted.problems);
            self.state().apply(Change::Claim(Arc::new(converted.view)));
        }
        claim
    }

    pub fn note_node(&self, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        if self.nodes.put(node.clone()) {
            self.report.seen(node.as_ref());
            let converted = convert::node(&node);
            self.report.problems(&converted.problems);
            self.state().apply(Change::Node(Arc::new(converted.view)));
        }
        node
    }

    pub fn note_pool(&self, pool: NodePool) -> Arc<NodePool> {
        let pool = Arc::new(pool);
        if self.pools.put(pool.clone()) {
            self.report.seen(pool.as_ref());
            let converted = convert::pool(&pool, self.provider.label_rules());
            self.report.problems(&converted.problems);
            self.state().apply(Change::Pool(Arc::new(converted.view)));
        }
        pool
    }
}
