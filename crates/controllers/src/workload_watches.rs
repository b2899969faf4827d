//! Who stands behind pods, for the spread constraints of pods that declare none (SCH-147 … SCH-150, V15-99).
//!
//! Followed only where the configuration has such constraints: nobody else asks.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use karpenter_api::convert;
use karpenter_model::pod::PodId;
use karpenter_model::workloads::WorkloadKind;
use karpenter_state::{Change, WorkloadChange};
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::watches::{Follower, ObjectId, follow};

pub(crate) async fn run(ctx: &Context) {
    if !ctx.has_default_spread() {
        return;
    }
    tokio::join!(
        follow(ctx, Api::all(ctx.client.clone()), Behind::<Service>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Behind::<ReplicationController>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Behind::<ReplicaSet>::new(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Behind::<StatefulSet>::new(ctx)),
    );
}

/// A kind of object that stands behind pods.
trait Stands: Sized {
    fn change(&self, ctx: &Context) -> WorkloadChange;
    fn gone(id: PodId) -> WorkloadChange;
}

impl Stands for Service {
    fn change(&self, _: &Context) -> WorkloadChange {
        WorkloadChange::Service(Arc::new(convert::service(self)))
    }

    fn gone(id: PodId) -> WorkloadChange {
        WorkloadChange::ServiceGone(id)
    }
}

impl Stands for ReplicationController {
    fn change(&self, _: &Context) -> WorkloadChange {
        WorkloadChange::Workload(Arc::new(convert::replication_controller(self)))
    }

    fn gone(id: PodId) -> WorkloadChange {
        WorkloadChange::WorkloadGone(WorkloadKind::ReplicationController, id)
    }
}

impl Stands for ReplicaSet {
    fn change(&self, ctx: &Context) -> WorkloadChange {
        let converted = convert::replica_set(self);
        ctx.report.problems(&converted.problems);
        WorkloadChange::Workload(Arc::new(converted.view))
    }

    fn gone(id: PodId) -> WorkloadChange {
        WorkloadChange::WorkloadGone(WorkloadKind::ReplicaSet, id)
    }
}

impl Stands for StatefulSet {
    fn change(&self, ctx: &Context) -> WorkloadChange {
        let converted = convert::stateful_set(self);
        ctx.report.problems(&converted.problems);
        WorkloadChange::Workload(Arc::new(converted.view))
    }

    fn gone(id: PodId) -> WorkloadChange {
        WorkloadChange::WorkloadGone(WorkloadKind::StatefulSet, id)
    }
}

struct Behind<'a, K> {
    ctx: &'a Context,
    /// Who is known, to find out who is missing from a list.
    known: Mutex<BTreeSet<ObjectId>>,
    kind: PhantomData<K>,
}

impl<'a, K> Behind<'a, K> {
    fn new(ctx: &'a Context) -> Self {
        Self { ctx, known: Mutex::default(), kind: PhantomData }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeSet<ObjectId>> {
        // Nothing under the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Stands + kube::Resource> Follower for Behind<'_, K> {
    type Object = K;

    fn applied(&self, object: K) {
        self.known().insert(ObjectId::new(object.namespace().unwrap_or_default(), object.name_any()));
        self.ctx.state().apply(Change::Workload(object.change(self.ctx)));
    }

    fn gone(&self, id: &ObjectId) {
        self.known().remove(id);
        self.ctx.state().apply(Change::Workload(K::gone(id.clone())));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let missing: Vec<ObjectId> = self.known().difference(&ids).cloned().collect();
        for id in &missing {
            self.gone(id);
        }
        self.ctx.provision.nudge();
    }
}
