//! Runs batches: who asks waits for company, and all get their share of one answer.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

use super::{Batcher, CONCURRENT, Window};

/// Who is told of every batch that was sent.
pub trait Observer: Debug + Send + Sync {
    fn batch_sent(&self, batcher: &'static str, size: usize, waited: SignedDuration);
}

type Run<T, A> = dyn Fn(Vec<T>) -> BoxFuture<'static, Vec<A>> + Send + Sync;

/// One kind of request. `run` answers all items of a batch, in their order.
pub struct Executor<T, A>(Arc<Inner<T, A>>);

struct Inner<T, A> {
    window: Window,
    waiting: Mutex<Waiting<T, A>>,
    /// A batch has become as large as it may be.
    full: Notify,
    /// Batches go by time that never jumps.
    started: Instant,
    running: Arc<Semaphore>,
    run: Arc<Run<T, A>>,
    observer: Arc<dyn Observer>,
}

type Asker<T, A> = (T, oneshot::Sender<A>);

struct Waiting<T, A> {
    batcher: Batcher<(), Asker<T, A>>,
    count: usize,
    /// Somebody sends what is due.
    driven: bool,
}

impl<T, A> Clone for Executor<T, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T, A> Debug for Executor<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("window", &self.0.window).finish_non_exhaustive()
    }
}

impl<T, A> Inner<T, A> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T, A>> {
        // Nothing that could panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

impl<T: Send + 'static, A: Send + 'static> Executor<T, A> {
    pub fn new(
        window: Window,
        observer: Arc<dyn Observer>,
        run: impl Fn(Vec<T>) -> BoxFuture<'static, Vec<A>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            window,
            waiting: Mutex::new(Waiting { batcher: Batcher::new(window), count: 0, driven: false }),
            full: Notify::new(),
            started: Instant::now(),
            running: Arc::new(Semaphore::new(CONCURRENT)),
            run: Arc::new(run),
            observer,
        }))
    }

    /// `None` only if the batch was lost, for example because the process is ending.
    pub async fn ask(&self, item: T) -> Option<A> {
        let (sender, answer) = oneshot::channel();
        let (drive, full) = {
            let now = self.0.now();
            let mut waiting = self.0.lock();
            waiting.batcher.add((), (item, sender), now);
            waiting.count += 1;
            (!std::mem::replace(&mut waiting.driven, true), waiting.count >= self.0.window.most)
        };
        if drive {
            // Its own task: whoever asked first may stop waiting, the others still want their answer.
            tokio::spawn(drive_batches(self.0.clone()));
        } else if full {
            self.0.full.notify_one();
        }
        answer.await.ok()
    }
}

/// Sends batches as they become due, until nobody waits.
async fn drive_batches<T: Send + 'static, A: Send + 'static>(inner: Arc<Inner<T, A>>) {
    loop {
        let now = inner.now();
        let (batches, pause) = {
            let mut waiting = inner.lock();
            let batches = waiting.batcher.due(now);
            waiting.count -= batches.iter().map(|((), items, _)| items.len()).sum::<usize>();
            let next = waiting.batcher.next_due();
            waiting.driven = next.is_some();
            (batches, next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default()))
        };
        for ((), items, waited) in batches {
            inner.observer.batch_sent(inner.window.name, items.len(), waited);
            tokio::spawn(send_batch(inner.clone(), items));
        }
        let Some(pause) = pause else { return };
        tokio::select! {
            biased;
            () = inner.full.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn send_batch<T: Send + 'static, A: Send + 'static>(inner: Arc<Inner<T, A>>, items: Vec<Asker<T, A>>) {
    // The semaphore is never closed; without a permit there would only be more at once.
    let _permit = inner.running.clone().acquire_owned().await.ok();
    let (items, askers): (Vec<T>, Vec<oneshot::Sender<A>>) = items.into_iter().unzip();
    let answers = (inner.run)(items).await;
    for (asker, answer) in askers.into_iter().zip(answers) {
        // Who asked may have gone.
        drop(asker.send(answer));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;
    use crate::batching::DESCRIBE_INSTANCES;

    #[derive(Debug, Default)]
    struct Sizes(Mutex<Vec<(usize, i128)>>);

    impl Observer for Sizes {
        fn batch_sent(&self, _: &'static str, size: usize, waited: SignedDuration) {
            self.0.lock().unwrap().push((size, waited.as_millis()));
        }
    }

    /// AWS-194, AWS-196: who asks within a tenth of a second of the last one shares a call, five hundred at most, and
    /// everybody gets the answer to his own question.
    #[tokio::test(start_paused = true)]
    async fn company_shares_a_call() {
        let sizes = Arc::new(Sizes::default());
        let executor: Executor<u32, u32> = Executor::new(DESCRIBE_INSTANCES, sizes.clone(), |items| {
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                items.into_iter().map(|item| item * 2).collect()
            }
            .boxed()
        });
        let few = join_all((0..3).map(|n| executor.ask(n))).await;
        assert_eq!(few, [Some(0), Some(2), Some(4)]);
        let late = |n: u32| {
            let executor = executor.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(n) * 80)).await;
                executor.ask(n).await
            }
        };
        let trickle = join_all((0..30).map(late)).await;
        assert_eq!(trickle, (0..30).map(|n| Some(n * 2)).collect::<Vec<_>>());
        let many = join_all((0..1200).map(|n| executor.ask(n))).await;
        assert_eq!(many, (0..1200).map(|n| Some(n * 2)).collect::<Vec<_>>());
        let sizes = sizes.0.lock().unwrap().clone();
        assert_eq!(sizes[0], (3, 100));
        let (all, longest) = (sizes.iter().map(|(size, _)| size).sum::<usize>(), sizes.iter().map(|one| one.1).max());
        assert_eq!((all, longest, sizes.iter().map(|one| one.0).max()), (1233, Some(1000), Some(500)));
        assert!(sizes.len() <= 1 + 4 + 4, "{sizes:?}");
    }

    /// Whoever stops waiting does not take the answer from the others.
    #[tokio::test(start_paused = true)]
    async fn the_first_may_leave() {
        let executor: Executor<u32, u32> =
            Executor::new(DESCRIBE_INSTANCES, Arc::new(Sizes::default()), |items| async move { items }.boxed());
        let first = tokio::time::timeout(Duration::from_millis(10), executor.ask(1)).await;
        assert!(first.is_err());
        assert_eq!(executor.ask(2).await, Some(2));
    }
}
