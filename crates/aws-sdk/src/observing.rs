//! Tells an observer of every call and of every attempt at it (AWS-237).

use std::sync::Arc;
use std::time::Instant;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use karpenter_aws::cloud::{Call, CallObserver};

#[derive(Debug, Clone)]
pub(crate) struct Observing(pub(crate) Arc<dyn CallObserver>);

/// When the call and its latest attempt began, and how many attempts there were.
#[derive(Debug, Clone, Copy)]
struct Progress {
    called: Instant,
    attempted: Instant,
    attempts: u32,
}

impl Storable for Progress {
    type Storer = StoreReplace<Self>;
}

fn progress(cfg: &ConfigBag) -> Progress {
    let now = Instant::now();
    cfg.load::<Progress>().copied().unwrap_or(Progress { called: now, attempted: now, attempts: 0 })
}

fn call<'a>(context: &FinalizerInterceptorContextRef<'_>, cfg: &'a ConfigBag, since: Instant) -> Call<'a> {
    let metadata = cfg.load::<Metadata>();
    Call {
        service: metadata.map_or("", Metadata::service),
        operation: metadata.map_or("", Metadata::name),
        status: context.response().map(|response| response.status().as_u16()),
        took: since.elapsed(),
    }
}

impl Intercept for Observing {
    fn name(&self) -> &'static str {
        "Observing"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = Instant::now();
        cfg.interceptor_state().store_put(Progress { called: now, attempted: now, attempts: 0 });
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let before = progress(cfg);
        let next = Progress { attempted: Instant::now(), attempts: before.attempts.saturating_add(1), ..before };
        cfg.interceptor_state().store_put(next);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.attempted(&call(context, cfg, progress(cfg).attempted));
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let progress = progress(cfg);
        self.0.finished(&call(context, cfg, progress.called), progress.attempts.saturating_sub(1));
        Ok(())
    }
}
