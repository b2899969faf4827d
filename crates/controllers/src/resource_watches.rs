//! What is known about devices: what drivers publish, what pods ask for, and what they were given
//! (`dynamicresources.deviceallocation`, SCH-191 … SCH-195).
//!
//! Followed only where devices are looked at. Allocations are read, never written (SCH-216).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use karpenter_api::convert;
use karpenter_lifecycle::SliceView;
use karpenter_state::{Change, DeviceChange, Source};
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::watches::{Follower, ObjectId, follow};

const GROUP_VERSION: &str = "resource.k8s.io/v1";
const KINDS: [&str; 3] = ["ResourceSlice", "DeviceClass", "ResourceClaim"];
/// How soon a cluster that does not have the kinds is asked again: it may be upgraded meanwhile.
const AGAIN: Duration = Duration::from_mins(1);
/// How soon a question that was not answered is asked again.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn run(ctx: &Context) {
    if !ctx.features.dynamic_resources {
        return;
    }
    until_served(ctx).await;
    tokio::join!(
        follow(ctx, Api::all(ctx.client.clone()), Slices(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Classes(ctx)),
        follow(ctx, Api::all(ctx.client.clone()), Claims(ctx)),
    );
}

/// A cluster that does not serve the kinds has no devices, and nobody waits for lists of them.
async fn until_served(ctx: &Context) {
    let mut told = false;
    loop {
        match ctx.client.list_api_group_resources(GROUP_VERSION).await {
            Ok(served) if KINDS.iter().all(|kind| served.resources.iter().any(|known| known.kind == *kind)) => return,
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                ctx.report.devices_unknown(&error);
                tokio::time::sleep(RETRY).await;
                continue;
            }
        }
        if !std::mem::replace(&mut told, true) {
            ctx.report.devices_not_served(GROUP_VERSION);
            for source in Source::DEVICES {
                ctx.state().apply(Change::Listed(source, BTreeSet::new()));
            }
            ctx.provision.nudge();
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn names(ids: BTreeSet<ObjectId>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.name.into()).collect()
}

struct Slices<'a>(&'a Context);

impl Slices<'_> {
    /// The claim of the node may wait for what its drivers publish (LIF-10, LIF-29).
    fn wake(&self, node: &str) {
        let node = self.0.nodes.get(node);
        let provider_id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_deref());
        let claims = provider_id.map(|id| self.0.state().claims_by_provider_id(id)).unwrap_or_default();
        for claim in &claims {
            self.0.queues.wake_claim(&claim.name);
        }
    }
}

impl Follower for Slices<'_> {
    type Object = ResourceSlice;

    /// Slices for the whole cluster say nothing about a node (LIF-29).
    fn applied(&self, slice: ResourceSlice) {
        let converted = convert::resource_slice(&slice, self.0.provider.label_rules());
        self.0.report.problems(&converted.problems);
        let owner = converted.view.owner.clone();
        self.0.state().apply(Change::Device(DeviceChange::Slice(Arc::new(converted.view))));
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
        self.0.provision.nudge();
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::Device(DeviceChange::SliceGone(id.name.to_string())));
        if let Some(node) = self.0.memory.forget_slice(&id.name) {
            self.wake(&node);
        }
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let names = names(ids);
        self.0.memory.retain_slices(&names);
        self.0.state().apply(Change::Listed(Source::Slices, names));
        self.0.provision.nudge();
    }
}

struct Classes<'a>(&'a Context);

impl Follower for Classes<'_> {
    type Object = DeviceClass;

    fn applied(&self, class: DeviceClass) {
        self.0.state().apply(Change::Device(DeviceChange::Class(Arc::new(convert::device_class(&class)))));
        self.0.provision.nudge();
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::Device(DeviceChange::ClassGone(id.name.to_string())));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::DeviceClasses, names(ids)));
        self.0.provision.nudge();
    }
}

struct Claims<'a>(&'a Context);

impl Follower for Claims<'_> {
    type Object = ResourceClaim;

    /// A claim that was made, given something or given back may be what a pod waits for (SCH-192, SC-304).
    fn applied(&self, claim: ResourceClaim) {
        let converted = convert::resource_claim(&claim, self.0.provider.label_rules());
        self.0.report.problems(&converted.problems);
        self.0.state().apply(Change::Device(DeviceChange::Claim(Arc::new(converted.view))));
        self.0.provision.nudge();
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::Device(DeviceChange::ClaimGone(id.clone())));
        self.0.provision.nudge();
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        let known = ids.iter().map(ToString::to_string).collect();
        self.0.state().apply(Change::Listed(Source::ResourceClaims, known));
        self.0.provision.nudge();
    }
}
