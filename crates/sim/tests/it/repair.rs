//! Nodes that are not well: booted again, replaced, or left alone because too many are.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use karpenter_controllers::Features;
use karpenter_sim::fleet::{Ailment, Health, Machine};
use karpenter_sim::world::{Builder, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

/// Lets time pass in steps of some seconds until something is so. Two hours are more than any toleration.
pub(crate) async fn eventually(w: &World, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2 * 60 * 12 {
        if holds().await {
            return;
        }
        w.advance(Duration::from_secs(5)).await;
    }
    panic!("not within two hours: {what}\n{}", w.journal.tail(40));
}

fn repairing(seed: u64) -> Builder {
    World::seeded(seed).features(Features { static_capacity: true, repair: true, ..Features::default() })
}

/// From now on the kernel of this machine hangs, as its kubelet says.
pub(crate) fn hang(w: &World, id: &str) {
    let ailment = Ailment { status: "True".into(), reason: "Hangs".into(), since: w.clock.now() };
    w.excuse();
    assert!(w.fleet.change(id, |machine| drop(machine.ailments.insert("KernelDeadlock".into(), ailment))));
}

fn boots(w: &World) -> BTreeMap<String, String> {
    w.fleet.all().into_iter().map(|machine| (machine.provider_id, machine.boot_id)).collect()
}

/// V15-47, V15-53, V15-56, V15-72: after its toleration the node is drained and booted; it stays the machine of its claim.
#[tokio::test(start_paused = true)]
async fn a_kernel_that_hangs_is_booted_again() {
    let w = repairing(51).pool(node_pool("default")).start().await;
    w.deploy("web", 3, cpu("1")).await;
    w.settle().await;
    let (claims, before) = (w.claims().await, boots(&w));
    let id = claims[0].status.as_ref().unwrap().provider_id.clone().unwrap();
    hang(&w, &id);
    w.advance(Duration::from_mins(9)).await;
    assert_eq!(boots(&w), before, "it may get well by itself");
    eventually(&w, "it is booted", async || boots(&w)[&id] != before[&id]).await;
    w.settle().await;
    assert!(!w.fleet.any(Machine::is_sick));
    let names =
        |claims: &[karpenter_api::kinds::NodeClaim]| claims.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>();
    let after = w.claims().await;
    assert!(names(&after).contains(&claims[0].name_any()), "{:?}", names(&after));
    assert_eq!(w.running_pods().len(), 3);
    w.advance(Duration::from_mins(30)).await;
    let rebooted = boots(&w)[&id].clone();
    w.advance(Duration::from_hours(1)).await;
    assert_eq!(boots(&w)[&id], rebooted, "once is enough");
}

/// V15-25, V15-40: a node that is not ready for longer than its toleration is replaced.
#[tokio::test(start_paused = true)]
async fn a_sick_node_is_replaced() {
    let w = repairing(52).pool(node_pool("default")).start().await;
    w.deploy("web", 3, cpu("1")).await;
    w.settle().await;
    let claim = w.claims().await[0].clone();
    let id = claim.status.as_ref().unwrap().provider_id.clone().unwrap();
    w.excuse();
    w.fleet.change(&id, |machine| machine.health = Health::NotReady("Sick".into()));
    w.advance(Duration::from_mins(9)).await;
    assert!(w.cloud.running().contains_key(&id), "it may get well by itself");
    eventually(&w, "its machine is gone", async || !w.cloud.running().contains_key(&id)).await;
    w.settle().await;
    assert!(w.claims().await.iter().all(|known| known.name_any() != claim.name_any()));
    assert_eq!(w.running_pods().len(), 3);
}

/// V15-23, V15-41: of ten nodes two may be sick; with a third one nobody is touched, until one is well again.
#[tokio::test(start_paused = true)]
async fn too_many_sick_nodes_are_left_alone() {
    let w = repairing(53).pool(node_pool("fixed").replicas(10).budget("100%")).start().await;
    eventually(&w, "ten nodes", async || w.nodes().await.len() == 10 && w.unrest().is_none()).await;
    let before = boots(&w);
    let ids: Vec<String> = before.keys().take(3).cloned().collect();
    for id in &ids {
        hang(&w, id);
    }
    w.advance(Duration::from_mins(40)).await;
    assert_eq!(boots(&w), before);
    let events: Api<Event> = Api::all(w.client.clone());
    let all = events.list(&ListParams::default()).await.unwrap().items;
    assert!(all.iter().any(|event| event.reason.as_deref() == Some("NodeRepairBlocked")), "nobody is told");
    let now = w.clock.now();
    w.fleet.change(&ids[0], |machine| machine.heal(now));
    eventually(&w, "the others are booted", async || ids[1..].iter().all(|id| boots(&w).get(id) != before.get(id)))
        .await;
    w.settle().await;
    assert_eq!(boots(&w)[&ids[0]], before[&ids[0]], "who is well again is left alone");
}
