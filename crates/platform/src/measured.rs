//! A provider whose calls are measured (API-200 … API-204, V15-17).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::pool::PoolView;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::{
    CallError, CloudProvider, CreateError, DriftReason, Instance, InstanceError, InstanceTypesError, RebootError,
};

tokio::task_local! {
    static CALLER: &'static str;
}

/// Runs a future whose calls count as those of this controller.
pub async fn calling_as<F: Future>(controller: &'static str, future: F) -> F::Output {
    CALLER.scope(controller, future).await
}

/// The measured methods, by the names they have in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Create,
    Delete,
    Get,
    List,
    GetInstanceTypes,
    IsDrifted,
    Reboot,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Empty when none called.
    pub controller: &'a str,
    pub method: Method,
    pub provider: &'a str,
    pub took: Duration,
    /// The kind of error and the pool concerned, when it failed.
    pub failure: Option<(&'a str, &'a str)>,
}

/// Who counts calls.
pub trait CallObserver: fmt::Debug + Send + Sync {
    fn call_ended(&self, call: Call<'_>);
}

/// The kind of an error for the `error` label (API-202, V15-17).
trait Classified {
    fn class(&self) -> &'static str;
}

const UNKNOWN: &str = "unknown";
const NOT_FOUND: &str = "NodeClaimNotFoundError";
const NOT_READY: &str = "NodeClassNotReadyError";

impl Classified for CreateError {
    fn class(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::NodeClassNotReady(_) => NOT_READY,
            Self::Explained { .. } | Self::Call(_) => UNKNOWN,
        }
    }
}

impl Classified for InstanceError {
    fn class(&self) -> &'static str {
        match self {
            Self::NotFound(_) => NOT_FOUND,
            Self::Call(_) => UNKNOWN,
        }
    }
}

impl Classified for InstanceTypesError {
    fn class(&self) -> &'static str {
        match self {
            Self::NodeClassNotReady(_) => NOT_READY,
            Self::UnevaluatedNodePool(_) | Self::Call(_) => UNKNOWN,
        }
    }
}

impl Classified for RebootError {
    fn class(&self) -> &'static str {
        match self {
            Self::NotFound(_) => NOT_FOUND,
            Self::NotImplemented | Self::Failed(_) | Self::Call(_) => UNKNOWN,
        }
    }
}

impl Classified for CallError {
    fn class(&self) -> &'static str {
        UNKNOWN
    }
}

/// Wraps a provider once, inside the overlays (API-204).
#[derive(Debug)]
pub struct Measured {
    inner: Arc<dyn CloudProvider>,
    observer: Arc<dyn CallObserver>,
}

impl Measured {
    pub fn new(inner: Arc<dyn CloudProvider>, observer: Arc<dyn CallObserver>) -> Self {
        Self { inner, observer }
    }

    async fn measure<T, E: Classified>(
        &self,
        method: Method,
        pool: &str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let span = tracing::debug_span!("cloud", %method, provider = self.inner.name(), error = Empty);
        let answer = call.instrument(span.clone()).await;
        if let Err(error) = &answer {
            span.record("error", error.class());
        }
        self.observer.call_ended(Call {
            controller: CALLER.try_with(|caller| *caller).unwrap_or_default(),
            method,
            provider: self.inner.name(),
            took: started.elapsed(),
            failure: answer.as_ref().err().map(|error| (error.class(), pool)),
        });
        answer
    }
}

fn pool_of(claim: &ClaimView) -> &str {
    claim.pool.as_deref().unwrap_or_default()
}

#[async_trait]
impl CloudProvider for Measured {
    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.measure(Method::Create, pool_of(claim), self.inner.create(claim)).await
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.measure(Method::Delete, pool_of(claim), self.inner.delete(claim)).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.measure(Method::Get, "", self.inner.get(provider_id)).await
    }

    /// Not a call of its own in metrics: the target has none like it.
    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        self.inner.find(claim).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.measure(Method::List, "", self.inner.list()).await
    }

    async fn running(&self) -> Result<BTreeSet<String>, CallError> {
        self.measure(Method::List, "", self.inner.running()).await
    }

    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        self.measure(Method::GetInstanceTypes, &pool.name, self.inner.instance_types(pool)).await
    }

    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        self.measure(Method::IsDrifted, pool_of(claim), self.inner.drift(claim)).await
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        self.measure(Method::Reboot, pool_of(claim), self.inner.reboot(claim, operation_id)).await
    }

    async fn live(&self) {
        self.inner.live().await;
    }

    crate::same_facts_as!(inner);
}

#[cfg(test)]
mod tests;
