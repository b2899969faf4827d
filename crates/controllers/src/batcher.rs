//! When a pass is due: triggers are gathered for a while, so that pods that come together are planned together
//! (SCH-4 … SCH-8).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::context::Batching;

#[derive(Debug, Default)]
pub struct Batcher {
    seen: Mutex<BTreeSet<String>>,
    /// Holds one wake-up while nobody waits; more of them come to the same.
    wake: Notify,
    /// The same for what makes a pass worth while but is nobody new: it is not waited for.
    nudged: Notify,
}

/// What opened a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Triggered,
    Nudged,
}

impl Batcher {
    /// Something waits for a pass. An id that was heard in this window already says nothing new (SCH-6).
    pub fn trigger(&self, id: &str) {
        if self.seen().insert(id.to_owned()) {
            self.wake.notify_one();
        }
    }

    /// A trigger that no id stands for (V15-108).
    pub fn notify_one(&self) {
        self.wake.notify_one();
    }

    /// The world changed: a pass may find something, so one is made soon. Unlike a trigger this holds no window open: while
    /// hundreds of claims come to life there is such news all the time, and pods that wait would wait for the last of it.
    pub fn nudge(&self) {
        self.nudged.notify_one();
    }

    /// Waits for a trigger and then for the window to close. `false` when nothing came for `patience`.
    pub async fn gathered(&self, batching: Batching, patience: Duration) -> bool {
        let opened = tokio::time::timeout(patience, self.next()).await.ok();
        if let Some(opened) = opened {
            let triggered = opened == Opened::Triggered
                // The window of the first trigger begins with it, whatever was heard before.
                || tokio::time::timeout(batching.idle, self.wake.notified()).await.is_ok();
            if triggered {
                self.window(batching).await;
            }
            // The pass sees what the nudges were about. One that comes from here on asks for the next.
            let _ = self.nudged.notified().now_or_never();
        }
        self.seen().clear();
        opened.is_some()
    }

    /// From the first trigger until it is quiet, or has taken long enough.
    async fn window(&self, batching: Batching) {
        let closes = Instant::now() + batching.longest;
        loop {
            let idle = (Instant::now() + batching.idle).min(closes);
            let heard = tokio::time::timeout_at(idle, self.wake.notified()).await.is_ok();
            if !heard || Instant::now() >= closes {
                return;
            }
        }
    }

    async fn next(&self) -> Opened {
        tokio::select! {
            biased;
            () = self.wake.notified() => Opened::Triggered,
            () = self.nudged.notified() => Opened::Nudged,
        }
    }

    /// Waits for the next trigger or nudge, at most so long. What it is about is in the state; a pass is due anyway.
    pub async fn heard(&self, patience: Duration) {
        // Whether something came or not, the caller looks again.
        let _ = tokio::time::timeout(patience, self.next()).await;
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

    const FIVE_AND_TEN: Batching =
        Batching { idle: Duration::from_secs(5), longest: Duration::from_secs(10), siblings: true };

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

    /// SCH-5, SCH-6: news of the world asks for a pass but holds no window open, and takes nothing of a later one's time.
    #[tokio::test(start_paused = true)]
    async fn nudges_hold_nothing_up() {
        let nudging = |batcher: &Arc<Batcher>| {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    batcher.nudge();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            })
        };
        for (trigger_at, want) in [(None, 5), (Some(0), 5), (Some(4), 9)] {
            let batcher = Arc::new(Batcher::default());
            let news = nudging(&batcher);
            let started = Instant::now();
            let triggering = batcher.clone();
            let pod = tokio::spawn(async move {
                if let Some(second) = trigger_at {
                    tokio::time::sleep(Duration::from_secs(second)).await;
                    triggering.trigger("p");
                }
            });
            assert!(batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await, "a nudge alone asks for a pass");
            assert_eq!(started.elapsed().as_secs(), want, "{trigger_at:?}");
            news.abort();
            pod.await.unwrap();
        }
        let batcher = Arc::new(Batcher::default());
        batcher.nudge();
        batcher.trigger("p");
        assert!(batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await);
        assert!(!batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await, "the pass has seen it");
        batcher.nudge();
        assert!(batcher.gathered(FIVE_AND_TEN, Duration::from_secs(1)).await, "this one came later");
    }
}
