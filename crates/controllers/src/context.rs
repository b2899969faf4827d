//! What every controller has at hand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::convert;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_api::names::{LabelPolicy, node_class_label};
use karpenter_disruption::look::Gates;
use karpenter_lifecycle::{SliceView, Timeouts};
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::GoDuration;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::taints::Taint;
use karpenter_model::volumes::UnsupportedVolumes;
use karpenter_platform::{Clock, CloudProvider, LegacyPolicies, Measured, RepairPolicies};
use karpenter_solver::Options as PlanningOptions;
use karpenter_state::{Change, ClusterState, DefaultConstraints, DeviceRequests};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};

use crate::batcher::Batcher;
use crate::buffers::Buffers;
use crate::listeners::Listeners;
use crate::memory::Memory;
use crate::objects::Objects;
use crate::overlays::Laying;
use crate::patch::{ignore_gone, says_gone};
use crate::queue::Queue;
use crate::report::{Observability, Report};
use crate::sharing::Sharing;
use crate::watches::PodClasses;

/// How pending pods are gathered before a pass (API-159).
#[derive(Debug, Clone, Copy)]
pub struct Batching {
    pub idle: Duration,
    pub longest: Duration,
    /// Whether pods are presumed to wait when one like them does.
    pub siblings: bool,
}

/// What is not on everywhere.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// Gate `StaticCapacity`.
    pub static_capacity: bool,
    /// Gate `NodeOverlay`.
    pub node_overlays: bool,
    /// Gate `CapacityBuffer`.
    pub capacity_buffers: bool,
    /// Whether dynamic resources are looked at (`IGNORE_DRA_REQUESTS=false`).
    pub dynamic_resources: bool,
    pub timeouts: Timeouts,
    /// For pools that say nothing (SCH-224).
    pub default_termination_grace_period: Option<GoDuration>,
    /// For pods that declare no spread constraints (SCH-147).
    pub default_spread: DefaultConstraints,
    /// What of disruption is behind gates.
    pub disruption: Gates,
    /// Gate `NodeRepair`, without the legacy controller.
    pub repair: bool,
    /// The same gate, with the legacy controller.
    pub legacy_repair: bool,
    /// Gate `TerminateFirstRepair`.
    pub terminate_first_repair: bool,
    /// Gate `PodDeletionCostManagement`.
    pub pod_deletion_cost: bool,
    /// What the provider cannot attach.
    pub unsupported_volumes: UnsupportedVolumes,
}

/// What the controllers are told once, at the start.
#[derive(Debug, Clone)]
pub struct Options {
    /// What manifests may say about labels on the chosen provider.
    pub policy: LabelPolicy,
    pub batching: Batching,
    pub planning: PlanningOptions,
    /// Processor cores that the process was given; how many objects are worked on at a time follows from them.
    pub cores: u32,
    pub observability: Observability,
    pub features: Features,
}

#[derive(Debug, Default)]
pub struct Queues {
    pub claims: Queue,
    pub expirations: Queue,
    pub consistency: Queue,
    pub hydration: Queue,
    /// Claims whose conditions about disruption may have changed.
    pub disruptions: Queue,
    /// Claims whose nodes may be rebooting.
    pub reboots: Queue,
    /// Disruption commands that are under way, by id.
    pub commands: Queue,
    /// Claims that may not exist, by name.
    pub ghosts: Queue,
    pub nodes: Queue,
    /// Nodes that may be sick, for the legacy controller.
    pub sick: Queue,
    /// Pods that are asked to leave.
    pub evictions: Queue,
    /// Pods that ReplicaSets are to be told something about, by namespace, name and UID.
    pub deletion_costs: Queue,
    /// Nodes to whose pods something happened.
    pub pod_events: Queue,
    pub pools: Queue,
    pub hashes: Queue,
    pub healths: Queue,
    pub counters: Queue,
    pub static_up: Queue,
    pub static_down: Queue,
    /// One name: all overlays are evaluated together.
    pub overlays: Queue,
    /// By namespace and name.
    pub buffers: Queue,
}

impl Queues {
    /// Whoever looks after a claim.
    pub(crate) fn wake_claim(&self, name: &str) {
        let all =
            [&self.claims, &self.expirations, &self.consistency, &self.hydration, &self.disruptions, &self.reboots];
        for queue in all {
            queue.add(name);
        }
    }

    /// Whoever looks after a pool.
    pub(crate) fn wake_pool(&self, name: &str) {
        for queue in [&self.pools, &self.hashes, &self.healths, &self.counters, &self.static_up, &self.static_down] {
            queue.add(name);
        }
    }
}

/// Shared by all controllers. Object stores hold what the API last said; `state` holds the same as decisions see it.
pub struct Context {
    pub client: Client,
    pub provider: Arc<dyn CloudProvider>,
    pub clock: Arc<dyn Clock>,
    pub policy: LabelPolicy,
    pub batching: Batching,
    pub planning: PlanningOptions,
    /// Processor cores that the process was given; how many objects are worked on at a time follows from them.
    pub cores: u32,
    /// Where everything that happens is told.
    pub report: Report,
    pub claims: Objects<NodeClaim>,
    pub nodes: Objects<Node>,
    pub pools: Objects<NodePool>,
    pub node_classes: Objects<DynamicObject>,
    pub queues: Queues,
    /// Controllers of the provider's own.
    pub listeners: Listeners,
    /// Some pod waits for capacity, or something changed that could give it some.
    pub provision: Batcher,
    pub memory: Memory,
    /// What pods have in common.
    pub pod_classes: PodClasses,
    pub features: Features,
    /// What lays overlays over instance types; `None` while the gate is off.
    pub overlays: Option<Laying>,
    pub buffers: Buffers,
    /// What sick nodes are judged by; `None` while repair is off.
    pub repair: Option<RepairPolicies>,
    /// The same for the legacy controller.
    pub legacy_repair: Option<LegacyPolicies>,
    /// What nodes and claims have in common.
    sharing: Mutex<Sharing>,
    state: Mutex<ClusterState>,
    frugal: AtomicBool,
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
        let Options { policy, batching, planning, cores, observability, features } = options;
        let report = Report::new(provider.as_ref(), clock.clone(), observability);
        let measured: Arc<dyn CloudProvider> = Arc::new(Measured::new(provider, report.calls()));
        // Whoever starts the process has refused policies that make no sense (V15-16).
        let policies = measured.repair_policies();
        let repair = features.repair.then(|| RepairPolicies::compile(&policies).ok()).flatten();
        let legacy_repair = features.legacy_repair.then(|| LegacyPolicies::compile(&policies).ok()).flatten();
        let overlays = features.node_overlays.then(|| Laying::over(measured.clone()));
        let provider = overlays.as_ref().map_or(measured, Laying::provider);
        let state = ClusterState::default()
            .without_volumes(features.unsupported_volumes.clone())
            .with_default_spread(features.default_spread.clone());
        let state = if features.dynamic_resources { state.with_devices() } else { state };
        Self {
            client,
            provider,
            clock,
            policy,
            batching,
            planning,
            cores,
            report,
            claims: Objects::default(),
            nodes: Objects::default(),
            pools: Objects::default(),
            node_classes: Objects::default(),
            queues: Queues::default(),
            listeners: Listeners::default(),
            provision: Batcher::default(),
            memory: Memory::default(),
            pod_classes: PodClasses::managing_deletion_costs(features.pod_deletion_cost),
            sharing: Mutex::default(),
            state: Mutex::new(state),
            features,
            overlays,
            buffers: Buffers::default(),
            repair,
            legacy_repair,
            frugal: AtomicBool::new(false),
        }
    }

    /// Memory is short, or is not any more: while it is, nothing is kept that only saves time (API-156).
    pub fn be_frugal(&self, frugal: bool) {
        self.frugal.store(frugal, Ordering::Relaxed);
    }

    pub fn is_frugal(&self) -> bool {
        self.frugal.load(Ordering::Relaxed)
    }

    pub(crate) fn has_default_spread(&self) -> bool {
        !self.features.default_spread.is_empty()
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

    fn sharing(&self) -> MutexGuard<'_, Sharing> {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node is ours when it carries the label of a class we support (API-250).
    pub(crate) fn is_managed_node(&self, node: &Node) -> bool {
        let mut classes = self.provider.node_classes().iter();
        classes.any(|class| node.labels().contains_key(&node_class_label(&class.group, &class.kind)))
    }

    /// How many pods would have to move if the claim went.
    pub(crate) fn reschedulable_pods(&self, claim: &ClaimView) -> usize {
        self.state().pods_of_claim(claim).iter().filter(|pod| pod.is_reschedulable()).count()
    }

    /// What becomes of pods that ask for devices (SCH-27).
    pub(crate) fn device_requests(&self) -> DeviceRequests {
        if self.features.dynamic_resources { DeviceRequests::Considered } else { DeviceRequests::Ignored }
    }

    /// Until when whoever is nominated now is expected to receive pods (SCH-24).
    pub(crate) fn nomination_end(&self) -> Timestamp {
        let longest = SignedDuration::try_from(self.batching.longest).unwrap_or(SignedDuration::MAX);
        let window = longest.saturating_mul(2).max(SignedDuration::from_secs(10));
        self.clock.now().saturating_add(window).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn claim_of_node(&self, node: &str) -> Option<String> {
        let state = self.state();
        let id = state.node(node)?.provider_id.clone()?;
        state.claims_by_provider_id(&id).first().map(|claim| claim.name.clone())
    }

    /// A node is expected to receive pods, and is left alone meanwhile (SCH-24).
    pub(crate) fn nominate(&self, node: &str) {
        let until = self.nomination_end();
        let claim = self.claim_of_node(node);
        let mut state = self.state();
        state.nominate(claim.as_deref().unwrap_or(node), until);
    }

    /// What drivers have published for these nodes.
    pub(crate) fn slices_of(&self, nodes: &[&NodeView]) -> Vec<SliceView> {
        self.memory.slices_of(nodes)
    }

    /// Takes note of a pod that the API answered with.
    pub(crate) fn note_pod(&self, pod: &Pod) {
        match self.pod_classes.read_answer(pod, self.provider.label_rules()) {
            Ok(pod) => {
                self.report.problems(&pod.problems);
                self.state().apply(Change::Pod(pod.view));
            }
            Err(error) => self.report.malformed_object("Pod", &pod.name_any(), &error),
        }
    }

    /// Takes note of a claim that the API answered with or the watch brought.
    pub fn note_claim(&self, claim: NodeClaim) -> Arc<NodeClaim> {
        let claim = Arc::new(claim);
        if self.claims.put(&claim) {
            self.report.seen(claim.as_ref());
            let mut converted = convert::claim(&claim, self.provider.label_rules());
            self.report.problems_of(claim.as_ref(), &converted.problems);
            self.sharing().claim(&mut converted.view);
            self.state().apply(Change::Claim(Arc::new(converted.view)));
            self.wake_for_claim(&claim);
        }
        claim
    }

    /// What became of a write to a claim: the claim as it is now; nothing when it is gone.
    pub(crate) fn claim_written(
        &self,
        claim: &NodeClaim,
        answer: Result<NodeClaim, kube::Error>,
    ) -> Result<Option<Arc<NodeClaim>>, kube::Error> {
        if says_gone(claim, &answer)
            && self.claims.get(&claim.name_any()).is_some_and(|known| known.uid() == claim.uid())
        {
            self.lose_claim(&claim.name_any());
        }
        Ok(ignore_gone(answer)?.map(|written| self.note_claim(written)))
    }

    /// A claim is no more, as the watch or the answer to a write says, whichever comes first: until it is known, every look at the
    /// claim would end with the same write.
    pub(crate) fn lose_claim(&self, name: &str) {
        let gone = self.claims.get(name);
        self.claims.remove(name);
        self.state().apply(Change::ClaimGone(name.to_owned()));
        if let Some(gone) = gone {
            self.report.gone(gone.as_ref());
            self.listeners.tell(|listener| listener.claim_gone(&gone));
            self.wake_for_claim(&gone);
        }
        self.provision.nudge();
    }

    /// Whoever a claim concerns looks at it.
    pub(crate) fn wake_for_claim(&self, claim: &NodeClaim) {
        self.queues.wake_claim(&claim.name_any());
        self.listeners.tell(|listener| listener.claim_seen(&claim.name_any()));
        // A pool with a fixed number of nodes counts them again.
        if let Some(pool) = claim.labels().get(labels::NODEPOOL) {
            self.queues.static_up.add(pool);
            self.queues.static_down.add(pool);
        }
        self.provision.nudge();
    }

    pub fn note_node(&self, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        if self.nodes.put(&node) {
            self.report.seen(node.as_ref());
            let mut converted = convert::node(&node);
            self.report.problems_of(node.as_ref(), &converted.problems);
            self.sharing().node(&mut converted.view);
            let view = Arc::new(converted.view);
            // Heartbeats are most of what is heard of nodes, and concern nobody.
            let is_news = self.state().node(&view.name) != Some(&view);
            self.state().apply(Change::Node(view.clone()));
            if is_news {
                self.wake_for_node(&view);
            }
        }
        node
    }

    /// What became of a write to a node: the node as it is now; nothing when it is gone.
    pub(crate) fn node_written(
        &self,
        node: &Node,
        answer: Result<Node, kube::Error>,
    ) -> Result<Option<Arc<Node>>, kube::Error> {
        if says_gone(node, &answer) && self.nodes.get(&node.name_any()).is_some_and(|known| known.uid() == node.uid()) {
            self.lose_node(&node.name_any());
        }
        Ok(ignore_gone(answer)?.map(|written| self.note_node(written)))
    }

    /// A node is no more, as the watch or the answer to a write says.
    pub(crate) fn lose_node(&self, name: &str) {
        let gone = self.nodes.get(name);
        if let Some(gone) = &gone {
            self.report.gone(gone.as_ref());
        }
        self.nodes.remove(name);
        self.state().apply(Change::NodeGone(name.to_owned()));
        let provider_id = gone.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
        let claims = provider_id.map(|id| self.state().claims_by_provider_id(id)).unwrap_or_default();
        for claim in &claims {
            self.queues.wake_claim(&claim.name);
        }
    }

    /// Whoever a node concerns looks at it.
    pub(crate) fn wake_for_node(&self, node: &NodeView) {
        let claims = node.provider_id.as_deref().map(|id| self.state().claims_by_provider_id(id)).unwrap_or_default();
        for claim in &claims {
            self.queues.wake_claim(&claim.name);
        }
        self.listeners.tell(|listener| listener.node_seen(&node.name));
        if node.deleting_since.is_some() {
            self.queues.nodes.add(node.name.as_str());
        }
        if self.legacy_repair.is_some() {
            self.queues.sick.add(node.name.as_str());
        }
        let disrupted = Taint::disrupted();
        if node.taints.iter().any(|taint| taint.is_same(&disrupted)) {
            // Its pods will need another place (SCH-1).
            self.provision.trigger(&node.uid);
        }
    }

    pub fn note_pool(&self, pool: NodePool) -> Arc<NodePool> {
        let pool = Arc::new(pool);
        if self.pools.put(&pool) {
            self.report.seen(pool.as_ref());
            let converted = convert::pool(&pool, self.provider.label_rules());
            self.report.problems_of(pool.as_ref(), &converted.problems);
            let of_pool = {
                let mut state = self.state();
                state.apply(Change::Pool(Arc::new(converted.view)));
                state.claims_of(&pool.name_any())
            };
            // What the pool asks for has changed under them.
            self.queues.disruptions.add_all(of_pool.iter().map(|claim| claim.name.clone()));
        }
        pool
    }
}
