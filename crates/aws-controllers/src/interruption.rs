//! What AWS says will happen to instances: from the queue to the claims (§6.1).
//!
//! A message is deleted only after what it asks for is done, and whatever is done twice changes nothing: a controller that
//! dies in between leaves a message that comes again and finds its claim deleted.

mod reacting;
pub(crate) mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::cloud::{ApiError, Queue, QueueMessage};
use karpenter_aws::interruption::messages::{Message, parse};
use karpenter_controllers::queue::{Backoff, ReconcileError, Requeue};
use karpenter_model::claim::ClaimView;
use karpenter_platform::calling_as;
use tokio::time::Instant;

use crate::Aws;

const CONTROLLER: &str = "interruption";
/// At a time, as many as one answer of the queue has.
const WORKERS: usize = 10;
/// After an empty answer. The queue waits twenty seconds before it says that, so nothing is lost by this; but one that does
/// not wait must not be asked without end.
const EMPTY: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
enum QueueError {
    #[error("sqs:ReceiveMessage failed; does the queue exist, and may the controller read it?")]
    Receive(#[source] ApiError),
    #[error("sqs:DeleteMessage failed")]
    Delete(#[source] ApiError),
}

/// Polls until the future is dropped. Without a queue there is nothing to do (AWS-214).
pub(crate) async fn run(aws: Arc<Aws>) {
    let Some(queue) = aws.services.queue.clone() else { return };
    let report = &aws.ctx.report;
    report.controller_started(CONTROLLER, WORKERS);
    // A message about a claim that nobody has seen yet would be taken for somebody else's.
    while aws.ctx.state().unlisted().is_some() {
        tokio::time::sleep(EMPTY).await;
    }
    let mut failures = 0_u32;
    loop {
        let started = Instant::now();
        let outcome = calling_as(CONTROLLER, poll(&aws, queue.as_ref())).await;
        let pause = match &outcome {
            Ok(0) => EMPTY,
            Ok(_) => Duration::ZERO,
            Err(_) => Backoff::LIFECYCLE.after(failures.saturating_add(1)),
        };
        failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        report.reconciled(CONTROLLER, "", &outcome.map(|_| Requeue::OnChange), started.elapsed());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// One answer of the queue; how many messages it had. One that fails does not keep the others (AWS-215).
async fn poll(aws: &Aws, queue: &dyn Queue) -> Result<usize, ReconcileError> {
    let messages = queue.receive().await.map_err(QueueError::Receive)?;
    let parsed: Vec<(QueueMessage, Option<Message>)> = messages.into_iter().map(read).collect();
    let wanted = parsed.iter().filter_map(|(_, message)| message.as_ref()).flat_map(|message| &message.instance_ids);
    let claims = claims_of(aws, &wanted.map(String::as_str).collect());
    let mut handled = Vec::with_capacity(parsed.len());
    for (raw, message) in &parsed {
        handled.push(handle(aws, queue, raw, message.as_ref(), &claims));
    }
    futures::future::join_all(handled).await.into_iter().collect::<Result<(), _>>()?;
    Ok(parsed.len())
}

/// What is no event at all is only good for being deleted.
fn read(raw: QueueMessage) -> (QueueMessage, Option<Message>) {
    match parse(&raw.body) {
        Ok(message) => (raw, Some(message)),
        Err(error) => {
            tracing::warn!(%error, "dropped a message from the interruption queue");
            (raw, None)
        }
    }
}

type Claims = BTreeMap<String, Arc<ClaimView>>;

/// By the id of their instance.
pub(crate) fn claims_of(aws: &Aws, ids: &BTreeSet<&str>) -> Claims {
    if ids.is_empty() {
        return Claims::new();
    }
    let state = aws.ctx.state();
    let found = aws.wakes.instances.claims_of(ids, |claim| state.claim(claim)?.provider_id.clone());
    found.into_iter().filter_map(|(id, claim)| Some((id, state.claim(&claim)?.clone()))).collect()
}

async fn handle(
    aws: &Aws,
    queue: &dyn Queue,
    raw: &QueueMessage,
    message: Option<&Message>,
    claims: &Claims,
) -> Result<(), ReconcileError> {
    let metrics = &aws.ctx.report.metrics.all;
    if let Some(message) = message {
        metrics.interruption_received.increment([message.kind.as_str()]);
        tracing::debug!(kind = message.kind.as_str(), instances = ?message.instance_ids, "received message");
        for claim in message.instance_ids.iter().filter_map(|id| claims.get(id)) {
            reacting::react(aws, message.kind, claim).await?;
        }
        if let Some(at) = message.at {
            metrics.interruption_queue_duration.observe([], aws.now().duration_since(at).as_secs_f64().max(0.0));
        }
    }
    match queue.delete(raw).await {
        Ok(()) => metrics.interruption_deleted.increment([]),
        Err(error) => return Err(QueueError::Delete(error).into()),
    }
    Ok(())
}
