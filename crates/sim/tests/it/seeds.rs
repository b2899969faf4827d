//! Lives in a storm, one per seed: everything goes wrong that a seed can think of, then calm returns and everything has to be
//! in place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_sim::chance::Chance;
use karpenter_sim::cloud::{Settings, Stock, Swing};
use karpenter_sim::journal::Journal;
use karpenter_sim::world::{Storm, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::disruption::{converge, cost};
use crate::world::log;

/// What people do while the storm blows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plot {
    /// Only pods come and go.
    Scale,
    /// A claim is deleted.
    DeleteClaim,
    /// A node is deleted.
    DeleteNode,
    /// The pool goes, another one takes over.
    DeletePool,
    /// A pool of a fixed size changes that size.
    Static,
    /// A machine vanishes.
    LoseMachine,
    /// Nodes are consolidated all the time.
    Consolidate,
    /// The template of the pool changes, and every node is of an older one.
    Drift,
}

const PLOTS: [Plot; 6] =
    [Plot::Scale, Plot::DeleteClaim, Plot::DeleteNode, Plot::DeletePool, Plot::Static, Plot::LoseMachine];
/// Of every fifth life: nodes are taken away on purpose.
const MOVES: [Plot; 4] = [Plot::Consolidate, Plot::Consolidate, Plot::Drift, Plot::Drift];

impl Plot {
    /// Nodes are taken away on purpose.
    fn moves(self) -> bool {
        matches!(self, Self::Consolidate | Self::Drift)
    }
}

/// How much of a life is lived.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    UntilTheStormIsOver,
    Whole,
}

fn budget(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    })
}

/// The cloud of a seed: some have little in stock, some are slow, some take spot machines back.
fn cloud(chance: &mut Chance) -> Settings {
    let mut cloud = Settings::default();
    match chance.below(4) {
        0 => cloud.stock = Stock::Drawn { spot: (0, 1), on_demand: (0, 2) },
        1 => cloud.registration = (Duration::from_secs(30), Duration::from_mins(4)),
        2 => cloud.spot_life = Some(Duration::from_mins(30)),
        _ => {}
    }
    cloud
}

fn command(seed: u64) -> String {
    format!("KARPENTER_SIM_SEED={seed} cargo test -p karpenter-sim --test it -- seeds::replay --nocapture")
}

async fn life(seed: u64, life: Life, journal: Arc<Journal>) -> World {
    let mut chance = Chance::about(seed, &["life"]);
    let plot = *chance.pick(&PLOTS).unwrap();
    let plot = if seed % 5 == 4 { *chance.pick(&MOVES).unwrap() } else { plot };
    // One in a hundred is larger and blows longer.
    let large = seed.is_multiple_of(100);
    let pods = if large { 20 } else { 4 };
    let mut cloud = cloud(&mut chance);
    let mut pool = node_pool("default").limit("cpu", "60");
    if plot.moves() {
        // Prices and machines that stay: what is moved in the end is moved because of the plot.
        (cloud.swing, cloud.spot_life) = (Swing::NONE, None);
        pool = pool.budget(chance.pick(&["1", "50%", "100%"]).unwrap());
    }
    if plot == Plot::Consolidate {
        pool = pool.consolidate_after("30s");
    }
    let forever = cloud.spot_life.is_none();
    let mut world = World::seeded(seed).journal(journal).replayed_by(command(seed)).cloud(cloud).pool(pool);
    if seed % 3 == 1 {
        world = world.two_replicas();
    }
    if plot == Plot::DeletePool {
        world = world.pool(node_pool("second").label("tier", "second"));
    }
    if plot == Plot::Static {
        world = world.pool(node_pool("fixed").replicas(2));
    }
    let w = world.start().await;
    w.journal.write(w.clock.now(), "world", &format!("a life of {plot:?}"));
    w.apply(budget("web")).await;
    w.deploy("web", pods / 2, cpu("1")).await;
    w.deploy("db", 2, cpu("3").memory("4Gi")).await;
    w.settle().await;
    let lasts = if large { Duration::from_mins(10) } else { Duration::from_secs(75) };
    let blow = Storm { lasts, every: Duration::from_secs(10), ..Storm::default() };
    w.storm(blow).await;
    w.scale("web", pods).await;
    w.scale("db", 1).await;
    act(&w, plot).await;
    w.storm(blow).await;
    if life == Life::Whole {
        w.settle().await;
        come_to_rest(&w, plot).await;
        assert_eq!(w.running_pods().len(), pods as usize + 1, "seed {seed}");
        assert_end(&w, plot).await;
        if seed.is_multiple_of(10) && forever {
            // Nothing comes and goes in calm weather.
            let names = async || w.claims().await.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
            let before = names().await;
            w.advance(Duration::from_mins(20)).await;
            assert_eq!(names().await, before, "seed {seed}\n{}", w.journal.tail(60));
        }
    }
    w
}

async fn act(w: &World, plot: Plot) {
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    let pools: Api<NodePool> = Api::all(w.client.clone());
    match plot {
        Plot::Scale | Plot::Consolidate => {}
        Plot::DeleteClaim => {
            if let Some(claim) = w.claims().await.first() {
                w.done(claims.delete(&claim.name_any(), &DeleteParams::default()).await);
            }
        }
        Plot::DeleteNode => {
            let nodes: Api<Node> = Api::all(w.client.clone());
            if let Some(node) = w.nodes().await.first() {
                w.done(nodes.delete(&node.name_any(), &DeleteParams::default()).await);
            }
        }
        Plot::DeletePool => w.done(pools.delete("default", &DeleteParams::background()).await),
        Plot::Static => {
            let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
            w.done(pools.patch("fixed", &PatchParams::default(), &patch).await);
        }
        Plot::Drift => {
            let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"release": "next"}}}}}));
            w.done(pools.patch("default", &PatchParams::default(), &patch).await);
        }
        Plot::LoseMachine => {
            if let Some(id) = w.cloud.running().keys().next() {
                w.lose(id);
            }
        }
    }
}

/// What is moved on purpose is moved, also after everything is in its place.
async fn come_to_rest(w: &World, plot: Plot) {
    if plot.moves() {
        let before = cost(w);
        converge(w, Duration::from_mins(5)).await;
        let after = cost(w);
        assert!(plot == Plot::Drift || after <= before + 1e-9, "seed {}: from ${before} to ${after}", w.seed());
        if w.moves() > 0 {
            w.journal.write(w.clock.now(), "world", "nodes were taken away on purpose");
        }
    }
}

/// What the plot wanted is so in the end.
async fn assert_end(w: &World, plot: Plot) {
    let of = async |pool: &str| {
        w.claims()
            .await
            .iter()
            .filter(|claim| claim.labels().get("karpenter.sh/nodepool").is_some_and(|p| p == pool))
            .count()
    };
    match plot {
        Plot::DeletePool => assert_eq!(of("default").await, 0, "seed {}", w.seed()),
        Plot::Static => assert_eq!(of("fixed").await, 1, "seed {}", w.seed()),
        Plot::Consolidate => assert_unmarked(w).await,
        Plot::Drift => {
            let old = |node: &&Node| node.labels().get("release").is_none_or(|release| release != "next");
            let left = async || w.nodes().await.iter().filter(old).count();
            // What a storm made fail is not tried again at once.
            for _ in 0..60 {
                if left().await == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            assert_eq!(left().await, 0, "seed {}\n{}", w.seed(), w.journal.tail(60));
            tokio::time::sleep(Duration::from_mins(2)).await;
            assert_unmarked(w).await;
        }
        _ => {}
    }
}

/// Nothing is left of commands.
async fn assert_unmarked(w: &World) {
    let chosen = |claim: &&NodeClaim| claim.annotations().keys().any(|key| key.contains("disruption-command"));
    assert_eq!(w.claims().await.iter().filter(chosen).count(), 0, "seed {}", w.seed());
    let tainted = |node: &&Node| {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    };
    assert_eq!(w.nodes().await.iter().filter(tainted).count(), 0, "seed {}", w.seed());
}

/// One life of a seed, on a runtime of its own.
fn lived(seed: u64, how: Life, journal: &Arc<Journal>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { drop(life(seed, how, journal.clone()).await) });
}

fn journal_of(seed: u64, how: Life) -> String {
    let journal = Arc::default();
    lived(seed, how, &journal);
    journal.text()
}

/// Does the work for each number with two threads; which of them takes which makes no difference.
pub(crate) fn in_two_threads(numbers: impl Iterator<Item = u64>, work: impl Fn(u64) + Sync) {
    let numbers: Vec<u64> = numbers.collect();
    let next = AtomicU64::new(0);
    let half = || {
        while let Some(number) = numbers.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap()) {
            work(*number);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(half);
        half();
    });
}

/// Two runs of one seed are the same to the byte.
#[test]
fn one_seed_is_one_story() {
    let stories: Mutex<BTreeMap<u64, String>> = Mutex::default();
    in_two_threads(1..=8, |seed| drop(stories.lock().unwrap().insert(seed, one_story(seed))));
    let stories = stories.into_inner().unwrap();
    assert_eq!(stories.len(), 8);
    let texts: Vec<&String> = stories.values().collect();
    assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "another seed is another story");
}

fn one_story(seed: u64) -> String {
    // The second time only the part that is hard: what comes after it is slow, and chance has no say in it.
    let (first, second) = (journal_of(seed, Life::Whole), journal_of(seed, Life::UntilTheStormIsOver));
    // A world that ends there says how it ends.
    let over = "world: the storm is over\n";
    let second = &second[..second.find(over).expect("storms end") + over.len()];
    if !first.starts_with(second) {
        let line = first.lines().zip(second.lines()).position(|(a, b)| a != b).unwrap_or(0);
        let around = |text: &str| text.lines().skip(line.saturating_sub(5)).take(8).collect::<Vec<_>>().join("\n");
        panic!("seed {seed} differs at line {line}:\n{}\n---\n{}", around(&first), around(second));
    }
    first
}

/// `KARPENTER_SIM_SEED=7 cargo test -p karpenter-sim --test it -- replay --nocapture`
#[test]
fn replay() {
    let seed = std::env::var("KARPENTER_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    log();
    let journal = Arc::default();
    let end = catch_unwind(AssertUnwindSafe(|| lived(seed, Life::Whole, &journal)));
    println!("{}", journal.text());
    if let Err(panic) = end {
        resume_unwind(panic);
    }
}

/// What a fault leaves in a journal. Each of them has to happen to somebody.
const FAULTS: [&str; 21] = [
    "InternalError",
    "Conflict",
    "Throttled",
    "Latency",
    "RequestLost",
    "AnswerLost",
    "DropWatch",
    "StaleWatch",
    "sold out",
    "is silent",
    "is not well",
    "is taken back",
    "clock of autoscaler jumps",
    "clock of autoscaler-2 jumps",
    "autoscaler is killed",
    "autoscaler-1 is killed",
    "is told to end",
    "is cut off",
    "lost the lease",
    "the lease cannot be written",
    "nodes were taken away on purpose",
];

/// From 100 on; `300..400` is a part of them.
fn chosen() -> Range<u64> {
    let text = std::env::var("KARPENTER_SIM_SEEDS").unwrap_or_else(|_| "500".to_owned());
    match text.split_once("..") {
        Some((first, end)) => first.parse().unwrap()..end.parse().unwrap(),
        None => 100..100 + text.parse::<u64>().unwrap(),
    }
}

/// 500 seeds, or `KARPENTER_SIM_SEEDS=5000` of them as `make soak` does. Every seed is tried, and each that fails says how to
/// see it again.
#[test]
fn calm_follows_every_storm() {
    let seeds = chosen();
    let count = seeds.end - seeds.start;
    let failed: Mutex<Vec<u64>> = Mutex::default();
    let seen: Mutex<BTreeMap<&str, u64>> = Mutex::new(FAULTS.iter().map(|fault| (*fault, 0)).collect());
    in_two_threads(seeds, |seed| {
        let Ok(journal) = catch_unwind(AssertUnwindSafe(|| journal_of(seed, Life::Whole))) else {
            println!("replay: {}", command(seed));
            failed.lock().unwrap().push(seed);
            return;
        };
        for (fault, seeds) in seen.lock().unwrap().iter_mut() {
            *seeds += u64::from(journal.contains(fault));
        }
    });
    let seen = seen.into_inner().unwrap();
    println!("{count} seeds; in how many of them each fault happened: {seen:#?}");
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} seeds failed: {failed:?}", failed.len());
    if count >= 100 {
        assert!(seen.values().all(|seeds| *seeds > 0), "some fault never happened: {seen:#?}");
    }
}
