//! Pools with a fixed number of nodes (LIF-104 … LIF-109). Behind the gate `StaticCapacity`.

use std::sync::Arc;
use std::time::Duration;

use karpenter_lifecycle::{Member, excess, lacking, victims};
use karpenter_model::pool::PoolView;
use karpenter_model::resources::NODES;
use karpenter_state::Source;
use kube::ResourceExt as _;

use crate::claim_creation::{ClaimOrder, CreationError, create_claim};
use crate::context::Context;
use crate::patch::delete_if_present;
use crate::queue::{ReconcileError, Requeue};

const LOOK_AGAIN: Duration = Duration::from_mins(1);
const LIMIT_REACHED: Duration = Duration::from_secs(30);
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);

/// The pool, when it is one of ours and everything that is counted has been seen.
fn counted_pool(ctx: &Context, name: &str) -> Result<Option<Arc<PoolView>>, Requeue> {
    let state = ctx.state();
    let complete = [Source::Claims, Source::Nodes, Source::Pods].into_iter().all(|source| state.is_listed(source));
    if !complete {
        return Err(Requeue::After(UNSYNCED_RETRY));
    }
    Ok(state.pool(name).filter(|pool| pool.replicas.is_some()).cloned())
}

/// Launches what is lacking. Counting and reserving are one step, so that overlapping looks never ask for more (Y16, Y34).
pub async fn provision(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let pool = match counted_pool(&ctx, &name) {
        Ok(Some(pool)) => pool,
        Ok(None) => return Ok(Requeue::OnChange),
        Err(again) => return Ok(again),
    };
    let limit = pool.limits.get(NODES).map(|limit| u64::try_from(limit.value()).unwrap_or(0));
    let (wanted, granted) = {
        let mut state = ctx.state();
        let wanted = lacking(&pool, state.counts(&name));
        (wanted, state.reserve(&name, wanted, limit))
    };
    if wanted == 0 {
        return Ok(Requeue::After(LOOK_AGAIN));
    }
    if granted == 0 {
        return Ok(Requeue::After(LIMIT_REACHED));
    }
    let order = ClaimOrder::from_template(&pool);
    let created = futures::future::join_all((0..granted).map(|_| create_one(&ctx, &order))).await;
    created.into_iter().collect::<Result<(), CreationError>>()?;
    Ok(Requeue::After(if granted < wanted { LIMIT_REACHED } else { LOOK_AGAIN }))
}

/// The reservation ends when the claim is counted itself, or will not be.
async fn create_one(ctx: &Context, order: &ClaimOrder) -> Result<(), CreationError> {
    let created = create_claim(ctx, order).await;
    ctx.state().release(&order.pool.name, 1);
    ctx.report.created_static_claim(&created?.name_any(), &order.pool.name);
    Ok(())
}

/// Deletes what is too much.
pub async fn deprovision(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let pool = match counted_pool(&ctx, &name) {
        Ok(Some(pool)) => pool,
        Ok(None) => return Ok(Requeue::OnChange),
        Err(again) => return Ok(again),
    };
    let chosen = {
        let state = ctx.state();
        let count = excess(&pool, state.counts(&name));
        let members: Vec<Member> = state
            .claims_of(&name)
            .into_iter()
            .filter(|claim| !state.is_pending(&claim.name))
            .map(|claim| Member { pods: state.pods_of_claim(&claim), claim })
            .collect();
        victims(&members, count, ctx.clock.now())
    };
    let gone = chosen.iter().filter_map(|claim| ctx.claims.get(&claim.name)).map(|claim| {
        let ctx = ctx.clone();
        async move {
            delete_if_present(&ctx.claims_api(), claim.as_ref()).await.map(|left| left.map(|left| ctx.note_claim(left)))
        }
    });
    for outcome in futures::future::join_all(gone).await {
        outcome?;
    }
    Ok(Requeue::After(LOOK_AGAIN))
}
