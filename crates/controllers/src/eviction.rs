//! Asks pods to leave, one at a time each, again with growing pauses (LIF-58 … LIF-63).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert;
use karpenter_lifecycle::{Attempt, Blocked, EvictionAnswer, EvictionKey, attempt, eviction_answer};
use karpenter_model::pod::{PodId, PodView};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};

use crate::context::Context;
use crate::events::catalogue::DrainObstacle;
use crate::queue::{ReconcileError, Requeue};
use crate::report::FORCEFUL;

/// The name under which a pod stands in the queue.
pub(crate) fn name_of(key: &EvictionKey) -> String {
    format!("{}/{}/{}", key.id.namespace, key.id.name, key.uid)
}

fn key_of(name: &str) -> Option<EvictionKey> {
    let mut parts = name.split('/');
    let id = PodId::new(parts.next()?, parts.next()?);
    Some(EvictionKey { id, uid: parts.next()?.into() })
}

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some((key, insistence)) = key_of(&name).and_then(|key| Some((key.clone(), ctx.memory.insistence(&key)?)))
    else {
        return Ok(Requeue::OnChange);
    };
    let pod = ctx.state().pod(&key.id);
    let verdict = attempt(pod.as_deref(), &key, insistence, ctx.clock.now());
    let Some(pod) = pod.filter(|_| verdict != Attempt::Drop) else {
        ctx.memory.stop_asking(&key);
        return Ok(Requeue::OnChange);
    };
    match verdict {
        Attempt::Drop => Ok(Requeue::OnChange),
        Attempt::Wait => Ok(Requeue::Backoff),
        // Accepted already; the pod is on its way out and the watch will say so.
        Attempt::Evict if ctx.memory.has_agreed(&key) => Ok(Requeue::OnChange),
        Attempt::Evict => evict(&ctx, &key, &pod).await,
        Attempt::ForceDelete { grace_seconds, deadline } => {
            ctx.report.force_deleting(&pod, deadline, grace_seconds);
            force_delete(&ctx, &key, &pod, grace_seconds).await
        }
    }
}

/// Why the pod's node goes, by its claim's word (LIF-63).
fn reason(ctx: &Context, pod: &PodView) -> String {
    let node = pod.node_name.as_deref().and_then(|name| ctx.nodes.get(name));
    let id = node.and_then(|node| node.spec.as_ref()?.provider_id.clone()).unwrap_or_default();
    match &ctx.state().claims_by_provider_id(&id)[..] {
        [claim] => claim.disruption_reason.clone().unwrap_or_else(|| FORCEFUL.to_owned()),
        _ => String::new(),
    }
}

fn this_pod(key: &EvictionKey) -> Preconditions {
    Preconditions { uid: Some(key.uid.to_string()), resource_version: None }
}

async fn evict(ctx: &Context, key: &EvictionKey, pod: &PodView) -> Result<Requeue, ReconcileError> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &key.id.namespace);
    let params = EvictParams {
        delete_options: Some(DeleteParams { preconditions: Some(this_pod(key)), ..DeleteParams::default() }),
        ..EvictParams::default()
    };
    let status = match api.evict(&key.id.name, &params).await {
        Ok(_) => {
            ctx.memory.note_agreed(key);
            ctx.report.evicted(pod.node_name.as_deref().unwrap_or_default(), pod, &reason(ctx, pod));
            return Ok(Requeue::OnChange);
        }
        Err(kube::Error::Api(status)) => status,
        Err(error) => return Err(error.into()),
    };
    ctx.report.eviction_failed(status.code);
    match eviction_answer(status.code, &status.message) {
        EvictionAnswer::Gone => {
            ctx.memory.stop_asking(key);
            Ok(Requeue::OnChange)
        }
        EvictionAnswer::Blocked(why) => {
            let node = pod.node_name.as_deref().and_then(|name| ctx.nodes.get(name));
            let Some(node) = node else {
                // Nobody waits for the pod any more (V15-114).
                ctx.memory.stop_asking(key);
                return Ok(Requeue::OnChange);
            };
            let obstacle = match why {
                Blocked::Budget => DrainObstacle::Budget(&pod.id),
                Blocked::SeveralBudgets => DrainObstacle::SeveralBudgets(&pod.id),
            };
            ctx.report.draining(&convert::node(&node).view, &obstacle);
            Ok(Requeue::Backoff)
        }
        EvictionAnswer::Failed => Err(kube::Error::Api(status).into()),
    }
}

/// Any answer but success and "gone" is an error: also that the pod is another one by now, which the next look sees.
async fn force_delete(
    ctx: &Context,
    key: &EvictionKey,
    pod: &PodView,
    grace_seconds: u32,
) -> Result<Requeue, ReconcileError> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &key.id.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(grace_seconds),
        preconditions: Some(this_pod(key)),
        ..DeleteParams::default()
    };
    match api.delete(&key.id.name, &params).await {
        Ok(answer) => {
            // What the API made of it counts at once, so that nobody asks for the same again.
            if let Some(left) = answer.left() {
                ctx.note_pod(&left);
            }
            ctx.report.count_drained(&reason(ctx, pod));
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    ctx.memory.stop_asking(key);
    Ok(Requeue::OnChange)
}
