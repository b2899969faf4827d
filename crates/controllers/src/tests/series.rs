//! Series of nodes and pools come and go with what they are about.

use serde_json::json;

use super::desk::Desk;
use super::*;
use crate::metrics::ClusterSeries;

/// Lines that begin and contain so.
fn lines(desk: &Desk, start: &str, with: &str) -> Vec<String> {
    let text = desk.ctx.report.metrics.render(desk.now());
    text.lines().filter(|line| line.starts_with(start) && line.contains(with)).map(ToOwned::to_owned).collect()
}

/// LC-126, LIF-122: a node is managed when it has a claim; its series go with it.
#[tokio::test(start_paused = true)]
async fn series_of_nodes() {
    let desk = Desk::start().await;
    ClusterSeries::follow(&desk.ctx);
    desk.add::<Node>(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } })).await;
    desk.set_ready("n", "True").await;
    let of_node = |with: &str| lines(&desk, "karpenter_nodes_allocatable", with).len();
    assert!(of_node("node_name=\"n\",phase=\"\",managed=\"false\"") > 0);
    desk.add_launched("ours", true, json!({})).await;
    assert!(of_node("node_name=\"ours\",phase=\"\",managed=\"true\"") > 0);
    desk.delete::<Node>("n").await;
    assert_eq!(of_node("node_name=\"n\""), 0);
    assert!(of_node("node_name=\"ours\"") > 0);
}

/// LC-127, LIF-123: a pool that is deleted leaves nothing behind, and a pool of another provider is not ours to tell of.
#[tokio::test(start_paused = true)]
async fn series_of_pools() {
    let desk = Desk::start().await;
    ClusterSeries::follow(&desk.ctx);
    desk.add_pool("blue", json!({ "spec": { "limits": { "cpu": "10" } } })).await;
    desk.set_status::<NodePool>("blue", json!({ "resources": { "cpu": "4" } })).await;
    let class = json!({ "group": "other.example.com", "kind": "OtherNodeClass", "name": "default" });
    desk.add_pool(
        "foreign",
        json!({ "spec": { "limits": { "cpu": "10" }, "template": { "spec": { "nodeClassRef": class } } } }),
    )
    .await;
    let of_pool = |pool: &str| {
        ["limit", "usage", "cost_total"]
            .map(|metric| lines(&desk, &format!("karpenter_nodepools_{metric}"), &format!("nodepool=\"{pool}\"")).len())
    };
    assert_eq!((of_pool("blue"), of_pool("foreign")), ([1, 1, 1], [0, 0, 0]));
    desk.delete::<NodePool>("blue").await;
    assert_eq!(of_pool("blue"), [0, 0, 0]);
}
