//! When a pass is due: triggers are gathered for a while, so that pods that come together are planned together
//! (SCH-4 … SCH-8).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::context::Batching;

#[derive(Debug, Default)]
pub struct Batcher {
    seen: Mutex<BTreeSet<String>>,
    /// Holds one wake-up while nobody waits; more of them come to the same.
    wake: Notify,
}

impl Batcher {
    /// Something waits for a pass. An id that was heard in this window already says nothing new (SCH-6).
    pub fn trigger(&self, id: &str) {
        if self.seen().insert(id.to_owned()) {
            self.wake.notify_one();
        }
    }

    /// The world changed in a way that no id stands for (V15-108).
    pub fn notify_one(&self) {
        self.wake.notify_one();
    }

    /// Waits for a trigger and then for the window to close. `false` when nothing came for `patience`.
    pub async fn gathered(&self, batching: Batching, patience: Duration) -> bool {
        let triggered = tokio::time::timeout(patience, self.wake.notified()).await.is_ok();
        if triggered {
            let closes = Instant::now() + batching.longest;
            loop {
                let idle = (Instant::now() + batching.idle).min(closes);
                let heard = tokio::time::timeout_at(idle, self.wake.notified()).await.is_ok();
                if !heard || Instant::now() >= closes {
                    break;
                }
            }
        }
        self.seen().clear();
        triggered
    }

    /// Waits for the next trigger, at most so long. Its pods are in the state; a pass is due anyway.
    pub async fn heard(&self, patience: Duration) {
        // Whether something came or not, the caller looks again.
        let _ = tokio::time::timeout(patience, self.wake.notified()).await;
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // No code that could panic runs under the lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const FIVE_AND_TEN: Batching = Batching { idle: Duration::from_secs(5), longest: Duration::from_secs(10) };

    /// When the window closes, given who triggers at which second; `None` when it never opens within a second.
    async fn closes(triggers: &'static [(u64, &'static str)]) -> Option<u64> {
        let batcher = Arc::new(Batcher::default());
        let started = Instant::now();
        let triggering = batcher.clone();
        let task = tokio::spawn(async move {
            for (second, id) in triggers {
                tokio::time::sleep_until(started + Duration::from_secs(*second)).await;
                triggering.trigger(id);
            }
        });
        let opened = batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await;
        task.abort();
        opened.then(|| started.elapsed().as_secs())
    }

    /// SCH-4, SCH-5, SCH-6, SCH-7, SC-1, SC-2, SC-3, SC-4, SC-5.
    #[tokio::test(start_paused = true)]
    async fn windows_close_when_it_is_quiet_or_has_taken_long_enough() {
        assert_eq!(closes(&[(0, "p"), (3, "p")]).await, Some(5), "SC-1");
        assert_eq!(closes(&[(0, "p1"), (3, "p2")]).await, Some(8), "SC-2");
        assert_eq!(closes(&[(0, "a"), (3, "b"), (6, "c"), (9, "d"), (12, "e")]).await, Some(10), "SC-3");
        assert_eq!(closes(&[]).await, None, "SC-4");
        assert_eq!(closes(&[(0, "p")]).await, Some(5), "SC-5");
    }

    /// SCH-6, SCH-8, V15-108: what comes during a pass opens the next window, once; a trigger without an id restarts idling.
    #[tokio::test(start_paused = true)]
    async fn triggers_during_a_pass_are_kept() {
        let batcher = Arc::new(Batcher::default());
        for id in ["a", "b", "c"] {
            batcher.trigger(id);
        }
        assert!(batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await);
        assert!(!batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await, "three came to one");
        batcher.trigger("a");
        let started = Instant::now();
        let nudging = batcher.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            nudging.trigger("a");
            nudging.notify_one();
        });
        assert!(batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await);
        assert_eq!(started.elapsed().as_secs(), 8);
        task.await.unwrap();
    }
}
