//! Controllers without a queue: a round, a pause, the next round.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_controllers::queue::{Backoff, ReconcileError, Requeue};
use karpenter_platform::calling_as;
use tokio::time::Instant;

use crate::Aws;

/// What a round does.
pub(crate) type Round = fn(Arc<Aws>) -> BoxFuture<'static, Result<(), ReconcileError>>;

/// Goes round until the future is dropped; failed rounds are repeated after growing pauses, none longer than the usual one.
pub(crate) async fn rounds(aws: Arc<Aws>, controller: &'static str, pause: Duration, round: Round) {
    let report = &aws.ctx.report;
    report.controller_started(controller, 1);
    let mut failures = 0_u32;
    loop {
        let started = Instant::now();
        let outcome = calling_as(controller, round(aws.clone())).await.map(|()| Requeue::After(pause));
        report.reconciled(controller, "", &outcome, started.elapsed());
        failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        let wait = if failures == 0 { pause } else { Backoff::LIFECYCLE.after(failures).min(pause) };
        tokio::time::sleep(wait).await;
    }
}
