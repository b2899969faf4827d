//! The autoscaler dies at a chosen call, to the API or to the cloud, and nothing it asks for afterwards is heard.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::pool::PoolView;
use karpenter_platform::{
    CallError, Clock, CloudProvider, CreateError, DriftReason, Instance, InstanceError, InstanceTypesError, RebootError,
};
use tokio::sync::Notify;

use super::clients::{Hands, NotLeader};

/// At which call, and whether that call is still carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Counted from 1, watches included.
    pub call: u64,
    pub applied: bool,
}

/// Nobody chooses a death among more calls than these; a week of a large cluster makes many more.
const REMEMBERED: u64 = 100_000;

/// Counts the calls of all lives of the autoscaler, and ends one of them.
#[derive(Debug, Default)]
pub(super) struct Fates {
    death: Option<Death>,
    calls: AtomicU64,
    /// What each call was, when nobody is to die and somebody may want to choose.
    said: Mutex<Vec<String>>,
    /// What the fatal call was.
    last_words: Mutex<Option<String>>,
    died: Notify,
}

impl Fates {
    pub(super) fn new(death: Option<Death>) -> Arc<Self> {
        Arc::new(Self { death, ..Self::default() })
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The next time that a life ends.
    pub(super) async fn death(&self) -> String {
        self.died.notified().await;
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

/// One start of the autoscaler.
#[derive(Debug, Clone)]
pub(super) struct Life {
    fates: Arc<Fates>,
    ended: Arc<AtomicBool>,
}

impl Life {
    pub(super) fn new(fates: &Arc<Fates>) -> Self {
        Self { fates: fates.clone(), ended: Arc::default() }
    }

    /// Does the call, or dies before or after it.
    pub(super) async fn call<T>(&self, what: &str, call: impl Future<Output = T>) -> T {
        if self.ended.load(Ordering::Relaxed) {
            return pending().await;
        }
        let number = self.fates.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.fates.death.is_none() && number <= REMEMBERED {
            self.fates.said.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
        }
        let Some(death) = self.fates.death.filter(|death| death.call == number) else {
            let answer = call.await;
            // It may have died of another call meanwhile; then nobody hears this.
            return if self.ended.load(Ordering::Relaxed) { pending().await } else { answer };
        };
        if death.applied {
            call.await;
        }
        self.ended.store(true, Ordering::Relaxed);
        *self.fates.last_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_owned());
        self.fates.died.notify_one();
        pending().await
    }
}

/// The cloud as one life of the autoscaler sees it.
#[derive(Debug)]
pub(super) struct MortalCloud {
    pub(super) life: Life,
    pub(super) cloud: Arc<dyn CloudProvider>,
    pub(super) hands: Hands,
    pub(super) clock: Arc<dyn Clock>,
}

impl MortalCloud {
    /// Nobody but us stands between a process and its cloud: no fence, only the line and somebody who looks.
    async fn reach(&self, what: &str, writes: bool) {
        // Without a fence there is nothing to refuse.
        let _: Result<(), NotLeader> = self.hands.reach(self.clock.as_ref(), what, writes).await;
    }
}

#[async_trait]
impl CloudProvider for MortalCloud {
    karpenter_platform::same_facts_as!(cloud);

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.reach(&format!("cloud create {}", claim.name), true).await;
        self.life.call("cloud create", self.cloud.create(claim)).await
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.reach(&format!("cloud delete {}", claim.name), true).await;
        self.life.call("cloud delete", self.cloud.delete(claim)).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.reach(&format!("cloud get {provider_id}"), false).await;
        self.life.call("cloud get", self.cloud.get(provider_id)).await
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        self.reach(&format!("cloud find {}", claim.name), false).await;
        self.life.call("cloud find", self.cloud.find(claim)).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.reach("cloud list", false).await;
        self.life.call("cloud list", self.cloud.list()).await
    }

    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        self.reach(&format!("cloud instance types {}", pool.name), false).await;
        self.life.call("cloud instance types", self.cloud.instance_types(pool)).await
    }

    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        self.reach(&format!("cloud drift {}", claim.name), false).await;
        self.life.call("cloud drift", self.cloud.drift(claim)).await
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        self.reach(&format!("cloud reboot {}", claim.name), true).await;
        self.life.call("cloud reboot", self.cloud.reboot(claim, operation_id)).await
    }
}
