use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use jiff::Timestamp;
use karpenter_apiserver::{Api as Embedded, Fault, Options, Rule, Verb};
use karpenter_platform::TokioClock;
use kube::client::Body;
use tower::Service;

use super::*;

/// A connection that can be cut: from then on nothing is answered.
#[derive(Clone)]
struct Connection {
    api: Embedded,
    cut: Arc<AtomicBool>,
}

impl Service<http::Request<Body>> for Connection {
    type Response = <Embedded as Service<http::Request<Body>>>::Response;
    type Error = <Embedded as Service<http::Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.api, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        Box::pin(self.api.call(request))
    }
}

/// Who acted when, in seconds since the start.
#[derive(Clone)]
struct Log {
    started: Instant,
    lines: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Log {
    fn write(&self, line: String) {
        self.lines.lock().unwrap().push((self.started.elapsed().as_secs(), line));
    }

    fn lines(&self) -> Vec<(u64, String)> {
        self.lines.lock().unwrap().clone()
    }
}

/// Says when it is dropped, which is when the work stops.
struct Acting(Log, &'static str);

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.write(format!("{} stops", self.1));
    }
}

struct Replica {
    task: tokio::task::JoinHandle<Ended<()>>,
    stop: Arc<tokio::sync::Notify>,
    cut: Arc<AtomicBool>,
    fence: Fence,
    metrics: Arc<Metrics>,
}

struct World {
    api: Embedded,
    log: Log,
    clock: Arc<TokioClock>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let of_api = clock.clone();
        let options = Options { clock: Arc::new(move || of_api.now()), ..Options::default() };
        let log = Log { started: Instant::now(), lines: Arc::default() };
        Self { api: Embedded::new(options), log, clock }
    }

    fn client(&self) -> kube::Client {
        kube::Client::new(self.api.clone(), "default")
    }

    fn start(&self, name: &'static str) -> Replica {
        let (cut, stop) = (Arc::<AtomicBool>::default(), Arc::<tokio::sync::Notify>::default());
        let connection = Connection { api: self.api.clone(), cut: cut.clone() };
        let client = kube::Client::new(connection, "default");
        let metrics = Arc::new(Metrics::new(&karpenter_model::labels::LabelRules::core(), Vec::new()));
        let election = Election::new(client, lease(), name.to_owned(), self.clock.clone()).metrics(metrics.clone());
        let (fence, log, stopped) = (election.fence(), self.log.clone(), stop.clone());
        let work = async move {
            log.write(format!("{name} acts"));
            let _acting = Acting(log, name);
            std::future::pending::<()>().await;
        };
        let task = tokio::spawn(async move { election.lead(work, async move { stopped.notified().await }).await });
        Replica { task, stop, cut, fence, metrics }
    }

    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn lease(&self) -> k8s_openapi::api::coordination::v1::LeaseSpec {
        Api::<Lease>::namespaced(self.client(), "default").get("karpenter").await.unwrap().spec.unwrap()
    }
}

fn lease() -> LeaseName {
    LeaseName { namespace: "default".to_owned(), name: "karpenter".to_owned() }
}

fn lines(world: &World) -> Vec<String> {
    world.log.lines().into_iter().map(|(at, line)| format!("{at}: {line}")).collect()
}

/// API-296, API-297, LIF-128: one of two acts; told to stop, it gives the lease back and the other acts within the retry time.
#[tokio::test(start_paused = true)]
async fn one_of_two_acts_and_hands_over() {
    let world = World::new();
    let first = world.start("a");
    world.wait(1).await;
    let second = world.start("b");
    world.wait(100).await;
    assert_eq!(lines(&world), ["0: a acts"]);
    assert!(first.fence.is_open() && !second.fence.is_open());
    let held = world.lease().await;
    assert_eq!(held.holder_identity.as_deref(), Some("a"));
    assert_eq!((held.lease_duration_seconds, held.lease_transitions), (Some(15), Some(0)));
    let status = |replica: &Replica| replica.metrics.all.leader_election_master_status.value(["karpenter"]);
    assert_eq!((status(&first), status(&second)), (Some(1.0), Some(0.0)));

    first.stop.notify_one();
    assert_eq!(first.task.await.unwrap(), Ended::Stopped);
    assert!(!first.fence.is_open());
    world.wait(3).await;
    let log = world.log.lines();
    assert_eq!(log.len(), 3, "{log:?}");
    assert_eq!((log[1].1.as_str(), log[2].1.as_str()), ("a stops", "b acts"));
    assert!(log[2].0 - log[1].0 <= 2, "{log:?}");
    assert_eq!(world.lease().await.lease_transitions, Some(1));
    drop(second);
}

/// API-297: a leader that dies is replaced when its lease has run out, not before.
#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_when_its_lease_ran_out() {
    let world = World::new();
    let first = world.start("a");
    world.wait(1).await;
    let second = world.start("b");
    world.wait(29).await;
    first.task.abort();
    world.wait(12).await;
    assert_eq!(world.log.lines().len(), 2, "still respected: {:?}", lines(&world));
    world.wait(8).await;
    let log = world.log.lines();
    assert_eq!(log.last().unwrap().1, "b acts", "{log:?}");
    drop(second);
}

/// API-297: a leader that cannot reach the API stops before anybody else begins; nobody acts twice, and nothing is sent
/// through a fence that has closed.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_the_next_begins() {
    let world = World::new();
    let first = world.start("a");
    world.wait(1).await;
    let second = world.start("b");
    world.wait(50).await;
    first.cut.store(true, Ordering::SeqCst);
    assert_eq!(first.task.await.unwrap(), Ended::Lost);
    assert!(!first.fence.is_open());
    world.wait(30).await;
    let log = world.log.lines();
    let words: Vec<&str> = log.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(words, ["a acts", "a stops", "b acts"]);
    assert!(log[1].0 <= 51 + 10, "within the renew deadline: {log:?}");
    assert!(log[2].0 > log[1].0, "{log:?}");
    drop(second);
}

/// Somebody wrote another name into the lease: whoever is not in it stops at the next look.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_stops() {
    let world = World::new();
    let first = world.start("a");
    world.wait(5).await;
    let api: Api<Lease> = Api::namespaced(world.client(), "default");
    let mut lease = api.get("karpenter").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("somebody".to_owned());
    api.replace("karpenter", &PostParams::default(), &lease).await.unwrap();
    assert_eq!(first.task.await.unwrap(), Ended::Lost);
    assert_eq!(
        world.lease().await.holder_identity.as_deref(),
        Some("somebody"),
        "it is not given back by who has not got it"
    );
}

/// Errors, lost answers and conflicts that pass before the deadline cost nothing; a deleted lease is written again.
#[tokio::test(start_paused = true)]
async fn passing_trouble_does_not_cost_the_lease() {
    let world = World::new();
    let first = world.start("a");
    world.wait(5).await;
    for fault in [Fault::Throttled { retry_after_seconds: 1 }, Fault::AnswerLost, Fault::RequestLost, Fault::Conflict] {
        let id = world.api.add_fault(Rule::new(fault).kind("Lease").verb(Verb::Update).times(2));
        world.wait(9).await;
        world.api.remove_fault(id);
        world.wait(5).await;
    }
    Api::<Lease>::namespaced(world.client(), "default")
        .delete("karpenter", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    world.wait(20).await;
    assert_eq!(lines(&world), ["0: a acts"]);
    assert!(first.fence.is_open());
    let slow = first.metrics.all.leader_election_slowpath.value(["karpenter"]);
    assert!(slow.is_some_and(|slow| slow >= 2.0), "{slow:?}");
}

/// Ten replicas start at once: exactly one acts, whoever it is, and the whole hour through.
#[tokio::test(start_paused = true)]
async fn of_many_exactly_one_acts() {
    let world = World::new();
    let replicas: Vec<Replica> =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| world.start(name)).into();
    world.wait(3600).await;
    assert_eq!(world.log.lines().len(), 1, "{:?}", lines(&world));
    assert_eq!(replicas.iter().filter(|replica| replica.fence.is_open()).count(), 1);
}

/// A lease that another program left with a longer time is respected as long as it says.
#[tokio::test(start_paused = true)]
async fn a_longer_lease_of_another_is_respected() {
    let world = World::new();
    let mut foreign =
        Claimed { identity: "other", lease: Duration::from_mins(1), now: Timestamp::UNIX_EPOCH }.first(&lease());
    foreign.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    Api::<Lease>::namespaced(world.client(), "default").create(&PostParams::default(), &foreign).await.unwrap();
    let first = world.start("a");
    world.wait(58).await;
    assert_eq!(lines(&world), [""; 0]);
    world.wait(10).await;
    assert_eq!(world.log.lines().len(), 1);
    drop(first);
}

/// Without election everything may be sent.
#[tokio::test(start_paused = true)]
async fn a_fence_without_election_stays_open() {
    let fence = Fence::open();
    tokio::time::advance(Duration::from_hours(24 * 365)).await;
    assert!(fence.is_open());
}
