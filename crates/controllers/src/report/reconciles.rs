//! Reconciles, watches and what cannot be read.

use std::time::Duration;

use karpenter_api::convert::Problem;
use tokio::time::Instant;
use tracing::warn;

use super::{Report, chain};
use crate::events::{Subject, catalogue};
use crate::queue::{ReconcileError, Requeue};

impl Report {
    pub fn controller_started(&self, controller: &str, workers: usize) {
        let metrics = &self.metrics.all;
        let workers = f64::from(u32::try_from(workers).unwrap_or(u32::MAX));
        metrics.max_concurrent_reconciles.set([controller], workers);
        metrics.active_workers.set([controller], 0.0);
        for counter in [
            &metrics.reconcile_errors,
            &metrics.reconcile_panics,
            &metrics.terminal_reconcile_errors,
            &metrics.workqueue_retries,
            &metrics.reconcile_timeouts,
        ] {
            counter.family().touch(&[controller]);
        }
    }

    /// How many objects wait, and since when the others are worked on.
    pub fn queue_changed(
        &self,
        controller: &'static str,
        waiting: usize,
        running: impl ExactSizeIterator<Item = Instant>,
    ) {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        self.metrics.all.workqueue_depth.set([controller], number(waiting));
        self.metrics.all.active_workers.set([controller], number(running.len()));
        self.running.reconciles(controller, running);
    }

    pub fn reconcile_started(&self, controller: &str, waited: Duration) {
        self.metrics.all.workqueue_adds.increment([controller]);
        self.metrics.all.workqueue_queue_duration.observe([controller], waited.as_secs_f64());
    }

    pub fn reconciled(&self, controller: &str, name: &str, outcome: &Result<Requeue, ReconcileError>, took: Duration) {
        let metrics = &self.metrics.all;
        metrics.reconcile_time.observe([controller], took.as_secs_f64());
        metrics.workqueue_work_duration.observe([controller], took.as_secs_f64());
        let result = match outcome {
            Ok(Requeue::OnChange) => "success",
            Ok(Requeue::After(_)) => "requeue_after",
            Ok(Requeue::Backoff | Requeue::Conflict) => "requeue",
            Err(error) => {
                warn!(controller, name, error = %chain(error.as_ref()), "reconcile failed, trying again");
                metrics.reconcile_errors.increment([controller]);
                metrics.workqueue_retries.increment([controller]);
                "error"
            }
        };
        metrics.reconciles.increment([controller, result]);
    }

    /// A controller without a queue has made a round in vain.
    pub fn loop_failed(&self, controller: &str, error: &(dyn std::error::Error + 'static)) {
        warn!(controller, error = %chain(error), "round failed, trying again");
        self.metrics.all.reconcile_errors.increment([controller]);
    }

    pub fn reconcile_panicked(&self, controller: &str) {
        self.metrics.all.reconcile_panics.increment([controller]);
    }

    pub fn problems(&self, problems: &[Problem]) {
        for problem in problems {
            warn!(
                object = %problem.object,
                field = %problem.field,
                problem = %problem.message,
                "ignored a malformed field"
            );
        }
    }

    /// The same, told to whoever looks at the object.
    pub fn problems_of<K: kube::Resource<DynamicType = ()>>(&self, object: &K, problems: &[Problem]) {
        self.problems(problems);
        for problem in problems {
            self.events.publish(catalogue::invalid_field(&Subject::of(object), &problem.field, &problem.message));
        }
    }

    pub fn malformed_object(&self, kind: &str, name: &str, error: &str) {
        warn!(kind, name, error, "skipped an object that cannot be read");
    }

    pub fn watch_failed(&self, kind: &str, error: &kube::runtime::watcher::Error) {
        warn!(kind, error = %chain(error), "watch was interrupted, starting again");
    }
}
