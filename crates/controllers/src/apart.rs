//! Work that takes long has a task of its own, so that watches, probes and the lease go on meanwhile.

use std::time::Duration;

use karpenter_platform::calling_as;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;

use crate::context::Context;

/// Runs the loop in a task that ends with this future; one that panics is said so of, and begins anew after the pause.
pub(crate) async fn supervised<F>(ctx: &Context, name: &'static str, pause: Duration, begin: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut task = JoinSet::new();
        task.spawn(calling_as(name, begin()));
        while let Some(ended) = task.join_next().await {
            if ended.is_err() {
                ctx.report.reconcile_panicked(name);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// A long thought: whoever else is on this thread goes on elsewhere. Where there is only one thread, as in a simulation that has
/// to be repeatable, they wait.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Whoever shares the only thread goes on while somebody thinks.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn nobody_waits_for_a_long_thought() {
        let (sender, receiver) = mpsc::channel();
        let thinking = tokio::spawn(async move {
            tokio::spawn(async move { sender.send(()) });
            aside(|| receiver.recv_timeout(Duration::from_mins(5)))
        });
        assert!(thinking.await.unwrap().is_ok());
    }
}
