use karpenter_model::labels::LabelRules;
use std::collections::BTreeMap;
use std::sync::Mutex;

use karpenter_model::example;

use super::*;
use crate::NodeClassKind;

#[derive(Debug, Default)]
struct Log(Mutex<Vec<String>>);

impl CallObserver for Log {
    fn call_ended(&self, call: Call<'_>) {
        let Call { controller, method, provider, took, failure } = call;
        let failure = failure.map(|(error, pool)| format!(" {error} in {pool:?}")).unwrap_or_default();
        self.0.lock().unwrap().push(format!("{controller:?} {provider} {method} {}s{failure}", took.as_secs()));
    }
}

/// Takes a second for everything and fails as it is told.
#[derive(Debug)]
struct Slow {
    rules: LabelRules,
    fails: bool,
}

impl Slow {
    async fn answer<T, E>(&self, value: T, error: impl FnOnce() -> E) -> Result<T, E> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if self.fails { Err(error()) } else { Ok(value) }
    }
}

fn instance() -> Instance {
    Instance {
        provider_id: "i-1".to_owned(),
        image_id: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        capacity: karpenter_model::resources::Resources::new(),
        allocatable: karpenter_model::resources::Resources::new(),
        terminating: false,
    }
}

#[async_trait]
impl CloudProvider for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &[]
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    async fn create(&self, _: &ClaimView) -> Result<Instance, CreateError> {
        self.answer(instance(), || CreateError::InsufficientCapacity("none".into())).await
    }

    async fn delete(&self, _: &ClaimView) -> Result<(), InstanceError> {
        self.answer((), || InstanceError::NotFound("i-1".into())).await
    }

    async fn get(&self, _: &str) -> Result<Instance, InstanceError> {
        self.answer(instance(), || CallError::new("Describe", "boom").into()).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.answer(Vec::new(), || CallError::new("Describe", "boom")).await
    }

    async fn instance_types(&self, _: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        self.answer(Arc::default(), || InstanceTypesError::NodeClassNotReady("x".into())).await
    }

    async fn drift(&self, _: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        self.answer(None, || CallError::new("Describe", "boom").into()).await
    }

    async fn reboot(&self, _: &ClaimView, _: &str) -> Result<(), RebootError> {
        self.answer((), || RebootError::Failed("x".into())).await
    }
}

async fn calls(fails: bool) -> Vec<String> {
    let log = Arc::new(Log::default());
    let slow = Arc::new(Slow { rules: LabelRules::core(), fails });
    let provider = Measured::new(slow, log.clone());
    let (claim, pool) = (ClaimView { pool: Some("blue".to_owned()), ..example::claim("c1") }, example::pool("red"));
    let _ = calling_as("nodeclaim.lifecycle", provider.create(&claim)).await;
    let _ = provider.delete(&claim).await;
    let _ = provider.get("i-1").await;
    let _ = provider.list().await;
    let _ = provider.instance_types(&pool).await;
    let _ = provider.drift(&claim).await;
    let _ = provider.reboot(&claim, "op").await;
    let _ = provider.running().await;
    let mut calls = log.0.lock().unwrap();
    std::mem::take(&mut *calls)
}

/// API-200, API-201, V15-17: every measured method, with its caller.
#[tokio::test(start_paused = true)]
async fn calls_are_timed() {
    let want = [
        "\"nodeclaim.lifecycle\" slow Create 1s",
        "\"\" slow Delete 1s",
        "\"\" slow Get 1s",
        "\"\" slow List 1s",
        "\"\" slow GetInstanceTypes 1s",
        "\"\" slow IsDrifted 1s",
        "\"\" slow Reboot 1s",
        "\"\" slow List 1s",
    ];
    assert_eq!(calls(false).await, want);
}

/// API-202, API-203, V15-17, VC-7: kinds of errors, and the pool where one is known.
#[tokio::test(start_paused = true)]
async fn failures_are_classified() {
    let want = [
        "\"nodeclaim.lifecycle\" slow Create 1s InsufficientCapacityError in \"blue\"",
        "\"\" slow Delete 1s NodeClaimNotFoundError in \"blue\"",
        "\"\" slow Get 1s unknown in \"\"",
        "\"\" slow List 1s unknown in \"\"",
        "\"\" slow GetInstanceTypes 1s NodeClassNotReadyError in \"red\"",
        "\"\" slow IsDrifted 1s unknown in \"blue\"",
        "\"\" slow Reboot 1s unknown in \"blue\"",
        "\"\" slow List 1s unknown in \"\"",
    ];
    assert_eq!(calls(true).await, want);
}
