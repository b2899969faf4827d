//! Whole worlds on virtual time.

use std::time::Duration;

use karpenter_apiserver::{Fault, Rule, Verb};
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

/// Who sees nodes late places pods on one that is being drained, and each of them is told to go. Time passes meanwhile, so that
/// the taint is seen at last; for seeds 300 and 335 it stood still.
#[tokio::test(start_paused = true)]
async fn pods_leave_a_node_that_is_seen_late() {
    log();
    let w = World::seeded(7).pool(node_pool("default")).start().await;
    w.deploy("web", 2, cpu("1")).await;
    w.settle().await;
    let late = Duration::from_secs(20);
    w.api.add_fault(Rule::new(Fault::StaleWatch { late }).verb(Verb::Watch).kind("Node"));
    // By then every watch has begun anew.
    w.advance(mins(6)).await;
    let before: Vec<String> = w.claims().await.iter().map(kube::ResourceExt::name_any).collect();
    w.remove_claims().await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 2);
    assert!(w.claims().await.iter().all(|claim| !before.contains(&claim.name_any())));
    let scheduled = w.journal.text().matches("/binding 201").count();
    assert!(scheduled > 4, "none was placed on the node that was drained: {scheduled}");
}
