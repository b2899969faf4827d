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

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::crd;
use karpenter_api::kinds::{KWOKNodeClass, NodeClaim, NodePool};
use karpenter_apiserver as apiserver;
use karpenter_platform::{Clock, TokioClock};
use karpenter_testkit::build::{self, PoolBuilder};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use self::checks::Violation;
pub use self::death::Death;
use self::death::Fates;
use self::overseer::Overseer;
use self::process::{Host, Makings};
pub use self::storm::Storm;
use crate::cloud::{Cloud, Settings, Surroundings};
use crate::cluster::Cluster;
use crate::fleet::Fleet;
use crate::journal::Journal;
use crate::kubelet::{Kubelets, Pace};
use crate::scheduler::Scheduler;
use crate::workloads::{self, Patience};

/// When worlds begin: late enough for every certificate and early enough to stay readable.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// More requests than these at one instant, for each pod that may come at it, are a loop that never lets time pass: a pod
/// takes about ten.
const REQUESTS_PER_POD: usize = 50;

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

/// How a world is put together. What is not said is as a quiet cluster would have it.
#[derive(Debug, Clone)]
pub struct Builder {
    seed: u64,
    pools: Vec<NodePool>,
    cloud: Settings,
    pace: Pace,
    patience: Patience,
    /// How many processes of the autoscaler there are; one of several leads.
    replicas: usize,
    checks: bool,
    death: Option<Death>,
    features: karpenter_controllers::Features,
    journal: Arc<Journal>,
    replay: Option<String>,
    look_every: Duration,
    /// More pods than these at one time are not expected.
    crowd: usize,
}

impl Builder {
    /// The command that shows this world again, for the report of a failure.
    #[must_use]
    pub fn replayed_by(self, command: String) -> Self {
        Self { replay: Some(command), ..self }
    }

    /// Where it is written down what happens, for somebody who wants to read it also after a failure.
    #[must_use]
    pub fn journal(self, journal: Arc<Journal>) -> Self {
        Self { journal, ..self }
    }

    /// What the autoscaler has turned on.
    #[must_use]
    pub fn features(self, features: karpenter_controllers::Features) -> Self {
        Self { features, ..self }
    }

    #[must_use]
    pub fn pool(mut self, pool: PoolBuilder) -> Self {
        self.pools.push(pool.build());
        self
    }

    #[must_use]
    pub fn cloud(self, cloud: Settings) -> Self {
        Self { cloud, ..self }
    }

    #[must_use]
    pub fn pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    #[must_use]
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Nobody makes nodes.
    #[must_use]
    pub fn without_autoscaler(self) -> Self {
        Self { replicas: 0, ..self }
    }

    /// Two processes of the autoscaler, of which one leads.
    #[must_use]
    pub fn two_replicas(self) -> Self {
        Self { replicas: 2, ..self }
    }

    /// The autoscaler dies at this call, and is started again a moment later.
    #[must_use]
    pub fn dies_at(self, death: Death) -> Self {
        Self { death: Some(death), ..self }
    }

    /// How often somebody looks whether the cluster is as it should be.
    #[must_use]
    pub fn looking_every(self, pause: Duration) -> Self {
        Self { look_every: pause, ..self }
    }

    /// So many pods may come at one moment, and that is no loop.
    #[must_use]
    pub fn crowd(self, pods: usize) -> Self {
        Self { crowd: pods, ..self }
    }

    /// Nobody looks whether the cluster is as it should be.
    #[must_use]
    pub fn without_checks(self) -> Self {
        Self { checks: false, ..self }
    }

    /// Starts everything; the autoscaler's kinds and the class `default` are there when it returns.
    pub async fn start(self) -> World {
        let epoch: Timestamp = EPOCH.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        self.start_with(Arc::new(TokioClock::starting_at(epoch))).await
    }

    /// Like [`Builder::start`], with somebody else's clock.
    pub async fn start_with(self, clock: Arc<dyn Clock>) -> World {
        let (fleet, journal) = (Arc::<Fleet>::default(), self.journal.clone());
        let of_api = clock.clone();
        let api = apiserver::Api::new(apiserver::Options {
            clock: Arc::new(move || of_api.now()),
            seed: self.seed,
            managed_fields: false,
            requests_per_instant: Some(REQUESTS_PER_POD * self.crowd),
            ..apiserver::Options::default()
        });
        let surroundings =
            Surroundings { seed: self.seed, clock: clock.clone(), fleet: fleet.clone(), journal: journal.clone() };
        let cloud = Cloud::new(surroundings, self.cloud.clone()).unwrap_or_else(|error| fail(&error.to_string()));
        let names = if self.replicas > 1 { &["autoscaler-1", "autoscaler-2"][..] } else { &["autoscaler"] };
        let hosts = names.iter().take(self.replicas).map(|name| (Host::new(name, &clock), Mutex::default())).collect();
        let mut world = World {
            client: clients::client(&api, &journal, &clock, "user", None),
            overseer: Arc::new(Overseer::new(api.clone())),
            api,
            clock,
            fleet,
            journal,
            cloud: Arc::new(cloud),
            actors: Vec::new(),
            hosts,
            fates: Fates::new(self.death),
            watcher: Mutex::new(checks::Watcher::new()),
            plan: self,
        };
        world.install().await;
        world.start_actors();
        world.start_autoscaler();
        world
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
        Builder {
            seed,
            pools: Vec::new(),
            cloud: Settings::default(),
            pace: Pace::default(),
            patience: Patience::default(),
            replicas: 1,
            checks: true,
            death: None,
            features: karpenter_controllers::Features { static_capacity: true, ..Default::default() },
            journal: Arc::default(),
            replay: None,
            look_every: Duration::from_secs(5),
            crowd: 1000,
        }
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
        let concerned = self.objects("", "v1", "Pod").len() + self.objects("karpenter.sh", "v1", "NodeClaim").len();
        found.extend(self.overseer.found(concerned));
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
