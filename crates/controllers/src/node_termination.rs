//! Drains a deleted node and lets it go.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::convert;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::conditions::{self, reasons};
use karpenter_api::names::labels;
use karpenter_lifecycle::{Drain, Termination, termination};
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::taints::Taint;
use karpenter_platform::InstanceError;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::context::Context;
use crate::nodeclaim_lifecycle::{mark_terminating, write_conditions};
use crate::patch::{delete_if_present, ignore_gone, merge_locked, without_finalizer};
use crate::queue::{ReconcileError, Requeue};
use crate::report;

const DRAIN_POLL: Duration = Duration::from_secs(1);
const TERMINATION_POLL: Duration = Duration::from_secs(5);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(node) = ctx.nodes.get(&name) else { return Ok(Requeue::OnChange) };
    if !is_managed(&ctx, &node) {
        return Ok(Requeue::OnChange);
    }
    let view = convert::node(&node).view;
    let claim = claim_of(&ctx, view.provider_id.as_deref());
    let claim_view = claim.as_ref().map(|claim| convert::claim(claim, ctx.provider.label_rules()).view);
    let pods = ctx.state().pods_on(&name);
    let pod_views: Vec<&PodView> = pods.iter().map(Arc::as_ref).collect();
    match (termination(&view, claim_view.as_ref(), &pod_views, ctx.clock.now()), claim) {
        (Termination::NotOurs, _) => Ok(Requeue::OnChange),
        (Termination::DeleteClaim(_), Some(claim)) => {
            delete_if_present(&ctx.claims_api(), claim.as_ref()).await?;
            Ok(Requeue::After(DRAIN_POLL))
        }
        (Termination::Taint, _) => taint(&ctx, &node).await,
        (Termination::BeginDrain, Some(claim)) => {
            let mut marked = (*claim).clone();
            let mut all = condition_sets::NODE_CLAIM.of(&mut marked, ctx.clock.now());
            all.set_unknown(conditions::DRAINED, reasons::DRAINING, reasons::DRAINING);
            write_conditions(&ctx, &claim, &marked).await?;
            Ok(Requeue::After(Duration::ZERO))
        }
        (Termination::Drain(Drain::Evict { pods: evict, .. }), claim) => {
            let reason = claim
                .as_ref()
                .and_then(|claim| claim.condition(conditions::DISRUPTION_REASON))
                .map(|c| c.reason.clone());
            for pod in pods.iter().filter(|pod| evict.contains(&pod.id)) {
                evict_pod(&ctx, &view, pod, reason.as_deref()).await?;
            }
            Ok(Requeue::After(DRAIN_POLL))
        }
        (Termination::Drain(_), _) => Ok(Requeue::After(DRAIN_POLL)),
        (Termination::TerminateInstance, Some(claim)) => terminate_instance(&ctx, &node, &claim).await,
        (Termination::RemoveFinalizer, _) => remove_finalizer(&ctx, &node).await,
        // The verdict named a claim, so there was one; should it be gone by now, the next look finds that.
        (Termination::DeleteClaim(_) | Termination::BeginDrain | Termination::TerminateInstance, None) => {
            Ok(Requeue::After(DRAIN_POLL))
        }
    }
}

/// A node is ours when it carries the label of a class we support (API-250).
fn is_managed(ctx: &Context, node: &Node) -> bool {
    let classes = ctx.provider.node_classes().iter();
    classes
        .map(|class| karpenter_api::names::node_class_label(&class.group, &class.kind))
        .any(|label| node.labels().contains_key(&label))
}

/// The one claim of the node; none when there are several (LIF-46).
fn claim_of(ctx: &Context, provider_id: Option<&str>) -> Option<Arc<NodeClaim>> {
    let claims = ctx.state().claims_by_provider_id(provider_id?);
    match &claims[..] {
        [one] => ctx.claims.get(&one.name),
        _ => None,
    }
}

/// LIF-49: another effect under our key is replaced.
async fn taint(ctx: &Context, node: &Node) -> Result<Requeue, ReconcileError> {
    let disrupted = Taint::disrupted();
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.retain(|taint| taint.key != disrupted.key);
    taints.push(convert::node_taint(&disrupted));
    let patch = json!({
        "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: labels::EXCLUDED_BY } },
        "spec": { "taints": taints },
    });
    if let Some(written) = ignore_gone(merge_locked(&ctx.nodes_api(), node, patch).await)? {
        ctx.report.tainted(&convert::node(node).view);
        ctx.note_node(written);
    }
    Ok(Requeue::After(Duration::ZERO))
}

/// Evicts this very pod. What the budget does not allow yet is tried again with the next look (LIF-60).
async fn evict_pod(ctx: &Context, node: &NodeView, pod: &PodView, reason: Option<&str>) -> Result<(), ReconcileError> {
    let PodId { namespace, name } = &pod.id;
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let params = EvictParams {
        delete_options: Some(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }),
        ..EvictParams::default()
    };
    match api.evict(name, &params).await {
        Ok(_) => ctx.report.evicted(&node.name, pod, reason.unwrap_or(report::FORCEFUL)),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 429 | 500) => {
            ctx.report.eviction_refused(node, pod, status.code, &status.message);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn terminate_instance(ctx: &Context, node: &Node, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
    let mut drained = claim.clone();
    if condition_sets::NODE_CLAIM.of(&mut drained, ctx.clock.now()).set_true(conditions::DRAINED) {
        ctx.report.drained(&convert::node(node).view);
        write_conditions(ctx, claim, &drained).await?;
        return Ok(Requeue::After(Duration::ZERO));
    }
    let seen = convert::claim(claim, ctx.provider.label_rules()).view;
    match ctx.provider.delete(&seen).await {
        Ok(()) => {
            mark_terminating(ctx, claim).await?;
            Ok(Requeue::After(TERMINATION_POLL))
        }
        Err(InstanceError::NotFound(_)) => remove_finalizer(ctx, node).await,
        Err(error) => Err(error.into()),
    }
}

async fn remove_finalizer(ctx: &Context, node: &Node) -> Result<Requeue, ReconcileError> {
    ignore_gone(merge_locked(&ctx.nodes_api(), node, without_finalizer(node)).await)?;
    ctx.report.deleted_node(&convert::node(node).view);
    Ok(Requeue::OnChange)
}
