//! The whole way on the real control plane of this machine: 960 mixed pods that wait, until all of them run, and from
//! there to 40 % of them, until no node goes any more.
//!
//! `make bench-live`. etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK are started for the run; the
//! release build of `karpenter-controller` runs with its default settings. `BENCH_LIVE=out` ends before the scale-in;
//! `BENCH_LIVE=floor` then ends the controller and starts the same pods once more on the nodes that are there, which shows how much
//! of the time the rest of the cluster takes by itself.

#[path = "shared/process.rs"]
mod process;
#[path = "bench_live/timeline.rs"]
mod timeline;
#[path = "bench_live/workload.rs"]
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::crd;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_model::labels;
use karpenter_testkit::ControlPlane;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt};

use self::process::Controller;

const LIMIT: Duration = Duration::from_mins(10);

/// What the target took for pods of the same description on a machine of this kind, and what we promise of it.
const TARGET: &str = "target, for comparison   8.3 s             33 s           12 s          480 MB     118   $24.14";

const TARGET_SCALED_IN: &str =
    "target, for comparison    543 s       52 s      62    $9.62   (not the same pods: compare what was saved)";
/// Nothing has happened for this long: it has settled. Longer than any wait inside of a disruption but for pods that refuse.
const QUIET: Duration = Duration::from_mins(1);

#[tokio::main]
async fn main() -> Result<()> {
    say(&format!("load before: {}", load()));
    let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await?;
    let crds = crd::all().into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>()?;
    cluster.apply_crds(crds).await?;
    cluster.install(workload::pool()).await?;
    let port = TcpListener::bind("[::]:0")?.local_addr()?.port();
    let level = std::env::var("LOG_LEVEL").unwrap_or_else(|_| "error".to_owned());
    let environment = [("METRICS_PORT", port.to_string()), ("LOG_LEVEL", level)];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut controller = Controller::start(cluster.kubeconfig(), &environment)?;
    let client = cluster.client();
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let started = Instant::now();
    while leases.get_opt("karpenter-leader-election").await?.is_none() {
        ensure!(started.elapsed() < LIMIT, "the controller does not lead");
        controller.ensure_running()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What a start costs is not what 960 pods cost; the target was measured the same way.
    tokio::time::sleep(Duration::from_secs(5)).await;
    scaled_out(&cluster, &mut controller).await?;
    counted(port)?.iter().for_each(|line| say(line));
    match std::env::var("BENCH_LIVE").as_deref() {
        Ok("out") => {}
        Ok("floor") => {
            drop(controller);
            again(&cluster).await?;
        }
        _ => scaled_in(&cluster, &mut controller).await?,
    }
    say(&format!("load after: {}", load()));
    Ok(())
}

/// From nothing until all pods run.
async fn scaled_out(cluster: &ControlPlane, controller: &mut Controller) -> Result<()> {
    let client = cluster.client();
    let before = controller.cpu()?;
    let programs_before = timeline::programs(cluster.folder())?;
    let (begun, begun_at) = (Instant::now(), Timestamp::now());
    cluster.install(workload::deployments()).await?;
    let claims = Api::<PartialObjectMeta<NodeClaim>>::all(client.clone());
    let first = async {
        while claims.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(begun.elapsed())
    };
    let (first, ()) = tokio::time::timeout(LIMIT, async { tokio::try_join!(first, run(cluster, workload::PODS)) })
        .await
        .with_context(|| format!("not all pods run after {LIMIT:?}"))??;
    let all_run = begun.elapsed();
    controller.ensure_running()?;
    let used = controller.cpu()? - before;
    let peak = controller.peak()?;
    let programs = timeline::programs(cluster.folder())?;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    let price = price(&nodes)?;
    say("                         first NodeClaim   all pods run   CPU seconds   peak RSS   nodes   per hour");
    say(&format!(
        "karpenter-controller    {:>5.1} s           {:>4.1} s         {used:>4.1} s        {peak:>4.0} MB     {:>3}   ${price:.2}",
        first.as_secs_f64(),
        all_run.as_secs_f64(),
        nodes.len(),
    ));
    say(TARGET);
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for node in &nodes {
        *types.entry(node.labels().get(labels::INSTANCE_TYPE).cloned().unwrap_or_default()).or_default() += 1;
    }
    say(&format!("resident at the end: {:.0} MB; types: {types:?}", controller.resident()?));
    for line in timeline::steps(client, begun_at).await? {
        say(&line);
    }
    say_used(&programs_before, &programs);
    Ok(())
}

/// Until so many pods run. Heard from a watch: to count them again and again would burden the API server.
async fn run(cluster: &ControlPlane, count: usize) -> Result<()> {
    let pods: Api<PartialObjectMeta<Pod>> = Api::default_namespaced(cluster.client());
    let running = watcher::Config::default().fields("status.phase=Running");
    let mut events = std::pin::pin!(watcher(pods, running).default_backoff());
    let mut names: BTreeSet<String> = BTreeSet::new();
    while names.len() < count {
        match events.next().await.context("the watch of pods ended")? {
            Ok(Event::Init) => names.clear(),
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => drop(names.insert(pod.name_any())),
            Ok(Event::Delete(pod)) => drop(names.remove(&pod.name_any())),
            Ok(Event::InitDone) => {}
            Err(error) => say(&format!("the watch of pods starts again: {error}")),
        }
    }
    Ok(())
}

/// The same pods on nodes that are there, without any controller of ours: no autoscaler can be faster. Some find their place taken by
/// others, since kube-scheduler puts pods where it likes, so a few are not waited for.
async fn again(cluster: &ControlPlane) -> Result<()> {
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    deployments.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    while !pods.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Who cleans up after them goes on for a while.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (programs_before, begun) = (timeline::programs(cluster.folder())?, Instant::now());
    cluster.install(workload::deployments()).await?;
    let most = workload::PODS * 15 / 16;
    tokio::time::timeout(LIMIT, run(cluster, most)).await.with_context(|| format!("{most} pods do not run"))??;
    say(&format!(
        "\nthe same pods on nodes that are there, no controller: {most} run after {:.1} s",
        begun.elapsed().as_secs_f64()
    ));
    say_used(&programs_before, &timeline::programs(cluster.folder())?);
    Ok(())
}

fn say_used(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) {
    let used = after.iter().map(|(name, used)| (name, used - before.get(name).copied().unwrap_or_default()));
    let used: Vec<String> = used.map(|(name, used)| format!("{name} {used:.1}")).collect();
    say(&format!("processor seconds of the control plane: {}", used.join(", ")));
}

/// From all pods to 40 % of them, until nothing changes any more.
async fn scaled_in(cluster: &ControlPlane, controller: &mut Controller) -> Result<()> {
    let client = cluster.client();
    let pools: Api<NodePool> = Api::all(client.clone());
    pools.patch("default", &PatchParams::default(), &Patch::Merge(workload::consolidating())).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let uids = async || -> Result<BTreeSet<String>> {
        let pods = pods.list_metadata(&ListParams::default()).await?.items;
        Ok(pods.iter().filter_map(ResourceExt::uid).collect())
    };
    let price_before = price(&nodes.list(&ListParams::default()).await?.items)?;
    let (old, before, begun) = (uids().await?, controller.cpu()?, Instant::now());
    cluster.install(workload::scaled_in()).await?;
    // Deployments only remove pods, so whoever is new stands in for one that was evicted.
    let mut new: BTreeSet<String> = BTreeSet::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let (mut settled, mut cpu) = (begun, before);
    while settled.elapsed() < QUIET {
        new.extend(uids().await?.into_iter().filter(|uid| !old.contains(uid)));
        let names = nodes.list_metadata(&ListParams::default()).await?.items;
        let names: BTreeSet<String> = names.iter().map(ResourceExt::name_any).collect();
        if names != known {
            known = names;
            (settled, cpu) = (Instant::now(), controller.cpu()?);
        }
        ensure!(begun.elapsed() < LIMIT, "it does not settle in {LIMIT:?}");
        controller.ensure_running()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let pending = pods.list_metadata(&ListParams::default().fields("status.phase=Pending")).await?.items.len();
    let nodes = nodes.list(&ListParams::default()).await?.items;
    let price = price(&nodes)?;
    let evictions = new.len();
    say("\nscaled in to 40 %        settled in   CPU seconds   nodes   per hour   evictions");
    say(&format!(
        "karpenter-controller    {:>4.0} s       {:>4.1} s      {:>3}    ${price:.2}   {evictions}, ${:.2} saved, {pending} pods wait",
        (settled - begun).as_secs_f64(),
        cpu - before,
        nodes.len(),
        price_before - price,
    ));
    say(TARGET_SCALED_IN);
    Ok(())
}

/// How long planning took, what was reconciled and what was asked of the API, as the controller counted it.
fn counted(port: u16) -> Result<Vec<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    let sum = |suffix: &str| -> f64 {
        let name = format!("karpenter_scheduler_scheduling_duration_seconds_{suffix}");
        text.lines().filter(|line| line.starts_with(&name)).filter_map(value).sum()
    };
    let by = |metric: &str, labels: &[&str]| -> String {
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'))) {
            let label = |name: &str| {
                let begins = ['{', ','].map(|before| format!("{before}{name}=\""));
                let rest = begins.iter().find_map(|begin| line.split_once(begin))?.1;
                rest.split('"').next()
            };
            let key: Vec<&str> =
                labels.iter().filter_map(|name| label(name)).filter(|value| !value.is_empty()).collect();
            *counts.entry(key.join(" ")).or_default() += value(line).unwrap_or_default();
        }
        let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0.0).collect();
        counts.sort_by(|a, b| b.1.total_cmp(&a.1));
        counts.iter().map(|(key, count)| format!("{key} {count}")).collect::<Vec<_>>().join(", ")
    };
    Ok(vec![
        format!("planning: {:.0} ms in {} passes", sum("sum") * 1000.0, sum("count")),
        format!("requests: {}", by("client_go_request_duration_seconds_count", &["verb", "resource", "subresource"])),
        format!("reconciles: {}", by("controller_runtime_reconcile_total", &["controller"])),
    ])
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// What the nodes cost per hour, by the list that the controller chose from.
fn price(nodes: &[Node]) -> Result<f64> {
    let types = Catalogue::built_in()?.types;
    let mut sum = 0.0;
    for node in nodes {
        let label =
            |key: &str| node.labels().get(key).with_context(|| format!("{} has no label {key}", node.name_any()));
        let (name, zone, capacity_type) =
            (label(labels::INSTANCE_TYPE)?, label(labels::ZONE)?, label(labels::CAPACITY_TYPE)?);
        let known = types.iter().find(|known| known.name == *name).with_context(|| format!("{name} is unknown"))?;
        let price = known.running_price(zone, capacity_type).with_context(|| format!("{name} is not on offer"))?;
        sum += price.per_hour();
    }
    Ok(sum)
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn say(text: &str) {
    println!("{text}");
}
