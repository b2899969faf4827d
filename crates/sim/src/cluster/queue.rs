//! Keys to look at, one at a time: by time, then by name, so that a repeated run is the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Not before something changes.
    OnChange,
    After(Duration),
}

pub(crate) type Outcome = Result<Requeue, kube::Error>;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: Mutex<Entries>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    due: BTreeMap<String, Instant>,
    order: BTreeSet<(Instant, String)>,
    failures: BTreeMap<String, u32>,
}

impl Entries {
    /// The earlier of two times for one key wins.
    fn add(&mut self, key: String, at: Instant) {
        match self.due.get(&key).copied() {
            Some(known) if known <= at => return,
            Some(known) => drop(self.order.remove(&(known, key.clone()))),
            None => {}
        }
        self.order.insert((at, key.clone()));
        self.due.insert(key, at);
    }
}

impl Queue {
    pub(crate) fn add(&self, key: impl Into<String>) {
        self.add_after(key, Duration::ZERO);
    }

    pub(crate) fn add_after(&self, key: impl Into<String>, pause: Duration) {
        self.lock().add(key.into(), Instant::now() + pause);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> String {
        loop {
            let first = {
                let mut entries = self.lock();
                match entries.order.first().cloned() {
                    Some((at, key)) if at <= Instant::now() => {
                        entries.order.pop_first();
                        entries.due.remove(&key);
                        return key;
                    }
                    first => first.map(|(at, _)| at),
                }
            };
            match first {
                Some(at) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Works on the keys until the future is dropped. A failed one is tried again with growing pauses.
    pub(crate) async fn work<F: Future<Output = Outcome> + Send>(&self, actor: &str, reconcile: impl Fn(String) -> F) {
        loop {
            let key = self.next().await;
            let again = match reconcile(key.clone()).await {
                Ok(requeue) => {
                    self.lock().failures.remove(&key);
                    match requeue {
                        Requeue::OnChange => None,
                        Requeue::After(pause) => Some(pause),
                    }
                }
                Err(error) => {
                    tracing::debug!(actor, key, %error, "tries again");
                    let mut entries = self.lock();
                    let failures = entries.failures.entry(key.clone()).or_default();
                    *failures = (*failures + 1).min(10);
                    // 50 ms doubled up to 51 s: quick when a write met another, slow when the server is away.
                    Some(Duration::from_millis(25) * (1 << *failures))
                }
            };
            if let Some(pause) = again {
                self.add_after(key, pause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_come_by_time_and_name() {
        let queue = Queue::default();
        queue.add_after("late", Duration::from_secs(9));
        queue.add("b");
        queue.add("a");
        queue.add_after("late", Duration::from_secs(5));
        queue.add_after("late", Duration::from_secs(7));
        let started = Instant::now();
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push((queue.next().await, started.elapsed().as_secs()));
        }
        assert_eq!(seen, [("a".into(), 0), ("b".into(), 0), ("late".into(), 5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_successes_forget() {
        let queue = Queue::default();
        queue.add("a");
        let tries = Mutex::new(Vec::new());
        let started = Instant::now();
        let work = queue.work("test", |_| {
            let mut tries = tries.lock().unwrap();
            tries.push(started.elapsed().as_millis());
            std::future::ready(match tries.len() {
                3 => Ok(Requeue::After(Duration::from_secs(1))),
                _ => Err(kube::Error::LinesCodecMaxLineLengthExceeded),
            })
        });
        let _ = tokio::time::timeout(Duration::from_millis(1250), work).await;
        assert_eq!(*tries.lock().unwrap(), [0, 50, 150, 1150, 1200]);
    }
}
