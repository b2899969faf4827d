//! What is written to nodes and claims that go, and taken off those that stay (DIS-5, DIS-171).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Taint as NodeTaint};
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::conditions as condition_sets;
use karpenter_api::conditions::Conditioned as _;
use karpenter_api::convert;
use karpenter_api::kinds::{ConditionStatus, NodeClaim};
use karpenter_api::names::annotations::TERMINATION_TIMESTAMP;
use karpenter_api::names::conditions;
use karpenter_disruption::repair::tightened;
use karpenter_model::taints::Taint;
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::record::{COMMAND, Record};
use crate::context::Context;
use crate::patch::{merge_locked, merge_status_locked};

/// Before the second, third and fourth attempt.
const PAUSES: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// Writes what is wanted of the object; after a failure it is read again. `None` when it is gone.
async fn insist<K, F>(
    api: &Api<K>,
    known: Arc<K>,
    note: impl Fn(K) -> Arc<K>,
    write: impl Fn(Arc<K>) -> F,
) -> Result<Option<Arc<K>>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    F: Future<Output = Result<Option<K>, kube::Error>>,
{
    let mut object = known;
    let mut pauses = PAUSES.iter();
    loop {
        let error = match write(object.clone()).await {
            Ok(written) => return Ok(Some(written.map_or(object, &note))),
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => error,
        };
        let Some(pause) = pauses.next() else { return Err(error) };
        tokio::time::sleep(*pause).await;
        match api.get_opt(&object.name_any()).await {
            Ok(Some(read)) => object = note(read),
            Ok(None) => return Ok(None),
            // The next attempt says whether that is serious.
            Err(_) => {}
        }
    }
}

/// Record, taint, condition; a claim or node that is gone needs neither.
pub(super) async fn mark(ctx: &Context, claim: &str, node: &str, record: &Record) -> Result<(), kube::Error> {
    let Some(known) = ctx.claims.get(claim) else { return Ok(()) };
    let api = ctx.claims_api();
    let text = record.text();
    let written =
        insist(&api, known, |claim| ctx.note_claim(claim), |claim| set_record(&api, claim, Some(text.clone())));
    let Some(claim) = written.await? else { return Ok(()) };
    if let Some(node) = ctx.nodes.get(node) {
        set_taint(ctx, node, true).await?;
    }
    let reason = record.method().reason().as_str();
    insist(&api, claim, |claim| ctx.note_claim(claim), |claim| set_reason(ctx, &api, claim, Some(reason))).await?;
    Ok(())
}

/// Taint, condition and record of a claim that stays, in this order: the record says that there is something to undo.
pub(super) async fn release(ctx: &Context, claim: &str, node: Option<&str>) -> Result<(), kube::Error> {
    // A node that is being deleted keeps its taint: it goes after all.
    let staying = node.and_then(|node| ctx.nodes.get(node)).filter(|node| node.metadata.deletion_timestamp.is_none());
    if let Some(node) = staying {
        set_taint(ctx, node, false).await?;
    }
    let Some(claim) = ctx.claims.get(claim) else { return Ok(()) };
    let api = ctx.claims_api();
    let note = |claim| ctx.note_claim(claim);
    let written = insist(&api, claim, note, |claim| set_reason(ctx, &api, claim, None)).await?;
    if let Some(claim) = written {
        insist(&api, claim, note, |claim| set_record(&api, claim, None)).await?;
    }
    Ok(())
}

/// The claim's node has to be empty by then, or sooner if that was said before (V15-50).
pub(super) async fn tighten(ctx: &Context, claim: &Arc<NodeClaim>, bound: SignedDuration) -> Result<(), kube::Error> {
    let api = ctx.claims_api();
    let write = |claim: Arc<NodeClaim>| {
        let api = &api;
        async move {
            let written = claim.annotations().get(TERMINATION_TIMESTAMP).map(String::as_str);
            let Some(deadline) = tightened(written, bound, ctx.clock.now()) else { return Ok(None) };
            let wanted = json!({ TERMINATION_TIMESTAMP: deadline.to_string() });
            merge_locked(api, claim.as_ref(), json!({ "metadata": { "annotations": wanted } })).await.map(Some)
        }
    };
    insist(&api, claim.clone(), |claim| ctx.note_claim(claim), write).await.map(|_| ())
}

async fn set_record(
    api: &Api<NodeClaim>,
    claim: Arc<NodeClaim>,
    text: Option<String>,
) -> Result<Option<NodeClaim>, kube::Error> {
    if claim.annotations().get(COMMAND) == text.as_ref() {
        return Ok(None);
    }
    let patch = json!({ "metadata": { "annotations": { COMMAND: text.map_or(Value::Null, Value::String) } } });
    merge_locked(api, claim.as_ref(), patch).await.map(Some)
}

async fn set_reason(
    ctx: &Context,
    api: &Api<NodeClaim>,
    claim: Arc<NodeClaim>,
    reason: Option<&str>,
) -> Result<Option<NodeClaim>, kube::Error> {
    let mut changed = NodeClaim::clone(&claim);
    let mut all = condition_sets::NODE_CLAIM.of(&mut changed, ctx.clock.now());
    let news = match reason {
        Some(reason) => all.set(conditions::DISRUPTION_REASON, ConditionStatus::True, reason, reason),
        None => all.remove(conditions::DISRUPTION_REASON),
    };
    if !news {
        return Ok(None);
    }
    // Locked: others write conditions too, and a list is replaced as a whole.
    let status = json!({ "conditions": changed.conditions() });
    merge_status_locked(api, claim.as_ref(), status).await.map(Some)
}

async fn set_taint(ctx: &Context, node: Arc<Node>, tainted: bool) -> Result<(), kube::Error> {
    let api = ctx.nodes_api();
    let disrupted = Taint::disrupted();
    let is_ours = |taint: &NodeTaint| taint.key == disrupted.key && taint.effect == disrupted.effect.as_str();
    let write = |node: Arc<Node>| {
        let (api, is_ours, disrupted) = (&api, &is_ours, &disrupted);
        async move {
            let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            if taints.iter().any(is_ours) == tainted {
                return Ok(None);
            }
            taints.retain(|taint| !is_ours(taint));
            taints.extend(tainted.then(|| convert::node_taint(disrupted)));
            merge_locked(api, node.as_ref(), json!({ "spec": { "taints": taints } })).await.map(Some)
        }
    };
    insist(&api, node, |node| ctx.note_node(node), write).await.map(|_| ())
}
