//! Tells ReplicaSets which pods to give up first: those of nodes that would go anyway (V15-92 … V15-98).
//!
//! A loop ranks the nodes and says what each pod should carry; a queue writes it, pod by pod. With the gate off the loop only
//! takes back what was written while it was on (Z11).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::names::annotations::{MANAGED_DELETION_COST, POD_DELETION_COST};
use karpenter_disruption::deletion_cost::{Stamp, Write, cycle};
use karpenter_model::pod::PodId;
use karpenter_state::{Source, Unsynced, World as Version};
use kube::api::{PartialObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

use crate::context::Context;
use crate::disruption::looking::{Stage, World};
use crate::queue::{ReconcileError, Requeue};
use crate::watches::SeenPod;

const EVERY: Duration = Duration::from_mins(1);
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);
/// Without any change nodes are ranked again after this long, as they are looked at for consolidation (DIS-101).
const FORCED: Duration = Duration::from_mins(5);

/// What pods carry, and what they should.
#[derive(Debug, Default)]
pub(crate) struct DeletionCosts {
    /// Pods that carry anything.
    carried: BTreeMap<PodId, Carried>,
    /// By name in the queue; `None`: nothing. The last one to say so is right.
    wanted: BTreeMap<String, Option<i32>>,
}

#[derive(Debug)]
struct Carried {
    uid: String,
    cost: Option<Box<str>>,
    /// We wrote something.
    marked: bool,
}

impl DeletionCosts {
    /// A pod was seen. With the gate off only what we wrote matters.
    pub(crate) fn note(&mut self, pod: &SeenPod, managing: bool) {
        let marked = pod.managed_cost.is_some();
        if marked || (managing && pod.deletion_cost.is_some()) {
            let carried = Carried { uid: pod.view.uid.to_string(), cost: pod.deletion_cost.clone(), marked };
            self.carried.insert(pod.view.id.clone(), carried);
        } else if !self.carried.is_empty() {
            self.carried.remove(&pod.view.id);
        }
    }

    pub(crate) fn forget(&mut self, pod: &PodId) {
        self.carried.remove(pod);
    }

    fn carried(&self, pod: &PodId, uid: &str) -> Option<String> {
        self.carried.get(pod).filter(|carried| carried.uid == uid)?.cost.as_deref().map(ToOwned::to_owned)
    }

    fn marked(&self) -> impl Iterator<Item = (&PodId, &str)> {
        self.carried.iter().filter(|(_, carried)| carried.marked).map(|(id, carried)| (id, carried.uid.as_str()))
    }

    pub(crate) fn want(&mut self, name: &str, value: Option<i32>) {
        self.wanted.insert(name.to_owned(), value);
    }

    #[cfg(test)]
    pub(crate) fn nothing_is_wanted(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Written, or not to be written any more; whether something else is wanted by now (Z13).
    fn done(&mut self, name: &str, value: Option<i32>) -> bool {
        if self.wanted.get(name) == Some(&value) {
            self.wanted.remove(name);
        }
        self.wanted.contains_key(name)
    }
}

/// Ranks nodes until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut stamp = Stamp::default();
    let mut ranked = Instant::now();
    loop {
        // A claim that is not launched yet holds up nobody (X2).
        let unlisted = matches!(ctx.state().unsynced(), Some(Unsynced::NotListed(_)));
        if unlisted {
            tokio::time::sleep(UNSYNCED_RETRY).await;
            continue;
        }
        if ranked.elapsed() >= FORCED {
            stamp = Stamp::default();
        }
        let version = ctx.state().world();
        if !stamp.is_current(version) {
            rank(&ctx, &mut stamp).await;
            ranked = Instant::now();
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn rank(ctx: &Context, stamp: &mut Stamp<Version>) {
    let world = World::look(ctx, std::iter::empty()).await.launched_only();
    let look = world.as_look(ctx, Stage::Checking);
    let ranking = {
        let costs = ctx.memory.deletion_costs();
        cycle(&look, &|pod| costs.carried(&pod.id, &pod.uid.to_string()))
    };
    let mut pending: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &ranking.nodes {
        *pending.entry(&node.pool).or_default() += 1;
    }
    ctx.report.deletion_costs_pending(&pending);
    want(ctx, ranking.nodes.iter().flat_map(|node| &node.writes));
    // Nodes whose pool's types could not be listed were not ranked: they are looked at again with the next cycle.
    if world.knows_all_types() {
        stamp.done(world.stamp, &ranking, world.nodes().iter().filter(|node| node.is_managed()).count());
    }
}

fn want<'a>(ctx: &Context, writes: impl Iterator<Item = &'a Write>) {
    for write in writes {
        let name = name_of(&write.pod, &write.uid);
        ctx.memory.deletion_costs().want(&name, write.value);
        ctx.queues.deletion_costs.add(name);
    }
}

/// What was written while the gate was on, once; whether there was any.
pub async fn take_back(ctx: &Context) -> bool {
    while !ctx.state().is_listed(Source::Pods) {
        tokio::time::sleep(UNSYNCED_RETRY).await;
    }
    let ours: Vec<Write> = {
        let costs = ctx.memory.deletion_costs();
        let marked = costs.marked().map(|(pod, uid)| Write { pod: pod.clone(), uid: uid.to_owned(), value: None });
        marked.collect()
    };
    if !ours.is_empty() {
        ctx.report.deletion_costs_taken_back(ours.len());
        want(ctx, ours.iter());
    }
    !ours.is_empty()
}

fn name_of(pod: &PodId, uid: &str) -> String {
    format!("{}/{}/{uid}", pod.namespace, pod.name)
}

/// How a write ended, as the counter calls it (V15-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Updated,
    Unchanged,
    NotFound,
    Conflict,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Unchanged => "skipped_unchanged",
            Self::NotFound => "skipped_notfound",
            Self::Conflict => "skipped_conflict",
        }
    }
}

/// One pod, by namespace, name and UID (V15-97).
pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(value) = ctx.memory.deletion_costs().wanted.get(&name).copied() else { return Ok(Requeue::OnChange) };
    match write(&ctx, &name, value).await {
        Ok(outcome) => {
            if let Some(outcome) = outcome {
                ctx.report.deletion_cost_written(outcome.label());
            }
            let more = ctx.memory.deletion_costs().done(&name, value);
            Ok(if more { Requeue::After(Duration::ZERO) } else { Requeue::OnChange })
        }
        // Without the gate nobody may have given us the right to write to pods, and asking again does not help.
        Err(kube::Error::Api(status)) if status.code == 403 && !ctx.features.pod_deletion_cost => {
            ctx.report.deletion_cost_stays(&name, &status.message);
            ctx.memory.deletion_costs().done(&name, value);
            Ok(Requeue::OnChange)
        }
        Err(error) => {
            ctx.report.deletion_cost_written("error");
            Err(error.into())
        }
    }
}

/// Nothing when the pod is gone or another one has its name (Z33).
async fn write(ctx: &Context, name: &str, value: Option<i32>) -> Result<Option<Outcome>, kube::Error> {
    let mut parts = name.split('/');
    let (Some(namespace), Some(pod), Some(uid)) = (parts.next(), parts.next(), parts.next()) else { return Ok(None) };
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let Some(read) = api.get_metadata_opt(pod).await?.filter(|read| read.uid().as_deref() == Some(uid)) else {
        return Ok(None);
    };
    let text = value.map(|value| value.to_string());
    let Some(annotations) = changes(ctx, &read, text.as_deref()) else { return Ok(Some(Outcome::Unchanged)) };
    let patch = json!({ "metadata": { "resourceVersion": read.resource_version(), "annotations": annotations } });
    match api.patch_metadata(pod, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(Some(Outcome::Updated)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Some(Outcome::NotFound)),
        // Whoever changed the pod will have it ranked again.
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Some(Outcome::Conflict)),
        Err(error) => Err(error),
    }
}

/// The value and the mark that it is ours; nothing where it is right already.
fn changes(ctx: &Context, pod: &PartialObjectMeta<Pod>, text: Option<&str>) -> Option<serde_json::Value> {
    let of = |key: &str| pod.annotations().get(key).map(String::as_str);
    let (cost, mark) = (of(POD_DELETION_COST), of(MANAGED_DELETION_COST));
    if ctx.features.pod_deletion_cost {
        return (cost != text).then(|| json!({ POD_DELETION_COST: text, MANAGED_DELETION_COST: text }));
    }
    // What somebody else wrote since is theirs.
    let kept = cost.filter(|_| cost != mark);
    mark.map(|_| json!({ POD_DELETION_COST: kept, MANAGED_DELETION_COST: null }))
}
