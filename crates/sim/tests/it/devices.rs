//! Pods that ask for devices, in a whole world: a cloud that knows what its machines bring, a driver that publishes it once they run, and
//! somebody who gives devices to pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::NodeClaim;
use karpenter_controllers::{Batching, Context, Features, Observability, Options, PlanningOptions};
use karpenter_model::claim::ClaimView;
use karpenter_model::devices::{Device, SliceTemplate, TypeDevices};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::INSTANCE_TYPE;
use karpenter_model::pool::PoolView;
use karpenter_platform::{CallError, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError};
use karpenter_sim::world::World;
use karpenter_testkit::build::node_pool;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const DRIVER: &str = "gpu.example.com";
const SCHEDULER: &str = "gives-devices";
const DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
const PER_MACHINE: usize = 2;

/// Machines of one family have two devices; the others cost less.
fn has_devices(instance_type: &str) -> bool {
    instance_type.starts_with("m-")
}

fn names_of_devices() -> impl Iterator<Item = String> {
    (0..PER_MACHINE).map(|number| format!("gpu-{number}"))
}

#[derive(Debug)]
struct WithDevices {
    cloud: Arc<dyn CloudProvider>,
}

#[async_trait]
impl CloudProvider for WithDevices {
    karpenter_platform::same_facts_as!(cloud);

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.cloud.create(claim).await
    }
    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.cloud.delete(claim).await
    }
    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.cloud.get(provider_id).await
    }
    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        self.cloud.find(claim).await
    }
    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.cloud.list().await
    }
    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        let mut types = InstanceTypes::clone(&*self.cloud.instance_types(pool).await?);
        for known in types.iter_mut().filter(|known| has_devices(&known.name)) {
            let devices = names_of_devices().map(|name| Device { name, ..Device::default() }).collect();
            let slice =
                SliceTemplate { driver: DRIVER.into(), pool: "gpus".into(), devices, ..SliceTemplate::default() };
            known.devices = TypeDevices::described(vec![slice], Vec::new());
        }
        Ok(Arc::new(types))
    }
}

type InstanceTypes = Vec<InstanceType>;

/// The production controllers with that cloud.
fn autoscaler(w: &World) -> JoinHandle<()> {
    let options = Options {
        policy: w.cloud.label_policy(),
        batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
        planning: PlanningOptions::default(),
        cores: 1,
        observability: Observability::Off,
        features: Features { dynamic_resources: true, ..Features::default() },
    };
    let cloud = Arc::new(WithDevices { cloud: w.cloud.clone() });
    tokio::spawn(karpenter_controllers::run(Arc::new(Context::new(w.client.clone(), cloud, w.clock.clone(), options))))
}

async fn all<K>(client: &Client) -> Vec<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Api::all(client.clone()).list(&ListParams::default()).await.unwrap().items
}

/// Publishes the devices of every node that has some, once.
async fn publish(client: &Client) {
    let published: BTreeSet<String> = all::<ResourceSlice>(client).await.iter().map(ResourceExt::name_any).collect();
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    for node in all::<Node>(client).await {
        let name = node.name_any();
        if !has_devices(&node.labels()[INSTANCE_TYPE]) || published.contains(&name) {
            continue;
        }
        let devices: Vec<Value> = names_of_devices().map(|name| json!({ "name": name })).collect();
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid() });
        let slice = json!({
            "metadata": { "name": name, "ownerReferences": [owner] },
            "spec": { "driver": DRIVER, "nodeName": name, "devices": devices,
                "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } },
        });
        slices.create(&PostParams::default(), &serde_json::from_value(slice).unwrap()).await.unwrap();
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).count();
    taints == 0 && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn given(claim: &ResourceClaim) -> Vec<(String, String)> {
    let results = claim.status.iter().flat_map(|status| &status.allocation).flat_map(|given| &given.devices);
    results
        .flat_map(|devices| devices.results.iter().flatten())
        .map(|one| (one.pool.clone(), one.device.clone()))
        .collect()
}

/// What the scheduler does: a pod gets a free device of a node that is ready and goes there, or is told that there is none.
async fn schedule(client: &Client) {
    let nodes = all::<Node>(client).await;
    let slices = all::<ResourceSlice>(client).await;
    let claims: Api<ResourceClaim> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let waits = |pod: &Pod| {
        let spec = pod.spec.as_ref().unwrap();
        spec.scheduler_name.as_deref() == Some(SCHEDULER) && spec.node_name.is_none()
    };
    for pod in all::<Pod>(client).await.into_iter().filter(waits) {
        let name = pod.name_any();
        let taken: BTreeSet<_> = all::<ResourceClaim>(client).await.iter().flat_map(given).collect();
        let free = slices.iter().flat_map(|slice| names_of_devices().map(move |device| (slice.name_any(), device)));
        let usable = |id: &(String, String)| {
            !taken.contains(id) && nodes.iter().any(|node| node.name_any() == id.0 && is_ready(node))
        };
        let Some((node, device)) = free.into_iter().find(usable) else {
            let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "cannot allocate all claims" });
            let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
            pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            continue;
        };
        let result = json!({ "request": "one", "driver": DRIVER, "pool": node, "device": device });
        let here = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let patch = Patch::Merge(json!({ "status": {
            "allocation": { "devices": { "results": [result] }, "nodeSelector": { "nodeSelectorTerms": [here] } },
            "reservedFor": [{ "resource": "pods", "name": name, "uid": pod.uid() }],
        } }));
        claims.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node } });
        let _: Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await.unwrap();
    }
}

/// A pod, and the claim of its name for one device.
async fn add_pod(w: &World, name: &str) {
    let request = json!({ "name": "one", "exactly": { "deviceClassName": "gpu" } });
    w.apply(json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": name },
        "spec": { "devices": { "requests": [request] } } }))
        .await;
    let container = json!({ "name": "main", "image": "none", "resources": { "requests": { "cpu": "100m" } } });
    w.apply(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "schedulerName": SCHEDULER, "containers": [container],
            "resourceClaims": [{ "name": "gpu", "resourceClaimName": name }] } }))
        .await;
}

fn is_initialized(claim: &NodeClaim) -> bool {
    claim.condition("Initialized").is_some_and(karpenter_api::kinds::Condition::is_true)
}

/// Lets time pass, with a scheduler that looks every second and a driver that does, too, if it is there.
async fn live(w: &World, seconds: u64, with_driver: bool) {
    for _ in 0..seconds {
        if with_driver {
            publish(&w.client).await;
        }
        schedule(&w.client).await;
        w.advance(Duration::from_secs(1)).await;
    }
}

/// SCH-191, SCH-193, SCH-201, SCH-215, LIF-29, SC-304, API-278: pods with claims get machines that bring the devices, as few as hold them; a node
/// is not initialized before its driver has published them; then the pods run, and nothing more is bought.
#[tokio::test(start_paused = true)]
async fn pods_with_claims_get_nodes_with_devices() {
    let w = World::seeded(11).pool(node_pool("default")).without_autoscaler().start().await;
    let running = autoscaler(&w);
    let selector = json!({ "cel": { "expression": format!("device.driver == '{DRIVER}'") } });
    w.apply(json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu" },
        "spec": { "selectors": [selector] } }))
        .await;
    for name in ["a", "b", "c"] {
        add_pod(&w, name).await;
    }
    live(&w, 240, false).await;
    let claims = w.claims().await;
    assert_eq!(claims.len(), 2, "three pods, two devices on each machine");
    for claim in &claims {
        assert_eq!(claim.annotations()[DRIVERS], DRIVER);
        assert!(has_devices(&claim.labels()[INSTANCE_TYPE]), "{:?}", claim.labels());
        assert!(claim.condition("Registered").is_some_and(karpenter_api::kinds::Condition::is_true));
        assert!(!is_initialized(claim), "its driver has published nothing");
    }
    assert_eq!(w.running_pods().len(), 0);

    live(&w, 120, true).await;
    let claims = w.claims().await;
    assert!(claims.len() == 2 && claims.iter().all(is_initialized));
    assert_eq!(w.running_pods().len(), 3);

    // One device is left; the next pod takes it, and the one after that needs a machine.
    add_pod(&w, "d").await;
    live(&w, 60, true).await;
    assert_eq!((w.claims().await.len(), w.running_pods().len()), (2, 4));
    add_pod(&w, "e").await;
    live(&w, 240, true).await;
    assert_eq!((w.claims().await.len(), w.running_pods().len()), (3, 5));
    running.abort();
}
