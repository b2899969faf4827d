//! CapacityBuffers: what they refer to, the pods that stand for them, and what passes say about them (SCH-180 … SCH-189).

mod lookup;
mod watched;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::convert;
use karpenter_api::kinds::capacitybuffer::{CapacityBufferStatus, LocalObjectRef};
use karpenter_api::kinds::{CapacityBuffer, Condition, ConditionStatus};
use karpenter_model::buffer::{BufferView, Found, Resolution};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::Plan;
use karpenter_solver::buffers::{Provisioning, pods_by_node, provisioning};
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::patch::merge_status_locked;
use crate::queue::{ReconcileError, Requeue};

pub(crate) use watched::watch;

/// Workloads change their size without telling us (API-108).
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Somebody else wrote the status, or the buffer is gone (SCH-183).
const OVERTAKEN_RETRY: Duration = Duration::from_secs(1);

const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
const PROVISIONING: &str = "Provisioning";

/// The buffers, and the pods that stand for them. All of it is found again after a restart.
#[derive(Debug, Default)]
pub struct Buffers {
    known: Mutex<BTreeMap<PodId, Arc<CapacityBuffer>>>,
    pods: Mutex<BTreeMap<PodId, Vec<Arc<PodView>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that could panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffers {
    fn get(&self, id: &PodId) -> Option<Arc<CapacityBuffer>> {
        lock(&self.known).get(id).cloned()
    }

    fn all(&self) -> Vec<Arc<CapacityBuffer>> {
        lock(&self.known).values().cloned().collect()
    }

    /// Keeps the object unless a newer version of it is known.
    fn put(&self, buffer: CapacityBuffer) {
        let version = |buffer: &CapacityBuffer| buffer.resource_version().and_then(|text| text.parse::<u64>().ok());
        let mut known = lock(&self.known);
        let before = known.get(&id(&buffer));
        let older = before.is_some_and(|before| before.uid() == buffer.uid() && version(&buffer) < version(before));
        if !older {
            known.insert(id(&buffer), Arc::new(buffer));
        }
    }

    fn forget(&self, id: &PodId) {
        lock(&self.known).remove(id);
    }

    /// The pods of all buffers, for a pass; nobody changes them (SCH-186).
    pub(crate) fn virtual_pods(&self) -> Vec<Arc<PodView>> {
        lock(&self.pods).values().flatten().cloned().collect()
    }

    fn replace_pods(&self, id: &PodId, pods: Vec<Arc<PodView>>) {
        lock(&self.pods).insert(id.clone(), pods);
    }

    fn drop_pods(&self, id: &PodId) {
        lock(&self.pods).remove(id);
    }
}

fn id(buffer: &CapacityBuffer) -> PodId {
    PodId::new(buffer.namespace().unwrap_or_default(), buffer.name_any())
}

fn id_of(name: &str) -> PodId {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    PodId::new(namespace, name)
}

fn api(ctx: &Context, id: &PodId) -> Api<CapacityBuffer> {
    Api::namespaced(ctx.client.clone(), &id.namespace)
}

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let id = id_of(&name);
    let Some(stored) = ctx.buffers.get(&id) else {
        ctx.buffers.drop_pods(&id);
        ctx.provision.notify_one();
        return Ok(Requeue::OnChange);
    };
    let converted = convert::buffer(&stored);
    ctx.report.problems(&converted.problems);
    let mut view = converted.view;
    let found = match view.reference.as_ref().filter(|reference| reference.is_supported()) {
        Some(reference) => lookup::look_up(&ctx, &id.namespace, reference).await,
        None => Found::Missing,
    };
    let resolution = view.resolve(|_| found.clone());
    let status = resolved_status(&stored, &resolution, ctx.clock.now());
    if stored.status.as_ref() != Some(&status) && !write(&ctx, &stored, &status).await? {
        return Ok(Requeue::After(OVERTAKEN_RETRY));
    }
    match (resolution, found) {
        (Resolution::Resolved { replicas, .. }, Found::Shape(shape)) => {
            (view.ready, view.desired) = (true, Some(replicas));
            ctx.buffers.replace_pods(&id, view.virtual_pods(&shape, ctx.clock.now()));
            // Every time: the pods may be new, or have lost their room (SCH-184).
            ctx.provision.trigger(&view.uid);
        }
        // What was resolved before stays, although the condition says otherwise (API-109).
        (Resolution::Retry { message }, _) => return Err(message.into()),
        (Resolution::Unresolved { .. } | Resolution::Resolved { .. }, _) => {
            ctx.buffers.drop_pods(&id);
            ctx.provision.notify_one();
        }
    }
    Ok(Requeue::After(LOOK_EVERY))
}

/// API-105, API-106: what could not be resolved keeps the numbers of before.
fn resolved_status(stored: &CapacityBuffer, resolution: &Resolution, now: Timestamp) -> CapacityBufferStatus {
    let mut status = stored.status.clone().unwrap_or_default();
    status.provisioning_strategy.clone_from(&stored.spec.provisioning_strategy);
    let (ready, message) = match resolution {
        Resolution::Resolved { replicas, pod_template } => {
            status.replicas = Some(i32::try_from(*replicas).unwrap_or(i32::MAX));
            status.pod_template_ref = pod_template.as_ref().map(|(name, _)| LocalObjectRef { name: name.clone() });
            status.pod_template_generation = pod_template.as_ref().and_then(|(_, generation)| *generation);
            (ConditionStatus::True, String::new())
        }
        Resolution::Unresolved { message, .. } | Resolution::Retry { message } => {
            (ConditionStatus::False, message.clone())
        }
    };
    let condition = (READY_FOR_PROVISIONING, ready, resolution.reason().as_str(), message);
    set_condition(&mut status, stored.metadata.generation, condition, now);
    status
}

/// A plain condition: nothing follows from it.
fn set_condition(
    status: &mut CapacityBufferStatus,
    generation: Option<i64>,
    (type_, value, reason, message): (&str, ConditionStatus, &str, String),
    now: Timestamp,
) {
    let all = status.conditions.get_or_insert_default();
    let before = all.iter().position(|condition| condition.type_ == type_);
    let since = before.map(|at| &all[at]).filter(|before| before.status == value);
    let since = since.map_or_else(|| Time(now), |before| before.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: value,
        observed_generation: generation,
        last_transition_time: since,
        reason: reason.to_owned(),
        message,
    };
    match before {
        Some(at) => all[at] = condition,
        None => all.push(condition),
    }
}

/// Whether it was written; not when somebody else was faster or the buffer is gone.
async fn write(ctx: &Context, stored: &CapacityBuffer, status: &CapacityBufferStatus) -> Result<bool, ReconcileError> {
    let mut patch = serde_json::to_value(status)?;
    // What is not set any more has to be taken away.
    for (member, gone) in [
        ("podTemplateRef", status.pod_template_ref.is_none()),
        ("podTemplateGeneration", status.pod_template_generation.is_none()),
    ] {
        if gone {
            patch[member] = serde_json::Value::Null;
        }
    }
    match merge_status_locked(&api(ctx, &id(stored)), stored, patch).await {
        Ok(written) => {
            ctx.buffers.put(written);
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a pass means for buffers: their condition, and which nodes are not empty although nobody runs there (SCH-28,
/// SCH-188, SCH-189). `None`: no pass was needed, so only what needs none is said.
pub(crate) async fn refresh(ctx: &Context, pass: Option<(&Snapshot, &Plan)>) {
    if !ctx.features.capacity_buffers {
        return;
    }
    if let Some(counts) = counts(pass, ctx.buffers.virtual_pods().is_empty()) {
        ctx.state().set_buffer_pods(counts);
    }
    for buffer in ctx.buffers.all() {
        let view: BufferView = convert::buffer(&buffer).view;
        let verdict = match pass {
            Some((snapshot, plan)) if !snapshot.pools.is_empty() || !view.ready => provisioning(&view, snapshot, plan),
            _ => provisioning(&view, &Snapshot::default(), &Plan::default()),
        };
        write_provisioning(ctx, &buffer, &verdict).await;
    }
}

/// Pods of buffers by node; `None`: what is known stays (Q26).
fn counts(pass: Option<(&Snapshot, &Plan)>, no_virtual_pods: bool) -> Option<BTreeMap<String, u32>> {
    match pass {
        // Without a usable pool the pass says nothing about where the pods would go.
        Some((snapshot, _)) if snapshot.pools.is_empty() => None,
        Some((snapshot, plan)) => {
            let counts = pods_by_node(snapshot, plan).into_iter();
            Some(counts.map(|(node, count)| (node, u32::try_from(count).unwrap_or(u32::MAX))).collect())
        }
        None => no_virtual_pods.then(BTreeMap::new),
    }
}

/// A write that fails is made up for by the next pass.
async fn write_provisioning(ctx: &Context, stored: &CapacityBuffer, verdict: &Provisioning) {
    let Some((fits, reason)) = verdict.condition() else { return };
    let value = if fits { ConditionStatus::True } else { ConditionStatus::False };
    let mut status = stored.status.clone().unwrap_or_default();
    let condition = (PROVISIONING, value, reason, verdict.message());
    set_condition(&mut status, stored.metadata.generation, condition, ctx.clock.now());
    if stored.status.as_ref() == Some(&status) {
        return;
    }
    let patch = serde_json::json!({ "conditions": status.conditions });
    match merge_status_locked(&api(ctx, &id(stored)), stored, patch).await {
        Ok(written) => ctx.buffers.put(written),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
        Err(error) => ctx.report.loop_failed("provisioner", &error),
    }
}

#[cfg(test)]
mod tests;
