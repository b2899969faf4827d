//! Machines that do not become nodes.

use std::time::Duration;

use karpenter_sim::fleet::Health;
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::ResourceExt as _;

/// LIF-32, LC-34: a machine whose kubelet never says a word is waited for, for a quarter of an hour; then it is given up,
/// switched off, and its pods get another one.
#[tokio::test(start_paused = true)]
async fn a_machine_that_never_joins_is_given_up() {
    let w = World::seeded(11).pool(node_pool("default")).start().await;
    w.deploy("web", 2, cpu("1")).await;
    while w.fleet.all().is_empty() {
        w.advance(Duration::from_secs(1)).await;
    }
    let dead = w.fleet.all()[0].provider_id.clone();
    assert!(w.fleet.change(&dead, |machine| machine.health = Health::Silent));
    let first = w.claims().await[0].name_any();

    w.advance(Duration::from_mins(14)).await;
    let claims: Vec<String> = w.claims().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(claims, [first.as_str()], "it is waited for, and nothing else is launched meanwhile");
    assert!(w.running_pods().is_empty());

    w.settle().await;
    assert_eq!(w.running_pods().len(), 2);
    let claims: Vec<String> = w.claims().await.iter().map(ResourceExt::name_any).collect();
    assert!(claims.len() == 1 && claims[0] != first, "{claims:?}");
    assert!(w.fleet.get(&dead).is_none_or(|machine| !machine.on), "nobody pays for it any more");
}
