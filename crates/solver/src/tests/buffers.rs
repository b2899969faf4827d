//! Capacity buffers (SC-286 … SC-291).

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::buffer::{BufferReference, BufferView, Shape};
use karpenter_model::pod::{PodId, PodPhase};
use karpenter_model::resources::Resources;

use super::build::{pod, unmanaged};
use super::cluster::{Cluster, Launched, cluster, empty};
use crate::buffers::{self, Provisioning};

fn buffer(name: &str, desired: u32) -> BufferView {
    BufferView {
        id: PodId::new("n", name),
        uid: name.into(),
        reference: Some(BufferReference::PodTemplate { name: "t".into() }),
        replicas: Some(desired),
        percentage: None,
        limits: Resources::new(),
        ready: true,
        desired: Some(desired),
    }
}

/// The virtual pods of the buffer wait.
fn fill(cluster: &mut Cluster, buffer: &BufferView, requests: &str) {
    let shape = Shape { pod: pod().asks(requests).0, workload_replicas: None, generation: None };
    for pod in buffer.virtual_pods(&shape, Timestamp::UNIX_EPOCH) {
        cluster.pending.insert(pod.id.clone(), pod);
    }
}

fn judged(cluster: &Cluster, buffer: &BufferView) -> Provisioning {
    let snapshot = cluster.snapshot();
    buffers::provisioning(buffer, &snapshot, &cluster.plan())
}

/// SC-286, SCH-187, SCH-188: no room, then a node with room for both.
#[test]
fn sc_286_a_buffer_gets_its_room() {
    let two = buffer("b", 2);
    let mut cluster = cluster();
    fill(&mut cluster, &two, "cpu=1");
    assert_eq!(cluster.plan().claims.len(), 1);
    assert_eq!(judged(&cluster, &two), Provisioning::RequiresNewCapacity { on_new_nodes: 2, unplaced: 0 });

    cluster.launched = Launched::Initialized;
    cluster.pass();
    cluster.empty_all();
    fill(&mut cluster, &two, "cpu=1");
    assert_eq!(judged(&cluster, &two), Provisioning::FitsExistingCapacity);
    assert_eq!(Provisioning::FitsExistingCapacity.condition(), Some((true, "FitsExistingCapacity")));
    let counts = buffers::pods_by_node(&cluster.snapshot(), &cluster.plan());
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("test://n0001".to_owned(), 2)]);
}

/// SC-287, SC-288.
#[test]
fn sc_287_288_conditions() {
    let two = buffer("b", 2);
    let mut small = empty();
    small.node(unmanaged("u", "cpu=1 pods=9", ""));
    fill(&mut small, &two, "cpu=1");
    let verdict = judged(&small, &two);
    assert_eq!(verdict, Provisioning::RequiresNewCapacity { on_new_nodes: 0, unplaced: 1 }, "SC-287");
    assert_eq!(verdict.condition(), Some((false, "RequiresNewCapacity")));
    assert_eq!(verdict.message(), "0 pods need new nodes, 1 could not be scheduled");
    for (buffer, want) in [
        (BufferView { ready: false, ..two.clone() }, Some((false, "NotReadyForProvisioning"))),
        (BufferView { desired: Some(0), ..two.clone() }, Some((false, "BufferEmpty"))),
        (BufferView { desired: None, ..two }, Some((false, "BufferEmpty"))),
        (buffer("other", 3), None),
    ] {
        assert_eq!(judged(&small, &buffer).condition(), want, "SC-288");
    }
}

/// SCH-189, SC-289, SC-290, SC-291, Q20, API-111: what is left for events, decisions and nominations.
#[test]
fn sc_289_to_291_only_real_pods_are_told_of() {
    let one = buffer("b", 1);
    let mut cluster = empty();
    cluster.node(unmanaged("a", "cpu=1 pods=9", "")).node(unmanaged("b", "cpu=3 pods=9", ""));
    let real = cluster.add(pod().asks("cpu=2"));
    fill(&mut cluster, &one, "cpu=1");
    let (snapshot, plan) = (cluster.snapshot(), cluster.plan());
    assert_eq!(plan.placed.len(), 2);
    let told = buffers::real_pods_only(&snapshot, &plan);
    assert_eq!(told.placed.keys().collect::<Vec<_>>(), [&real]);
    assert_eq!(told.pods_by_pool(&snapshot).len(), 0);
    assert_eq!(buffers::nominated(&snapshot, &plan).into_iter().collect::<Vec<_>>(), ["b"], "SC-290");
    let counts = buffers::pods_by_node(&snapshot, &plan);
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("a".to_owned(), 1)], "SC-291: a table of its own");
}

/// SC-289: a pool whose pods are all virtual is not told of, and nobody fails or waits for a buffer.
#[test]
fn sc_289_pools_with_virtual_pods_only() {
    let one = buffer("b", 1);
    let mut cluster = cluster();
    fill(&mut cluster, &one, "cpu=1");
    let absurd = buffer("absurd", 1);
    fill(&mut cluster, &absurd, "cpu=512");
    let (snapshot, plan) = (cluster.snapshot(), cluster.plan());
    assert_eq!((plan.pods_by_pool(&snapshot).len(), plan.unplaced.len()), (1, 1));
    let told = buffers::real_pods_only(&snapshot, &plan);
    assert!(told.pods_by_pool(&snapshot).is_empty() && told.unplaced.is_empty());
    assert_eq!(told.claims.len(), 1, "the node is made all the same");
    assert!(told.claims[0].pods.is_empty());
}

/// SCH-190: not pending, so nodes that pods just came to or left are not for them.
#[test]
fn sch_190_virtual_pods_do_not_use_unsettled_nodes() {
    let one = buffer("b", 1);
    let mut cluster = empty();
    let mut busy = unmanaged("u", "cpu=4 pods=9", "");
    busy.unsettled = true;
    cluster.node(busy);
    fill(&mut cluster, &one, "cpu=1");
    assert!(cluster.pending.values().all(|pod| pod.phase != PodPhase::Pending && Arc::strong_count(pod) >= 1));
    assert!(cluster.plan().placed.is_empty());
}
