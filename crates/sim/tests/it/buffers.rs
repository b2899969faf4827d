//! CapacityBuffers in a whole world: room that is kept, taken and made again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, PodTemplate};
use karpenter_api::kinds::CapacityBuffer;
use karpenter_controllers::Features;
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

fn gate() -> Features {
    Features { capacity_buffers: true, ..Features::default() }
}

async fn world(seed: u64) -> World {
    World::seeded(seed).in_reference_order().pool(node_pool("default")).features(gate()).start().await
}

fn buffer(spec: &Value) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"}, "spec": spec})
}

fn template(cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "one", "namespace": "default"},
        "template": {"metadata": {"labels": {"app": "spare"}}, "spec": {"containers": [
            {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}}})
}

fn by_template(replicas: u32) -> Value {
    buffer(&json!({"podTemplateRef": {"name": "one"}, "replicas": replicas}))
}

async fn get(w: &World) -> CapacityBuffer {
    Api::namespaced(w.client.clone(), "default").get("spare").await.unwrap()
}

/// `True FitsExistingCapacity`, or nothing.
async fn condition(w: &World, type_: &str) -> String {
    let status = get(w).await.status.unwrap_or_default();
    let found = status.conditions.into_iter().flatten().find(|condition| condition.type_ == type_);
    found.map(|found| format!("{:?} {}", found.status, found.reason)).unwrap_or_default()
}

async fn advance(w: &World, minutes: u64) {
    w.advance(Duration::from_mins(minutes)).await;
}

/// CPUs of all nodes that no pod has asked for.
async fn free_cpu(w: &World) -> f64 {
    let number = |quantity: &str| quantity.parse::<karpenter_model::quantity::Quantity>().unwrap().as_f64();
    let nodes = w.nodes().await;
    let all: f64 =
        nodes.iter().map(|node| number(&node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["cpu"].0)).sum();
    let pods = w.pods().await;
    let asked = pods.iter().flat_map(|pod| &pod.spec.as_ref().unwrap().containers);
    let asked: f64 =
        asked.map(|one| number(&one.resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0)).sum();
    all - asked
}

/// SC-286, SC-290, API-106, API-108, API-110, API-111, SCH-11, SCH-28, SCH-184, SCH-188: a buffer of three, its room taken
/// by real pods, and made again.
#[tokio::test(start_paused = true)]
async fn room_is_kept_taken_and_made_again() {
    let w = world(5).await;
    w.apply(template("1")).await;
    w.apply(by_template(3)).await;
    advance(&w, 3).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "True Resolved");
    assert_eq!(condition(&w, "Provisioning").await, "True FitsExistingCapacity");
    let status = get(&w).await.status.unwrap();
    assert_eq!((status.replicas, status.pod_template_ref.unwrap().name.as_str()), (Some(3), "one"));
    let kept = w.nodes().await.len();
    assert!(kept >= 1 && free_cpu(&w).await >= 3.0, "{kept} nodes");
    assert!(w.pods().await.is_empty(), "the pods exist in memory only");

    w.deploy("web", 2, cpu("1")).await;
    w.advance(Duration::from_secs(5)).await;
    assert_eq!(w.running_pods().len() + w.pods().await.len(), 4, "they need not wait for a node");
    w.settle().await;
    advance(&w, 3).await;
    assert!(w.nodes().await.len() > kept || free_cpu(&w).await >= 3.0);
    assert!(free_cpu(&w).await >= 3.0, "the room is made again");
    assert_eq!(condition(&w, "Provisioning").await, "True FitsExistingCapacity");

    let events: Api<Event> = Api::all(w.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let about =
        |event: &&Event| event.involved_object.name.as_deref().is_some_and(|name| name.contains("capacity-buffer"));
    assert_eq!(events.iter().filter(about).count(), 0, "nobody is told about pods that do not exist");
}

/// V15-108, VC-116: without a buffer, or without what it refers to, no room is made.
#[tokio::test(start_paused = true)]
async fn room_is_given_up_with_the_buffer() {
    let w = world(6).await;
    w.apply(template("1")).await;
    w.apply(by_template(2)).await;
    advance(&w, 3).await;
    assert_eq!(w.nodes().await.len(), 1);
    w.remove_claims().await;
    advance(&w, 5).await;
    assert_eq!(w.nodes().await.len(), 1, "a lost node is replaced");

    let templates: Api<PodTemplate> = Api::namespaced(w.client.clone(), "default");
    templates.delete("one", &DeleteParams::default()).await.unwrap();
    w.advance(Duration::from_secs(20)).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "False PodTemplateNotFound");
    assert_eq!(condition(&w, "Provisioning").await, "False NotReadyForProvisioning");
    assert_eq!(get(&w).await.status.unwrap().replicas, Some(2), "the last number stays");
    w.remove_claims().await;
    advance(&w, 5).await;
    assert_eq!(w.nodes().await.len(), 0, "nobody asks for the room any more");

    w.apply(template("1")).await;
    advance(&w, 3).await;
    assert_eq!((w.nodes().await.len(), condition(&w, "ReadyForProvisioning").await), (1, "True Resolved".to_owned()));
    let buffers: Api<CapacityBuffer> = Api::namespaced(w.client.clone(), "default");
    buffers.delete("spare", &DeleteParams::default()).await.unwrap();
    w.advance(Duration::from_secs(20)).await;
    w.remove_claims().await;
    advance(&w, 5).await;
    assert_eq!(w.nodes().await.len(), 0);
}

/// SC-278, SC-282, SC-283, API-103, API-109, V15-108: a share of a workload, which grows with it.
#[tokio::test(start_paused = true)]
async fn a_share_of_a_workload() {
    let w = world(7).await;
    let reference = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    w.apply(buffer(&json!({"scalableRef": reference, "percentage": 50}))).await;
    w.advance(Duration::from_secs(10)).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "False ScalableRefNotFound");
    w.deploy("web", 4, cpu("1")).await;
    w.settle().await;
    advance(&w, 2).await;
    let replicas = async || get(&w).await.status.unwrap().replicas;
    assert_eq!(replicas().await, Some(2));
    w.scale("web", 6).await;
    w.advance(Duration::from_secs(10)).await;
    assert_eq!(replicas().await, Some(3), "at once, not after the next poll");
    w.settle().await;

    let buffers: Api<CapacityBuffer> = Api::namespaced(w.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"scalableRef": {"kind": "Job"}}}));
    buffers.patch("spare", &PatchParams::default(), &patch).await.unwrap();
    w.advance(Duration::from_secs(10)).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "False ResolutionFailed");
    assert_eq!(replicas().await, Some(3));
    let patch = Patch::Merge(json!({"spec": {"scalableRef": null, "replicas": 0, "percentage": null}}));
    buffers.patch("spare", &PatchParams::default(), &patch).await.unwrap();
    w.advance(Duration::from_secs(10)).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "False ResolutionFailed", "there is no reference at all");
    w.apply(template("1")).await;
    let patch = Patch::Merge(json!({"spec": {"podTemplateRef": {"name": "one"}}}));
    buffers.patch("spare", &PatchParams::default(), &patch).await.unwrap();
    w.advance(Duration::from_secs(20)).await;
    assert_eq!(condition(&w, "ReadyForProvisioning").await, "True Resolved");
    assert_eq!(condition(&w, "Provisioning").await, "False BufferEmpty");
}

/// SCH-186, D7: a new process finds the buffers again and makes no second room.
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_room() {
    let w = world(8).await;
    w.apply(template("2")).await;
    w.apply(by_template(3)).await;
    advance(&w, 3).await;
    let names = async || -> Vec<String> { w.nodes().await.iter().map(kube::ResourceExt::name_any).collect() };
    let before = names().await;
    w.start_autoscaler();
    advance(&w, 3).await;
    assert_eq!(names().await, before);
    assert_eq!(condition(&w, "Provisioning").await, "True FitsExistingCapacity");
    assert!(w.claims().await.iter().all(|claim| !claim.name_any().is_empty()));
}

/// API-98, DIS-189: with the gate off nobody looks at them.
#[tokio::test(start_paused = true)]
async fn without_the_gate_buffers_mean_nothing() {
    let w = World::seeded(9).pool(node_pool("default")).start().await;
    w.apply(template("1")).await;
    w.apply(by_template(3)).await;
    advance(&w, 3).await;
    assert_eq!((w.nodes().await.len(), condition(&w, "ReadyForProvisioning").await), (0, String::new()));
}
