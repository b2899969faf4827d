//! What the actors of a simulated cluster share: a client, the objects they watch, the time and the seed.
//!
//! Each kind is watched once for all actors. What a write answers is noted at once, so that nobody acts twice on what he
//! has just changed.

mod queue;
mod store;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_platform::Clock;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::queue::{Outcome, Queue, Requeue};
pub(crate) use self::store::{Store, key_of, split};

/// The hands and eyes of every actor.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: u64,
    objects: Arc<Objects>,
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// A kind that actors watch and write.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    fn api(client: &Client, namespace: &str) -> Api<Self>;
    fn store(objects: &Objects) -> &Store<Self>;
}

/// One store and one watch per kind; the index functions of a kind stand behind it.
macro_rules! kinds {
    ($($scope:ident $store:ident: $kind:ident $(by $($index:path),+)?;)+) => {
        pub(crate) struct Objects { $($store: Store<$kind>,)+ }

        impl Objects {
            fn new() -> Self {
                Self { $($store: Store::new(vec![$($($index),+)?]),)+ }
            }

            async fn follow(&self, client: &Client) {
                tokio::join!($(self.$store.follow(Api::all(client.clone())),)+);
            }

            fn is_synced(&self) -> bool {
                $(self.$store.is_synced() &&)+ true
            }
        }

        $(impl Kind for $kind {
            fn api(client: &Client, namespace: &str) -> Api<Self> {
                kinds!(@api $scope, client, namespace)
            }
            fn store(objects: &Objects) -> &Store<Self> {
                &objects.$store
            }
        })+
    };
    (@api namespaced, $client:ident, $namespace:ident) => { Api::namespaced($client.clone(), $namespace) };
    (@api cluster, $client:ident, $namespace:ident) => {{ let _ = $namespace; Api::all($client.clone()) }};
}

kinds! {
    namespaced pods: Pod by node_of, controller_of, crowd_of;
    cluster nodes: Node;
    namespaced leases: Lease;
    namespaced deployments: Deployment;
    namespaced replica_sets: ReplicaSet by controller_of;
    namespaced stateful_sets: StatefulSet;
    namespaced daemon_sets: DaemonSet;
    namespaced jobs: Job;
    namespaced budgets: PodDisruptionBudget;
    namespaced volume_claims: PersistentVolumeClaim;
    cluster volumes: PersistentVolume;
    cluster storage_classes: StorageClass;
    cluster attachments: VolumeAttachment;
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// How far a pod is, as those see it who count pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Ended,
    Deleting,
    Ready,
    Starting,
}

impl Stage {
    fn of(pod: &Pod) -> Self {
        if matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed")) {
            Self::Ended
        } else if pod.metadata.deletion_timestamp.is_some() {
            Self::Deleting
        } else if crate::workloads::is_ready(pod) {
            Self::Ready
        } else {
            Self::Starting
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Ended => 'e',
            Self::Deleting => 'd',
            Self::Ready => 'r',
            Self::Starting => 's',
        }
    }
}

/// Pods of one owner with the same labels that are equally far.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub(crate) stage: Stage,
    pub(crate) size: usize,
    /// One of them.
    pub(crate) pod: Arc<Pod>,
}

/// Pods that those who count them need not tell apart, by namespace and owner first. No part of it can have the separator in it.
#[expect(clippy::unnecessary_wraps, reason = "as every index")]
fn crowd_of(pod: &Pod) -> Option<String> {
    let mut text = pod.namespace().unwrap_or_default();
    text.push('\0');
    text.push_str(&controller_of(pod).unwrap_or_default());
    for (key, value) in pod.metadata.labels.iter().flatten() {
        for part in [key, value] {
            text.push('\0');
            text.push_str(part);
        }
    }
    text.push('\0');
    text.push(Stage::of(pod).letter());
    Some(text)
}

fn controller_of<K: Resource>(object: &K) -> Option<String> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}

impl Cluster {
    pub fn new(client: Client, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { client, clock, seed, objects: Arc::new(Objects::new()) }
    }

    /// The same eyes with other hands: what one of them writes the other knows at once, and nothing is watched twice.
    #[must_use]
    pub fn acting_through(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Watches every kind until the future is dropped. Actors ask to be woken before this is started.
    pub async fn watch(&self) {
        self.objects.follow(&self.client).await;
    }

    /// Every kind has been listed once. Who acts before that takes what is missing for gone.
    pub(crate) fn is_synced(&self) -> bool {
        self.objects.is_synced()
    }

    pub(crate) async fn synced(&self) {
        while !self.is_synced() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn time(&self) -> Time {
        Time(self.now())
    }

    /// Every object of a kind in the order of their keys.
    pub(crate) fn all<K: Kind>(&self) -> Vec<Arc<K>> {
        K::store(&self.objects).all()
    }

    pub(crate) fn get<K: Kind>(&self, key: &str) -> Option<Arc<K>> {
        K::store(&self.objects).get(key)
    }

    /// Pods that are bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.objects.pods.indexed(0, node)
    }

    pub(crate) fn pods_of(&self, controller: &str) -> Vec<Arc<Pod>> {
        self.objects.pods.indexed(1, controller)
    }

    /// The pods of a namespace, counted.
    pub(crate) fn crowds(&self, namespace: &str) -> Vec<Crowd> {
        self.counted(&format!("{namespace}\0"))
    }

    /// The pods of a controller, counted.
    pub(crate) fn crowds_of(&self, namespace: &str, controller: &str) -> Vec<Crowd> {
        self.counted(&format!("{namespace}\0{controller}\0"))
    }

    fn counted(&self, start: &str) -> Vec<Crowd> {
        let counted = self.objects.pods.counted(2, start).into_iter();
        counted.map(|(size, pod)| Crowd { stage: Stage::of(&pod), size, pod }).collect()
    }

    pub(crate) fn replica_sets_of(&self, controller: &str) -> Vec<Arc<ReplicaSet>> {
        self.objects.replica_sets.indexed(0, controller)
    }

    pub(crate) fn in_namespace<K: Kind>(&self, namespace: &str) -> Vec<Arc<K>> {
        K::store(&self.objects).in_namespace(namespace)
    }

    /// Adds the keys that a change of an object concerns to a queue: for the object as it was, and as it is.
    pub(crate) fn wake<K: Kind>(
        &self,
        queue: &Arc<Queue>,
        concerned: impl Fn(&Cluster, &K) -> Vec<String> + Send + Sync + 'static,
    ) {
        self.wake_within(queue, move |cluster, object: &K| {
            concerned(cluster, object).into_iter().map(|key| (key, Duration::ZERO)).collect()
        });
    }

    /// Like [`Cluster::wake`], and says how long each key may wait: what is asked for again meanwhile is looked at once.
    pub(crate) fn wake_within<K: Kind>(
        &self,
        queue: &Arc<Queue>,
        concerned: impl Fn(&Cluster, &K) -> Vec<(String, Duration)> + Send + Sync + 'static,
    ) {
        // Weak, or the stores would own themselves through their listeners.
        let (objects, client, clock, seed) =
            (Arc::downgrade(&self.objects), self.client.clone(), self.clock.clone(), self.seed);
        let queue = queue.clone();
        K::store(&self.objects).listen(move |object: &K| {
            let Some(objects) = objects.upgrade() else { return };
            let cluster = Self { client: client.clone(), clock: clock.clone(), seed, objects };
            for (key, pause) in concerned(&cluster, object) {
                queue.add_after(key, pause);
            }
        });
    }

    /// Wakes the queue with the key of each changed object itself.
    pub(crate) fn wake_self<K: Kind>(&self, queue: &Arc<Queue>) {
        self.wake::<K>(queue, |_, object| vec![key_of(object)]);
    }

    pub(crate) async fn create<K: Kind>(&self, object: &K) -> Result<Arc<K>, kube::Error> {
        let api = K::api(&self.client, &object.namespace().unwrap_or_default());
        let created = api.create(&PostParams::default(), object).await?;
        Ok(K::store(&self.objects).note(created))
    }

    /// Merge-patches an object. `None` when it is gone.
    pub(crate) async fn patch<K: Kind>(&self, object: &K, patch: Value) -> Result<Option<Arc<K>>, kube::Error> {
        let api = K::api(&self.client, &object.namespace().unwrap_or_default());
        let answer = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(ignore_gone(answer)?.map(|patched| K::store(&self.objects).note(patched)))
    }

    pub(crate) async fn patch_status<K: Kind>(&self, object: &K, status: Value) -> Result<Option<Arc<K>>, kube::Error> {
        self.write_status(object, serde_json::json!({ "status": status })).await
    }

    /// Like [`Cluster::patch_status`], unless somebody else wrote the object meanwhile.
    pub(crate) async fn patch_status_locked<K: Kind>(
        &self,
        object: &K,
        status: Value,
    ) -> Result<Option<Arc<K>>, kube::Error> {
        let metadata = serde_json::json!({ "resourceVersion": object.resource_version() });
        self.write_status(object, serde_json::json!({ "metadata": metadata, "status": status })).await
    }

    async fn write_status<K: Kind>(&self, object: &K, patch: Value) -> Result<Option<Arc<K>>, kube::Error> {
        let api = K::api(&self.client, &object.namespace().unwrap_or_default());
        let answer = api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(ignore_gone(answer)?.map(|patched| K::store(&self.objects).note(patched)))
    }

    /// Deletes this very object; done already is done. A grace period of `None` is the object's own.
    pub(crate) async fn delete<K: Kind>(&self, object: &K, grace_seconds: Option<u32>) -> Result<(), kube::Error> {
        let api = K::api(&self.client, &object.namespace().unwrap_or_default());
        let params = DeleteParams {
            grace_period_seconds: grace_seconds,
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::background()
        };
        match api.delete(&object.name_any(), &params).await {
            Ok(either) => {
                let left = either.left().filter(|left| left.meta().deletion_timestamp.is_some());
                let waits = |left: &K| grace_seconds != Some(0) || !left.finalizers().is_empty();
                match left.filter(waits) {
                    Some(left) => drop(K::store(&self.objects).note(left)),
                    None => K::store(&self.objects).note_gone(object),
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn ignore_gone<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn is_already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}
