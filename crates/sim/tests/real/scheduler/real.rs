//! The real API server and scheduler, and our picture of the same cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_sim::scheduler::{Cluster, Decision, Key, Object, decide};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::generator::Case;

/// Much longer than it takes to hear of a case; only a scheduler that does not see it makes a test wait for it.
const LIMIT: Duration = Duration::from_mins(3);

/// Much longer than a decision takes.
const SILENCE: Duration = Duration::from_secs(30);

/// kube-scheduler can overlook a pod whose name another one had a moment before; it would come back to it after five minutes.
const TRIES: usize = 6;

pub(super) struct Real {
    client: Client,
    cluster: Cluster,
    pods: mpsc::UnboundedReceiver<Pod>,
    latest: BTreeMap<Key, Pod>,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Bound(String),
    Refused(String),
    /// Refused for now; pods on this node are told to go.
    Preempts(String, String),
    Error(String),
}

impl Real {
    pub(super) fn new(client: Client) -> Self {
        let (sender, pods) = mpsc::unbounded_channel();
        let mut events = watcher::watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).boxed();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Event::Apply(pod) | Event::InitApply(pod) = event.expect("the watch of pods goes on")
                    && sender.send(pod).is_err()
                {
                    return;
                }
            }
        });
        Self { client, cluster: Cluster::default(), pods, latest: BTreeMap::new(), nodes: Vec::new() }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Makes the objects of a case, what nodes depend on first, and waits until the scheduler has seen them.
    pub(super) async fn set_up(&mut self, case: &Case) {
        self.cluster = Cluster::default();
        self.nodes.clear();
        for namespace in &case.namespaces {
            let made = self.create::<Namespace>(namespace).await;
            self.cluster.apply(made);
        }
        for class in &case.classes {
            let made = self.create::<StorageClass>(class).await;
            self.cluster.apply(made);
        }
        for volume in &case.volumes {
            let made = self.create::<PersistentVolume>(volume).await;
            let api: Api<PersistentVolume> = Api::all(self.client.clone());
            let status = Patch::Merge(json!({"status": {"phase": "Available"}}));
            let made = api.patch_status(&made.name_any(), &PatchParams::default(), &status).await.unwrap();
            self.cluster.apply(made);
        }
        for claim in &case.claims {
            let made = self.create_in::<PersistentVolumeClaim>(claim).await;
            self.cluster.apply(made);
        }
        for csi_node in &case.csi_nodes {
            let made = self.create::<CSINode>(csi_node).await;
            self.cluster.apply(made);
        }
        for node in &case.nodes {
            let made = self.create::<Node>(node).await;
            // The API server taints every new node; nobody here would take that away.
            let taints = node["spec"].get("taints").cloned().unwrap_or(json!([]));
            let api: Api<Node> = Api::all(self.client.clone());
            let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
            let made = api.patch(&made.name_any(), &PatchParams::default(), &patch).await.unwrap();
            self.nodes.push(made.clone());
            self.cluster.apply(made);
        }
        for pod in &case.present {
            let mut made = self.create_in::<Pod>(pod).await;
            if let Some(status) = pod.get("status") {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &made.namespace().unwrap());
                let patch = Patch::Merge(json!({"status": status}));
                made = api.patch_status(&made.name_any(), &PatchParams::default(), &patch).await.unwrap();
            }
            self.cluster.apply(made);
        }
        for budget in &case.budgets {
            let made = self.create_in::<PodDisruptionBudget>(budget).await;
            let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &made.namespace().unwrap());
            let patch = Patch::Merge(json!({"status": budget["status"]}));
            let made = api.patch_status(&made.name_any(), &PatchParams::default(), &patch).await.unwrap();
            self.cluster.apply(made);
        }
        self.wait_until_seen(case.namespaces[0]["metadata"]["name"].as_str().unwrap()).await;
    }

    /// A pod that fits nowhere gets a message that shows which nodes the scheduler knows, and how.
    pub(super) async fn wait_until_seen(&mut self, namespace: &str) {
        let until = tokio::time::Instant::now() + LIMIT;
        loop {
            let probe = json!({
                "metadata": {"name": "probe", "namespace": namespace},
                "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1000"}}}]},
            });
            let (pod, outcome) = self.place(&probe).await;
            let Decision::Unschedulable(ours) = decide(&self.cluster, &pod) else {
                panic!("the probe fits somewhere");
            };
            if outcome == Outcome::Refused(ours.message.clone()) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < until,
                "kube-scheduler does not see the case: {outcome:?}, should be {}",
                ours.message
            );
        }
    }

    /// Creates the pod and waits for what the scheduler says. A pod that stays is in the picture afterwards; one that was
    /// refused is removed again, so that it does not come back in the middle of a later step.
    pub(super) async fn place(&mut self, pod: &Value) -> (Pod, Outcome) {
        for _ in 0..TRIES {
            let pod = self.create_in::<Pod>(pod).await;
            if let Some(outcome) = self.outcome(&pod).await {
                return (pod, outcome);
            }
            self.delete_pod(&Key::of(&pod.metadata), 0).await;
        }
        panic!("kube-scheduler says nothing about {}, made {TRIES} times", pod["metadata"]);
    }

    /// What the scheduler says about the pod; nothing if it is silent for too long.
    async fn outcome(&mut self, pod: &Pod) -> Option<Outcome> {
        let key = Key::of(&pod.metadata);
        loop {
            let latest = self.latest(&key, pod.metadata.uid.as_ref()).await?;
            if let Some(node) = latest.spec.as_ref().and_then(|s| s.node_name.clone()) {
                self.cluster.apply(latest);
                return Some(Outcome::Bound(node));
            }
            let nominated = latest.status.as_ref().and_then(|s| s.nominated_node_name.clone());
            let has_volumes = pod.spec.as_ref().is_some_and(|s| s.volumes.is_some());
            if let Some(node) = nominated.as_ref().filter(|_| has_volumes) {
                self.complete_binding(pod, node).await;
                continue;
            }
            let conditions = latest.status.iter().flat_map(|s| s.conditions.iter().flatten());
            let Some(refused) = conditions.into_iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")
            else {
                continue;
            };
            let text = refused.message.clone().unwrap_or_default();
            if let Some(node) = nominated {
                self.cluster.apply(latest.clone());
                return Some(Outcome::Preempts(node, text));
            }
            let outcome = match refused.reason.as_deref() {
                Some("Unschedulable") => Outcome::Refused(text),
                _ => Outcome::Error(text),
            };
            self.delete_pod(&key, 0).await;
            return Some(outcome);
        }
    }

    pub(super) async fn remove(&mut self, name: &Key, grace_seconds: u32) {
        // It may have been refused before.
        if let Some(pod) = self.delete_pod(name, grace_seconds).await {
            if grace_seconds == 0 {
                self.cluster.remove(pod);
            } else {
                self.cluster.apply(pod);
            }
        }
    }

    /// Waits until the pods that are going are these, and takes all pods into the picture. Returns who is going.
    pub(super) async fn going(&mut self, expected: &BTreeSet<Key>) -> BTreeSet<Key> {
        let until = tokio::time::Instant::now() + Duration::from_secs(5);
        loop {
            let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items;
            let going = pods.iter().filter(|p| p.metadata.deletion_timestamp.is_some());
            let going: BTreeSet<_> = going.map(|p| Key::of(&p.metadata)).collect();
            if going == *expected || tokio::time::Instant::now() > until {
                for pod in pods {
                    self.cluster.apply(pod);
                }
                return going;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) async fn set_unschedulable(&mut self, node: &str, closed: bool) {
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": closed}}));
        let node = api.patch(node, &PatchParams::default(), &patch).await.unwrap();
        self.cluster.apply(node);
    }

    /// Pods and nodes go; the rest has names of its own and is in nobody's way.
    pub(super) async fn tear_down(&mut self, case: &Case) {
        let all = ListParams::default();
        for namespace in &case.namespaces {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace["metadata"]["name"].as_str().unwrap());
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            api.delete_collection(&now, &all).await.unwrap();
        }
        let delete = DeleteParams::default();
        Api::<Node>::all(self.client.clone()).delete_collection(&delete, &all).await.unwrap();
        Api::<CSINode>::all(self.client.clone()).delete_collection(&delete, &all).await.unwrap();
        self.latest.clear();
    }

    /// The next version of the pod, if anything is heard at all.
    async fn latest(&mut self, key: &Key, uid: Option<&String>) -> Option<Pod> {
        loop {
            if let Some(pod) = self.latest.remove(key).filter(|p| p.metadata.uid.as_ref() == uid) {
                return Some(pod);
            }
            let pod = timeout(SILENCE, self.pods.recv()).await.ok()?.expect("the watch of pods goes on");
            self.latest.insert(Key::of(&pod.metadata), pod);
        }
    }

    async fn delete_pod(&self, key: &Key, grace_seconds: u32) -> Option<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let grace = DeleteParams { grace_period_seconds: Some(grace_seconds), ..DeleteParams::default() };
        match api.delete(&key.name, &grace).await {
            Ok(gone) => gone.left(),
            Err(kube::Error::Api(e)) if e.is_not_found() => None,
            Err(e) => panic!("cannot delete {key}: {e}"),
        }
    }

    /// Plays the controllers that bind and make volumes: the scheduler waits for them before it binds the pod.
    async fn complete_binding(&mut self, pod: &Pod, node: &str) {
        let namespace = pod.namespace().unwrap();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let named = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
        let names = named.filter_map(|v| v.persistent_volume_claim.as_ref().map(|c| c.claim_name.clone()));
        for name in names {
            let claim = loop {
                let claim = claims.get(&name).await.unwrap();
                let is_ours = |v: &PersistentVolume| {
                    let claim_ref = v.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
                    claim_ref
                        .is_some_and(|r| r.name.as_ref() == Some(&name) && r.namespace.as_ref() == Some(&namespace))
                };
                let all = volumes.list(&ListParams::default()).await.unwrap();
                let volume = if let Some(volume) = all.items.into_iter().find(is_ours) {
                    volume
                } else if claim.annotations().contains_key("volume.kubernetes.io/selected-node") {
                    self.make_volume(&claim, node).await
                } else if claim.annotations().contains_key("pv.kubernetes.io/bind-completed") {
                    break claim;
                } else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                self.cluster.apply(volume.clone());
                let bound = json!({
                    "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                    "spec": {"volumeName": volume.name_any()},
                });
                break claims.patch(&name, &PatchParams::default(), &Patch::Merge(bound)).await.unwrap();
            };
            self.cluster.apply(claim);
        }
    }

    async fn make_volume(&self, claim: &PersistentVolumeClaim, node: &str) -> PersistentVolume {
        let node = self.nodes.iter().find(|n| n.name_any() == node).unwrap();
        let key = "topology.kubernetes.io/zone";
        let required = node.labels().get(key).map(|zone| {
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}]})
        });
        let name = format!("made-for-{}-{}", claim.namespace().unwrap(), claim.name_any());
        let spec = claim.spec.as_ref().unwrap();
        self.create::<PersistentVolume>(&json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": spec.access_modes,
                "storageClassName": spec.storage_class_name,
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "claimRef": {"name": claim.name_any(), "namespace": claim.namespace(), "uid": claim.uid()},
                "nodeAffinity": required.map(|required| json!({"required": required})),
            },
        }))
        .await
    }

    pub(super) async fn create<K>(&self, object: &Value) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
        K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        create(&Api::all(self.client.clone()), object).await
    }

    async fn create_in<K>(&self, object: &Value) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
        Object: From<K>,
    {
        create(&Api::namespaced(self.client.clone(), object["metadata"]["namespace"].as_str().unwrap()), object).await
    }
}

async fn create<K>(api: &Api<K>, object: &Value) -> K
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let parsed: K = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &parsed).await.unwrap_or_else(|e| panic!("{e}: {object}"))
}
