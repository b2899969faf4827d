//! A whole cluster in one process: API server, cloud, kubelets, scheduler, workload controllers and the autoscaler's own
//! controllers, on paused tokio time and from one seed.
//!
//! ```
//! # use std::time::Duration;
//! # use karpenter_sim::world::{World, cpu};
//! # use karpenter_testkit::build::node_pool;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let w = World::seeded(7).pool(node_pool("default")).start().await;
//! w.deploy("web", 3, cpu("1")).await;
//! w.settle().await;
//! assert_eq!(w.running_pods().len(), 3);
//! # }
//! ```
//!
//! Tests use it, so it fails loudly: a method that cannot do what it says panics with the seed and how to replay it.

mod builder;
mod checks;
mod clients;
mod death;
mod overseer;
mod process;
mod settling;
mod storm;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::crd;
use karpenter_api::kinds::{KWOKNodeClass, NodeClaim, NodePool};
use karpenter_apiserver as apiserver;
use karpenter_platform::Clock;
use karpenter_testkit::build;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use self::builder::Builder;
pub use self::checks::Violation;
pub use self::death::Death;
use self::death::Fates;
use self::overseer::Overseer;
use self::process::{Host, Makings};
pub use self::storm::Storm;
use crate::cloud::Cloud;
use crate::cluster::Cluster;
use crate::fleet::Fleet;
use crate::journal::Journal;
use crate::kubelet::Kubelets;
use crate::scheduler::Scheduler;
use crate::workloads;

/// What each pod of a workload asks for.
#[derive(Debug, Clone)]
pub struct Requests(Value);

pub fn cpu(quantity: &str) -> Requests {
    Requests(json!({ "cpu": quantity }))
}

impl Requests {
    #[must_use]
    pub fn memory(mut self, quantity: &str) -> Self {
        self.0["memory"] = json!(quantity);
        self
    }
}

pub struct World {
    pub api: apiserver::Api,
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<Fleet>,
    pub cloud: Arc<Cloud>,
    pub journal: Arc<Journal>,
    plan: Builder,
    actors: Vec<JoinHandle<()>>,
    /// Where the autoscaler runs, and what runs there.
    hosts: Vec<(Host, Mutex<Option<JoinHandle<()>>>)>,
    overseer: Arc<Overseer>,
    fates: Arc<Fates>,
    watcher: Mutex<checks::Watcher>,
}

impl Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.plan.seed).finish_non_exhaustive()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for actor in &self.actors {
            actor.abort();
        }
        self.stop_autoscaler();
    }
}

#[expect(clippy::panic, reason = "a world is for tests, which have to fail here")]
fn fail(why: &str) -> ! {
    panic!("{why}")
}

/// Nodes are consolidated only where the plan of a world says so: most stories are about something else.
fn staying(pool: &NodePool) -> NodePool {
    let mut pool = pool.clone();
    pool.spec.disruption.get_or_insert_default().consolidate_after.get_or_insert_with(|| "Never".into());
    pool
}

impl World {
    pub fn seeded(seed: u64) -> Builder {
        Builder::seeded(seed)
    }

    pub fn seed(&self) -> u64 {
        self.plan.seed
    }

    fn client_of(&self, who: &'static str) -> Client {
        clients::client(&self.api, &self.journal, &self.clock, who, None)
    }

    async fn install(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in crd::all() {
            let definition = serde_json::from_value(definition).unwrap_or_else(|error| fail(&error.to_string()));
            self.must(crds.create(&PostParams::default(), &definition).await);
        }
        let classes: Api<KWOKNodeClass> = Api::all(self.client.clone());
        self.must(classes.create(&PostParams::default(), &build::kwok_class("default")).await);
        // No controller looks after classes of this kind; they are what their owner says.
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": self.clock.now(),
        });
        let status = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        self.must(classes.patch_status("default", &PatchParams::default(), &status).await);
        let pools: Api<NodePool> = Api::all(self.client.clone());
        for pool in &self.plan.pools {
            self.must(pools.create(&PostParams::default(), &staying(pool)).await);
        }
    }

    fn start_actors(&mut self) {
        let seed = self.plan.seed;
        let of_kubelets = Cluster::new(self.client_of("kubelet"), self.clock.clone(), seed);
        let of_workloads = of_kubelets.acting_through(self.client_of("workloads"));
        let kubelets = Kubelets::new(of_kubelets.clone(), self.fleet.clone(), self.plan.pace);
        let scheduler = Scheduler::new(self.client_of("scheduler"), self.clock.clone());
        let cloud = self.cloud.clone();
        let patience = self.plan.patience;
        // On the current thread tasks start in this order: who wants to be woken asks before the first watch brings anything.
        self.actors = vec![
            tokio::spawn(async move { cloud.run().await }),
            tokio::spawn(async move { kubelets.run().await }),
            tokio::spawn(workloads::run(of_workloads, patience)),
            tokio::spawn(async move { of_kubelets.watch().await }),
            tokio::spawn(scheduler.run()),
        ];
    }

    /// The production controllers, as the operator would run them. They know nothing of an earlier start.
    pub fn start_autoscaler(&self) {
        for index in 0..self.hosts.len() {
            self.start_process(index);
        }
    }

    fn start_process(&self, index: usize) {
        let Some((host, running)) = self.hosts.get(index) else { return };
        let makings = Makings {
            api: self.api.clone(),
            journal: self.journal.clone(),
            clock: self.clock.clone(),
            cloud: self.cloud.clone(),
            fates: self.fates.clone(),
            overseer: self.overseer.clone(),
            features: self.plan.features.clone(),
            planning: self.plan.planning,
        };
        let started = if self.hosts.len() > 1 {
            tokio::spawn(process::among_others(makings, host.clone()))
        } else {
            tokio::spawn(process::alone(makings, host.clone()))
        };
        let before = running.lock().unwrap_or_else(PoisonError::into_inner).replace(started);
        if let Some(before) = before {
            before.abort();
        }
        self.journal.write(self.clock.now(), "world", &format!("{} starts", host.name));
    }

    /// Waits for the death that was ordered; the life after it begins a moment later.
    pub async fn bury(&self) {
        let last_words = self.fates.death().await;
        self.journal.write(self.clock.now(), "world", &format!("autoscaler dies of {last_words}"));
        self.stop_autoscaler();
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.start_autoscaler();
    }

    /// What the autoscaler has asked of API and cloud, in order; nothing when it was to die at one of these calls.
    pub fn autoscaler_calls(&self) -> Vec<String> {
        self.fates.said()
    }

    /// Ends the autoscaler wherever it is, as a crash would.
    pub fn stop_autoscaler(&self) {
        for index in 0..self.hosts.len() {
            self.kill_process(index);
        }
    }

    fn kill_process(&self, index: usize) {
        let Some((host, running)) = self.hosts.get(index) else { return };
        let running = running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
            self.journal.write(self.clock.now(), "world", &format!("{} is killed", host.name));
        }
    }

    /// Which of several processes leads: its start, as the lease names it. Empty when nobody does.
    pub fn leader(&self) -> String {
        self.overseer.leader()
    }

    /// The answer, or the end of the test.
    fn must<T>(&self, answer: Result<T, kube::Error>) -> T {
        answer.unwrap_or_else(|error| self.fail(&format!("the API refuses what the test asks for: {error}")))
    }

    /// The process that leads; the first one when nobody does.
    fn leading(&self) -> usize {
        let leader = self.leader();
        let leads = |host: &Host| leader.rsplit_once('_').is_some_and(|(name, _)| name == host.name);
        self.hosts.iter().position(|(host, _)| leads(host)).unwrap_or(0)
    }

    /// Kills the process that leads, and starts it again at once.
    pub fn kill_leader(&self) {
        let index = self.leading();
        self.kill_process(index);
        self.start_process(index);
    }

    /// Tells the process that leads to end; it is started again.
    pub fn end_leader(&self) {
        self.end_process(self.leading());
    }

    fn end_process(&self, index: usize) {
        if let Some((host, _)) = self.hosts.get(index) {
            self.journal.write(self.clock.now(), "world", &format!("{} is told to end", host.name));
            host.stop.notify_waiters();
        }
    }

    /// Cuts the process that leads off from everything, until the answer is called.
    pub fn cut_off_leader(&self) -> impl FnOnce(&World) + use<> {
        let index = self.leading();
        self.connect(index, false);
        move |world: &World| world.connect(index, true)
    }

    fn connect(&self, index: usize, whole: bool) {
        if let Some((host, _)) = self.hosts.get(index) {
            host.line.cut(!whole);
            let how = if whole { "is connected again" } else { "is cut off" };
            self.journal.write(self.clock.now(), "world", &format!("{} {how}", host.name));
        }
    }

    /// Something is about to happen that no disruption budget covers.
    pub fn excuse(&self) {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).excuse(self.clock.now());
    }

    /// How many commands to take nodes away on purpose were seen so far.
    pub fn moves(&self) -> usize {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).moves()
    }

    /// How many pods were evicted from nodes that were taken away on purpose so far.
    pub fn evicted(&self) -> usize {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).evicted()
    }

    /// From now on nobody but the autoscaler changes anything: no pod may be moved twice to save money.
    pub fn steady(&self) {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).steady();
    }

    /// Things go wrong on purpose: nobody can say how long anything takes.
    fn upset(&self) {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).upset(self.clock.now());
    }

    /// How long a node takes that is needed now, twice: others may take the room that was meant for somebody, and half a
    /// minute until somebody has noticed.
    fn replacement(&self) -> SignedDuration {
        let node = self.cloud.longest_start() + self.plan.pace.ready.1;
        SignedDuration::try_from(2 * node + Duration::from_secs(30)).unwrap_or(SignedDuration::MAX)
    }

    /// What a test asked for itself was done, or the test ends.
    pub fn done<T>(&self, answer: Result<T, kube::Error>) {
        self.must(answer);
    }

    /// Ends the test with everything that is needed to see it again.
    fn fail(&self, why: &str) -> ! {
        let seed = self.plan.seed;
        let looped = self.api.hot_loop().map(|report| format!("{report}\n")).unwrap_or_default();
        let tail = self.journal.tail(40);
        let replay = self.plan.replay.as_ref().map(|how| format!("; replay: {how}")).unwrap_or_default();
        fail(&format!("{why}\n{looped}last of the journal:\n{tail}seed {seed}, at {}{replay}", self.clock.now()))
    }

    /// A Deployment in the namespace `default`, labelled `app=NAME`.
    pub async fn deploy(&self, name: &str, replicas: u32, requests: Requests) {
        self.apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [
                        {"name": "main", "image": "none", "resources": {"requests": requests.0}},
                    ]},
                },
            },
        }))
        .await;
    }

    pub async fn scale(&self, name: &str, replicas: u32) {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.must(deployments.patch(name, &PatchParams::default(), &patch).await);
    }

    /// Creates any object.
    pub async fn apply(&self, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap_or_else(|error| fail(&error.to_string()));
        let types = object.types.clone().unwrap_or_default();
        let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
        let registry = self.api.registry();
        let Some(kind) = registry.by_kind(group, version, &types.kind) else {
            self.fail(&format!("there is no {} {}", types.api_version, types.kind))
        };
        let resource = kube::core::ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: types.api_version.clone(),
            kind: types.kind.clone(),
            plural: kind.plural.clone(),
        };
        let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
        let api: Api<DynamicObject> = if kind.namespaced {
            Api::namespaced_with(self.client.clone(), &namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        self.must(api.create(&PostParams::default(), &object).await);
    }

    /// Deletes a Deployment with its pods.
    pub async fn remove(&self, name: &str) {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        self.must(deployments.delete(name, &DeleteParams::background()).await);
    }

    /// A machine dies without a word.
    pub fn lose(&self, provider_id: &str) {
        self.excuse();
        self.journal.write(self.clock.now(), "world", &format!("{provider_id} dies"));
        self.cloud.lose(provider_id);
    }

    /// Deletes every NodeClaim, as a user would: their nodes are drained and go.
    pub async fn remove_claims(&self) {
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        for claim in self.claims().await {
            self.must(claims.delete(&claim.name_any(), &DeleteParams::default()).await);
        }
    }

    pub async fn nodes(&self) -> Vec<Node> {
        self.must(Api::all(self.client.clone()).list(&ListParams::default()).await).items
    }

    pub async fn claims(&self) -> Vec<NodeClaim> {
        self.must(Api::all(self.client.clone()).list(&ListParams::default()).await).items
    }

    pub async fn pods(&self) -> Vec<Pod> {
        self.must(Api::all(self.client.clone()).list(&ListParams::default()).await).items
    }

    /// Lets time pass, with a look at the safety of the cluster every few seconds.
    pub async fn advance(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(self.plan.look_every);
            tokio::time::sleep(step).await;
            left = left.saturating_sub(step);
            self.check();
        }
    }

    /// What is not as it must always be, now.
    pub fn violations(&self) -> Vec<Violation> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let (api, fleet, cloud) = (&self.api, &*self.fleet, &*self.cloud);
        let sight = checks::Sight { api, fleet, cloud, replacement: self.replacement(), now: self.clock.now() };
        let mut found = watcher.look(sight);
        let count = |group: &str, kind: &str| {
            self.api.count(&apiserver::GroupKind { group: group.to_owned(), kind: kind.to_owned() })
        };
        found.extend(self.overseer.found(count("", "Pod"), count("karpenter.sh", "NodeClaim")));
        found
    }

    /// Fails if something is not as it must always be.
    pub fn check(&self) {
        if let Some(report) = self.api.hot_loop() {
            self.fail(&format!("no time passes: {report}"));
        }
        if !self.plan.checks {
            return;
        }
        let violations = self.violations();
        if !violations.is_empty() {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            self.fail(&format!("the cluster is not safe:\n{}", all.join("\n")));
        }
    }
}
