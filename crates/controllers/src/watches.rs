//! One watch per kind: keeps the context up to date and wakes whoever is concerned.

mod claims;
mod lean;
mod nodes;
mod pod_classes;
mod pod_events;
mod pod_text;
mod pod_wire;
mod pods;
mod storage;
mod surroundings;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_model::pod::PodId;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource, ResourceExt as _};

use self::claims::{Claims, Pools, watch_classes};
use self::lean::Lean;
use self::nodes::Nodes;
pub use self::pod_classes::{PodClasses, SeenPod};
pub use self::pod_events::{Form, Frames, Page, PodEvent, Unreadable};
pub use self::pod_text::PodObject;
pub use self::pod_wire::WireReader;
use self::pods::follow_pods;
use self::storage::{Attachments, CsiNodes, StorageClasses, VolumeClaims, Volumes};
use self::surroundings::{Budgets, Daemons, Namespaces};
pub use self::wire::Malformed;
use crate::context::Context;
use crate::objects::Objects;
use crate::{apart, buffers, overlays};

/// Watches everything until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let classes = ctx.provider.node_classes().to_vec();
    let class_watches = classes.iter().map(|class| watch_classes(&ctx, class));
    tokio::join!(
        // There are more events of pods than of all else: in a task of its own one of them wakes nobody but whom it concerns.
        apart::supervised(&ctx, "pods", Pauses::SHORTEST, || follow_pods(ctx.clone())),
        follow(&ctx, Api::all(ctx.client.clone()), Nodes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Claims(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Pools(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Daemons(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Namespaces(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Budgets(&ctx)),
        crate::resource_watches::run(&ctx),
        crate::workload_watches::run(&ctx),
        follow(&ctx, Api::all(ctx.client.clone()), VolumeClaims(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Volumes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), StorageClasses(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), CsiNodes(&ctx)),
        follow(&ctx, Api::all(ctx.client.clone()), Attachments(&ctx)),
        futures::future::join_all(class_watches),
        overlays::watch(&ctx),
        buffers::watch(&ctx),
    );
}

/// Between attempts of a watch that fails: 0.8 s doubled up to 26 s, as kube's own, but without its chance. One process
/// is no herd that would have to be spread, and a simulated run must be the same run every time.
#[derive(Debug, Clone, Default)]
struct Pauses(u32);

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(800);
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Self::SHORTEST * (1 << self.0);
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
pub(crate) trait Follower {
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
pub(crate) type ObjectId = PodId;

fn id<K: Resource>(object: &K) -> ObjectId {
    PodId::new(object.namespace().unwrap_or_default(), object.name_any())
}

fn names(ids: BTreeSet<ObjectId>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.name.into()).collect()
}

/// Objects of one answer to a list. Nodes name their images, so that five hundred of them are ten megabytes, several times over while
/// they are read: more than anything else takes at its peak.
const PAGE: u32 = 100;

/// Follows a kind for ever. An object that cannot be decoded is reported and skipped; the watch goes on.
pub(crate) async fn follow<F>(ctx: &Context, api: Api<Lean<F::Object>>, follower: F)
where
    F: Follower,
    F::Object: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let kind = F::Object::kind(&());
    let mut events = watch(api, watcher::Config::default().page_size(PAGE)).backoff(Pauses::default()).boxed();
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

/// Follows a kind whose objects are kept as they come, for a controller that is not always there. `changed` hears the name of
/// whatever is new, has changed or is gone, and nothing when a list is complete.
pub async fn follow_plain(
    ctx: &Context,
    resource: &ApiResource,
    objects: &Objects<DynamicObject>,
    changed: impl Fn(Option<&str>),
) {
    let api: Api<DynamicObject> = Api::all_with(ctx.client.clone(), resource);
    let mut events = watch(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(object.name_any());
                objects.put(&object);
                changed(Some(&object.name_any()));
            }
            Ok(Event::InitDone) => {
                let names = std::mem::take(&mut listed);
                let gone: Vec<String> = objects.names().into_iter().filter(|name| !names.contains(name)).collect();
                objects.retain(&names);
                for name in &gone {
                    changed(Some(name));
                }
                changed(None);
            }
            Ok(Event::Apply(object)) => {
                // What we write comes back with the watch, and is no news then.
                if objects.put(&object) {
                    changed(Some(&object.name_any()));
                }
            }
            Ok(Event::Delete(object)) => {
                objects.bury(&object.name_any(), object.uid());
                changed(Some(&object.name_any()));
            }
            Err(error) => ctx.report.watch_failed(&resource.kind, &error),
        }
    }
}

fn apply<K>(ctx: &Context, kind: &str, guard: Lean<K>, take: impl FnOnce(K)) {
    match guard.0 {
        Ok(object) => take(object),
        Err(invalid) => {
            ctx.report.malformed_object(kind, invalid.metadata.name.as_deref().unwrap_or_default(), &invalid.error);
        }
    }
}
