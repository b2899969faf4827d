//! The simulated cloud, on virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::convert;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::Requirement;
use karpenter_model::taints::Taint;
use karpenter_platform::contract::{self, Subject};
use karpenter_platform::{Clock as _, CloudProvider, CreateError, DriftReason, Instance, InstanceError, TokioClock};
use karpenter_sim::cloud::{Cloud, Range, Reservation, Settings, Stock, Surroundings, Swing, Throttle, Trouble};
use karpenter_sim::fleet::Fleet;
use karpenter_sim::journal::Journal;
use karpenter_testkit::build;

struct Sky {
    cloud: Arc<Cloud>,
    fleet: Arc<Fleet>,
    clock: Arc<TokioClock>,
    journal: Arc<Journal>,
    claims: AtomicUsize,
}

fn sky(settings: Settings) -> Sky {
    let clock = Arc::new(TokioClock::starting_at(Timestamp::from_second(1_800_000_000).unwrap()));
    let (fleet, journal) = (Arc::<Fleet>::default(), Arc::<Journal>::default());
    let surroundings = Surroundings { seed: 7, clock: clock.clone(), fleet: fleet.clone(), journal: journal.clone() };
    let cloud = Arc::new(Cloud::new(surroundings, settings).unwrap());
    let running = cloud.clone();
    tokio::spawn(async move { running.run().await });
    Sky { cloud, fleet, clock, journal, claims: AtomicUsize::new(0) }
}

impl Sky {
    fn claim(&self, requirements: &[(&str, &str)]) -> ClaimView {
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        let claim = build::node_claim(&format!("claim-{number}")).request("cpu", "1");
        let claim = requirements.iter().fold(claim, |claim, (key, value)| claim.requirement(key, "In", &[value]));
        let mut claim = claim.build();
        claim.metadata.uid = Some(format!("uid-{number}"));
        convert::claim(&claim, self.cloud.label_rules()).view
    }

    async fn launch(&self, requirements: &[(&str, &str)]) -> Result<(ClaimView, Instance), CreateError> {
        let mut claim = self.claim(requirements);
        let instance = self.cloud.create(&claim).await?;
        claim.provider_id = Some(instance.provider_id.clone());
        Ok((claim, instance))
    }
}

#[async_trait]
impl Subject for Sky {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.cloud.clone()
    }

    fn pool(&self) -> PoolView {
        convert::pool(&build::node_pool("default").build(), self.cloud.label_rules()).view
    }

    async fn new_claim(&self) -> ClaimView {
        self.claim(&[])
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        let machine = self.fleet.get(&instance.provider_id).unwrap();
        ClaimView { node_name: Some(machine.node_name), ..claim.clone() }
    }

    async fn taints(&self, claim: &ClaimView) -> Vec<Taint> {
        self.fleet.get(claim.provider_id.as_ref().unwrap()).unwrap().taints
    }

    async fn boot_id(&self, claim: &ClaimView) -> Option<String> {
        self.fleet.get(claim.provider_id.as_ref()?).map(|machine| machine.boot_id)
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(2)
    }
}

fn reservation() -> Reservation {
    Reservation {
        id: "r-1".to_owned(),
        instance_type: "c-1x-amd64-linux".to_owned(),
        zone: "test-zone-a".to_owned(),
        count: 1,
    }
}

/// API-237 … API-247, API-257 … API-269, V15-72, V15-82: the suite of all providers, on every kind of cloud.
#[tokio::test(start_paused = true)]
async fn the_cloud_keeps_the_contract() {
    let few = Stock::Drawn { spot: (1, 2), on_demand: (2, 4) };
    for (name, settings) in [
        ("plain", Settings::default()),
        ("of ec2", Settings { range: Range::Ec2, ..Settings::default() }),
        ("with reservations", Settings { reservations: vec![reservation()], ..Settings::default() }),
        ("nearly empty", Settings { stock: few, ..Settings::default() }),
        ("restless", Settings { swing: Swing { spot: 0.9, ..Swing::default() }, ..Settings::default() }),
    ] {
        assert_eq!(contract::violations(&sky(settings)).await, Vec::<String>::new(), "{name}");
    }
}

const ZONE_A: (&str, &str) = (labels::ZONE, "test-zone-a");
const SMALL: (&str, &str) = (labels::INSTANCE_TYPE, "c-2x-amd64-linux");

/// API-246: what ran out is not on offer for a while, and can be had again after that.
#[tokio::test(start_paused = true)]
async fn stock_runs_out_and_comes_back() {
    let sky = sky(Settings { stock: Stock::Drawn { spot: (1, 1), on_demand: (1, 1) }, ..Settings::default() });
    let asked = [ZONE_A, SMALL];
    let (first, one) = sky.launch(&asked).await.unwrap();
    let (_, two) = sky.launch(&asked).await.unwrap();
    assert_eq!(one.labels[labels::CAPACITY_TYPE], "spot", "the cheaper one first");
    assert_eq!(two.labels[labels::CAPACITY_TYPE], "on-demand");
    let none = sky.launch(&asked).await;
    assert!(matches!(none, Err(CreateError::InsufficientCapacity(_))), "{none:?}");
    let available = async || -> usize {
        let types = sky.cloud.instance_types(&sky.pool()).await.unwrap();
        let small = types.iter().find(|t| t.name == SMALL.1).unwrap();
        small.offerings.iter().filter(|o| o.available && o.zone() == Some("test-zone-a")).count()
    };
    assert_eq!(available().await, 0);
    // One goes; when the shortage is forgotten, it can be had again.
    while sky.cloud.delete(&first).await.is_ok() {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(available().await, 2);
    assert!(sky.launch(&asked).await.is_ok());
}

/// V15-82: a full reservation stays on offer with nothing left.
#[tokio::test(start_paused = true)]
async fn reservations_fill_up() {
    let sky = sky(Settings { reservations: vec![reservation()], ..Settings::default() });
    let left = async || -> Option<u32> {
        let types = sky.cloud.instance_types(&sky.pool()).await.unwrap();
        let of_type = types.iter().find(|t| t.name == "c-1x-amd64-linux").unwrap();
        let reserved = of_type.offerings.iter().find(|o| o.capacity_type() == Some("reserved") && o.available);
        reserved.and_then(|reserved| reserved.reservation_capacity)
    };
    assert_eq!(left().await, Some(1));
    let mut claim = sky.claim(&[]);
    claim.requests = karpenter_model::resources::Resources::new();
    let instance = sky.cloud.create(&claim).await.unwrap();
    assert_eq!(instance.labels[karpenter_sim::cloud::RESERVATION_ID], "r-1", "paid for already");
    assert_eq!(left().await, Some(0));
    let mut claim = sky.claim(&[(labels::CAPACITY_TYPE, "reserved")]);
    claim.requests = karpenter_model::resources::Resources::new();
    assert!(matches!(sky.cloud.create(&claim).await, Err(CreateError::InsufficientCapacity(_))));
}

#[tokio::test(start_paused = true)]
async fn machines_join_after_a_while_with_what_the_claim_says() {
    let sky = sky(Settings::default());
    let mut claim = sky.claim(&[ZONE_A]);
    claim.labels = [("team".to_owned(), "shop".to_owned())].into();
    let instance = sky.cloud.create(&claim).await.unwrap();
    let machine = sky.fleet.get(&instance.provider_id).unwrap();
    assert_eq!(machine.labels["team"], "shop");
    assert_eq!(machine.labels[labels::ZONE], "test-zone-a");
    assert!(machine.taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"), "API-240");
    let wait = machine.joins_at.duration_since(sky.clock.now()).as_secs();
    assert!((20..=50).contains(&wait), "{wait}");
}

#[tokio::test(start_paused = true)]
async fn listings_lag() {
    let sky = sky(Settings { lag: Duration::from_secs(30), ..Settings::default() });
    let (claim, instance) = sky.launch(&[]).await.unwrap();
    let count = async || sky.cloud.list().await.unwrap().len();
    assert_eq!(count().await, 0, "not known yet");
    assert_eq!(sky.cloud.get(&instance.provider_id).await.unwrap().provider_id, instance.provider_id);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(count().await, 1);
    while sky.cloud.delete(&claim).await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(count().await, 1, "not forgotten yet");
    assert!(matches!(sky.cloud.get(&instance.provider_id).await, Err(InstanceError::NotFound(_))));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn spot_machines_are_told_before_they_go() {
    let sky = sky(Settings { spot_life: Some(Duration::from_hours(10)), ..Settings::default() });
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(sky.launch(&[(labels::CAPACITY_TYPE, "spot")]).await.unwrap().1.provider_id);
    }
    let (_, safe) = sky.launch(&[(labels::CAPACITY_TYPE, "on-demand")]).await.unwrap();
    let mut told = BTreeMap::new();
    for _ in 0..200 * 60 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        told.extend(sky.cloud.interruptions());
        for (id, at) in &told {
            assert_eq!(sky.cloud.get(id).await.is_ok(), *at > sky.clock.now(), "{id} {at}");
        }
        assert!(ids.iter().all(|id| told.contains_key(id) || sky.fleet.get(id).is_some()), "none goes untold");
    }
    assert!(told.len() > 15 && !told.contains_key(&safe.provider_id), "{} of 20", told.len());

    // And on demand.
    let (_, instance) = sky.launch(&[(labels::CAPACITY_TYPE, "on-demand")]).await.unwrap();
    sky.cloud.interrupt(&instance.provider_id);
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert!(sky.fleet.get(&instance.provider_id).unwrap().on);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(sky.fleet.get(&instance.provider_id).is_none());
}

/// API-239: an answer that is lost is given again, with the same machine.
#[tokio::test(start_paused = true)]
async fn troubles_are_as_ordered() {
    let sky = sky(Settings::default());
    sky.cloud.trouble(Trouble { answer_lost: 1.0, ..Trouble::default() });
    let claim = sky.claim(&[]);
    assert!(matches!(sky.cloud.create(&claim).await, Err(CreateError::Call(_))));
    sky.cloud.trouble(Trouble::default());
    let instance = sky.cloud.create(&claim).await.unwrap();
    assert_eq!(sky.cloud.running(), BTreeMap::from([(instance.provider_id.clone(), claim.uid.clone())]));

    sky.cloud.trouble(Trouble { no_capacity: 1.0, ..Trouble::default() });
    assert!(matches!(sky.cloud.create(&sky.claim(&[])).await, Err(CreateError::InsufficientCapacity(_))));
    sky.cloud.trouble(Trouble { throttled: 1.0, ..Trouble::default() });
    assert!(sky.cloud.list().await.is_err());
    sky.cloud.trouble(Trouble { failed: 1.0, ..Trouble::default() });
    assert!(sky.cloud.get(&instance.provider_id).await.is_err());
    sky.cloud.trouble(Trouble::default());

    let claim = ClaimView { provider_id: Some(instance.provider_id.clone()), ..claim };
    sky.cloud.drift(&instance.provider_id, DriftReason::new("ImageDrift").unwrap());
    assert_eq!(sky.cloud.drift_of(&claim).await, Some("ImageDrift".to_owned()));
    assert!(sky.journal.text().contains("launched sim://"));
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_are_refused() {
    let sky = sky(Settings { throttle: Throttle { burst: 3, per_second: 1 }, ..Settings::default() });
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(sky.cloud.list().await.is_ok());
    }
    assert_eq!(answers, [true, true, true, false, false]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sky.cloud.list().await.is_ok());
}

trait DriftOf {
    async fn drift_of(&self, claim: &ClaimView) -> Option<String>;
}

impl DriftOf for Cloud {
    async fn drift_of(&self, claim: &ClaimView) -> Option<String> {
        let reason = CloudProvider::drift(self, claim).await.unwrap();
        reason.map(|reason| reason.as_str().to_owned())
    }
}

/// API-273: what is cheapest changes with the prices, and so does what is launched.
#[tokio::test(start_paused = true)]
async fn prices_move() {
    let sky = sky(Settings::default());
    let price = async || {
        let types = sky.cloud.instance_types(&sky.pool()).await.unwrap();
        let small = types.iter().find(|t| t.name == SMALL.1).unwrap();
        let cheapest = Requirement::any_of(labels::CAPACITY_TYPE, ["spot"]);
        small.cheapest_price(&[cheapest].into_iter().collect(), sky.cloud.label_rules())
    };
    let first = price().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let mut seen = std::collections::BTreeSet::from([first]);
    for _ in 0..24 {
        tokio::time::sleep(Duration::from_hours(1)).await;
        seen.insert(price().await);
    }
    assert!(seen.len() > 10, "{seen:?}");
}
