//! Tables per filter, on objects in their JSON form. `tests/it/scheduler` has the comparison with the real program.

mod choice;
mod laws;
mod nodes;
mod order;
mod pods_apart;
mod room_for_others;
mod spreading;
mod storage;
mod words;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use serde_json::{Value, json};

use super::{Cluster, Object, decide, feasible};

/// The objects, in a short form that leaves out what every test would repeat.
fn cluster(objects: &[Value]) -> Cluster {
    objects.iter().map(object).collect()
}

fn object(value: &Value) -> Object {
    macro_rules! parse {
        ($($kind:ident),+) => {
            match value["kind"].as_str().unwrap() {
                $(stringify!($kind) => serde_json::from_value::<$kind>(value.clone()).unwrap().into(),)+
                other => panic!("no kind {other}"),
            }
        };
    }
    parse!(
        Namespace,
        Node,
        Pod,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        VolumeAttachment,
        PodDisruptionBudget
    )
}

/// 4 CPUs, 8 GiB, 10 pods, in a zone.
fn node(name: &str, zone: &str) -> Value {
    let room = json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10"});
    json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
        "spec": {},
        "status": {"allocatable": room},
    })
}

/// A pod of application `app` in namespace `default`.
fn pod(name: &str, app: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "main"}]);
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": {"app": app}});
    json!({"kind": "Pod", "metadata": metadata, "spec": spec})
}

fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn parsed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// The nodes that will do, in one line.
fn fits(objects: &[Value], pod: &Value) -> String {
    let nodes = feasible(&cluster(objects), &parsed(pod)).unwrap();
    nodes.into_iter().collect::<Vec<_>>().join(" ")
}

/// Why there is none, without what is said of preemption.
fn reason(objects: &[Value], pod: &Value) -> String {
    match decide(&cluster(objects), &parsed(pod)) {
        super::Decision::Unschedulable(unfit) => {
            let text = unfit.message;
            let end = [". no new claims", ". not found"].iter().filter_map(|e| text.find(e)).min();
            let text = &text[..end.unwrap_or(text.len())];
            text.split_once(": ").map_or(text, |(_, reason)| reason).to_owned()
        }
        other => panic!("not refused: {other:?}"),
    }
}
