//! One process of the autoscaler: its clock may be wrong, its line may be cut, it may die in the middle of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_apiserver as apiserver;
use karpenter_controllers::leader::{Election, Ended, Fence, LeaseName};
use karpenter_controllers::{Batching, Context, Options, PlanningOptions};
use karpenter_platform::Clock;
use tokio::sync::{Notify, watch};

use super::clients::{self, Hands};
use super::death::{Fates, Life, MortalCloud};
use super::overseer::Overseer;
use crate::cloud::Cloud;
use crate::journal::Journal;

/// How long it takes until a process that ended by itself is started again.
const RESTART: Duration = Duration::from_secs(2);

/// What several processes of the autoscaler agree on.
pub(super) fn lease() -> LeaseName {
    LeaseName { namespace: "kube-system".to_owned(), name: "karpenter-leader-election".to_owned() }
}

/// A clock that is off by as much as it is told.
#[derive(Debug)]
pub(super) struct Skewed {
    right: Arc<dyn Clock>,
    off_by_millis: AtomicI64,
}

impl Skewed {
    pub(super) fn new(right: Arc<dyn Clock>) -> Self {
        Self { right, off_by_millis: AtomicI64::new(0) }
    }

    pub(super) fn is_right(&self) -> bool {
        self.off_by_millis.load(Ordering::Relaxed) == 0
    }

    pub(super) fn set_off(&self, by: SignedDuration) {
        self.off_by_millis.store(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let off = SignedDuration::from_millis(self.off_by_millis.load(Ordering::Relaxed));
        let right = self.right.now();
        right.checked_add(off).unwrap_or(right)
    }
}

/// What connects a process to the rest of the world. While it is cut, calls wait.
#[derive(Debug, Clone)]
pub(super) struct Line(Arc<watch::Sender<bool>>);

impl Line {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(super) fn cut(&self, cut: bool) {
        self.0.send_replace(cut);
    }

    pub(super) async fn whole(&self) {
        // The sender is ours: it cannot be gone.
        let _ = self.0.subscribe().wait_for(|cut| !cut).await;
    }
}

/// What every process is made from.
#[derive(Debug, Clone)]
pub(super) struct Makings {
    pub(super) api: apiserver::Api,
    pub(super) journal: Arc<Journal>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cloud: Arc<Cloud>,
    pub(super) fates: Arc<Fates>,
    pub(super) overseer: Arc<Overseer>,
    pub(super) features: karpenter_controllers::Features,
    pub(super) planning: PlanningOptions,
}

/// Where a process runs; it outlives each start of it.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) clock: Arc<Skewed>,
    pub(super) line: Line,
    /// Ask it to end, as a signal would.
    pub(super) stop: Arc<Notify>,
    starts: Arc<AtomicU64>,
}

impl Host {
    pub(super) fn new(name: &'static str, clock: &Arc<dyn Clock>) -> Self {
        Self {
            name,
            clock: Arc::new(Skewed::new(clock.clone())),
            line: Line::new(),
            stop: Arc::default(),
            starts: Arc::default(),
        }
    }

    /// The name of the next start of it in the lease.
    fn identity(&self) -> String {
        format!("{}_{}", self.name, self.starts.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The only process there is.
pub(super) async fn alone(makings: Makings, host: Host) {
    let life = Life::new(&makings.fates);
    let context = context(&makings, &host, life, Fence::open(), None);
    karpenter_controllers::run(context).await;
}

/// One of several; started again whenever it ends.
pub(super) async fn among_others(makings: Makings, host: Host) {
    loop {
        let (life, identity) = (Life::new(&makings.fates), host.identity());
        let own = Hands { line: host.line.clone(), life: None, fence: None, overseer: None, identity: String::new() };
        let own = clients::client(&makings.api, &makings.journal, &makings.clock, host.name, Some(own));
        let election = Election::new(own, lease(), identity.clone(), host.clock.clone());
        let context = context(&makings, &host, life, election.fence(), Some(identity));
        let ended = election.lead(karpenter_controllers::run(context), host.stop.notified()).await;
        let how = match ended {
            Ended::Stopped => "was told to end",
            Ended::Lost => "lost the lease",
            Ended::Done(()) => "ended by itself",
        };
        makings.journal.write(makings.clock.now(), host.name, how);
        tokio::time::sleep(RESTART).await;
    }
}

fn context(makings: &Makings, host: &Host, life: Life, fence: Fence, identity: Option<String>) -> Arc<Context> {
    let options = Options {
        policy: makings.cloud.label_policy(),
        batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
        planning: makings.planning,
        cores: 1,
        observability: karpenter_controllers::Observability::On,
        features: makings.features.clone(),
    };
    let hands = Hands {
        line: host.line.clone(),
        life: Some(life.clone()),
        fence: Some(fence),
        overseer: Some(makings.overseer.clone()),
        identity: identity.unwrap_or_default(),
    };
    let of_cloud = Hands { fence: None, ..hands.clone() };
    let (cloud, clock) = (makings.cloud.clone(), makings.clock.clone());
    let cloud = Arc::new(MortalCloud { life, cloud, hands: of_cloud, clock });
    let client = clients::client(&makings.api, &makings.journal, &makings.clock, host.name, Some(hands));
    Arc::new(Context::new(client, cloud, host.clock.clone(), options))
}
