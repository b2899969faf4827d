//! Instances that EC2 says are not well, asked for every minute (§6.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_aws::cloud::ApiError;
use karpenter_aws::interruption::messages::Kind;
use karpenter_aws::interruption::status::{Counted, InstanceStatusInfo, category, status_queries, unhealthy};
use karpenter_controllers::queue::{Backoff, ReconcileError, Requeue};
use karpenter_platform::calling_as;
use tokio::time::Instant;

use super::{claims_of, reacting};
use crate::Aws;

const CONTROLLER: &str = "interruption.instancestatus";
const EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribeInstanceStatus failed")]
struct StatusError(#[source] ApiError);

/// Polls until the future is dropped, or until EC2 says that we may not ask (AWS-224).
pub(crate) async fn run(aws: Arc<Aws>) {
    let report = &aws.ctx.report;
    report.controller_started(CONTROLLER, 1);
    let counted = Mutex::new(Counted::default());
    let mut failures = 0_u32;
    loop {
        let started = Instant::now();
        let outcome = calling_as(CONTROLLER, round(&aws, &counted)).await;
        if let Err(error) = &outcome
            && error.downcast_ref::<StatusError>().is_some_and(|StatusError(error)| error.is_unauthorized())
        {
            tracing::error!(
                "unhealthy instances are not looked for until the controller is restarted: \
                 it needs the permission ec2:DescribeInstanceStatus"
            );
            return;
        }
        failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        let pause = if failures == 0 { EVERY } else { Backoff::LIFECYCLE.after(failures) };
        report.reconciled(CONTROLLER, "", &outcome.map(|()| Requeue::After(EVERY)), started.elapsed());
        tokio::time::sleep(pause).await;
    }
}

async fn round(aws: &Aws, counted: &Mutex<Counted>) -> Result<(), ReconcileError> {
    // Each instance once, whichever of the answers it is in.
    let mut infos: BTreeMap<String, InstanceStatusInfo> = BTreeMap::new();
    for filters in status_queries() {
        let answer = aws.services.reads.instance_status(&filters).await.map_err(StatusError)?;
        infos.extend(answer.into_iter().map(|info| (info.instance_id.clone(), info)));
    }
    let claims = claims_of(aws, &infos.keys().map(String::as_str).collect());
    let now = aws.now();
    let ours: BTreeMap<&String, BTreeSet<Kind>> =
        infos.iter().filter(|(id, _)| claims.contains_key(*id)).map(|(id, info)| (id, unhealthy(info, now))).collect();
    let all = ours.iter().flat_map(|(id, kinds)| kinds.iter().map(|kind| ((*id).clone(), *kind)));
    // Nothing under the lock panics.
    let new = counted.lock().unwrap_or_else(PoisonError::into_inner).poll(all);
    for category in new.iter().filter_map(|(_, kind)| category(*kind)) {
        aws.ctx.report.metrics.all.interruption_unhealthy.increment([category]);
    }
    let mut outcome = Ok(());
    for (id, kinds) in ours {
        let Some(claim) = claims.get(id) else { continue };
        for kind in kinds {
            if let Err(error) = reacting::react(aws, kind, claim).await {
                outcome = Err(error);
            }
        }
    }
    outcome
}
