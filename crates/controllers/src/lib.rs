//! The shell: reads facts, asks the pure crates, acts, reports.
//!
//! Start with [`run`]. [`watches`] keeps [`Context`] up to date and wakes whoever is concerned; the
//! [`provisioner`] plans new claims; [`nodeclaim_lifecycle`] and [`node_termination`] bring claims and nodes to life and to
//! their end; [`nodepool_readiness`] says which pools may be used. Policy is never in here: an `if` about what should happen belongs
//! in `solver` or `lifecycle`.

pub mod claim_creation;
pub mod context;
pub mod events;
pub mod metrics;
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
pub use report::Observability;

use crate::metrics::ClusterSeries;
use crate::queue::{Backoff, Work};

/// Runs every controller until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    ClusterSeries::follow(&ctx);
    let work =
        |queue, controller, backoff| Work { queue, controller, backoff, workers: ctx.workers, report: &ctx.report };
    let lifecycle = work(&ctx.queues.claims, "nodeclaim.lifecycle", Backoff::LIFECYCLE);
    let lifecycle = queue::run(lifecycle, |name| nodeclaim_lifecycle::reconcile(ctx.clone(), name));
    let termination = work(&ctx.queues.nodes, "node.termination", Backoff::TERMINATION);
    let termination = queue::run(termination, |name| node_termination::reconcile(ctx.clone(), name));
    let readiness = work(&ctx.queues.pools, "nodepool.readiness", Backoff::LIFECYCLE);
    let readiness = queue::run(readiness, |name| nodepool_readiness::reconcile(ctx.clone(), name));
    let provisioner = karpenter_platform::calling_as("provisioner", provisioner::run(ctx.clone()));
    let events = ctx.report.events.run(ctx.client.clone());
    tokio::join!(watches::run(ctx.clone()), lifecycle, termination, readiness, provisioner, events);
}
