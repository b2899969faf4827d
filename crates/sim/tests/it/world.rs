//! Whole worlds on virtual time.

use std::time::Duration;

use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::ResourceExt as _;

fn mins(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// What the parts say of themselves, for a look at a failure: `KARPENTER_SIM_LOG=debug`.
pub(crate) fn log() {
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
