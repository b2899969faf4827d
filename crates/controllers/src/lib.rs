//! The shell: reads facts, asks the pure crates, acts, reports.
//!
//! Start with [`run`]. [`watches`] keeps [`Context`] up to date and wakes whoever is concerned; the
//! [`provisioner`] plans new claims; [`nodeclaim_lifecycle`] and [`node_termination`] bring claims and nodes to life and to
//! their end; [`disruption`] decides which nodes go and carries it out; [`nodepool_readiness`] says which pools may be used. Policy is never in here: an `if` about what should happen belongs
//! in `solver` or `lifecycle`.

mod apart;
pub mod batcher;
pub mod buffers;
pub mod claim_creation;
pub mod concurrency;
pub mod consistency;
pub mod context;
pub mod disruption;
pub mod events;
pub mod eviction;
pub mod expiration;
pub mod garbage_collection;
pub mod ghosts;
pub mod hydration;
pub mod leader;
pub mod listeners;
pub mod memory;
pub mod metrics;
pub mod node_health;
pub mod node_termination;
pub mod nodeclaim_disruption;
pub mod nodeclaim_lifecycle;
pub mod nodeclaim_reboot;
pub mod nodepool_counter;
pub mod nodepool_hash;
pub mod nodepool_readiness;
pub mod objects;
pub mod overlays;
pub mod patch;
pub mod permissions;
pub mod pod_deletion_cost;
pub mod pod_events;
pub mod pricing;
pub mod provisioner;
pub mod queue;
pub mod registration_health;
pub mod report;
mod resource_watches;
mod sharing;
pub mod static_capacity;
pub mod watches;
mod workload_watches;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_state::Source;

pub use context::{Batching, Context, Features, Options};
pub use karpenter_disruption::look::Gates;
pub use karpenter_lifecycle::Timeouts;
pub use karpenter_solver::{MinValuesPolicy, Options as PlanningOptions, Planner, Preferences, Reserved};
pub use karpenter_state::Unsynced;
pub use report::Observability;

use crate::metrics::ClusterSeries;
use crate::queue::{Backoff, Work};

/// How soon somebody looks again whether everything has been listed.
const LIST_POLL: Duration = Duration::from_millis(50);

/// Watches and runs every controller until the future is dropped. Boxed here, as the two below, so that the code of all
/// controllers is compiled in this crate, once, and not in each that runs them.
pub fn run(ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::join!(watch(ctx.clone()), act(ctx));
    })
}

/// Keeps the context up to date and writes nothing: what a replica does that wants to lead without a delay (API-299).
pub fn watch(ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    Box::pin(watches::run(ctx))
}

/// Runs every controller on what [`watch`] sees.
pub fn act(ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    Box::pin(all(ctx))
}

async fn all(ctx: Arc<Context>) {
    // What was to be said before was for somebody else to say.
    drop(ctx.report.events.take());
    ClusterSeries::follow(&ctx);
    let provisioner = apart::supervised(&ctx, "provisioner", provisioner::REST, || provisioner::run(ctx.clone()));
    let prices = karpenter_platform::calling_as("state.pricing", pricing::run(ctx.clone()));
    let collector = karpenter_platform::calling_as("nodeclaim.garbagecollection", garbage_collection::run(ctx.clone()));
    let events = ctx.report.events.run(ctx.client.clone());
    let of_machines = async {
        until_known(&ctx).await;
        tokio::join!(of_claims(&ctx), of_nodes(&ctx), of_commands(&ctx));
    };
    tokio::join!(
        of_machines,
        of_pools(&ctx),
        of_static_pools(&ctx),
        of_overlays(&ctx),
        of_buffers(&ctx),
        provisioner,
        of_disruption(&ctx),
        of_deletion_costs(&ctx),
        collector,
        prices,
        events
    );
}

/// Until claims, nodes and pods have been listed. Before that a claim seems to have no node and a node no pods: a drain that an earlier
/// process has begun would be over at once, and its machine would go with all that runs on it (LIF-52, Y10).
async fn until_known(ctx: &Context) {
    let missing = || [Source::Claims, Source::Nodes, Source::Pods].into_iter().any(|kind| !ctx.state().is_listed(kind));
    while missing() {
        tokio::time::sleep(LIST_POLL).await;
    }
}

fn work<'a>(ctx: &'a Context, queue: &'a queue::Queue, controller: &'static str, backoff: Backoff) -> Work<'a> {
    Work { queue, controller, backoff, workers: concurrency::workers(controller, ctx.cores), report: &ctx.report }
}

async fn of_claims(ctx: &Arc<Context>) {
    let queues = &ctx.queues;
    tokio::join!(
        queue::run(work(ctx, &queues.claims, "nodeclaim.lifecycle", Backoff::LIFECYCLE), |name| {
            nodeclaim_lifecycle::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.expirations, "nodeclaim.expiration", Backoff::LIFECYCLE), |name| {
            expiration::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.consistency, "nodeclaim.consistency", Backoff::LIFECYCLE), |name| {
            consistency::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.disruptions, "nodeclaim.disruption", Backoff::LIFECYCLE), |name| {
            nodeclaim_disruption::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.reboots, "nodeclaim.reboot", Backoff::LIFECYCLE), |name| {
            nodeclaim_reboot::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.hydration, "nodeclaim.hydration", Backoff::LIFECYCLE), |name| {
            hydration::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.ghosts, "state.nodeclaimgc", Backoff::LIFECYCLE), |name| {
            ghosts::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.pod_events, "nodeclaim.podevents", Backoff::LIFECYCLE), |name| {
            pod_events::reconcile(ctx.clone(), name)
        }),
    );
}

/// A look at ten thousand nodes takes a second, and nobody has to wait for it.
async fn of_disruption(ctx: &Arc<Context>) {
    apart::supervised(ctx, "disruption", disruption::IDLE, || disruption::run(ctx.clone())).await;
}

/// Commands that are under way, by id (DIS-178).
async fn of_commands(ctx: &Arc<Context>) {
    let work = work(ctx, &ctx.queues.commands, "disruption.queue", Backoff::TERMINATION);
    queue::run(work, |id| disruption::drive(ctx.clone(), id)).await;
}

/// Behind a gate; with it off, what was said while it was on is taken back (Z11).
async fn of_deletion_costs(ctx: &Arc<Context>) {
    let work = work(ctx, &ctx.queues.deletion_costs, "pod.deletioncost.queue", Backoff::EVICTION);
    let writing = queue::run(work, |name| pod_deletion_cost::reconcile(ctx.clone(), name));
    if ctx.features.pod_deletion_cost {
        let ranking = karpenter_platform::calling_as("pod.deletioncost", pod_deletion_cost::run(ctx.clone()));
        tokio::join!(ranking, writing);
    } else if pod_deletion_cost::take_back(ctx).await {
        writing.await;
    }
}

async fn of_nodes(ctx: &Arc<Context>) {
    let queues = &ctx.queues;
    tokio::join!(
        queue::run(work(ctx, &queues.sick, "node.health", Backoff::LIFECYCLE), |name| {
            node_health::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.nodes, "node.termination", Backoff::TERMINATION), |name| {
            node_termination::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.evictions, "eviction-queue", Backoff::EVICTION), |name| {
            eviction::reconcile(ctx.clone(), name)
        }),
    );
}

async fn of_pools(ctx: &Arc<Context>) {
    let queues = &ctx.queues;
    tokio::join!(
        queue::run(work(ctx, &queues.pools, "nodepool.readiness", Backoff::LIFECYCLE), |name| {
            nodepool_readiness::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.hashes, "nodepool.hash", Backoff::LIFECYCLE), |name| {
            nodepool_hash::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.healths, "nodepool.registrationhealth", Backoff::LIFECYCLE), |name| {
            registration_health::reconcile(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.counters, "nodepool.counter", Backoff::LIFECYCLE), |name| {
            nodepool_counter::reconcile(ctx.clone(), name)
        }),
    );
}

/// Behind a gate (API-83). One at a time: an evaluation is about everything.
async fn of_overlays(ctx: &Arc<Context>) {
    if ctx.overlays.is_some() {
        let work = Work { workers: 1, ..work(ctx, &ctx.queues.overlays, "nodeoverlay.controller", Backoff::LIFECYCLE) };
        queue::run(work, |_| overlays::reconcile(ctx.clone())).await;
    }
}

/// Behind a gate (API-98).
async fn of_buffers(ctx: &Arc<Context>) {
    if ctx.features.capacity_buffers {
        let work = Work { workers: 10, ..work(ctx, &ctx.queues.buffers, "capacitybuffer", Backoff::LIFECYCLE) };
        queue::run(work, |name| buffers::reconcile(ctx.clone(), name)).await;
    }
}

/// Behind a gate: with it off nobody looks at these queues.
async fn of_static_pools(ctx: &Arc<Context>) {
    if !ctx.features.static_capacity {
        return;
    }
    let queues = &ctx.queues;
    tokio::join!(
        queue::run(work(ctx, &queues.static_up, "static.provisioning", Backoff::LIFECYCLE), |name| {
            static_capacity::provision(ctx.clone(), name)
        }),
        queue::run(work(ctx, &queues.static_down, "static.deprovisioning", Backoff::LIFECYCLE), |name| {
            static_capacity::deprovision(ctx.clone(), name)
        }),
    );
}

#[cfg(test)]
mod tests;
