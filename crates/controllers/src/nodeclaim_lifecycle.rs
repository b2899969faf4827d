//! Brings a NodeClaim to life, and to its end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::{self, conditions};
use karpenter_api::{convert, names::conditions::reasons};
use karpenter_lifecycle::{
    Finalization, Initialization, Launch, Liveness, NotRegistered, RegisteredNode, Registration, finalization,
    initialization, launch, liveness, registration,
};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_platform::{CreateError, Instance, InstanceError, Remedy};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::claim_creation::quantities;
use crate::context::Context;
use crate::patch::{delete_if_present, ignore_gone, merge_locked, merge_status_locked, without_finalizer};
use crate::queue::{ReconcileError, Requeue};

/// How soon the provider is asked again whether an instance is gone.
const TERMINATION_POLL: Duration = Duration::from_secs(5);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(claim) = ctx.claims.get(&name) else { return Ok(Requeue::OnChange) };
    if claim.metadata.deletion_timestamp.is_some() {
        return finalize(&ctx, &claim).await;
    }
    let view = view(&ctx, &claim);
    match launch(&view) {
        Launch::AddFinalizerFirst => {
            let mut finalizers = claim.finalizers().to_vec();
            finalizers.push(names::FINALIZER.to_owned());
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            if let Some(stored) = ignore_gone(merge_locked(&ctx.claims_api(), &claim, patch).await)? {
                ctx.note_claim(stored);
                ctx.queues.claims.add(name);
            }
            Ok(Requeue::OnChange)
        }
        Launch::AskProvider | Launch::Done => live(&ctx, &claim, view).await,
    }
}

fn view(ctx: &Context, claim: &NodeClaim) -> ClaimView {
    convert::claim(claim, ctx.provider.label_rules()).view
}

fn nodes_of(ctx: &Context, claim: &ClaimView) -> Vec<Arc<NodeView>> {
    claim.provider_id.as_deref().map(|id| ctx.state().nodes_by_provider_id(id)).unwrap_or_default()
}

/// Launch, registration, initialization and liveness, all of them, then one write of what changed (LIF-11, LIF-12).
async fn live(ctx: &Context, stored: &NodeClaim, mut seen: ClaimView) -> Result<Requeue, ReconcileError> {
    let mut claim = stored.clone();
    let now = ctx.clock.now();
    let launch_error = match launch(&seen) {
        Launch::AskProvider => launch_instance(ctx, &mut claim, &seen, now).await,
        Launch::AddFinalizerFirst | Launch::Done => None,
    };
    if let Some(error) = &launch_error
        && error.remedy() == Remedy::DeleteClaim
    {
        ctx.report.launch_gave_up(&seen, error, &[]);
        delete_if_present(&ctx.claims_api(), stored).await?;
        return Ok(Requeue::OnChange);
    }
    seen = view(ctx, &claim);
    let registered = register(ctx, &mut claim, &seen, now).await;
    seen = view(ctx, &claim);
    let initialized = initialize(ctx, &mut claim, &seen, now).await;
    let liveness = liveness(&view(ctx, &claim), now);
    if let Liveness::Expired(timeout) = liveness {
        ctx.report.timed_out(&view(ctx, &claim), timeout);
        delete_if_present(&ctx.claims_api(), stored).await?;
        return Ok(Requeue::OnChange);
    }
    write_changes(ctx, stored, &claim).await?;
    if let Some(error) = launch_error {
        return Err(error.into());
    }
    registered?;
    initialized?;
    Ok(match liveness {
        Liveness::Waiting { until } => {
            Requeue::After(until.duration_since(now).try_into().unwrap_or(Duration::from_secs(1)))
        }
        Liveness::Alive | Liveness::Expired(_) => Requeue::OnChange,
    })
}

/// Asks the provider, or takes the answer it already gave for this claim (LIF-15, LIF-16).
async fn launch_instance(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    now: Timestamp,
) -> Option<CreateError> {
    let remembered = lock(&ctx.launched).get(&seen.uid).cloned();
    let answer = match remembered {
        Some(instance) => Ok(instance),
        None => ctx.provider.create(seen).await,
    };
    match answer {
        Ok(instance) => {
            ctx.report.launched(seen, &instance);
            lock(&ctx.launched).insert(seen.uid.clone(), instance.clone());
            fill_launched(claim, instance);
            condition_sets::NODE_CLAIM.of(claim, now).set_true(conditions::LAUNCHED);
            None
        }
        Err(error) => {
            let (reason, message) = match &error {
                CreateError::Explained { reason, message } => (reason.clone(), message.clone()),
                other => (reasons::LAUNCH_FAILED.to_owned(), shortened(&other.to_string())),
            };
            condition_sets::NODE_CLAIM.of(claim, now).set_unknown(conditions::LAUNCHED, &reason, &message);
            Some(error)
        }
    }
}

/// Labels of the claim win over the provider's, annotations the other way round (API-139).
fn fill_launched(claim: &mut NodeClaim, instance: Instance) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in instance.labels {
        labels.entry(key).or_insert(value);
    }
    claim.metadata.annotations.get_or_insert_default().extend(instance.annotations);
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(instance.provider_id);
    status.image_id = instance.image_id;
    status.capacity = Some(quantities(&instance.capacity));
    status.allocatable = Some(quantities(&instance.allocatable));
}

/// Error texts of 300 bytes or more are cut (API-78).
fn shortened(text: &str) -> String {
    const LIMIT: usize = 300;
    if text.len() < LIMIT {
        return text.to_owned();
    }
    let end = (0..=LIMIT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

async fn register(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let nodes = nodes_of(ctx, seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    match registration(seen, &nodes) {
        Registration::Done => {}
        Registration::NotYet(NotRegistered::NodeNotFound) => {
            let message = conditions::messages::NODE_NOT_REGISTERED;
            let mut all = condition_sets::NODE_CLAIM.of(claim, now);
            all.set_unknown(conditions::REGISTERED, reasons::NODE_NOT_FOUND, message);
        }
        Registration::NotYet(NotRegistered::MultipleNodes) => {
            let message = conditions::messages::MULTIPLE_NODES_FOUND;
            let mut all = condition_sets::NODE_CLAIM.of(claim, now);
            all.set_false(conditions::REGISTERED, reasons::MULTIPLE_NODES_FOUND, message);
        }
        Registration::Register(node) => {
            if node.guard_was_missing {
                ctx.report.guard_taint_missing(seen, &node.name);
            }
            if !write_registered_node(ctx, claim, &node).await? {
                return Ok(());
            }
            claim.status.get_or_insert_default().node_name = Some(node.name.clone());
            condition_sets::NODE_CLAIM.of(claim, now).set_true(conditions::REGISTERED);
            ctx.report.registered(seen, &node.name);
        }
    }
    Ok(())
}

/// Finalizer, owner, labels, annotations and taints in one write (LIF-23, LIF-25). `false` when the node is gone.
async fn write_registered_node(
    ctx: &Context,
    claim: &NodeClaim,
    registered: &RegisteredNode,
) -> Result<bool, ReconcileError> {
    let Some(node) = ctx.nodes.get(&registered.name) else { return Ok(false) };
    let mut finalizers = node.finalizers().to_vec();
    if !finalizers.iter().any(|name| name == names::FINALIZER) {
        finalizers.push(names::FINALIZER.to_owned());
    }
    let taints: Vec<_> = registered.taints.iter().map(convert::node_taint).collect();
    let patch = json!({
        "metadata": {
            "labels": registered.labels,
            "annotations": registered.annotations,
            "finalizers": finalizers,
            "ownerReferences": owners_with(&node, claim),
        },
        "spec": { "taints": taints },
    });
    let written = ignore_gone(merge_locked(&ctx.nodes_api(), node.as_ref(), patch).await)?;
    Ok(written.map(|node| ctx.note_node(node)).is_some())
}

fn owners_with(node: &Node, claim: &NodeClaim) -> Vec<OwnerReference> {
    let mut owners = node.owner_references().to_vec();
    let uid = claim.uid().unwrap_or_default();
    if !owners.iter().any(|owner| owner.uid == uid) {
        owners.push(OwnerReference {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            name: claim.name_any(),
            uid,
            block_owner_deletion: Some(true),
            controller: None,
        });
    }
    owners
}

async fn initialize(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let nodes = nodes_of(ctx, seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    match initialization(seen, &nodes) {
        Initialization::Done | Initialization::NotRegistered => {}
        Initialization::NotYet(why) => {
            let mut all = condition_sets::NODE_CLAIM.of(claim, now);
            all.set_unknown(conditions::INITIALIZED, why.reason(), &why.message());
        }
        Initialization::Initialize { node } => {
            let patch = json!({ "metadata": { "labels": { names::labels::INITIALIZED: names::labels::TRUE } } });
            let written = ctx.nodes_api().patch(&node, &PatchParams::default(), &Patch::Merge(patch)).await;
            if let Some(written) = ignore_gone(written)? {
                ctx.note_node(written);
                condition_sets::NODE_CLAIM.of(claim, now).set_true(conditions::INITIALIZED);
                ctx.report.initialized(seen, &node);
            }
        }
    }
    Ok(())
}

/// Metadata first, then status, each only if it changed (LIF-12).
async fn write_changes(ctx: &Context, stored: &NodeClaim, claim: &NodeClaim) -> Result<(), ReconcileError> {
    if claim.metadata != stored.metadata {
        let patch = json!({ "metadata": { "labels": claim.labels(), "annotations": claim.annotations() } });
        let written = ctx.claims_api().patch(&stored.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        match ignore_gone(written)? {
            Some(written) => ctx.note_claim(written),
            None => return Ok(()),
        };
    }
    if claim.status != stored.status {
        let patch = json!({ "status": claim.status });
        let api = ctx.claims_api();
        let written = api.patch_status(&stored.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(written) = ignore_gone(written)? {
            if written.condition(conditions::LAUNCHED).is_some_and(karpenter_api::kinds::Condition::is_true) {
                lock(&ctx.launched).remove(&written.uid().unwrap_or_default());
            }
            ctx.note_claim(written);
            ctx.provision.notify_one();
        }
    }
    Ok(())
}

async fn finalize(ctx: &Context, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
    let mut seen = view(ctx, claim);
    // A launch whose answer was not written down yet is known to this process only.
    if seen.provider_id.is_none() {
        seen.provider_id = lock(&ctx.launched).get(&seen.uid).map(|instance| instance.provider_id.clone());
    }
    let nodes = nodes_of(ctx, &seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    match finalization(&seen, &nodes) {
        Finalization::NotOurs | Finalization::WaitForNodes => Ok(Requeue::OnChange),
        Finalization::DeleteNodes(names) => {
            for node in names.iter().filter_map(|name| ctx.nodes.get(name)) {
                delete_if_present(&ctx.nodes_api(), node.as_ref()).await?;
            }
            Ok(Requeue::OnChange)
        }
        Finalization::TerminateInstance => match ctx.provider.delete(&seen).await {
            Ok(()) => {
                mark_terminating(ctx, claim).await?;
                Ok(Requeue::After(TERMINATION_POLL))
            }
            Err(InstanceError::NotFound(_)) => {
                if let Some(asked) = seen.instance_terminating {
                    ctx.report.instance_terminated(&seen, asked.since);
                }
                remove_finalizer(ctx, claim).await
            }
            Err(error) => Err(error.into()),
        },
        Finalization::RemoveFinalizer => remove_finalizer(ctx, claim).await,
    }
}

pub(crate) async fn mark_terminating(ctx: &Context, claim: &NodeClaim) -> Result<(), ReconcileError> {
    let mut marked = claim.clone();
    if condition_sets::NODE_CLAIM.of(&mut marked, ctx.clock.now()).set_true(conditions::INSTANCE_TERMINATING) {
        write_conditions(ctx, claim, &marked).await?;
    }
    Ok(())
}

/// Replaces the condition list, if nobody else changed the claim meanwhile (API-124).
pub(crate) async fn write_conditions(
    ctx: &Context,
    stored: &NodeClaim,
    changed: &NodeClaim,
) -> Result<(), ReconcileError> {
    let status = json!({ "conditions": changed.conditions() });
    if let Some(written) = ignore_gone(merge_status_locked(&ctx.claims_api(), stored, status).await)? {
        ctx.note_claim(written);
    }
    Ok(())
}

async fn remove_finalizer(ctx: &Context, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
    ignore_gone(merge_locked(&ctx.claims_api(), claim, without_finalizer(claim)).await)?;
    lock(&ctx.launched).remove(&claim.uid().unwrap_or_default());
    ctx.report.deleted_claim(&view(ctx, claim));
    Ok(Requeue::OnChange)
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
