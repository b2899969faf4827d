//! Our own kinds: NodeClaims, NodePools, and the node classes of the provider.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_platform::NodeClassKind;
use karpenter_state::{Change, Source};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, ResourceExt as _};

use super::{Follower, ObjectId, Pauses, names};
use crate::context::Context;
use crate::overlays;

pub(super) struct Claims<'a>(pub(super) &'a Context);

impl Follower for Claims<'_> {
    type Object = NodeClaim;

    fn applied(&self, claim: NodeClaim) {
        if self.concerns_us(&claim) {
            self.0.note_claim(claim);
        }
    }

    /// Whatever was missed before a list is made up for.
    fn found(&self, claim: NodeClaim) {
        if self.concerns_us(&claim) {
            let claim = self.0.note_claim(claim);
            self.0.wake_for_claim(&claim);
        }
    }

    fn bury(&self, id: &ObjectId, uid: Option<String>) {
        if let Some(uid) = &uid {
            self.0.memory.forget_claim(uid);
        }
        self.0.claims.bury(&id.name, uid);
    }

    fn gone(&self, id: &ObjectId) {
        self.0.lose_claim(&id.name);
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.claims.retain(&names);
        self.0.state().apply(Change::Listed(Source::Claims, names));
        self.0.provision.nudge();
    }
}

impl Claims<'_> {
    fn concerns_us(&self, claim: &NodeClaim) -> bool {
        let class = &claim.spec.node_class_ref;
        self.0.provider.supports(&class.group, &class.kind)
    }
}

pub(super) struct Pools<'a>(pub(super) &'a Context);

impl Follower for Pools<'_> {
    type Object = NodePool;

    fn applied(&self, pool: NodePool) {
        let class = &pool.spec.template.spec.node_class_ref;
        if self.0.provider.supports(&class.group, &class.kind) {
            let pool = self.0.note_pool(pool);
            overlays::saw(self.0, "NodePool", &pool.name_any(), pool.metadata.generation);
            self.0.queues.wake_pool(&pool.name_any());
            self.0.listeners.tell(|listener| listener.pool_changed(&pool.name_any()));
            self.0.provision.nudge();
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
        self.0.state().apply(Change::PoolGone(id.name.to_string()));
        overlays::lost(self.0, "NodePool", &id.name);
        self.0.listeners.tell(|listener| listener.pool_changed(&id.name));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.pools.retain(&names);
        self.0.state().apply(Change::Listed(Source::Pools, names));
        self.0.provision.nudge();
    }
}

/// Node classes are of the provider's own kind, so they are followed as plain objects.
pub(super) async fn watch_classes(ctx: &Context, class: &NodeClassKind) {
    let resource = class_resource(class);
    let api: Api<DynamicObject> = Api::all_with(ctx.client.clone(), &resource);
    let mut events = watch(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        if let Ok(Event::InitApply(object) | Event::Apply(object) | Event::Delete(object)) = &event {
            wake_claims(ctx, &object.name_any());
        }
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(object.name_any());
                class_seen(ctx, class, &object);
            }
            Ok(Event::InitDone) => ctx.node_classes.retain(&std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => class_seen(ctx, class, &object),
            Ok(Event::Delete(object)) => {
                ctx.node_classes.remove(&object.name_any());
                if !ctx.listeners.is_empty() {
                    ctx.report.class_gone(class, &object);
                }
                ctx.listeners.tell(|listener| listener.class_changed(&object.name_any()));
            }
            Err(error) => {
                ctx.report.watch_failed(&class.kind, &error);
                continue;
            }
        }
        // There are few pools and fewer changes of classes: looking at all is cheap.
        for pool in &ctx.pools.names() {
            ctx.queues.wake_pool(pool);
        }
    }
}

/// What their class says may not be what their nodes were made from any more (API-236).
fn wake_claims(ctx: &Context, class: &str) {
    let names = ctx.claims.names();
    let state = ctx.state();
    let of_class = |name: &String| state.claim(name).is_some_and(|claim| claim.node_class.name == class);
    ctx.queues.disruptions.add_all(names.into_iter().filter(of_class));
}

fn class_seen(ctx: &Context, class: &NodeClassKind, object: &DynamicObject) {
    overlays::saw(ctx, &class.kind, &object.name_any(), object.metadata.generation);
    let news = ctx.node_classes.put(object);
    // Classes that nobody looks after have nothing to say of themselves.
    if news && !ctx.listeners.is_empty() {
        ctx.report.class_seen(class, object);
    }
    ctx.listeners.tell(|listener| listener.class_changed(&object.name_any()));
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
