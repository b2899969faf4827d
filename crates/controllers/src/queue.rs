//! A queue of names to look at: each at most once at a time, failed ones again with growing pauses.
//!
//! Reconcilers are run from here and not from kube's `Controller` because one watch per kind has to feed several of
//! them, because an object that cannot be decoded must not stop its kind, and because the simulator runs the same
//! reconcilers from this queue in a repeatable order.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::concurrency::retries_per_second;
use crate::report::Report;
use karpenter_platform::calling_as;

/// What a reconciler wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Nothing, until something changes.
    OnChange,
    After(Duration),
    /// What was tried did not work, but that is nobody's fault: again with growing pauses.
    Backoff,
    /// Somebody else wrote first: again as soon as their write can have arrived.
    Conflict,
}

impl Requeue {
    /// At once when the write was stored. When the object turned out to be gone, the watch has not said so yet, and until it does
    /// every look would end with the same write.
    pub(crate) const fn after_write(stored: bool) -> Self {
        if stored { Self::After(Duration::ZERO) } else { Self::Backoff }
    }
}

pub type ReconcileError = Box<dyn std::error::Error + Send + Sync>;

/// Pauses after failures: `first` doubled each time, up to `longest`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    pub const LIFECYCLE: Self = Self { first: Duration::from_secs(1), longest: Duration::from_mins(1) };
    pub const EVICTION: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
    pub const TERMINATION: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(10) };

    pub fn after(self, failures: u32) -> Duration {
        // 2^16 times the shortest pause is beyond every longest one in use.
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest)
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    entries: Mutex<Entries>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    /// When each waiting name is due.
    due: BTreeMap<String, Instant>,
    /// The same, soonest first; equal times go by name, so that a repeated run is the same run.
    order: BTreeSet<(Instant, String)>,
    running: BTreeSet<String>,
    failures: BTreeMap<String, u32>,
    retries: Retries,
}

/// A token bucket that everybody who failed has to take from (LIF-132): with many failures at once a broken API or cloud is
/// not asked more often than it can stand.
#[derive(Debug, Default)]
struct Retries {
    /// When the last token that was given away is paid for.
    paid: Option<Instant>,
}

/// So many retries may come at once, in seconds of their rate.
const BURST_SECONDS: f64 = 10.0;

impl Retries {
    /// How long the next retry has to wait for its token.
    fn wait(&mut self, per_second: f64, now: Instant) -> Duration {
        let (burst, cost) = (Duration::from_secs_f64(BURST_SECONDS), Duration::from_secs_f64(1.0 / per_second));
        // A full bucket is paid for up to ten seconds ago.
        let full = now.checked_sub(burst).unwrap_or(now);
        let paid = self.paid.map_or(full, |paid| paid.max(full)) + cost;
        self.paid = Some(paid);
        paid.saturating_duration_since(now)
    }
}

impl Queue {
    /// Looks at the name as soon as possible.
    pub fn add(&self, name: impl Into<String>) {
        self.add_at(name.into(), Instant::now());
    }

    /// Looks at the name after a while, unless something wants it sooner.
    pub fn add_after(&self, name: impl Into<String>, pause: Duration) {
        self.add_at(name.into(), Instant::now() + pause);
    }

    pub fn add_all(&self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.add(name);
        }
    }

    /// The earlier of two times for one name wins. A name being worked on is looked at again afterwards.
    fn add_at(&self, name: String, at: Instant) {
        let mut entries = self.lock();
        match entries.due.get(&name).copied() {
            Some(known) if known <= at => return,
            Some(known) => entries.order.remove(&(known, name.clone())),
            None => true,
        };
        entries.order.insert((at, name.clone()));
        entries.due.insert(name, at);
        drop(entries);
        self.changed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        // No code that could panic runs under the lock.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        self.lock().due.len()
    }

    /// Whoever is to be looked at now; nobody will be.
    #[cfg(test)]
    pub(crate) fn take_due(&self) -> Vec<String> {
        let now = Instant::now();
        let mut entries = self.lock();
        let due: Vec<String> = entries.due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in &due {
            if let Some(at) = entries.due.remove(name) {
                entries.order.remove(&(at, name.clone()));
            }
        }
        due
    }

    /// The next name that is due, and since when it is; marks it as being worked on.
    async fn next(&self) -> (String, Instant) {
        loop {
            let wake = {
                let mut entries = self.lock();
                let first = entries.order.iter().find(|(_, name)| !entries.running.contains(name)).cloned();
                match first {
                    Some((at, name)) if at <= Instant::now() => {
                        entries.order.remove(&(at, name.clone()));
                        entries.due.remove(&name);
                        entries.running.insert(name.clone());
                        return (name, at);
                    }
                    Some((at, _)) => Some(at),
                    None => None,
                }
            };
            match wake {
                Some(at) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn finish(&self, name: String, outcome: &Result<Requeue, ReconcileError>, backoff: Backoff, per_second: f64) {
        let mut entries = self.lock();
        entries.running.remove(&name);
        let now = Instant::now();
        let again = match outcome {
            Ok(Requeue::After(pause)) => Some(*pause),
            Ok(Requeue::OnChange) => None,
            Ok(Requeue::Backoff | Requeue::Conflict) | Err(_) => {
                let failures = entries.failures.entry(name.clone()).or_default();
                *failures = failures.saturating_add(1);
                let first = if matches!(outcome, Ok(Requeue::Conflict)) { CONFLICT_PAUSE } else { backoff.first };
                let pause = Backoff { first, ..backoff }.after(*failures);
                Some(pause.max(entries.retries.wait(per_second, now)))
            }
        };
        if matches!(outcome, Ok(Requeue::OnChange | Requeue::After(_))) {
            entries.failures.remove(&name);
        }
        drop(entries);
        match again {
            Some(pause) => self.add_at(name, now + pause),
            // What was added meanwhile waits for this notification.
            None => self.changed.notify_one(),
        }
    }
}

/// Long enough for the watch to bring what the other writer wrote.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.is_conflict())
}

/// Its failure is one in the trace too.
async fn traced(reconcile: impl Future<Output = Result<Requeue, ReconcileError>>) -> Result<Requeue, ReconcileError> {
    let outcome = reconcile.await;
    if let Err(error) = &outcome
        && !is_conflict(error.as_ref())
    {
        tracing::Span::current().record("error", error.to_string());
    }
    outcome
}

/// What a controller works on.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    pub queue: &'a Queue,
    pub controller: &'static str,
    pub backoff: Backoff,
    /// At a time.
    pub workers: usize,
    pub report: &'a Report,
}

/// Works on the queue until the future is dropped.
pub async fn run<F, Fut>(work: Work<'_>, reconcile: F)
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<Requeue, ReconcileError>> + Send + 'static,
{
    let Work { queue, controller, backoff, workers, report } = work;
    report.controller_started(controller, workers);
    let per_second = retries_per_second(controller, workers);
    let mut running = tokio::task::JoinSet::new();
    // Looked up only, so its order reaches nothing.
    let mut names: HashMap<tokio::task::Id, (String, Instant)> = HashMap::new();
    let end = |name: String, started: Instant, outcome: Outcome| {
        let outcome = outcome.unwrap_or_else(|panic| {
            report.reconcile_panicked(controller);
            Err(ReconcileError::from(said_by(panic.as_ref())))
        });
        let outcome = outcome.or_else(|error| {
            // Somebody else wrote first: look at what they wrote, that is no failure. When the watch lags, the same
            // happens again: growing pauses spare the server (LIF-132), and what the watch brings ends them.
            if is_conflict(error.as_ref()) {
                return Ok(Requeue::Conflict);
            }
            Err(error)
        });
        report.reconciled(controller, &name, &outcome, started.elapsed());
        queue.finish(name, &outcome, backoff, per_second);
    };
    loop {
        tokio::select! {
            biased;
            Some(ended) = running.join_next_with_id(), if !running.is_empty() => {
                let (id, outcome) = match ended {
                    Ok((id, outcome)) => (id, outcome),
                    Err(cancelled) => (cancelled.id(), Ok(Err(ReconcileError::from(cancelled.to_string())))),
                };
                let Some((name, started)) = names.remove(&id) else { continue };
                end(name, started, outcome);
                report.queue_changed(controller, queue.len(), names.values().map(|(_, started)| *started));
            }
            (name, due) = queue.next(), if running.len() < workers => {
                report.reconcile_started(controller, due.elapsed());
                let started = Instant::now();
                let span = tracing::info_span!("reconcile", controller, name = %name, error = tracing::field::Empty);
                let look = calling_as(controller, traced(reconcile(name.clone()))).instrument(span);
                // A bug in one reconcile costs that reconcile, not the controller.
                let mut look = Box::pin(AssertUnwindSafe(look).catch_unwind());
                // Most looks find nothing to do and wait for nobody. Only the others get a task of their own: at a start each of ten
                // thousand claims is looked at, and a thousand tasks at a time would take tens of megabytes.
                if let Some(outcome) = (&mut look).now_or_never() {
                    end(name, started, outcome);
                    report.queue_changed(controller, queue.len(), names.values().map(|(_, started)| *started));
                    // Others have their turn.
                    tokio::task::consume_budget().await;
                } else {
                    let task = running.spawn(look);
                    names.insert(task.id(), (name, started));
                    report.queue_changed(controller, queue.len(), names.values().map(|(_, started)| *started));
                }
            }
        }
    }
}

/// What a reconcile came to, or what its panic said.
type Outcome = Result<Result<Requeue, ReconcileError>, Box<dyn Any + Send>>;

fn said_by(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the reconcile panicked: {}", text.unwrap_or("it does not say why"))
}

#[cfg(test)]
mod tests;
