//! The whole way on the real control plane of this machine: 960 mixed pods that wait, until all of them run (issue 6).
//!
//! `make bench-live`. etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK are started for the run; the
//! release build of `karpenter-controller` runs with its default settings.

#[path = "shared/process.rs"]
mod process;
#[path = "bench_live/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::crd;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::NodeClaim;
use karpenter_model::labels;
use karpenter_testkit::ControlPlane;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};

use self::process::Controller;

const LIMIT: Duration = Duration::from_mins(10);

/// What the target took for pods of the same description on a machine of this kind, and what we promise of it.
const TARGET: &str = "target, for comparison   8.3 s             33 s           12 s          480 MB     118   $24.14";

#[tokio::main]
async fn main() -> Result<()> {
    let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await?;
    let crds = crd::all().into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>()?;
    cluster.apply_crds(crds).await?;
    cluster.install(workload::pool()).await?;
    let mut controller = Controller::start(cluster.kubeconfig(), &[])?;
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

    let before = controller.cpu()?;
    let claims: Api<PartialObjectMeta<NodeClaim>> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let begun = Instant::now();
    cluster.install(workload::deployments()).await?;
    let mut first_claim = None;
    let all_run = loop {
        if first_claim.is_none() && !claims.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            first_claim = Some(begun.elapsed());
        }
        // Counting thousands of pods burdens the API server, so it is done once a second.
        if first_claim.is_some_and(|first| first + Duration::from_secs(1) < begun.elapsed()) {
            let running = pods.list_metadata(&ListParams::default().fields("status.phase=Running")).await?.items.len();
            if running == workload::PODS {
                break begun.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if begun.elapsed() > LIMIT {
            bail!("not all pods run after {LIMIT:?}");
        }
        controller.ensure_running()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let used = controller.cpu()? - before;
    let peak = controller.peak()?;
    let nodes = Api::<Node>::all(client).list(&ListParams::default()).await?.items;
    let price = price(&nodes)?;
    let first = first_claim.context("no NodeClaim was seen")?;
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
    Ok(())
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
