//! One watch per kind: keeps the context up to date and wakes whoever is concerned.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::convert;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_api::names as published;
use karpenter_lifecycle::{EvictionKey, Seen, SliceView, pod_event};
use karpenter_model::pod::PodId;
use karpenter_model::taints::Taint;
use karpenter_platform::NodeClassKind;
use karpenter_state::{Change, Source, VolumeChange};
use kube::core::{ApiResource, DeserializeGuard, DynamicObject};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource, ResourceExt as _};

use crate::context::Context;
use crate::eviction;

/// Watches everything until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let classes = ctx.provider.node_classes().to_vec();
    let class_watches = classes.iter().map(|class| watch_classes(&ctx, class));
    tokio::join!(
        follow(&ctx, Api::all(ctx.client.clone()), Pods(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Nodes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Claims(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Pools(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Daemons(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Namespaces(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Budgets(&ctx)),
        follow_slices(&ctx),
        follow(&ctx, Api::all(ctx.client.clone()), VolumeClaims(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Volumes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), StorageClasses(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), CsiNodes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Attachments(&ctx)),
        futures::future::join_all(class_watches),
    );
}

/// Between attempts of a watch that fails: 0.8 s doubled up to 26 s, as kube's own, but without its chance. One process
/// is no herd that would have to be spread, and a simulated run must be the same run every time.
#[derive(Debug, Clone, Default)]
struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(800) * (1 << self.0);
        self.0 = (self.0 + 1).min(5);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

/// What becomes of the objects of one kind.
trait Follower {
    type Object;
    fn applied(&self, object: Self::Object);
    /// The object was on a list: it may have been there for long.
    fn found(&self, object: Self::Object) {
        self.applied(object);
    }
    fn gone(&self, id: &ObjectId);
    /// This very object is gone, known or not.
    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        let _ = (id, uid);
    }
    /// A complete list has been seen; everything that is not on it is gone.
    fn listed(&self, ids: BTreeSet<ObjectId>);
}

/// Namespace and name; the pods' form serves every kind.
type ObjectId = PodId;

fn id<K: Resource>(object: &K) -> ObjectId {
    PodId { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

fn names(ids: BTreeSet<ObjectId>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.name).collect()
}

/// Follows a kind for ever. An object that cannot be decoded is reported and skipped; the watch goes on.
async fn follow<F>(ctx: &Context, api: Api<DeserializeGuard<F::Object>>, follower: F)
where
    F: Follower,
    F::Object: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let kind = F::Object::kind(&());
    let mut events = watch(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(guard)) => {
                listed.insert(id(&guard));
                apply(ctx, &kind, guard, |object| follower.found(object));
            }
            Ok(Event::InitDone) => follower.listed(std::mem::take(&mut listed)),
            Ok(Event::Apply(guard)) => apply(ctx, &kind, guard, |object| follower.applied(object)),
            Ok(Event::Delete(guard)) => {
                let id = id(&guard);
                follower.gone(&id);
                follower.bury(&id, guard.meta().uid.clone());
            }
            Err(error) => ctx.report.watch_failed(&kind, &error),
        }
    }
}

fn apply<K>(ctx: &Context, kind: &str, guard: DeserializeGuard<K>, take: impl FnOnce(K)) {
    match guard.0 {
        Ok(object) => take(object),
        Err(invalid) => {
            ctx.report.malformed_object(kind, invalid.metadata.name.as_deref().unwrap_or_default(), &invalid.error);
        }
    }
}

struct Pods<'a>(&'a Context);

impl Follower for Pods<'_> {
    type Object = Pod;

    fn applied(&self, pod: Pod) {
        let before = self.0.state().pod(&id(&pod));
        let before = before.filter(|before| Some(&before.uid) == pod.metadata.uid.as_ref());
        self.saw(&pod, before.as_deref().map_or(Seen::New, Seen::Changed));
    }

    fn found(&self, pod: Pod) {
        self.saw(&pod, Seen::Listed);
    }

    fn gone(&self, id: &ObjectId) {
        self.0.report.pod_gone(id);
        let pod = self.0.state().pod(id);
        self.0.state().apply(Change::PodGone(id.clone()));
        if let Some(pod) = pod {
            self.0.memory.stop_asking(&EvictionKey::of(&pod));
            self.wake_terminating(pod.node_name.as_deref());
        }
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.report.pods_listed(|id| ids.contains(id));
        self.0.state().apply(Change::Listed(Source::Pods, ids.iter().map(ToString::to_string).collect()));
        self.0.provision.notify_one();
    }
}

impl Pods<'_> {
    fn saw(&self, pod: &Pod, seen: Seen<'_>) {
        let ctx = self.0;
        ctx.report.pod_seen(pod);
        let converted = convert::pod(pod, ctx.provider.label_rules());
        ctx.report.problems(&converted.problems);
        let view = Arc::new(converted.view);
        ctx.state().apply(Change::Pod(view.clone()));
        if view.is_provisionable() {
            ctx.provision.trigger(&view.uid);
        }
        if view.deleting_since.is_some() {
            ctx.memory.note_leaving(&EvictionKey::of(&view));
        }
        if let (Some(node), Some(at)) = (&view.node_name, pod_event(&view, seen, ctx.clock.now())) {
            ctx.memory.note_pod_event(node, at);
            ctx.queues.pod_events.add(node);
        }
        self.wake_terminating(view.node_name.as_deref());
    }

    /// A drain waits for its pods.
    fn wake_terminating(&self, node: Option<&str>) {
        let Some(node) = node.and_then(|name| self.0.nodes.get(name)) else { return };
        if node.metadata.deletion_timestamp.is_some() {
            self.0.queues.nodes.add(node.name_any());
        }
    }
}

struct Nodes<'a>(&'a Context);

impl Nodes<'_> {
    fn wake_claims(&self, provider_id: Option<&String>) {
        let claims = provider_id.map(|id| self.0.state().claims_by_provider_id(id)).unwrap_or_default();
        for claim in &claims {
            self.0.queues.wake_claim(&claim.name);
        }
    }
}

impl Follower for Nodes<'_> {
    type Object = Node;

    fn applied(&self, node: Node) {
        let node = self.0.note_node(node);
        self.wake_claims(node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()));
        if node.metadata.deletion_timestamp.is_some() {
            self.0.queues.nodes.add(node.name_any());
        }
        let disrupted = Taint::disrupted();
        if convert::node(&node).view.taints.iter().any(|taint| taint.is_same(&disrupted)) {
            // Its pods will need another place (SCH-1).
            self.0.provision.trigger(&node.uid().unwrap_or_default());
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        self.0.nodes.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        let node = self.0.nodes.get(&id.name);
        if let Some(node) = &node {
            self.0.report.gone(node.as_ref());
        }
        self.0.nodes.remove(&id.name);
        self.0.state().apply(Change::NodeGone(id.name.clone()));
        let provider_id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
        self.wake_claims(provider_id);
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.nodes.retain(&names);
        self.0.state().apply(Change::Listed(Source::Nodes, names));
        // Nodes that went away unseen leave claims waiting.
        for claim in &self.0.claims.all() {
            self.0.queues.wake_claim(&claim.name_any());
        }
        self.0.provision.notify_one();
    }
}

struct Claims<'a>(&'a Context);

impl Follower for Claims<'_> {
    type Object = NodeClaim;

    fn applied(&self, claim: NodeClaim) {
        let class = &claim.spec.node_class_ref;
        if self.0.provider.supports(&class.group, &class.kind) {
            let claim = self.0.note_claim(claim);
            self.0.queues.wake_claim(&claim.name_any());
            self.wake_static_pool(&claim);
            self.0.provision.notify_one();
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        if let Some(uid) = &uid {
            self.0.memory.forget_claim(uid);
        }
        self.0.claims.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        let gone = self.0.claims.get(&id.name);
        self.0.claims.remove(&id.name);
        self.0.state().apply(Change::ClaimGone(id.name.clone()));
        if let Some(gone) = gone {
            self.0.report.gone(gone.as_ref());
            self.wake_static_pool(&gone);
        }
        self.0.provision.notify_one();
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.claims.retain(&names);
        self.0.state().apply(Change::Listed(Source::Claims, names));
        self.0.provision.notify_one();
    }
}

impl Claims<'_> {
    /// A pool with a fixed number of nodes counts them again.
    fn wake_static_pool(&self, claim: &NodeClaim) {
        if let Some(pool) = claim.labels().get(published::labels::NODEPOOL) {
            self.0.queues.static_up.add(pool);
            self.0.queues.static_down.add(pool);
        }
    }
}

struct Pools<'a>(&'a Context);

impl Follower for Pools<'_> {
    type Object = NodePool;

    fn applied(&self, pool: NodePool) {
        let class = &pool.spec.template.spec.node_class_ref;
        if self.0.provider.supports(&class.group, &class.kind) {
            let pool = self.0.note_pool(pool);
            self.0.queues.wake_pool(&pool.name_any());
            self.0.provision.notify_one();
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        self.0.pools.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        if let Some(gone) = self.0.pools.get(&id.name) {
            self.0.report.gone(gone.as_ref());
        }
        self.0.pools.remove(&id.name);
        self.0.state().apply(Change::PoolGone(id.name.clone()));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.pools.retain(&names);
        self.0.state().apply(Change::Listed(Source::Pools, names));
        self.0.provision.notify_one();
    }
}

struct Daemons<'a>(&'a Context);

impl Follower for Daemons<'_> {
    type Object = DaemonSet;

    fn applied(&self, daemon: DaemonSet) {
        let converted = convert::daemon_set(&daemon, self.0.provider.label_rules());
        self.0.report.problems(&converted.problems);
        self.0.state().apply(Change::Daemon(Arc::new(converted.view)));
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::DaemonGone(id.clone()));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Daemons, ids.iter().map(ToString::to_string).collect()));
        self.0.provision.notify_one();
    }
}

struct Namespaces<'a>(&'a Context);

impl Follower for Namespaces<'_> {
    type Object = Namespace;

    fn applied(&self, namespace: Namespace) {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        self.0.state().apply(Change::Namespace(namespace.name_any(), labels));
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::NamespaceGone(id.name.clone()));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Namespaces, names(ids)));
        self.0.provision.notify_one();
    }
}

struct Budgets<'a>(&'a Context);

impl Follower for Budgets<'_> {
    type Object = PodDisruptionBudget;

    fn applied(&self, budget: PodDisruptionBudget) {
        let converted = convert::pdb(&budget);
        self.0.report.problems(&converted.problems);
        let (namespace, allowed) = (converted.view.id.namespace.clone(), converted.view.disruptions_allowed);
        self.0.state().apply(Change::Pdb(Arc::new(converted.view)));
        // Whoever was refused before need not wait for the end of a pause (Y10).
        if allowed > 0 {
            let asked = self.0.memory.asked_in(&namespace);
            self.0.queues.evictions.add_all(asked.iter().map(eviction::name_of));
        }
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::PdbGone(id.clone()));
        let asked = self.0.memory.asked_in(&id.namespace);
        self.0.queues.evictions.add_all(asked.iter().map(eviction::name_of));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Pdbs, ids.iter().map(ToString::to_string).collect()));
    }
}

/// Clusters without dynamic resources do not have the kind.
async fn follow_slices(ctx: &Context) {
    if ctx.features.dynamic_resources {
        follow(ctx, Api::all(ctx.client.clone()), Slices(ctx)).await;
    }
}

struct Slices<'a>(&'a Context);

impl Slices<'_> {
    fn wake(&self, node: &str) {
        let node = self.0.nodes.get(node);
        let provider_id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
        Nodes(self.0).wake_claims(provider_id);
    }
}

impl Follower for Slices<'_> {
    type Object = ResourceSlice;

    /// Slices for the whole cluster say nothing about a node (LIF-29).
    fn applied(&self, slice: ResourceSlice) {
        let owners = slice.owner_references().iter();
        let owner = owners.filter(|owner| owner.kind == "Node").map(|owner| owner.name.clone()).next();
        let node = slice.spec.node_name.clone().filter(|name| !name.is_empty()).or(owner);
        let pool = &slice.spec.pool;
        let view = SliceView {
            driver: slice.spec.driver.clone(),
            pool: pool.name.clone(),
            generation: pool.generation,
            slices_in_pool: pool.resource_slice_count,
        };
        self.0.memory.note_slice(&slice.name_any(), node.clone(), view);
        if let Some(node) = node {
            self.wake(&node);
        }
    }

    fn gone(&self, id: &ObjectId) {
        if let Some(node) = self.0.memory.forget_slice(&id.name) {
            self.wake(&node);
        }
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.memory.retain_slices(&names(ids));
    }
}

/// A kind of storage object: how it is read, and what it means that it is gone. Pods that wait for storage are tried
/// again when it changes.
macro_rules! storage {
    ($follower:ident, $object:ty, $source:ident, $read:expr, $gone:expr, $name:expr) => {
        struct $follower<'a>(&'a Context);

        impl Follower for $follower<'_> {
            type Object = $object;

            fn applied(&self, object: $object) {
                let read: fn(&Context, &$object) -> VolumeChange = $read;
                let change = read(self.0, &object);
                self.0.state().apply(Change::Volume(change));
                self.0.provision.notify_one();
            }

            fn gone(&self, id: &ObjectId) {
                self.0.state().apply(Change::Volume($gone(id)));
            }

            fn listed(&self, ids: BTreeSet<ObjectId>) {
                let known = ids.iter().map($name).collect();
                self.0.state().apply(Change::Listed(Source::$source, known));
                self.0.provision.notify_one();
            }
        }
    };
}

storage!(
    VolumeClaims,
    PersistentVolumeClaim,
    VolumeClaims,
    |_, claim| VolumeChange::Claim(Arc::new(convert::volume_claim(claim))),
    |id: &ObjectId| VolumeChange::ClaimGone(id.clone()),
    ToString::to_string
);
storage!(
    Volumes,
    PersistentVolume,
    Volumes,
    |ctx, volume| {
        let converted = convert::volume(volume, ctx.provider.label_rules());
        ctx.report.problems(&converted.problems);
        VolumeChange::Volume(Arc::new(converted.view))
    },
    |id: &ObjectId| VolumeChange::VolumeGone(id.name.clone()),
    |id| id.name.clone()
);
storage!(
    StorageClasses,
    StorageClass,
    StorageClasses,
    |ctx, class| VolumeChange::Class(Arc::new(convert::storage_class(class, ctx.provider.label_rules()))),
    |id: &ObjectId| VolumeChange::ClassGone(id.name.clone()),
    |id| id.name.clone()
);
storage!(
    CsiNodes,
    CSINode,
    CsiNodes,
    |_, node| VolumeChange::CsiNode(Arc::new(convert::csi_node(node))),
    |id: &ObjectId| VolumeChange::CsiNodeGone(id.name.clone()),
    |id| id.name.clone()
);
storage!(
    Attachments,
    VolumeAttachment,
    Attachments,
    |_, attachment| VolumeChange::Attachment(Arc::new(convert::attachment(attachment))),
    |id: &ObjectId| VolumeChange::AttachmentGone(id.name.clone()),
    |id| id.name.clone()
);

/// Node classes are of the provider's own kind, so they are followed as plain objects.
async fn watch_classes(ctx: &Context, class: &NodeClassKind) {
    let resource = class_resource(class);
    let api: Api<DynamicObject> = Api::all_with(ctx.client.clone(), &resource);
    let mut events = watch(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(object.name_any());
                ctx.node_classes.put(Arc::new(object));
            }
            Ok(Event::InitDone) => ctx.node_classes.retain(&std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => {
                ctx.node_classes.put(Arc::new(object));
            }
            Ok(Event::Delete(object)) => ctx.node_classes.remove(&object.name_any()),
            Err(error) => {
                ctx.report.watch_failed(&class.kind, &error);
                continue;
            }
        }
        // There are few pools and fewer changes of classes: looking at all is cheap.
        for pool in &ctx.pools.all() {
            ctx.queues.wake_pool(&pool.name_any());
        }
    }
}

fn class_resource(class: &NodeClassKind) -> ApiResource {
    ApiResource {
        group: class.group.clone(),
        version: class.version.clone(),
        api_version: format!("{}/{}", class.group, class.version),
        kind: class.kind.clone(),
        plural: class.plural.clone(),
    }
}
