//! A cloud without machines, behind the same contract as a real one.
//!
//! It sells what [`catalogue`] lists at prices that move ([`Swing`]), from a stock that runs out, with delays, throttling
//! and listings that lag; spot machines are taken back with notice. [`Cloud`] is the provider; what it launches appears in
//! the [`Fleet`], where kubelets find it. [`Cloud::run`] is the passing of time.

mod catalogue;
mod life;
mod offers;
mod prices;
mod provider;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::instance_types::{Catalogue, CatalogueError};
use karpenter_api::names::{LabelPolicy, kwok};
use karpenter_model::instance_type::InstanceType;
use karpenter_platform::{Clock, DriftReason, NodeClassKind, ReservationLabels};

pub use self::catalogue::Range;
pub use self::prices::Swing;
use self::state::State;
use crate::chance::Chance;
use crate::cluster::Queue;
use crate::fleet::Fleet;
use crate::journal::Journal;

/// How the ids of its machines begin.
pub const PROVIDER_PREFIX: &str = "sim://";

/// Which reservation a reserved offering is from.
pub const RESERVATION_ID: &str = "example.com/reservation-id";

/// How many machines of one offering there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    Endless,
    /// Drawn per type and zone from these ranges, both ends included.
    Drawn {
        spot: (u32, u32),
        on_demand: (u32, u32),
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    pub count: u32,
}

/// Calls allowed at once and per second; more are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    pub burst: u32,
    pub per_second: u32,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub range: Range,
    pub stock: Stock,
    pub reservations: Vec<Reservation>,
    pub swing: Swing,
    /// How long a call to launch takes.
    pub launch: (Duration, Duration),
    /// From launch until the kubelet talks to the cluster.
    pub registration: (Duration, Duration),
    /// From the call to terminate until the machine is gone.
    pub shutdown: (Duration, Duration),
    pub reboot: Duration,
    /// A listing shows what was so long ago.
    pub lag: Duration,
    /// An offering that was sold out is not on offer for this long.
    pub sold_out: Duration,
    /// Spot machines are taken back after this long on average; `None` is never.
    pub spot_life: Option<Duration>,
    /// How long before it is taken back a spot machine is told.
    pub notice: Duration,
    pub throttle: Throttle,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = |shortest: u64, longest: u64| (Duration::from_secs(shortest), Duration::from_secs(longest));
        Self {
            range: Range::Kwok,
            stock: Stock::Endless,
            reservations: Vec::new(),
            swing: Swing::default(),
            launch: seconds(1, 4),
            registration: seconds(20, 50),
            shutdown: seconds(10, 40),
            reboot: Duration::from_secs(45),
            lag: Duration::from_secs(3),
            sold_out: Duration::from_mins(3),
            spot_life: None,
            notice: Duration::from_mins(2),
            throttle: Throttle { burst: 100, per_second: 20 },
        }
    }
}

/// What goes wrong on purpose, as the share of calls that it happens to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trouble {
    /// A call is refused as one too many.
    pub throttled: f64,
    /// A call fails before it did anything.
    pub failed: f64,
    /// A call fails after it did everything.
    pub answer_lost: f64,
    /// An offering turns out to be sold out.
    pub no_capacity: f64,
}

/// What one machine is, and costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// At its launch.
    pub usd_per_hour: f64,
}

pub struct Cloud {
    seed: u64,
    settings: Settings,
    clock: Arc<dyn Clock>,
    fleet: Arc<Fleet>,
    journal: Arc<Journal>,
    policy: LabelPolicy,
    /// At rest: everything available, at the prices of the list.
    types: Vec<InstanceType>,
    classes: [NodeClassKind; 1],
    reservation_labels: ReservationLabels,
    state: Mutex<State>,
    /// Machines to look at when their time has come.
    due: Arc<Queue>,
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud").field("seed", &self.seed).field("types", &self.types.len()).finish_non_exhaustive()
    }
}

/// What a cloud is put together from.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub seed: u64,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<Fleet>,
    pub journal: Arc<Journal>,
}

impl Cloud {
    pub fn new(surroundings: Surroundings, settings: Settings) -> Result<Self, CatalogueError> {
        let Surroundings { seed, clock, fleet, journal } = surroundings;
        let Catalogue { mut types, policy } = catalogue::catalogue(settings.range)?;
        offers::add_reservations(&mut types, &settings.reservations);
        let keys: Vec<String> = policy.rules().well_known_keys().map(ToOwned::to_owned).collect();
        Ok(Self {
            seed,
            clock,
            fleet,
            journal,
            policy: LabelPolicy::kwok(keys).with_reservation(RESERVATION_ID),
            types,
            // The class of the kwok provider, so that manifests for it work here as they are.
            classes: [NodeClassKind {
                group: kwok::GROUP.to_owned(),
                version: "v1alpha1".to_owned(),
                kind: "KWOKNodeClass".to_owned(),
                plural: "kwoknodeclasses".to_owned(),
            }],
            reservation_labels: ReservationLabels {
                id: RESERVATION_ID.to_owned(),
                all: vec![RESERVATION_ID.to_owned()],
            },
            state: Mutex::new(State::new(seed, settings.throttle)),
            settings,
            due: Arc::default(),
        })
    }

    /// What manifests may say about labels here.
    pub fn label_policy(&self) -> LabelPolicy {
        self.policy.clone()
    }

    /// Lets time pass for machines: terminations end, spot machines are taken back. Until the future is dropped.
    pub async fn run(&self) {
        self.due.work("cloud", |id| async move { Ok(life::look(self, &id)) }).await;
    }

    /// From now on this goes wrong.
    pub fn trouble(&self, trouble: Trouble) {
        self.lock().trouble = trouble;
    }

    /// It does not know any more which machine was launched for which claim, as a cloud that keeps that for a while only.
    pub fn forget_launches(&self) {
        self.lock().by_claim.clear();
    }

    /// The provider says from now on that this machine has drifted.
    pub fn drift(&self, provider_id: &str, reason: DriftReason) {
        self.lock().drifted.insert(provider_id.to_owned(), reason);
    }

    /// Takes a spot machine back: tells now, ends it when the notice is over.
    pub fn interrupt(&self, provider_id: &str) {
        let at = after(self.clock.now(), self.settings.notice);
        if self.lock().interrupt(provider_id, at) {
            self.due.add(provider_id);
        }
    }

    /// A machine is gone from one moment to the next.
    pub fn lose(&self, provider_id: &str) {
        life::terminate(self, provider_id, Duration::ZERO);
    }

    /// From the call to launch until the kubelet talks to the cluster, at most; longer when what is wanted may be sold out.
    pub fn longest_start(&self) -> Duration {
        let Settings { launch, registration, stock, sold_out, .. } = &self.settings;
        let shortage = if *stock == Stock::Endless { Duration::ZERO } else { *sold_out };
        launch.1 + registration.1 + shortage
    }

    /// Machines that were told they will be taken back, and when.
    pub fn interruptions(&self) -> BTreeMap<String, Timestamp> {
        self.lock().interruptions()
    }

    /// The machines that are running, with the uid of the claim that each was launched for.
    pub fn running(&self) -> BTreeMap<String, String> {
        self.lock().running()
    }

    /// The machines that are paid for, by provider id.
    pub fn bills(&self) -> BTreeMap<String, Bill> {
        let state = self.lock();
        let running = state.records.iter().filter(|(_, record)| record.gone_at.is_none());
        let bill = |record: &state::Record| Bill {
            instance_type: record.offering.instance_type.clone(),
            zone: record.offering.zone.clone(),
            capacity_type: record.offering.capacity_type.clone(),
            usd_per_hour: record.price.per_hour(),
        };
        running.map(|(id, record)| (id.clone(), bill(record))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, text: &str) {
        self.journal.write(self.clock.now(), "cloud", text);
    }

    /// A duration for the thing of this name.
    fn drawn(&self, range: (Duration, Duration), name: &[&str]) -> Duration {
        Chance::about(self.seed, name).between(range.0, range.1)
    }
}

fn after(since: Timestamp, pause: Duration) -> Timestamp {
    let pause = jiff::SignedDuration::try_from(pause).unwrap_or(jiff::SignedDuration::MAX);
    since.checked_add(pause).unwrap_or(Timestamp::MAX)
}
