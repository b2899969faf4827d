//! The shell: reads facts, asks the pure crates, acts, reports.
//!
//! Start with [`run`]. [`watches`] keeps [`Context`] up to date and wakes whoever is concerned; the
//! [`provisioner`] plans new claims; [`nodeclaim_lifecycle`] and [`node_termination`] bring claims and nodes to life and to
//! their end; [`nodepool_readiness`] says which pools may be used. Policy is never in here: an `if` about what should happen belongs
//! in `solver` or `lifecycle`.

pub mod claim_creation;
pub mod context;
pub mod node_termination;
pub mod nodeclaim_lifecycle;
pub mod nodepool_readiness;
pub mod objects;
mod patch;
pub mod provisioner;
pub mod queue;
pub mod report;
pub mod watches;

use std::sync::Arc;

pub use context::{Batching, Context, Options};
pub use karpenter_solver::{MinValuesPolicy, Options as PlanningOptions, Preferences};

use crate::queue::Backoff;

/// Runs every controller until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let lifecycle = queue::run(&ctx.queues.claims, "nodeclaim.lifecycle", Backoff::LIFECYCLE, ctx.workers, |name| {
        nodeclaim_lifecycle::reconcile(ctx.clone(), name)
    });
    let termination = queue::run(&ctx.queues.nodes, "node.termination", Backoff::TERMINATION, ctx.workers, |name| {
        node_termination::reconcile(ctx.clone(), name)
    });
    let readiness = queue::run(&ctx.queues.pools, "nodepool.readiness", Backoff::LIFECYCLE, ctx.workers, |name| {
        nodepool_readiness::reconcile(ctx.clone(), name)
    });
    tokio::join!(watches::run(ctx.clone()), lifecycle, termination, readiness, provisioner::run(ctx.clone()));
}
