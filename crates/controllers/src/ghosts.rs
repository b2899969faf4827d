//! Claims that were entered into the state when they were made, but are gone from the API (SCH-242, LIF-80).

use std::sync::Arc;
use std::time::Duration;

use karpenter_state::Change;

use crate::context::Context;
use crate::queue::{ReconcileError, Requeue};

/// Long enough for the watch to bring a claim that exists.
pub(crate) const AFTER: Duration = Duration::from_secs(15);

/// A claim without an instance keeps decisions waiting; one that does not exist would do so for ever.
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let unlaunched = ctx.state().claim(&name).is_some_and(|claim| claim.provider_id.is_none());
    if unlaunched && ctx.claims_api().get_opt(&name).await?.is_none() {
        ctx.claims.remove(&name);
        ctx.state().apply(Change::ClaimGone(name));
        ctx.provision.nudge();
    }
    Ok(Requeue::OnChange)
}
