//! Nodes whose pods hold devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::devices::{
    Allocation, Ask, Consumer, Count, Device, DeviceCapacity, DeviceClass, DeviceFacts, DeviceId, DeviceRequest,
    GivenDevice, Reach, RequestKind, ResourceClaim, Slice, TemplatePool, TypeDevices, ValidAmounts,
};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::quantity::Quantity;

use crate::testing::{Cluster, instance_type, running, texts};

const DRIVER: &str = "gpu.example.com";

fn device(name: &str) -> Device {
    Device { name: name.to_owned(), ..Device::default() }
}

/// A type whose nodes have these devices.
fn bringing(known: InstanceType, devices: &[&str]) -> InstanceType {
    let pool = TemplatePool {
        driver: DRIVER.to_owned(),
        pool: "own".to_owned(),
        devices: devices.iter().map(|name| device(name)).collect(),
        ..TemplatePool::default()
    };
    InstanceType { devices: TypeDevices { pools: vec![pool], bindings: Vec::new() }, ..known }
}

/// What a node has published; `None`: what can be reached from everywhere.
fn slice(node: Option<&str>, devices: Vec<Device>) -> Arc<Slice> {
    Arc::new(Slice {
        name: format!("of-{}", node.unwrap_or("all")),
        driver: DRIVER.to_owned(),
        pool: node.unwrap_or("all").to_owned(),
        generation: 1,
        parts: 1,
        owner: node.map(ToOwned::to_owned),
        reach: node.map_or(Reach::AllNodes, |node| Reach::Node(node.to_owned())),
        counters: BTreeMap::new(),
        devices,
    })
}

fn memory(gigabytes: i64) -> BTreeMap<String, Quantity> {
    BTreeMap::from([("memory".to_owned(), Quantity::units(gigabytes))])
}

/// A pod that has a device, or a share of one, by a claim of its name.
fn holder(name: &str, cpu: i64) -> PodView {
    running(name, cpu).but(|pod| {
        pod.resource_claims = vec![name.to_owned()];
        pod.uses_devices = true;
    })
}

/// The claim of a pod, on this device of this pool; `share`: so much of it.
fn claim(pod: &str, pool: &str, device: &str, share: Option<i64>) -> Arc<ResourceClaim> {
    let consumed = share.map(memory).unwrap_or_default();
    let ask =
        Ask { class: "gpu".to_owned(), selectors: Vec::new(), count: Count::Exactly(1), capacity: consumed.clone() };
    let id = DeviceId { driver: DRIVER.to_owned(), pool: pool.to_owned(), device: device.to_owned() };
    Arc::new(ResourceClaim {
        id: PodId::new("default", pod),
        requests: vec![DeviceRequest { name: "gpu".to_owned(), kind: RequestKind::Exactly(ask) }],
        constraints: Vec::new(),
        allocation: Some(Allocation {
            devices: vec![GivenDevice { id, consumed }],
            terms: Vec::new(),
            reserved_for: vec![Consumer::Pod { uid: running(pod, 1).uid.to_string() }],
        }),
    })
}

fn with_devices(mut cluster: Cluster, slices: Vec<Arc<Slice>>, claims: Vec<Arc<ResourceClaim>>) -> Cluster {
    let classes = vec![Arc::new(DeviceClass { name: "gpu".to_owned(), selectors: Vec::new() })];
    cluster.snapshot.devices = Some(Arc::new(DeviceFacts { slices, classes, claims }));
    cluster
}

/// DIS-90, DC-182, DC-183: the device of a pod that moves comes from the type of the new node, never from the node that goes; where no
/// type has one, the node stays.
#[test]
fn dc_182_dc_183_the_new_node_brings_the_device() {
    let cluster = |brings: &[&str]| {
        let types = [
            bringing(instance_type("dear", 16, 2.0, &[]), &["d0"]),
            bringing(instance_type("cheap", 4, 1.0, &[]), brings),
        ];
        let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "dear", [holder("x", 1)]);
        with_devices(cluster, vec![slice(Some("a"), vec![device("d0")])], vec![claim("x", "a", "d0", None)])
    };
    assert_eq!(texts(&cluster(&["d0"]).single()), ["replace: [a] -> [1 replacement] cheap"], "DC-182");
    assert!(cluster(&[]).single().commands.is_empty(), "DC-183");
}

/// DIS-90, DC-184: a device that a pod elsewhere has is not free; one that nobody has is.
#[test]
fn dc_184_devices_of_others_are_theirs() {
    let cluster = |held: bool| {
        let types = [instance_type("plain", 4, 1.0, &[])];
        let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "plain", [holder("x", 1)]).node(
            "b",
            "p",
            "plain",
            [if held { holder("y", 1) } else { running("y", 1) }],
        );
        let slices = vec![slice(Some("a"), vec![device("d0")]), slice(Some("b"), vec![device("d1")])];
        let other = held.then(|| claim("y", "b", "d1", None));
        with_devices(cluster, slices, other.into_iter().chain([claim("x", "a", "d0", None)]).collect())
    };
    assert!(cluster(true).single().commands.is_empty(), "DC-184");
    let free = texts(&cluster(false).single());
    assert!(free.contains(&"delete: [a]".to_owned()) || free.contains(&"delete: [b]".to_owned()), "{free:?}");
}

/// DIS-90: what a node that goes has published goes with it, also where others could reach it.
#[test]
fn devices_of_a_node_that_goes_are_gone() {
    let types = [instance_type("plain", 4, 1.0, &[])];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "plain", [holder("x", 1)]).node(
        "b",
        "p",
        "plain",
        [running("y", 1), running("z", 3)],
    );
    let reached = Slice { reach: Reach::AllNodes, ..Slice::clone(&slice(Some("a"), vec![device("d0")])) };
    let cluster = cluster.node("c", "p", "plain", [running("w", 3)]);
    let with = with_devices(cluster, vec![Arc::new(reached)], vec![claim("x", "a", "d0", None)]);
    assert!(with.single().commands.iter().all(|command| command.going[0].node != "a"));
}

/// DC-185: two nodes with a device each give way to one with two.
#[test]
fn dc_185_two_devices_on_one_node() {
    let types = [
        bringing(instance_type("one", 4, 2.0, &[]), &["d0"]),
        bringing(instance_type("two", 4, 3.0, &[]), &["d0", "d1"]),
    ];
    let cluster = Cluster::new(types)
        .pool("p", |pool| pool.budgets = super::cases::budget("100%"))
        .node("a", "p", "one", [holder("x", 2)])
        .node("b", "p", "one", [holder("y", 2)]);
    let slices = ["a", "b"].map(|node| slice(Some(node), vec![device("d0")])).to_vec();
    let claims = vec![claim("x", "a", "d0", None), claim("y", "b", "d0", None)];
    for decided in with_devices(cluster, slices, claims).both() {
        assert_eq!(texts(&decided), ["replace: [a, b] -> [1 replacement] two"], "DC-185");
    }
}

/// DC-186: of a device that is shared only the part of the pod that moves is freed, and it fits there again.
#[test]
fn dc_186_shares_of_a_device() {
    let cluster = |whole: i64| {
        let types = [instance_type("plain", 4, 1.0, &[])];
        let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "plain", [holder("x", 1)]).node(
            "b",
            "p",
            "plain",
            [holder("y", 1), running("z", 1)],
        );
        let amount = DeviceCapacity { value: Quantity::units(whole), default: None, valid: ValidAmounts::default() };
        let capacity = BTreeMap::from([("memory".to_owned(), amount)]);
        let shared = Device { capacity, shared: true, ..device("d0") };
        let claims = vec![claim("x", "all", "d0", Some(10)), claim("y", "all", "d0", Some(4))];
        with_devices(cluster, vec![slice(None, vec![shared])], claims)
    };
    assert_eq!(texts(&cluster(16).single()), ["delete: [a]"], "DC-186");
    assert!(cluster(12).single().commands.iter().all(|command| command.going[0].node != "a"), "the rest is taken");
}
