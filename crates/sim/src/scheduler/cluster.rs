//! What the scheduler knows of the cluster, kept up to date object by object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::filters::is_bound;
use super::objects::Object;
use super::pod_info::{PodInfo, is_finished, node_of, nominated_node};
use super::queue::Change;
use super::resources::{Resources, allocatable};
use super::selector::{Labels, labels_of};

/// Namespace and name; the namespace is empty where a kind has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A node and the pods on it.
#[derive(Debug, Clone)]
pub(super) struct NodeInfo {
    pub(super) node: Arc<Node>,
    pub(super) allocatable: Resources,
    pub(super) allowed_pods: i64,
    pub(super) requested: Resources,
    /// Milli-CPUs and bytes, where a pod that asks for nothing counts a little.
    pub(super) weight: [i64; 2],
    pub(super) pods: BTreeMap<Key, Arc<PodInfo>>,
}

impl NodeInfo {
    fn new(node: Arc<Node>) -> Self {
        let (allocatable, allowed_pods) = allocatable(&node);
        Self { node, allocatable, allowed_pods, requested: Resources::default(), weight: [0; 2], pods: BTreeMap::new() }
    }

    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn labels(&self) -> &Labels {
        labels_of(&self.node.metadata)
    }

    fn put(&mut self, pod: &Arc<PodInfo>) {
        let known = self.pods.insert(pod.key.clone(), Arc::clone(pod)).is_some();
        if known {
            self.sum_up();
        } else {
            self.count(pod);
        }
    }

    fn take(&mut self, key: &Key) {
        if self.pods.remove(key).is_some() {
            self.sum_up();
        }
    }

    /// Sums are saturating, so taking one away is summing the others.
    fn sum_up(&mut self) {
        (self.requested, self.weight) = (Resources::default(), [0; 2]);
        for pod in self.pods.values().cloned().collect::<Vec<_>>() {
            self.count(&pod);
        }
    }

    fn count(&mut self, pod: &PodInfo) {
        self.requested.add(&pod.requests);
        for (sum, more) in self.weight.iter_mut().zip(pod.weight()) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A value: clone it to try something out.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub(super) nodes: BTreeMap<String, Arc<NodeInfo>>,
    /// Every pod that has not finished. Those on nodes we know are also in [`NodeInfo::pods`].
    pub(super) pods: BTreeMap<Key, Arc<PodInfo>>,
    /// Pods by the node they are bound to, known to us or not.
    bound: BTreeMap<String, BTreeSet<Key>>,
    /// Pods on some node that keep other pods away.
    pub(super) repelling: BTreeSet<Key>,
    /// Pods on no node yet, by the node that they are meant for.
    pub(super) nominated: BTreeMap<String, BTreeSet<Key>>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    pub(super) claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    pub(super) volumes: BTreeMap<String, Arc<PersistentVolume>>,
    pub(super) classes: BTreeMap<String, Arc<StorageClass>>,
    pub(super) csi_nodes: BTreeMap<String, Arc<CSINode>>,
    pub(super) csi_drivers: BTreeMap<String, Arc<CSIDriver>>,
    pub(super) csi_capacities: BTreeMap<Key, Arc<CSIStorageCapacity>>,
    pub(super) attachments: BTreeMap<String, Arc<VolumeAttachment>>,
    pub(super) budgets: BTreeMap<Key, Arc<PodDisruptionBudget>>,
    /// Grows with every change that could let a pod in that was refused.
    pub(super) version: u64,
}

impl FromIterator<Object> for Cluster {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut cluster = Self::default();
        for object in objects {
            cluster.apply(object);
        }
        cluster
    }
}

impl Cluster {
    /// Takes over a new or changed object. Returns what that means for pods that wait, if anything.
    pub fn apply(&mut self, object: impl Into<Object>) -> Option<Change> {
        let object = object.into();
        if !matches!(&object, Object::PodDisruptionBudget(_) | Object::Pod(_)) {
            self.version += 1;
        }
        match object {
            Object::Node(o) => self.apply_node(o),
            Object::Pod(o) => self.apply_pod(o),
            Object::Namespace(o) => {
                self.namespaces.insert(Key::of(&o.metadata).name, o);
                Some(Change::Namespace)
            }
            Object::PersistentVolume(o) => self.volumes.put(Key::of(&o.metadata).name, o, Change::Volume),
            Object::PersistentVolumeClaim(o) => self.claims.put(Key::of(&o.metadata), o, Change::Volume),
            Object::StorageClass(o) => self.classes.put(Key::of(&o.metadata).name, o, Change::Volume),
            Object::CSIDriver(o) => self.csi_drivers.put(Key::of(&o.metadata).name, o, Change::Volume),
            Object::CSINode(o) => self.csi_nodes.put(Key::of(&o.metadata).name, o, Change::Volume),
            Object::CSIStorageCapacity(o) => self.csi_capacities.put(Key::of(&o.metadata), o, Change::Volume),
            Object::VolumeAttachment(o) => {
                self.attachments.insert(Key::of(&o.metadata).name, o);
                None
            }
            Object::PodDisruptionBudget(o) => {
                self.budgets.insert(Key::of(&o.metadata), o);
                None
            }
        }
    }

    /// Forgets an object that is gone.
    pub fn remove(&mut self, object: impl Into<Object>) -> Option<Change> {
        let object = object.into();
        if !matches!(&object, Object::PodDisruptionBudget(_) | Object::Pod(_)) {
            self.version += 1;
        }
        match object {
            Object::Node(o) => {
                self.nodes.remove(&Key::of(&o.metadata).name)?;
                // A domain less can be what a spread constraint waited for.
                Some(Change::NodeRemoved)
            }
            Object::Pod(o) => self.remove_pod(&Key::of(&o.metadata)),
            Object::Namespace(o) => self.namespaces.remove(&Key::of(&o.metadata).name).and(None),
            Object::PersistentVolume(o) => self.volumes.remove(&Key::of(&o.metadata).name).and(None),
            Object::PersistentVolumeClaim(o) => self.claims.remove(&Key::of(&o.metadata)).and(None),
            Object::StorageClass(o) => self.classes.remove(&Key::of(&o.metadata).name).and(None),
            Object::CSIDriver(o) => self.csi_drivers.remove(&Key::of(&o.metadata).name).and(Some(Change::Volume)),
            Object::CSINode(o) => self.csi_nodes.remove(&Key::of(&o.metadata).name).and(None),
            Object::CSIStorageCapacity(o) => self.csi_capacities.remove(&Key::of(&o.metadata)).and(None),
            Object::PodDisruptionBudget(o) => self.budgets.remove(&Key::of(&o.metadata)).and(None),
            Object::VolumeAttachment(o) => {
                self.attachments.remove(&Key::of(&o.metadata).name).and(Some(Change::Volume))
            }
        }
    }

    /// The claim is there and bound for good.
    pub(super) fn is_bound(&self, claim: &Key) -> bool {
        self.claims.get(claim).is_some_and(|c| is_bound(c))
    }

    pub(super) fn pod(&self, key: &Key) -> Option<Arc<Pod>> {
        self.pods.get(key).map(|p| Arc::clone(&p.pod))
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: Labels = Labels::new();
        self.namespaces.get(name).map_or(&NONE, |n| labels_of(&n.metadata))
    }

    fn apply_node(&mut self, node: Arc<Node>) -> Option<Change> {
        let name = Key::of(&node.metadata).name;
        let Some(known) = self.nodes.get_mut(&name) else {
            let mut info = NodeInfo::new(node);
            for pod in self.bound.get(&name).into_iter().flatten().filter_map(|key| self.pods.get(key)) {
                info.put(pod);
            }
            self.nodes.insert(name, Arc::new(info));
            return Some(Change::NodeAdded);
        };
        let change = node_change(&known.node, &node);
        let info = Arc::make_mut(known);
        (info.allocatable, info.allowed_pods) = allocatable(&node);
        info.node = node;
        change
    }

    fn apply_pod(&mut self, pod: Arc<Pod>) -> Option<Change> {
        let key = Key::of(&pod.metadata);
        if is_finished(&pod) {
            return self.remove_pod(&key);
        }
        let known = self.pods.get(&key).filter(|k| k.pod.metadata.uid == pod.metadata.uid);
        if known.is_some_and(|k| node_of(&k.pod).is_some() && node_of(&pod).is_none()) {
            // A pod never leaves its node: this is news from before we bound it.
            return None;
        }
        let change = match (known, node_of(&pod)) {
            (Some(old), Some(_)) if node_of(&old.pod).is_some() => assigned_change(&old.pod, &pod),
            (_, Some(_)) => Some(Change::PodAssigned),
            // The room that was kept for it is free.
            (Some(old), None) if nominated_node(&old.pod).is_some_and(|n| nominated_node(&pod) != Some(n)) => {
                Some(Change::PodRemoved)
            }
            (_, None) => None,
        };
        self.remove_pod(&key);
        let info = Arc::new(PodInfo::new(pod));
        if node_of(&info.pod).or(nominated_node(&info.pod)).is_some() {
            self.version += 1;
        }
        if let Some(name) = node_of(&info.pod) {
            self.bound.entry(name.to_owned()).or_default().insert(key.clone());
            if !info.anti_affinity.is_empty() {
                self.repelling.insert(key.clone());
            }
            if let Some(node) = self.nodes.get_mut(name) {
                Arc::make_mut(node).put(&info);
            }
        } else if let Some(name) = nominated_node(&info.pod) {
            self.nominated.entry(name.to_owned()).or_default().insert(key.clone());
        }
        self.pods.insert(key, info);
        change
    }

    fn remove_pod(&mut self, key: &Key) -> Option<Change> {
        let gone = self.pods.remove(key)?;
        if node_of(&gone.pod).or(nominated_node(&gone.pod)).is_some() {
            self.version += 1;
        }
        self.repelling.remove(key);
        if let Some(name) = node_of(&gone.pod) {
            if let Some(node) = self.nodes.get_mut(name) {
                Arc::make_mut(node).take(key);
            }
            unlist(&mut self.bound, name, key);
            return Some(Change::PodRemoved);
        }
        unlist(&mut self.nominated, nominated_node(&gone.pod)?, key);
        Some(Change::PodRemoved)
    }
}

fn unlist(lists: &mut BTreeMap<String, BTreeSet<Key>>, name: &str, key: &Key) {
    if let Some(keys) = lists.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            lists.remove(name);
        }
    }
}

trait Put<K, V> {
    fn put(&mut self, key: K, value: V, change: Change) -> Option<Change>;
}

impl<K: Ord, V> Put<K, V> for BTreeMap<K, V> {
    fn put(&mut self, key: K, value: V, change: Change) -> Option<Change> {
        self.insert(key, value);
        Some(change)
    }
}

/// Heartbeats and conditions move nobody.
fn node_change(old: &Node, new: &Node) -> Option<Change> {
    let allocatable = |n: &Node| n.status.as_ref().and_then(|s| s.allocatable.clone());
    let taints = |n: &Node| n.spec.as_ref().map(|s| (s.taints.clone(), s.unschedulable.unwrap_or_default()));
    let same = allocatable(old) == allocatable(new)
        && taints(old) == taints(new)
        && old.metadata.labels == new.metadata.labels;
    (!same).then_some(Change::NodeChanged)
}

fn assigned_change(old: &Pod, new: &Pod) -> Option<Change> {
    if old.metadata.labels != new.metadata.labels {
        return Some(Change::PodLabels);
    }
    if old.metadata.deletion_timestamp.is_none() && new.metadata.deletion_timestamp.is_some() {
        return Some(Change::PodGoing);
    }
    let resources =
        |p: &Pod| p.spec.as_ref().map(|s| s.containers.iter().map(|c| c.resources.clone()).collect::<Vec<_>>());
    // One that was resized may leave room.
    (resources(old) != resources(new)).then_some(Change::PodRemoved)
}
