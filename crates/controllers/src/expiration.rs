//! Deletes claims that have lived long enough (LIF-73 … LIF-75).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_lifecycle::{Expiration, expiration};

use crate::context::Context;
use crate::nodeclaim_lifecycle::seen;
use crate::patch::delete_if_present;
use crate::queue::{ReconcileError, Requeue};

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(seen) = seen(&ctx, &name) else { return Ok(Requeue::OnChange) };
    let now = ctx.clock.now();
    match expiration(&seen, now) {
        Expiration::Never => Ok(Requeue::OnChange),
        Expiration::NotBefore(at) => Ok(Requeue::After(until(at, now))),
        Expiration::Soon(at) => {
            ctx.state().mark_expiring(&name);
            ctx.provision.nudge();
            Ok(Requeue::After(until(at, now)))
        }
        Expiration::Due => {
            let Some(claim) = ctx.claims.get(&name) else { return Ok(Requeue::OnChange) };
            let pods = ctx.reschedulable_pods(&seen);
            delete_if_present(&ctx.claims_api(), claim.as_ref()).await?;
            ctx.report.disrupted(&seen, "expired", pods);
            Ok(Requeue::OnChange)
        }
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    at.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}
