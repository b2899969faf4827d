//! Profiles, as far as the runtime has them (API-300): what runs, with which arguments, on how many threads.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

const INDEX: &str = "/debug/pprof/\n\ncmdline\nthreadcreate\ngoroutine (tasks of the runtime)\n";
const ABSENT: &str = "this runtime has no such profile; attach perf to the process instead\n";

pub(super) fn router() -> Router {
    let absent = || async { (StatusCode::NOT_IMPLEMENTED, ABSENT) };
    let mut router = Router::new()
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route("/debug/pprof/cmdline", get(|| async { std::env::args().collect::<Vec<_>>().join("\0") }))
        .route("/debug/pprof/threadcreate", get(|| async { threads() }))
        .route("/debug/pprof/goroutine", get(|| async { tasks() }));
    for profile in ["profile", "symbol", "trace", "allocs", "heap", "block"] {
        router = router.route(&format!("/debug/pprof/{profile}"), get(absent));
    }
    router
}

/// One line per thread: its name and what it is doing.
fn threads() -> String {
    let folders = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut lines: Vec<String> = folders
        .map(|folder| {
            let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap_or_default();
            format!("{} {} {}\n", folder.file_name().display(), read("comm").trim(), read("wchan").trim())
        })
        .collect();
    lines.sort();
    lines.concat()
}

fn tasks() -> String {
    let metrics = tokio::runtime::Handle::current().metrics();
    let (alive, workers, waiting) = (metrics.num_alive_tasks(), metrics.num_workers(), metrics.global_queue_depth());
    format!("tasks alive: {alive}\nworker threads: {workers}\ntasks waiting for a worker: {waiting}\n")
}
