//! How a world is put together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::kinds::NodePool;
use karpenter_apiserver as apiserver;
use karpenter_platform::{Clock, TokioClock};
use karpenter_testkit::build::PoolBuilder;

use super::death::{Death, Fates};
use super::overseer::Overseer;
use super::process::Host;
use super::{World, checks, clients, fail};
use crate::cloud::{Cloud, Settings, Surroundings};
use crate::fleet::Fleet;
use crate::journal::Journal;
use crate::kubelet::Pace;
use crate::workloads::Patience;

/// When worlds begin: late enough for every certificate and early enough to stay readable.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// More requests than these at one instant, for each pod that may come at it, are a loop that never lets time pass: a pod
/// takes about ten.
const REQUESTS_PER_POD: usize = 50;

/// So many changes for each pod that may come are remembered of a kind, and ten thousand at least: whoever looks every half minute
/// must not miss any. In the busiest one, when half of the pods come at once, there is one for each.
const CHANGES_PER_POD: usize = 3;
const CHANGES: usize = 10_000;

/// How a world is put together. What is not said is as a quiet cluster would have it.
#[derive(Debug, Clone)]
pub struct Builder {
    pub(super) seed: u64,
    pub(super) pools: Vec<NodePool>,
    pub(super) cloud: Settings,
    pub(super) pace: Pace,
    pub(super) patience: Patience,
    /// How many processes of the autoscaler there are; one of several leads.
    pub(super) replicas: usize,
    pub(super) checks: bool,
    pub(super) death: Option<Death>,
    pub(super) features: karpenter_controllers::Features,
    pub(super) planning: karpenter_controllers::PlanningOptions,
    pub(super) journal: Arc<Journal>,
    pub(super) replay: Option<String>,
    pub(super) look_every: Duration,
    /// More pods than these at one time are not expected.
    pub(super) crowd: usize,
}

impl Builder {
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            pools: Vec::new(),
            cloud: Settings::default(),
            pace: Pace::default(),
            patience: Patience::default(),
            replicas: 1,
            checks: true,
            death: None,
            features: karpenter_controllers::Features { static_capacity: true, ..Default::default() },
            planning: karpenter_controllers::PlanningOptions::thorough(),
            journal: Arc::default(),
            replay: None,
            look_every: Duration::from_secs(5),
            crowd: 1000,
        }
    }

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

    /// Nodes are chosen in the target's order, for a story that counts them.
    #[must_use]
    pub fn in_reference_order(self) -> Self {
        Self { planning: karpenter_controllers::PlanningOptions::default(), ..self }
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
            history: CHANGES.max(CHANGES_PER_POD * self.crowd),
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
