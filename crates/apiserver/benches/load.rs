//! How the embedded API grows: nodes and pods are made, read, listed and watched through the ordinary client, in sizes that
//! double. `cargo bench -p karpenter-apiserver --bench load`; an argument sets the number of nodes (10,000).
//!
//! Prints CPU time and its growth per doubling: 2 is linear, 4 would be quadratic.

use std::io::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_apiserver::{Api, Options};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::json;

const PODS_PER_NODE: usize = 10;
const DAY: Duration = Duration::from_hours(24);

fn main() -> Result<()> {
    // `cargo bench` adds arguments of its own.
    let largest: usize = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(10_000);
    let sizes: Vec<usize> = (0..4).rev().map(|halvings| largest >> halvings).collect();
    let mut table = Vec::new();
    for nodes in sizes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        table.push((nodes, runtime.block_on(load(nodes))?));
    }
    print(&table)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let (lives, took) = runtime.block_on(churn())?;
    writeln!(
        std::io::stdout(),
        "\n24 h with 1,000 pods churning ({lives} lives): {:.2} s of CPU time",
        took.as_secs_f64()
    )?;
    Ok(())
}

/// CPU time of this thread, which runs everything.
fn cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split_whitespace().next().context("schedstat is empty")?.parse()?))
}

fn client() -> (Api, Client) {
    let (epoch, started) = (jiff::Timestamp::UNIX_EPOCH, tokio::time::Instant::now());
    let api = Api::new(Options { clock: Arc::new(move || epoch + started.elapsed()), ..Options::default() });
    let client = Client::new(api.clone(), "default");
    (api, client)
}

fn node(i: usize) -> Result<Node> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("node-{i:06}"), "labels": {"zone": format!("z{}", i % 3)}},
        "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }))?)
}

fn pod(i: usize, node: Option<usize>) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{i:07}"), "labels": {"app": format!("app-{}", i % 100)}},
        "spec": {"nodeName": node.map(|n| format!("node-{n:06}")),
            "containers": [{"name": "main", "image": "registry/main:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]},
    }))?)
}

/// What is measured, and how long it took.
type Figures = Vec<(&'static str, Duration)>;

async fn load(count: usize) -> Result<Figures> {
    let (_api, client) = client();
    let nodes: kube::Api<Node> = kube::Api::all(client.clone());
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client.clone());
    let total = count * PODS_PER_NODE;
    let mut figures = Figures::new();
    let mut last = cpu_time()?;
    let mut lap = |name: &'static str, figures: &mut Figures| -> Result<()> {
        let now = cpu_time()?;
        figures.push((name, now.saturating_sub(last)));
        last = now;
        Ok(())
    };
    for i in 0..count {
        nodes.create(&PostParams::default(), &node(i)?).await?;
    }
    lap("create nodes", &mut figures)?;
    for i in 0..total {
        pods.create(&PostParams::default(), &pod(i, Some(i % count))?).await?;
    }
    lap("create pods", &mut figures)?;
    ensure!(pods.list(&ListParams::default()).await?.items.len() == total, "not all pods are listed");
    lap("list all pods", &mut figures)?;
    let mut page = ListParams::default().limit(500);
    let mut seen = 0;
    loop {
        let list = pods.list(&page).await?;
        seen += list.items.len();
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(500).continue_token(&token),
            None => break,
        }
    }
    ensure!(seen == total, "pages hold {seen} of {total} pods");
    lap("list in pages of 500", &mut figures)?;
    let chosen = pods.list(&ListParams::default().labels("app=app-7")).await?.items.len();
    ensure!(chosen == total.div_ceil(100), "{chosen} pods are selected");
    lap("list by label", &mut figures)?;
    for i in 0..20 {
        let on = pods.list(&ListParams::default().fields(&format!("spec.nodeName=node-{i:06}"))).await?.items.len();
        ensure!(on == PODS_PER_NODE, "{on} pods are on node {i}");
    }
    lap("20 lists by node", &mut figures)?;
    let (reader, writer) = reflector::store();
    let mut stream = pin!(watcher(pods.clone(), watcher::Config::default().streaming_lists()).reflect(writer));
    while reader.len() < total {
        stream.try_next().await?.context("the watch ended")?;
    }
    lap("fill a cache", &mut figures)?;
    let status = json!({"status": {"phase": "Running"}});
    let start =
        pods.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
    let mut events = pods.watch(&WatchParams::default(), &start).await?.boxed();
    for i in 0..1000 {
        pods.patch_status(&format!("pod-{i:07}"), &PatchParams::default(), &Patch::Merge(&status)).await?;
        events.try_next().await?.context("the watch ended")?;
    }
    lap("1,000 changes, watched", &mut figures)?;
    for i in 0..total {
        pods.delete(&format!("pod-{i:07}"), &DeleteParams::default().grace_period(0)).await?;
    }
    lap("delete pods", &mut figures)?;
    Ok(figures)
}

/// A thousand pods for a day; every five minutes fifty go and fifty come and run.
async fn churn() -> Result<(usize, Duration)> {
    let (_api, client) = client();
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client);
    let (reader, writer) = reflector::store();
    let watch = watcher(pods.clone(), watcher::Config::default()).default_backoff().reflect(writer);
    tokio::spawn(watch.for_each(|_| futures::future::ready(())));
    reader.wait_until_ready().await?;
    let start = cpu_time()?;
    for i in 0..1000 {
        pods.create(&PostParams::default(), &pod(i, None)?).await?;
    }
    let rounds = usize::try_from(DAY.as_secs() / 300)?;
    let status = json!({"status": {"phase": "Running"}});
    for old in 0..rounds * 50 {
        if old % 50 == 0 {
            tokio::time::sleep(Duration::from_mins(5)).await;
        }
        pods.delete(&format!("pod-{old:07}"), &DeleteParams::default()).await?;
        pods.create(&PostParams::default(), &pod(old + 1000, None)?).await?;
        let name = format!("pod-{:07}", old + 1000);
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(reader.len() == 1000, "the cache has {} pods", reader.len());
    Ok((rounds * 50, cpu_time()?.saturating_sub(start)))
}

fn print(table: &[(usize, Figures)]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{:24}", "nodes")?;
    for (nodes, _) in table {
        write!(out, "{nodes:>12}")?;
    }
    writeln!(out, "   growth per doubling")?;
    let names: Vec<&str> = table.first().map(|(_, f)| f.iter().map(|(name, _)| *name).collect()).unwrap_or_default();
    for (row, name) in names.into_iter().enumerate() {
        write!(out, "{name:24}")?;
        let times: Vec<f64> = table.iter().map(|(_, f)| f[row].1.as_secs_f64()).collect();
        for time in &times {
            write!(out, "{:>9.1} ms", time * 1000.0)?;
        }
        // The kernel counts CPU time in steps of up to 4 ms.
        let factor = |pair: &[f64]| if pair[0] < 0.01 { "-".to_owned() } else { format!("{:.2}", pair[1] / pair[0]) };
        let growth: Vec<String> = times.windows(2).map(factor).collect();
        writeln!(out, "   {}", growth.join("  "))?;
    }
    Ok(())
}
