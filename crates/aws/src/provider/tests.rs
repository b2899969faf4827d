//! The provider on an account in memory.

mod contract;
mod deaths;
mod drift;
mod existing;
mod expressions;
mod launching;
mod listing;
mod prices;
mod refusals;
mod storms;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::pool::{NodeClassRef, PoolView};
use karpenter_model::requirements::Requirement;
use karpenter_platform::{Clock, CloudProvider as _, CreateError, Instance, TokioClock};
use serde_json::{Value, json};

use super::*;
use crate::fake::{Account, Classes, Seen, ready_class, settings};

const TYPES: [&str; 8] =
    ["m5.large", "m5.xlarge", "c5.large", "m6g.large", "t3.large", "m5.metal", "g4dn.8xlarge", "p5.48xlarge"];

/// A provider, its account and its cluster. Time stands still unless it is told to pass.
struct World {
    account: Account,
    classes: Classes,
    seen: Arc<Seen>,
    clock: Arc<TokioClock>,
    settings: ProviderSettings,
    provider: Arc<AwsProvider>,
}

impl World {
    async fn new() -> Self {
        Self::with(settings(), &TYPES).await
    }

    async fn with(settings: ProviderSettings, types: &[&str]) -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-11-16T04:00:00Z".parse().unwrap()));
        let account = Account::selling(clock.clone(), types);
        let (classes, seen) = (Classes::default(), Arc::new(Seen::default()));
        classes.put(ready_class(&json!({}), &json!({})));
        let provider = provider(&account, &settings, &clock, &classes, &seen);
        let world = Self { account, classes, seen, clock, settings, provider };
        world.begin().await;
        world
    }

    /// As the operator does: types, prices, templates, and the first look at subnets by the class's controller.
    async fn begin(&self) {
        self.provider.discover().await.unwrap();
        self.provider.refresh_spot_prices().await.unwrap();
        self.provider.lead().await.unwrap();
        self.describe_subnets();
    }

    fn describe_subnets(&self) {
        let subnets: Vec<_> = self.account.lock().subnets.iter().map(|(info, _)| info.clone()).collect();
        self.provider.subnets_described(&subnets);
    }

    /// A new process on the same account.
    async fn restart(&mut self) {
        self.account.revive();
        self.provider = provider(&self.account, &self.settings, &self.clock, &self.classes, &self.seen);
        self.begin().await;
    }

    fn class(&self, spec: &Value) {
        self.classes.put(ready_class(spec, &json!({})));
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.provider.create(claim).await
    }

    async fn launched(&self, claim: &ClaimView) -> (ClaimView, Instance) {
        let instance = self.create(claim).await.unwrap();
        (told(claim, &instance), instance)
    }
}

fn provider(
    account: &Account,
    settings: &ProviderSettings,
    clock: &Arc<TokioClock>,
    classes: &Classes,
    seen: &Arc<Seen>,
) -> Arc<AwsProvider> {
    let classes = Arc::new(classes.clone());
    let provider = AwsProvider::new(account.clients(), settings.clone(), clock.clone(), classes, seen.clone()).unwrap();
    Arc::new(provider)
}

fn class_ref() -> NodeClassRef {
    NodeClassRef { group: aws::GROUP.to_owned(), kind: aws::NODE_CLASS_KIND.to_owned(), name: "default".to_owned() }
}

/// A claim of pool `default` for any of these types and ways to buy.
fn claim(name: &str, types: &[&str], capacity_types: &[&str]) -> ClaimView {
    let mut claim = ClaimView {
        pool: Some("default".to_owned()),
        node_class: class_ref(),
        uid: format!("{name}-0000-4000-8000-000000000000"),
        ..example::claim(name)
    };
    claim.labels.insert(labels::NODEPOOL.to_owned(), "default".to_owned());
    if !types.is_empty() {
        claim.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, types.to_vec()));
    }
    if !capacity_types.is_empty() {
        claim.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types.to_vec()));
    }
    claim
}

fn pool() -> PoolView {
    PoolView { node_class: class_ref(), ..example::pool("default") }
}

/// The claim as the core writes it after the launch.
fn told(claim: &ClaimView, instance: &Instance) -> ClaimView {
    let mut claim = claim.clone();
    claim.provider_id = Some(instance.provider_id.clone());
    claim.labels.extend(instance.labels.clone());
    claim.annotations.extend(instance.annotations.clone());
    claim
}

fn label<'a>(instance: &'a Instance, key: &str) -> &'a str {
    instance.labels.get(key).map(String::as_str).unwrap_or_default()
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

fn reservation(id: &str, instance_type: &str, zone: &str) -> Value {
    json!({
        "id": id, "instanceType": instance_type, "availabilityZone": zone, "instanceMatchCriteria": "targeted",
        "ownerID": "123456789012", "reservationType": "default", "interruptible": false, "state": "active",
    })
}
