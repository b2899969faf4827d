use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

type Log = Arc<Mutex<Vec<(u64, String)>>>;

/// Runs the queue for a while of virtual time and logs who was looked at when.
async fn observe<Fut>(queue: Arc<Queue>, seconds: u64, reconcile: impl Fn(usize, String) -> Fut) -> Vec<(u64, String)>
where
    Fut: Future<Output = Result<Requeue, ReconcileError>> + Send + 'static,
{
    let log: Log = Arc::default();
    let calls = AtomicUsize::new(0);
    let started = Instant::now();
    let report = crate::report::tests::report();
    let work = Work { queue: &queue, controller: "test", backoff: Backoff::LIFECYCLE, workers: 2, report: &report };
    let work = run(work, |name| {
        log.lock().unwrap().push((started.elapsed().as_secs(), name.clone()));
        reconcile(calls.fetch_add(1, Ordering::SeqCst), name)
    });
    let _ = tokio::time::timeout(Duration::from_secs(seconds), work).await;
    log.lock().unwrap().clone()
}

fn at(times: &[u64], name: &str) -> Vec<(u64, String)> {
    times.iter().map(|second| (*second, name.to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn failures_pause_longer_each_time() {
    let queue = Arc::new(Queue::default());
    queue.add("a");
    let seen = observe(queue, 200, |_, _| async { Err("no".into()) }).await;
    assert_eq!(seen, at(&[0, 1, 3, 7, 15, 31, 63, 123, 183], "a"));
}

/// LIF-132, API-124: a conflict is no failure and is looked at again soon. While a watch lags, every write is a conflict;
/// the queue must not ask ten times a second for as long as that takes.
#[tokio::test(start_paused = true)]
async fn conflicts_pause_longer_each_time() {
    let queue = Arc::new(Queue::default());
    queue.add("a");
    let conflict = || {
        let status = kube::core::Status::failure("somebody was faster", "Conflict").with_code(409);
        ReconcileError::from(kube::Error::Api(Box::new(status)))
    };
    let seen = observe(queue, 60, move |_, _| async move { Err(conflict()) }).await;
    assert_eq!(seen, at(&[0, 0, 0, 0, 1, 3, 6, 12, 25, 51], "a"));
}

#[tokio::test(start_paused = true)]
async fn success_forgets_failures_and_keeps_the_asked_pause() {
    let queue = Arc::new(Queue::default());
    queue.add("a");
    let seen = observe(queue, 30, |call, _| async move {
        if call == 1 { Err("once".into()) } else { Ok(Requeue::After(Duration::from_secs(10))) }
    })
    .await;
    assert_eq!(seen, at(&[0, 10, 11, 21], "a"));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_worked_on_once_at_a_time_and_again_if_it_changed() {
    let queue = Arc::new(Queue::default());
    queue.add("a");
    queue.add("a");
    let again = queue.clone();
    let seen = observe(queue, 20, move |call, _| {
        let again = again.clone();
        async move {
            if call == 0 {
                again.add("a");
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(Requeue::OnChange)
        }
    })
    .await;
    assert_eq!(seen, at(&[0, 5], "a"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_attempt_only() {
    let queue = Arc::new(Queue::default());
    queue.add("a");
    let seen = observe(queue, 10, |call, _| async move {
        assert!(call > 0, "the first attempt dies");
        Ok(Requeue::OnChange)
    })
    .await;
    assert_eq!(seen, at(&[0, 1], "a"));
}

#[tokio::test(start_paused = true)]
async fn no_more_workers_than_allowed() {
    let queue = Arc::new(Queue::default());
    for name in ["a", "b", "c"] {
        queue.add(name);
    }
    let seen = observe(queue, 20, |_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(Requeue::OnChange)
    })
    .await;
    assert_eq!(seen.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [0, 0, 5]);
}

/// LIF-132: what fails is tried again no faster than the bucket of its controller allows; timed looks cost nothing.
#[tokio::test(start_paused = true)]
async fn retries_share_a_budget() {
    let queue = Arc::new(Queue::default());
    for number in 0..300 {
        queue.add(format!("n{number:03}"));
    }
    let seen = observe(queue, 8, |call, _| async move {
        // Everybody fails once, then all is well.
        if call < 300 { Err("no".into()) } else { Ok(Requeue::OnChange) }
    })
    .await;
    let by = |second: u64| seen.iter().filter(|(at, _)| *at <= second).count() - 300;
    assert!(by(0) == 0 && (100..=130).contains(&by(1)), "a burst of a hundred: {}", by(1));
    assert!((150..=180).contains(&by(6)), "then ten a second: {}", by(6));

    let queue = Arc::new(Queue::default());
    for number in 0..300 {
        queue.add(format!("n{number:03}"));
    }
    let seen = observe(queue, 3, |_, _| async { Ok(Requeue::After(Duration::from_secs(1))) }).await;
    assert!(seen.len() >= 900, "{}", seen.len());
}
