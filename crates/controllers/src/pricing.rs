//! Asks what pools are offered, for the cost of what they have (LIF-120).

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;

/// Prices are asked for anew this often; passes bring them along too.
const EVERY: Duration = Duration::from_hours(1);
/// A pool that nobody has asked for yet, or could not, is not made to wait for so long.
const UNKNOWN: Duration = Duration::from_mins(1);

/// Keeps prices until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut refreshed: Option<tokio::time::Instant> = None;
    loop {
        let everything = refreshed.is_none_or(|at| at.elapsed() >= EVERY);
        refresh(&ctx, everything).await;
        if everything && !ctx.state().pools().is_empty() {
            refreshed = Some(tokio::time::Instant::now());
        }
        tokio::time::sleep(UNKNOWN).await;
    }
}

async fn refresh(ctx: &Context, everything: bool) {
    let pools = ctx.state().pools();
    ctx.memory.prices().retain(|known| pools.iter().any(|pool| pool.name == known));
    for pool in pools {
        if !everything && ctx.memory.prices().knows(&pool.name) {
            continue;
        }
        match ctx.provider.instance_types(&pool).await {
            Ok(offered) => ctx.memory.prices().note(&pool.name, offered),
            Err(error) if error.is_quiet() => {}
            Err(error) => ctx.report.prices_unavailable(&pool.name, &error),
        }
    }
}
