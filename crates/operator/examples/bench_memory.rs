//! How much memory the controller needs for a large cluster, and how long an event takes to arrive (G12, G13).
//!
//! `make bench-memory`. This process serves a generated cluster as an API server would, page by page and event by event; the
//! release build of `karpenter-controller` runs against it in a process of its own, whose memory and processor time are
//! read from the kernel. What is served differs from pod to pod as on a real cluster: addresses, tokens, container ids.

#[path = "bench_memory/cluster.rs"]
mod cluster;
#[path = "bench_memory/events.rs"]
mod events;
#[path = "shared/process.rs"]
mod process;
#[path = "bench_memory/server.rs"]
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use self::cluster::Cluster;
use self::process::Controller;
use self::server::Server;

/// A run that takes longer than this has stopped to make progress.
const LIMIT: Duration = Duration::from_mins(10);
/// Long enough for what happens once a minute to happen.
const IDLE: Duration = Duration::from_secs(65);
const EVENTS: usize = 100_000;

#[tokio::main]
async fn main() -> Result<()> {
    let sizes = std::env::var("NODES").unwrap_or_else(|_| "2500,5000,10000".to_owned());
    let sizes: Vec<usize> = sizes
        .split(',')
        .map(|size| size.trim().parse().with_context(|| format!("NODES: {size:?} is no number")))
        .collect::<Result<_>>()?;
    let largest = sizes.iter().copied().max().context("NODES names no size")?;
    say("nodes and NodeClaims, pods  listed in   CPU     RSS      peak     per pod   idle CPU   event, CPU");
    let mut before: Option<f64> = None;
    for nodes in sizes {
        let cluster = Cluster { nodes, pods: nodes * 30 };
        let measured = measure(cluster, nodes == largest).await?;
        let growth = before.map_or(String::new(), |before| format!("   x{:.2}", measured.resident / before));
        before = Some(measured.resident);
        say(&format!("{measured}{growth}"));
    }
    events::measure(EVENTS)
}

struct Measured {
    cluster: Cluster,
    listed: Duration,
    cpu: f64,
    resident: f64,
    peak: f64,
    idle: Option<f64>,
    event_micros: f64,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, listed, cpu, resident, peak, idle, event_micros } = self;
        #[expect(clippy::cast_precision_loss, reason = "a printed figure")]
        let per_pod = resident * 1_000_000.0 / cluster.pods as f64;
        let idle = idle.map_or("-".to_owned(), |idle| format!("{:.2} %", idle * 100.0));
        write!(
            f,
            "{:>10} {:>15}  {:>6.1} s  {cpu:>5.1} s  {resident:>4.0} MB  {peak:>4.0} MB  {per_pod:>6.0} B  {idle:>8}  {event_micros:>6.1} µs",
            cluster.nodes,
            cluster.pods,
            listed.as_secs_f64(),
        )
    }
}

async fn measure(cluster: Cluster, with_idle: bool) -> Result<Measured> {
    let server = Server::start(cluster).await?;
    let started = Instant::now();
    let kubeconfig = kubeconfig_for(server.port())?;
    let mut controller = Controller::start(&kubeconfig, &[("DISABLE_LEADER_ELECTION", "true")])?;
    while !server.is_watched() {
        ensure!(started.elapsed() < LIMIT, "the controller does not come to an end of its lists");
        controller.ensure_running()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let listed = started.elapsed();
    let cpu = controller.cpu()?;
    settle(&controller).await?;
    let (resident, peak) = (controller.resident()?, controller.peak()?);
    let idle = if with_idle {
        let (before, since) = (controller.cpu()?, Instant::now());
        tokio::time::sleep(IDLE).await;
        Some((controller.cpu()? - before) / since.elapsed().as_secs_f64())
    } else {
        None
    };
    let before = controller.cpu()?;
    server.send_events(EVENTS).await;
    while !server.all_sent() {
        ensure!(started.elapsed() < LIMIT, "the controller does not read its events");
        controller.ensure_running()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    settle(&controller).await?;
    #[expect(clippy::cast_precision_loss, reason = "a printed figure")]
    let event_micros = (controller.cpu()? - before) * 1_000_000.0 / EVENTS as f64;
    controller.ensure_running()?;
    std::fs::remove_file(&kubeconfig)?;
    Ok(Measured { cluster, listed, cpu, resident, peak, idle, event_micros })
}

fn kubeconfig_for(port: u16) -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("karpenter-bench-{}-{port}.json", std::process::id()));
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "kube-system"}}],
        "users": [{"name": "x", "user": {}}]});
    std::fs::write(&path, text.to_string())?;
    Ok(path)
}

/// Waits until the process has next to nothing left to do.
async fn settle(controller: &Controller) -> Result<()> {
    let since = Instant::now();
    loop {
        let before = controller.cpu()?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if controller.cpu()? - before < 0.1 || since.elapsed() > Duration::from_mins(3) {
            return Ok(());
        }
    }
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn say(text: &str) {
    println!("{text}");
}
