//! Drains a deleted node and lets it go.

mod detaching;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::conditions::{self as condition_sets};
use karpenter_api::convert;
use karpenter_api::kinds::{NodeClaim, NodeClaimStatus};
use karpenter_api::names::conditions::{self, reasons};
use karpenter_api::names::labels;
use karpenter_lifecycle::{Drain, Insistence, InstanceFinding, NodeFacts, Termination, deadline, termination};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use karpenter_model::taints::Taint;
use karpenter_platform::InstanceError;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use serde_json::json;

use crate::context::Context;
use crate::events::catalogue::DrainObstacle;
use crate::nodeclaim_lifecycle::{TERMINATION_POLL, mark_terminating, view, write_conditions};
use crate::patch::{delete_if_present, ignore_gone, merge_locked, without_finalizer};
use crate::queue::{ReconcileError, Requeue};

/// How soon a drain is looked at although nothing happened to its pods: what a watch may have missed shows then.
const DRAIN_POLL: Duration = Duration::from_secs(10);
/// The claim's deletion arrives as an event; this is for the case that it does not.
const CLAIM_POLL: Duration = Duration::from_secs(1);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(node) = ctx.nodes.get(&name).filter(|node| ctx.is_managed_node(node)) else {
        return Ok(Requeue::OnChange);
    };
    let seen = convert::node(&node).view;
    let claim = claim_of(&ctx, seen.provider_id.as_deref());
    let claim_seen = claim.as_ref().map(|claim| view(&ctx, claim));
    let pods = ctx.state().pods_on(&name);
    let pods: Vec<&PodView> = pods.iter().map(Arc::as_ref).collect();
    let now = ctx.clock.now();
    let mut facts =
        NodeFacts { node: &seen, claim: claim_seen.as_ref(), pods: &pods, instance: InstanceFinding::NotAsked };
    let mut step = termination(facts, now);
    if step == Termination::AskForInstance {
        facts.instance = find_instance(&ctx, &seen, now).await?;
        step = termination(facts, now);
    }
    if let Some(deadline) = claim_seen.as_ref().and_then(deadline).filter(|_| step != Termination::NotOurs) {
        ctx.report.grace_period_expiring(&seen, deadline);
    }
    take(&ctx, &node, claim.as_ref(), facts, step).await
}

async fn take(
    ctx: &Context,
    node: &Node,
    claim: Option<&Arc<NodeClaim>>,
    facts: NodeFacts<'_>,
    step: Termination,
) -> Result<Requeue, ReconcileError> {
    match (step, claim) {
        (Termination::NotOurs, _) => Ok(Requeue::OnChange),
        (Termination::DeleteClaim(_), Some(claim)) => {
            delete_if_present(&ctx.claims_api(), claim.as_ref()).await?;
            Ok(Requeue::After(CLAIM_POLL))
        }
        (Termination::AskAgain { at }, _) => Ok(Requeue::After(until(at, ctx.clock.now()))),
        (Termination::LetGo, _) => remove_finalizer(ctx, node).await,
        (Termination::Taint, _) => taint(ctx, node).await,
        (Termination::BeginDrain, Some(claim)) => {
            let mut marked = NodeClaim::clone(claim);
            let mut all = condition_sets::NODE_CLAIM.of(&mut marked, ctx.clock.now());
            all.set_unknown(conditions::DRAINED, reasons::DRAINING, reasons::DRAINING);
            Ok(Requeue::after_write(write_conditions(ctx, claim, &marked).await?.is_some()))
        }
        (Termination::Drain(drain), _) => Ok(ask_pods(ctx, facts.node, &drain)),
        (Termination::EndDrain, Some(claim)) => {
            let mut drained = NodeClaim::clone(claim);
            if condition_sets::NODE_CLAIM.of(&mut drained, ctx.clock.now()).set_true(conditions::DRAINED) {
                if write_conditions(ctx, claim, &drained).await?.is_none() {
                    return Ok(Requeue::after_write(false));
                }
                // Once, when it is stored (LIF-50, Y19).
                ctx.report.drained(facts.node);
            }
            Ok(Requeue::after_write(true))
        }
        (Termination::Volumes, Some(claim)) => detaching::wait(ctx, claim, facts).await,
        (Termination::TerminateInstance, claim) => terminate_instance(ctx, node, claim).await,
        // It was asked just before, so this is not reached; and what a claim was needed for has none any more.
        (Termination::AskForInstance, _)
        | (
            Termination::DeleteClaim(_) | Termination::BeginDrain | Termination::EndDrain | Termination::Volumes,
            None,
        ) => Ok(Requeue::After(CLAIM_POLL)),
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    at.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}

/// The one claim of the node; none when there are several (LIF-46).
fn claim_of(ctx: &Context, provider_id: Option<&str>) -> Option<Arc<NodeClaim>> {
    let claims = ctx.state().claims_by_provider_id(provider_id?);
    match &claims[..] {
        [one] => ctx.claims.get(&one.name),
        _ => None,
    }
}

/// LIF-47. The first time that the provider does not know the instance is remembered.
async fn find_instance(ctx: &Context, node: &NodeView, now: Timestamp) -> Result<InstanceFinding, ReconcileError> {
    let id = node.provider_id.as_deref().unwrap_or_default();
    match ctx.provider.get(id).await {
        Ok(_) => {
            ctx.memory.forget_missing(&node.uid);
            Ok(InstanceFinding::Exists)
        }
        Err(InstanceError::NotFound(_)) => {
            Ok(InstanceFinding::Missing { since: ctx.memory.note_missing(&node.uid, now) })
        }
        Err(error) => Err(error.into()),
    }
}

/// LIF-49: another effect under our key is replaced.
async fn taint(ctx: &Context, node: &Node) -> Result<Requeue, ReconcileError> {
    let disrupted = Taint::disrupted();
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let tainted = |taint: &k8s_openapi::api::core::v1::Taint| {
        taint.key == disrupted.key && taint.effect == disrupted.effect.as_str()
    };
    if !taints.iter().any(tainted) {
        taints.retain(|taint| taint.key != disrupted.key);
        taints.push(convert::node_taint(&disrupted));
    }
    let patch = json!({
        "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: labels::EXCLUDED_BY } },
        "spec": { "taints": taints },
    });
    let stored = ctx.node_written(node, merge_locked(&ctx.nodes_api(), node, patch).await)?;
    if stored.is_some() {
        ctx.report.tainted(&convert::node(node).view);
    }
    Ok(Requeue::after_write(stored.is_some()))
}

/// Hands the pods whose turn it is to the eviction queue; their going wakes the node again (Y11).
fn ask_pods(ctx: &Context, node: &NodeView, drain: &Drain) -> Requeue {
    if drain.waiting > 0 {
        ctx.report.draining(node, &DrainObstacle::Waiting(drain.waiting));
    }
    if let Some((pod, since)) = &drain.held_by {
        ctx.report.draining(node, &DrainObstacle::Protected { pod, since: *since });
    }
    for key in &drain.evict {
        if ctx.memory.ask_to_leave(key, Insistence::Delete { deadline: drain.deadline }) {
            ctx.queues.evictions.add(crate::eviction::name_of(key));
        }
    }
    let now = ctx.clock.now();
    Requeue::After(drain.again_at.map_or(DRAIN_POLL, |at| until(at, now).min(DRAIN_POLL)))
}

/// LIF-67. Without a claim the instance is still terminated, by the node's own provider ID (Y8).
async fn terminate_instance(
    ctx: &Context,
    node: &Node,
    claim: Option<&Arc<NodeClaim>>,
) -> Result<Requeue, ReconcileError> {
    let seen = claim.map_or_else(|| stand_in(ctx, node), |claim| view(ctx, claim));
    let answer = ctx.provider.delete(&seen).await;
    if let Err(InstanceError::Call(_)) = answer {
        return answer.map(|()| Requeue::OnChange).map_err(Into::into);
    }
    if let Some(claim) = claim {
        mark_terminating(ctx, claim).await?;
    }
    match answer {
        Ok(()) => Ok(Requeue::After(TERMINATION_POLL)),
        Err(_) => remove_finalizer(ctx, node).await,
    }
}

/// What the provider needs to know of an instance that has no claim, or several.
pub(crate) fn stand_in(ctx: &Context, node: &Node) -> ClaimView {
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let claim = NodeClaim {
        metadata: ObjectMeta {
            name: node.metadata.name.clone(),
            labels: node.metadata.labels.clone(),
            ..ObjectMeta::default()
        },
        status: Some(NodeClaimStatus { provider_id, ..NodeClaimStatus::default() }),
        ..NodeClaim::default()
    };
    view(ctx, &claim)
}

async fn remove_finalizer(ctx: &Context, node: &Node) -> Result<Requeue, ReconcileError> {
    if ignore_gone(merge_locked(&ctx.nodes_api(), node, without_finalizer(node)).await)?.is_some() {
        ctx.report.deleted_node(&convert::node(node).view);
    }
    ctx.memory.forget_missing(&node.uid().unwrap_or_default());
    Ok(Requeue::OnChange)
}
