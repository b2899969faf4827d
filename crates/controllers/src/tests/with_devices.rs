//! Devices of the cluster in the passes of the provisioner.

use http::Request;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::Client;
use kube::api::{ListParams, Patch, PatchParams};
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::desk::{Desk, Setup, context_through};
use super::*;

async fn with_devices() -> Desk {
    let features = crate::Features { dynamic_resources: true, ..crate::Features::default() };
    Desk::with(Setup { features, ..Setup::default() }).await
}

async fn add_class(desk: &Desk) {
    let selector = json!({ "cel": { "expression": "device.driver == 'gpu.example.com'" } });
    desk.add::<DeviceClass>(json!({ "metadata": { "name": "gpu" }, "spec": { "selectors": [selector] } })).await;
}

/// One device that every node can use.
async fn add_slice(desk: &Desk) {
    desk.add::<ResourceSlice>(json!({
        "metadata": { "name": "shared" },
        "spec": {
            "driver": "gpu.example.com", "allNodes": true, "devices": [{ "name": "gpu-0" }],
            "pool": { "name": "rack", "generation": 1, "resourceSliceCount": 1 },
        },
    }))
    .await;
}

async fn add_resource_claim(desk: &Desk, name: &str) {
    let request = json!({ "name": "one", "exactly": { "deviceClassName": "gpu" } });
    desk.put::<ResourceClaim>(
        json!({ "metadata": { "name": name }, "spec": { "devices": { "requests": [request] } } }),
    )
    .await;
}

fn using(claim: &str) -> Value {
    json!({ "spec": { "resourceClaims": [{ "name": "gpu", "resourceClaimName": claim }] } })
}

/// What the scheduler writes when it has given the device to a claim; for nobody, so that it keeps it.
async fn give(desk: &Desk, claim: &str, given: bool) {
    let result = json!({ "request": "one", "driver": "gpu.example.com", "pool": "rack", "device": "gpu-0" });
    let allocation = json!({ "devices": { "results": [result] } });
    let api: Api<ResourceClaim> = Api::namespaced(desk.client.clone(), "default");
    let patch = json!({ "status": { "allocation": if given { allocation } else { Value::Null } } });
    api.patch_status(claim, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    desk.look().await;
}

async fn told(desk: &Desk, pod: &str) -> Vec<String> {
    let events: Api<Event> = Api::all(desk.client.clone());
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let about = all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
    about.map(|event| event.reason.unwrap_or_default()).collect()
}

/// SCH-191, SCH-192, SCH-215, SC-304, LIF-10: a pod whose claim does not exist yet waits; once it does, the pod gets a node,
/// which says whose devices it has to wait for. A pod without claims is planned meanwhile.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_resource_claim() {
    let mut desk = with_devices().await;
    desk.add_ready_pool("blue", json!({})).await;
    add_class(&desk).await;
    add_slice(&desk).await;
    desk.add_pending("gpu", using("mine")).await;
    desk.work(30).await;
    assert_eq!((desk.all::<NodeClaim>().await.len(), told(&desk, "gpu").await), (0, vec!["FailedScheduling".into()]));
    desk.add_pending("web", json!({})).await;
    desk.wait(10).await;
    let [plain] = &desk.all::<NodeClaim>().await[..] else { panic!("a claim for the other pod") };
    assert!(!plain.annotations().contains_key("karpenter.sh/requested-dra-drivers"));
    desk.delete::<NodePool>("blue").await;
    desk.wait(60).await;
    desk.add_ready_pool("green", json!({})).await;
    add_resource_claim(&desk, "mine").await;
    desk.wait(20).await;
    let claims = desk.all::<NodeClaim>().await;
    let made: Vec<_> =
        claims.iter().filter_map(|claim| claim.annotations().get("karpenter.sh/requested-dra-drivers")).collect();
    assert_eq!(made, ["gpu.example.com"]);
    assert!(told(&desk, "gpu").await.contains(&"Nominated".to_owned()));
}

/// SCH-194, SC-305: a device that a claim has been given is not given again, also by a process that starts later; when it
/// comes back, whoever waits is planned for.
#[tokio::test(start_paused = true)]
async fn a_device_is_given_once() {
    let mut desk = with_devices().await;
    desk.add_ready_pool("blue", json!({})).await;
    add_class(&desk).await;
    add_slice(&desk).await;
    add_resource_claim(&desk, "theirs").await;
    give(&desk, "theirs", true).await;
    add_resource_claim(&desk, "mine").await;
    desk.add_pending("gpu", using("mine")).await;
    for _ in 0..2 {
        desk.work(30).await;
        assert_eq!(desk.all::<NodeClaim>().await.len(), 0);
    }
    give(&desk, "theirs", false).await;
    desk.wait(20).await;
    assert_eq!(desk.all::<NodeClaim>().await.len(), 1);
}

/// SCH-191, V15-119: where the API does not have the kinds there are no devices, and everybody else is planned for.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_dynamic_resources() {
    let desk = with_devices().await;
    desk.add_ready_pool("blue", json!({})).await;
    desk.add_pending("web", json!({})).await;
    let api = desk.api.clone();
    // Who asks for the group gets the answer for one that nobody has ever heard of.
    let old = tower::service_fn(move |mut request: Request<Body>| {
        if request.uri().path().starts_with("/apis/resource.k8s.io") {
            *request.uri_mut() = "http://localhost/apis/unheard-of.example.com/v1".parse().unwrap();
        }
        api.clone().oneshot(request)
    });
    let ctx = context_through(&desk, &Client::new(old, "default"));
    let running = tokio::spawn(crate::run(ctx.clone()));
    desk.wait(30).await;
    running.abort();
    assert_eq!((desk.all::<NodeClaim>().await.len(), ctx.state().unlisted()), (1, None));
}
