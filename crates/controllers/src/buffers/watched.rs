//! Buffers and what they may refer to, followed while the gate is on (V15-108).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Mutex;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplate;
use karpenter_api::convert;
use karpenter_api::kinds::CapacityBuffer;
use karpenter_model::pod::PodId;
use kube::{Api, Resource, ResourceExt as _};

use super::lock;
use crate::context::Context;
use crate::watches::{Follower, ObjectId, follow};

pub(crate) async fn watch(ctx: &Context) {
    if !ctx.features.capacity_buffers {
        return;
    }
    tokio::join!(
        follow(ctx, Api::all(ctx.client.clone()), Watched(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Referred::<PodTemplate>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Referred::<Deployment>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Referred::<StatefulSet>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Referred::<ReplicaSet>::new(ctx)),
    );
}

struct Watched<'a>(&'a Context);

impl Follower for Watched<'_> {
    type Object = CapacityBuffer;

    /// What we have written ourselves needs no second look.
    fn applied(&self, buffer: CapacityBuffer) {
        let id = super::id(&buffer);
        let before = self.0.buffers.get(&id);
        let new = before.is_none_or(|before| {
            before.uid() != buffer.uid() || before.metadata.generation != buffer.metadata.generation
        });
        self.0.buffers.put(buffer);
        if new {
            self.0.queues.buffers.add(id.to_string());
        }
    }

    fn gone(&self, id: &ObjectId) {
        self.0.buffers.forget(id);
        self.0.queues.buffers.add(id.to_string());
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let known: Vec<PodId> = lock(&self.0.buffers.known).keys().cloned().collect();
        for id in known.iter().filter(|id| !ids.contains(*id)) {
            self.gone(id);
        }
    }
}

/// A kind that buffers may refer to; nothing of it is kept but which generation was seen.
struct Referred<'a, K> {
    ctx: &'a Context,
    /// Of objects that some buffer refers to.
    generations: Mutex<BTreeMap<PodId, Option<i64>>>,
    kind: PhantomData<K>,
}

impl<'a, K: Resource<DynamicType = ()>> Referred<'a, K> {
    fn new(ctx: &'a Context) -> Self {
        Self { ctx, generations: Mutex::default(), kind: PhantomData }
    }

    fn wake(&self, object: &PodId) -> bool {
        let mut referred = false;
        for buffer in self.ctx.buffers.all() {
            let view = convert::buffer(&buffer).view;
            let points = view.reference.as_ref().is_some_and(|of| of.points_to(&K::kind(&()), &object.name));
            if points && view.id.namespace == object.namespace {
                self.ctx.queues.buffers.add(view.id.to_string());
                referred = true;
            }
        }
        referred
    }
}

impl<K> Follower for Referred<'_, K>
where
    K: Resource<DynamicType = ()> + Clone + Debug,
{
    type Object = K;

    fn applied(&self, object: K) {
        let id = PodId::new(object.namespace().unwrap_or_default(), object.name_any());
        // The status of a workload changes with each of its pods; only what its owner changes matters. Templates have no
        // status, and no generation either on servers that keep none for them.
        let generation = object.meta().generation.filter(|_| K::kind(&()) != "PodTemplate");
        let known = lock(&self.generations).get(&id).copied();
        if generation.is_some() && known == Some(generation) {
            return;
        }
        if self.wake(&id) {
            lock(&self.generations).insert(id, generation);
        }
    }

    fn gone(&self, id: &ObjectId) {
        lock(&self.generations).remove(id);
        self.wake(id);
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let gone: Vec<PodId> = lock(&self.generations).keys().filter(|id| !ids.contains(*id)).cloned().collect();
        for id in &gone {
            self.gone(id);
        }
    }
}
