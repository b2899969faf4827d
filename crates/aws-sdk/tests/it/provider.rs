//! The whole provider over the wire: the contract that every provider keeps, and a thousand claims at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::names::aws;
use karpenter_aws::fake::{Classes, ready_class, settings};
use karpenter_aws::provider::{AwsProvider, Clients, NoReports, ProviderSettings};
use karpenter_aws::provider_id::instance_id;
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::pool::{NodeClassRef, PoolView};
use karpenter_model::requirements::Requirement;
use karpenter_model::taints::Taint;
use karpenter_platform::contract::{Subject, violations};
use karpenter_platform::{Clock, CloudProvider, Instance};
use serde_json::{Value, json};

use crate::setup::{IMAGE, World, world};

/// The machine's time, and as much more as the suite wanted to pass: the emulator is never late unless it is told to be.
#[derive(Debug, Default)]
struct Ahead(Mutex<SignedDuration>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.0.lock().unwrap()
    }
}

struct OnEmulator {
    world: World,
    clock: Arc<Ahead>,
    provider: Arc<AwsProvider>,
    claims: AtomicU32,
}

impl OnEmulator {
    async fn new() -> Self {
        let (world, clock) = (world().await, Arc::new(Ahead::default()));
        let spot = ["us-west-2a", "us-west-2b", "us-west-2c"]
            .map(|zone| json!({"InstanceType": "m5.large", "AvailabilityZone": zone, "SpotPrice": "0.03"}));
        world.account.change(json!({"prices": {"m5.large": 0.096}, "spot_prices": spot}));
        let subnets = world.subnets().await;
        let classes = Classes::default();
        classes.put(ready_class(&json!({}), &status(&world, &subnets).await));
        let clients = Clients {
            reads: world.clients.reads.clone(),
            writes: world.clients.writes.clone(),
            lookups: world.clients.lookups.clone(),
        };
        let settings = ProviderSettings { reserved_capacity: true, ..settings() };
        let provider =
            AwsProvider::new(clients, settings, clock.clone(), Arc::new(classes), Arc::new(NoReports)).unwrap();
        provider.discover().await.unwrap();
        provider.refresh_on_demand_prices().await.unwrap();
        provider.refresh_spot_prices().await.unwrap();
        provider.lead().await.unwrap();
        provider.subnets_described(&subnets);
        Self { world, clock, provider: Arc::new(provider), claims: AtomicU32::new(0) }
    }

    /// Of an `m5.large`, nobody else's.
    fn claim(&self) -> ClaimView {
        let name = format!("claim-{}", self.claims.fetch_add(1, Ordering::Relaxed));
        let mut claim = ClaimView {
            pool: Some("default".to_owned()),
            node_class: class_ref(),
            uid: format!("{name}-0000-4000-8000-000000000000"),
            created_at: self.clock.now(),
            ..example::claim(&name)
        };
        claim.labels.insert(labels::NODEPOOL.to_owned(), "default".to_owned());
        claim.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, ["m5.large"]));
        claim
    }

    fn launched(&self, claim: &ClaimView) -> Value {
        let id = instance_id(claim.provider_id.as_deref().unwrap()).unwrap();
        self.world.account.launched()[id].clone()
    }
}

/// What the class's controllers would have found in the account.
async fn status(world: &World, subnets: &[karpenter_aws::cloud::SubnetInfo]) -> Value {
    let groups = world.clients.reads.security_groups(&[]).await.unwrap();
    let groups: Vec<Value> = groups.iter().map(|group| json!({"id": group.id})).collect();
    let subnets: Vec<Value> =
        subnets.iter().map(|one| json!({"id": one.id, "zone": one.zone, "zoneID": one.zone_id})).collect();
    let amd = json!({"key": labels::ARCH, "operator": "In", "values": ["amd64"]});
    let profile = json!({"InstanceProfileName": "test-profile"});
    world.account.call("iam", "create_instance_profile", profile);
    let role = format!("arn:aws:iam::{}:role/cluster", world.account.id());
    let cluster = json!({"name": "test-cluster", "roleArn": role, "resourcesVpcConfig": {}});
    world.account.call("eks", "create_cluster", cluster);
    json!({"subnets": subnets, "securityGroups": groups, "amis": [{"id": IMAGE, "requirements": [amd]}]})
}

fn class_ref() -> NodeClassRef {
    NodeClassRef { group: aws::GROUP.to_owned(), kind: aws::NODE_CLASS_KIND.to_owned(), name: "default".to_owned() }
}

#[async_trait]
impl Subject for OnEmulator {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.clone()
    }

    fn pool(&self) -> PoolView {
        PoolView { node_class: class_ref(), ..example::pool("default") }
    }

    async fn new_claim(&self) -> ClaimView {
        self.claim()
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        let mut claim = claim.clone();
        claim.provider_id = Some(instance.provider_id.clone());
        claim.labels.extend(instance.labels.clone());
        claim.annotations.extend(instance.annotations.clone());
        claim.node_name = Some("node".to_owned());
        claim
    }

    /// As the user data of the instance says.
    async fn taints(&self, claim: &ClaimView) -> Vec<Taint> {
        let data = self.launched(claim)["user_data"].as_str().unwrap().to_owned();
        let data = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        let guarded = String::from_utf8(data).unwrap().contains("karpenter.sh/unregistered");
        if guarded { vec![Taint::unregistered()] } else { Vec::new() }
    }

    async fn boot_id(&self, claim: &ClaimView) -> Option<String> {
        Some(self.launched(claim)["boots"].as_u64().unwrap_or(1).to_string())
    }

    async fn pause(&self, time: Duration) {
        *self.clock.0.lock().unwrap() += SignedDuration::try_from(time).unwrap();
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }
}

/// AWS-296, API-237 … API-247, API-258, API-266, API-269, V15-72: the same suite as on kwok and on the simulated cloud.
#[tokio::test]
async fn keeps_the_contract() {
    let subject = OnEmulator::new().await;
    assert_eq!(violations(&subject).await, Vec::<String>::new());
}

const CLAIMS: usize = 1000;

/// AWS-194 to AWS-196, AWS-160, AWS-200: one fleet for each claim (docs/decisions/0010), everything else shared: one template,
/// and as many looks and terminations as batches make.
#[tokio::test]
async fn a_thousand_claims_at_once() {
    let claims = CLAIMS;
    let subject = OnEmulator::new().await;
    let before = subject.world.account.calls().len();
    let all: Vec<ClaimView> = (0..claims).map(|_| subject.claim()).collect();
    let started = Instant::now();
    let instances = join_all(all.iter().map(|claim| subject.provider.create(claim))).await;
    let instances: Vec<Instance> = instances.into_iter().map(Result::unwrap).collect();
    let launched_in = started.elapsed();
    let ids: std::collections::BTreeSet<&str> = instances.iter().map(|one| one.provider_id.as_str()).collect();
    assert_eq!(ids.len(), claims);
    let told = join_all(all.iter().zip(&instances).map(|(claim, one)| subject.joined(claim, one))).await;
    let ends = join_all(told.iter().map(|claim| subject.provider.delete(claim))).await;
    let failed: Vec<_> = ends.iter().filter(|end| end.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");

    let calls = subject.world.account.calls().split_off(before);
    let count = |operation: &str| calls.iter().filter(|call| call["operation"] == operation).count();
    let shared = [
        "DescribeCluster",
        "CreateLaunchTemplate",
        "DescribeLaunchTemplates",
        "DescribeInstances",
        "TerminateInstances",
    ];
    let shown: Vec<String> = shared.iter().map(|name| format!("{name} {}", count(name))).collect();
    let fleets = count("CreateFleet");
    println!("{claims} claims, launched in {launched_in:.1?}: CreateFleet {fleets}, {}", shown.join(", "));
    assert_eq!((fleets, count("CreateLaunchTemplate")), (claims, 1));
    assert!(count("DescribeLaunchTemplates") <= 1 && count("DescribeCluster") <= 1, "{shown:?}");
    // Those who ask together share a call: 5 looks for instances of a predecessor, 2 before the end in pages of 100, 2 ends. All may take
    // a few more on a busy machine, where not everybody asks at once.
    assert!(count("DescribeInstances") <= claims / 20 && count("TerminateInstances") <= claims / 50, "{shown:?}");
    let known = fleets + shared.iter().map(|name| count(name)).sum::<usize>();
    assert_eq!(known, calls.len(), "nothing else is called");
}
