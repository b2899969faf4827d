//! Whole worlds on virtual time.

use std::time::Duration;

use karpenter_sim::world::{Storm, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::ResourceExt as _;

fn mins(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// What the parts say of themselves, for a look at a failure: `KARPENTER_SIM_LOG=debug`.
fn log() {
    if let Ok(filter) = std::env::var("KARPENTER_SIM_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().without_time().try_init();
    }
}

/// API-72, API-140: from a pending pod to a node and a running pod, through every part.
#[tokio::test(start_paused = true)]
async fn pods_get_nodes_and_run() {
    log();
    let w = World::seeded(7).pool(node_pool("default")).start().await;
    w.deploy("web", 3, cpu("1")).await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 3);
    assert_eq!(w.claims().await.len(), w.nodes().await.len());
    let nodes = w.nodes().await;
    assert!(nodes.iter().all(|node| node.labels()["karpenter.sh/initialized"] == "true"));

    w.scale("web", 12).await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 12);
    assert!(w.nodes().await.len() > nodes.len());
    w.advance(mins(60)).await;
    assert!(w.unrest().is_none(), "and it stays so: {:?}", w.unrest());
}

/// A budget for a deployment of [`World::deploy`].
fn budget(name: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    })
}

/// How much of a life is lived.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    UntilTheStormIsOver,
    Whole,
}

/// A life in short: pods come, a storm blows, pods come and go in it, calm returns and everything is in place.
async fn stormy_life(seed: u64, life: Life) -> World {
    let w = World::seeded(seed).pool(node_pool("default")).start().await;
    w.apply(budget("web")).await;
    w.deploy("web", 4, cpu("1")).await;
    w.deploy("db", 2, cpu("3").memory("4Gi")).await;
    w.settle().await;
    let blow = Storm { lasts: Duration::from_secs(100), ..Storm::default() };
    w.storm(blow).await;
    w.scale("web", 8).await;
    w.scale("db", 1).await;
    w.storm(blow).await;
    if life == Life::Whole {
        w.settle().await;
        assert_eq!(w.running_pods().len(), 9, "seed {seed}");
    }
    w
}

/// One life of a seed, on a runtime of its own.
fn journal_of(seed: u64, life: Life) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { stormy_life(seed, life).await.journal.text() })
}

/// Two runs of one seed are the same to the byte, with everything going wrong that a seed can think of, and calm brings
/// every pod back.
#[test]
fn one_seed_is_one_story() {
    let half = |seeds: std::ops::RangeInclusive<u64>| seeds.map(one_story).collect::<Vec<String>>();
    let stories = std::thread::scope(|scope| {
        let others = scope.spawn(|| half(11..=20));
        let mut stories = half(1..=10);
        stories.extend(others.join().unwrap());
        stories
    });
    assert!(stories.windows(2).all(|pair| pair[0] != pair[1]), "another seed is another story");
    for what in ["is silent", "is taken back", "the autoscaler ends", "AnswerLost", "StaleWatch", "DropWatch"] {
        assert!(stories.iter().any(|story| story.contains(what)), "no seed shows {what:?}");
    }
}

fn one_story(seed: u64) -> String {
    // The second time only the part that is hard: what comes after it is slow, and chance has no say in it.
    let (first, second) = (journal_of(seed, Life::Whole), journal_of(seed, Life::UntilTheStormIsOver));
    if !first.starts_with(&second) {
        let line = first.lines().zip(second.lines()).position(|(a, b)| a != b).unwrap_or(0);
        let around = |text: &str| text.lines().skip(line.saturating_sub(5)).take(8).collect::<Vec<_>>().join("\n");
        panic!("seed {seed} differs at line {line}:\n{}\n---\n{}", around(&first), around(&second));
    }
    first
}

/// `KARPENTER_SIM_SEED=7 cargo test -p karpenter-sim --test it -- replay --nocapture`
#[test]
fn replay() {
    let seed = std::env::var("KARPENTER_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    log();
    println!("{}", journal_of(seed, Life::Whole));
}

/// Storms of more seeds, each once: six, or `KARPENTER_SIM_SEEDS=1000`. A failing one says how to see it again.
#[test]
fn calm_follows_every_storm() {
    let seeds: u64 = std::env::var("KARPENTER_SIM_SEEDS").map_or(6, |count| count.parse().unwrap());
    for seed in 100..100 + seeds {
        journal_of(seed, Life::Whole);
        println!("seed {seed}");
    }
}
