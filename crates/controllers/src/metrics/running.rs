//! What is going on right now: the pass that is being planned, the reconciles that run, a state that is not complete.
//! Written when somebody asks, because all of it grows by the second.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Catalogue, Collector, Samples};

#[derive(Debug)]
pub struct Running {
    metrics: Catalogue,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    unsynced: Option<Unsynced>,
    /// By controller.
    passes: BTreeMap<&'static str, Pass>,
    passes_so_far: u64,
    /// Since when the reconciles of each controller run.
    reconciles: BTreeMap<&'static str, Vec<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Unsynced {
    since: Instant,
    told_at: Option<Instant>,
}

#[derive(Debug)]
struct Pass {
    id: String,
    started: Instant,
    /// Pods that have not got their verdict.
    left: usize,
}

/// LIF-117: who waits for longer than this hears why, again and again.
const LONG: Duration = Duration::from_secs(30);
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Running {
    pub fn new(metrics: &Catalogue) -> Self {
        Self { metrics: metrics.clone(), now: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Now> {
        // Nothing under the lock panics.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state is not complete; how long it has not been when it is time to say so.
    pub(crate) fn unsynced(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut lock = self.lock();
        let unsynced = lock.unsynced.get_or_insert(Unsynced { since: now, told_at: None });
        let due = unsynced.told_at.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        let long = now.duration_since(unsynced.since);
        if long > LONG && due {
            unsynced.told_at = Some(now);
            return Some(long);
        }
        None
    }

    pub(crate) fn synced(&self) {
        self.lock().unsynced = None;
    }

    /// A pass over so many pods begins, and ends when the answer is dropped.
    pub(crate) fn pass(self: &Arc<Self>, controller: &'static str, pods: usize) -> RunningPass {
        let mut now = self.lock();
        now.passes_so_far += 1;
        let id = format!("{:08x}", now.passes_so_far);
        now.passes.insert(controller, Pass { id, started: Instant::now(), left: pods });
        RunningPass { running: self.clone(), controller }
    }

    pub(crate) fn reconciles(&self, controller: &'static str, started: impl Iterator<Item = Instant>) {
        let mut now = self.lock();
        let known = now.reconciles.entry(controller).or_default();
        known.clear();
        known.extend(started);
    }
}

impl Collector for Running {
    fn collect(&self, _: Timestamp, into: &mut Samples<'_>) {
        let all = &self.metrics;
        let now = self.lock();
        let unsynced = now.unsynced.map(|unsynced| unsynced.since.elapsed().as_secs_f64());
        into.add(all.cluster_state_unsynced_time.family(), &[], unsynced.unwrap_or_default());
        for (controller, pass) in &now.passes {
            let labels = [*controller, pass.id.as_str()];
            let left = u32::try_from(pass.left).unwrap_or(u32::MAX);
            into.add(all.scheduler_queue_depth.family(), &labels, f64::from(left));
            into.add(all.scheduler_unfinished_work.family(), &labels, pass.started.elapsed().as_secs_f64());
        }
        for (controller, started) in &now.reconciles {
            let ages: Vec<f64> = started.iter().map(|started| started.elapsed().as_secs_f64()).collect();
            into.add(all.workqueue_unfinished_work.family(), &[controller], ages.iter().sum());
            into.add(all.workqueue_longest_running.family(), &[controller], ages.iter().copied().fold(0.0, f64::max));
        }
    }
}

/// A pass under way.
#[derive(Debug)]
pub(crate) struct RunningPass {
    running: Arc<Running>,
    controller: &'static str,
}

impl Drop for RunningPass {
    fn drop(&mut self) {
        self.running.lock().passes.remove(self.controller);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;
    use karpenter_model::labels::LabelRules;

    fn metrics() -> (Metrics, Arc<Running>) {
        let metrics = Metrics::new(&LabelRules::core(), Vec::new());
        let running = Arc::new(Running::new(&metrics.all));
        metrics.add_collector(running.clone());
        (metrics, running)
    }

    fn value(metrics: &Metrics, start: &str) -> Option<f64> {
        let text = metrics.render(Timestamp::UNIX_EPOCH);
        text.lines().find(|line| line.starts_with(start))?.rsplit(' ').next()?.parse().ok()
    }

    /// SC-354, LIF-117: the time grows while the state is incomplete, and people hear of it every ten seconds.
    #[tokio::test(start_paused = true)]
    async fn how_long_the_state_is_incomplete() {
        let (metrics, running) = metrics();
        let name = "karpenter_cluster_state_unsynced_time_seconds";
        assert_eq!(value(&metrics, name), Some(0.0));
        let mut told = 0;
        for _ in 0..120 {
            told += usize::from(running.unsynced().is_some());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(value(&metrics, name).unwrap() >= 120.0);
        assert_eq!(told, 9, "from the 31st second on");
        running.synced();
        assert_eq!(value(&metrics, name), Some(0.0));
    }

    /// SC-170: there while the pass runs, and gone afterwards.
    #[tokio::test(start_paused = true)]
    async fn a_pass_is_seen_while_it_runs() {
        let (metrics, running) = metrics();
        let pass = running.pass("provisioner", 1000);
        tokio::time::advance(Duration::from_secs(3)).await;
        let depth = "karpenter_scheduler_queue_depth{controller=\"provisioner\",scheduling_id=\"00000001\"}";
        assert_eq!(value(&metrics, depth), Some(1000.0));
        assert_eq!(value(&metrics, "karpenter_scheduler_unfinished_work_seconds"), Some(3.0));
        drop(pass);
        assert_eq!(value(&metrics, "karpenter_scheduler_queue_depth"), None);
        assert_eq!(value(&metrics, "karpenter_scheduler_unfinished_work_seconds"), None);
        let _second = running.pass("provisioner", 1);
        assert_eq!(value(&metrics, &depth.replace("00000001", "00000002")), Some(1.0), "each has its own id");
    }

    /// API-212.
    #[tokio::test(start_paused = true)]
    async fn reconciles_that_take_long_are_seen() {
        let (metrics, running) = metrics();
        let first = Instant::now();
        tokio::time::advance(Duration::from_secs(4)).await;
        running.reconciles("node.termination", [first, Instant::now()].into_iter());
        tokio::time::advance(Duration::from_secs(2)).await;
        let all = "workqueue_unfinished_work_seconds{name=\"node.termination\"}";
        let longest = "workqueue_longest_running_processor_seconds{name=\"node.termination\"}";
        assert_eq!((value(&metrics, all), value(&metrics, longest)), (Some(8.0), Some(6.0)));
        running.reconciles("node.termination", std::iter::empty());
        assert_eq!((value(&metrics, all), value(&metrics, longest)), (Some(0.0), Some(0.0)));
    }
}
