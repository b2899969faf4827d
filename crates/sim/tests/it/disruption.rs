//! Nodes are taken away on purpose, on virtual time: days that come and go, clusters that are as they should be.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::kinds::NodePool;
use karpenter_sim::chance::Chance;
use karpenter_sim::cloud::{Settings, Swing};
use karpenter_sim::kubelet::Pace;
use karpenter_sim::workloads::Patience;
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::seeds::in_two_threads;

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// What the machines of a world cost an hour.
pub(crate) fn cost(w: &World) -> f64 {
    w.cloud.worth().values().sum()
}

async fn names(w: &World) -> BTreeSet<String> {
    w.claims().await.iter().map(kube::ResourceExt::name_any).collect()
}

/// Lets time pass until no claim has come or gone for this long.
pub(crate) async fn converge(w: &World, quiet: Duration) {
    let mut known = names(w).await;
    let mut calm = Duration::ZERO;
    // Two days are more than any cluster of a test takes.
    for _ in 0..2 * 24 * 60 {
        w.advance(Duration::from_mins(1)).await;
        let now = names(w).await;
        calm = if now == known { calm + Duration::from_mins(1) } else { Duration::ZERO };
        known = now;
        if calm >= quiet && w.unrest().is_none() {
            return;
        }
    }
    panic!("the cluster does not come to rest\n{}", w.journal.tail(60));
}

/// How large a diurnal cluster is, and for how long it is looked at.
#[derive(Debug, Clone, Copy)]
struct Scale {
    hours: u64,
    hour: Duration,
    /// At the busiest hour.
    pods: u32,
    /// CPUs of the machines that may be bought: small ones, so that there are many of them.
    sizes: [u32; 3],
    look_every: Duration,
    /// Between two signs of life of a kubelet.
    heartbeat: Duration,
}

/// The share of a deployment that runs at an hour: least at four in the morning, most at four in the afternoon.
fn level(hour: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an hour of a day")]
    let angle = ((hour % 24) as f64 - 4.0) / 24.0 * std::f64::consts::TAU;
    0.25 + 0.75 * (1.0 - angle.cos()) / 2.0
}

/// Deployments of a diurnal cluster: name, share of the pods, CPU of each.
const SHARES: [(&str, f64, f64); 3] = [("web", 0.6, 0.5), ("api", 0.3, 1.0), ("batch", 0.1, 2.0)];

fn replicas(scale: Scale, share: f64, hour: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of pods")]
    let replicas = (f64::from(scale.pods) * share * level(hour)).round() as u32;
    replicas.max(1)
}

async fn diurnal(seed: u64, scale: Scale) {
    let cloud = Settings { spot_life: Some(scale.hour * 100), ..Settings::default() };
    let sizes = scale.sizes.iter().flat_map(|size| ["c", "s", "m"].map(|of| format!("{of}-{size}x-amd64-linux")));
    let types: Vec<String> = sizes.collect();
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let pool = node_pool("default").consolidate_after("1m").budget("20%");
    let pool = pool.requirement("node.kubernetes.io/instance-type", "In", &types);
    // A silent node is missed as soon as the second sign of life is.
    let pace = Pace { lease: scale.heartbeat, status: scale.heartbeat * 6, ..Pace::default() };
    let patience = Patience { heartbeat: scale.heartbeat * 5 / 2, ..Patience::default() };
    let w = World::seeded(seed).looking_every(scale.look_every).crowd(scale.pods.max(1000) as usize);
    let w = w.cloud(cloud).pace(pace).patience(patience).pool(pool).start().await;
    for (name, share, cpus) in SHARES {
        w.apply(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": name}}},
        }))
        .await;
        w.deploy(name, replicas(scale, share, 0), cpu(&cpus.to_string())).await;
    }
    w.settle().await;
    let (mut most, mut least) = (f64::MIN, f64::MAX);
    let (mut paid, mut needed) = (0.0, 0.0);
    let began = std::time::Instant::now();
    for hour in 1..=scale.hours {
        for (name, share, _) in SHARES {
            w.scale(name, replicas(scale, share, hour)).await;
        }
        if hour % 24 == 11 {
            // A roll-out: every node is of an older template from now on.
            let pools: Api<NodePool> = Api::all(w.client.clone());
            let patch = json!({"spec": {"template": {"metadata": {"labels": {"release": format!("r{hour}")}}}}});
            w.done(pools.patch("default", &PatchParams::default(), &Patch::Merge(patch)).await);
        }
        w.advance(scale.hour).await;
        let (now, wanted) = (cost(&w), SHARES.map(|(_, share, cpus)| f64::from(replicas(scale, share, hour)) * cpus));
        let bound = wanted.iter().sum::<f64>() * w.cloud.cheapest_cpu();
        let (nodes, pods) = (w.nodes().await.len(), w.running_pods().len());
        let (spent, moves, evicted) = (began.elapsed().as_secs(), w.moves(), w.evicted());
        println!(
            "hour {hour:>3}: {pods:>5} pods on {nodes:>4} nodes, ${now:.4}/h, at least ${bound:.4}/h; {moves} commands and \
             {evicted} evictions so far, {spent} s of real time"
        );
        (paid, needed) = (paid + now, needed + bound);
        (most, least) = (most.max(now), least.min(now));
    }
    println!("paid {:.3} times the least possible", paid / needed);
    converge(&w, Duration::from_mins(20)).await;
    let wanted: u32 = SHARES.iter().map(|(_, share, _)| replicas(scale, *share, scale.hours)).sum();
    assert_eq!(w.running_pods().len(), wanted as usize);
    assert!(scale.hours < 24 || least < 0.8 * most, "nights cost as much as days: from ${least} to ${most}");
    // The last eleventh hour of a day.
    let release = (1..=scale.hours).rev().find(|hour| hour % 24 == 11).map(|hour| format!("r{hour}"));
    let old: Vec<String> = w
        .nodes()
        .await
        .iter()
        .filter(|node| node.labels().get("release") != release.as_ref())
        .map(kube::ResourceExt::name_any)
        .collect();
    assert!(old.is_empty(), "of an older template: {old:?}");
}

/// A day, or `KARPENTER_SIM_DAYS=7 KARPENTER_SIM_PODS=20000` as `make week` has it (`KARPENTER_SIM_HOURS` for less): demand rises and falls, spot machines are
/// taken back, a roll-out makes every node drift. Budgets of nodes and pods hold, and money is saved, at every look.
#[test]
fn days_come_and_go() {
    let hours = set("KARPENTER_SIM_DAYS").map(|days| 24 * days).or(set("KARPENTER_SIM_HOURS"));
    let scale = match hours {
        None => Scale {
            hours: 24,
            hour: Duration::from_mins(10),
            pods: 24,
            sizes: [1, 2, 4],
            look_every: Duration::from_secs(2),
            heartbeat: Duration::from_secs(20),
        },
        Some(hours) => Scale {
            hours,
            hour: Duration::from_hours(1),
            pods: u32::try_from(set("KARPENTER_SIM_PODS").unwrap_or(20_000)).unwrap(),
            sizes: [4, 8, 16],
            look_every: Duration::from_secs(30),
            heartbeat: Duration::from_mins(4),
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(diurnal(1, scale));
}

/// A cluster that nobody changes: some deployments of a seed, on whatever the provisioner bought for them.
async fn steady(seed: u64, time: Duration) {
    let mut chance = Chance::about(seed, &["steady"]);
    let cloud = Settings { swing: Swing::NONE, ..Settings::default() };
    let pool = node_pool("default").consolidate_after("0s").budget("100%");
    let w = World::seeded(seed).cloud(cloud).pool(pool).start().await;
    for number in 0..=chance.below(3) {
        let milli = 100 + 100 * chance.below(25);
        let memory = format!("{}Mi", 128 + 128 * chance.below(40));
        let replicas = u32::try_from(1 + chance.below(6)).unwrap();
        w.deploy(&format!("app-{number}"), replicas, cpu(&format!("{milli}m")).memory(&memory)).await;
        if chance.happens(0.5) {
            w.settle().await;
        }
    }
    if chance.happens(0.5) {
        w.settle().await;
        w.scale("app-0", 1).await;
    }
    w.settle().await;
    // From here on only the autoscaler changes anything: no pod is moved twice within an hour, nothing is replaced by its like.
    w.steady();
    let before = cost(&w);
    converge(&w, Duration::from_mins(15)).await;
    let (claims, pods, after) = (names(&w).await, w.running_pods(), cost(&w));
    assert!(after <= before + 1e-9, "seed {seed}: consolidation raised the cost from {before} to {after}");
    w.advance(time).await;
    assert_eq!(names(&w).await, claims, "seed {seed}: a steady cluster was changed\n{}", w.journal.tail(60));
    assert_eq!(w.running_pods(), pods, "seed {seed}: pods of a steady cluster were moved");
}

/// 50 clusters for half an hour each after they have converged, or for `KARPENTER_SIM_STEADY=24` hours as `make soak` has it.
#[test]
fn steady_clusters_stay_as_they_are() {
    let time = set("KARPENTER_SIM_STEADY").map_or(Duration::from_mins(30), Duration::from_hours);
    in_two_threads(1..=50, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(steady(seed, time));
    });
}
