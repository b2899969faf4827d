//! What is done about a claim whose instance is in trouble (AWS-218 … AWS-220).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::annotations::TERMINATION_TIMESTAMP;
use karpenter_aws::interruption::messages::Kind;
use karpenter_aws::interruption::reactions::{
    Notice, Reaction, TERMINATING, TERMINATING_NODE, effects, notice, reaction, termination_mode,
};
use karpenter_controllers::events::{EventType, Subject};
use karpenter_controllers::patch::{delete_if_present, ignore_gone};
use karpenter_controllers::queue::ReconcileError;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::Aws;
use crate::report::event;

/// All of it may be done again: what is done already is left as it is.
pub(super) async fn react(aws: &Aws, kind: Kind, claim: &ClaimView) -> Result<(), ReconcileError> {
    let nodes = nodes_of(aws, claim);
    if let Some(said) = notice(kind) {
        tell(aws, claim, &nodes, &said, said.message);
    }
    if let Some(effect) = effects(kind, claim) {
        tracing::debug!(nodeclaim = claim.name, ?effect, "launches do without for a while");
        aws.shared.refused(&effect);
    }
    let reaction = reaction(kind);
    if reaction == Reaction::None {
        return Ok(());
    }
    // Somebody else is at it this very moment, and answers for it.
    let Some(_turn) = Turn::take(&aws.going, &claim.uid) else { return Ok(()) };
    // As it is now: another message of the same answer may have been about it.
    let Some(object) = aws.ctx.claims.get(&claim.name).filter(|object| object.uid().as_ref() == Some(&claim.uid))
    else {
        return Ok(());
    };
    if reaction == Reaction::DeleteAtOnce {
        end_now(aws, &object).await?;
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if let Some(left) = delete_if_present(&aws.ctx.claims_api(), object.as_ref()).await? {
        aws.ctx.note_claim(left);
    }
    tracing::info!(nodeclaim = claim.name, reason = kind.as_str(), "deleting nodeclaim of an instance in trouble");
    tell(aws, claim, &nodes, &TERMINATING, TERMINATING_NODE);
    let label = |key: &str| claim.labels.get(key).map_or("", String::as_str);
    aws.ctx.report.metrics.all.nodeclaims_disrupted.increment([
        kind.as_str(),
        label(labels::NODEPOOL),
        label(labels::CAPACITY_TYPE),
        "",
        termination_mode(kind, claim),
    ]);
    Ok(())
}

/// One deletion of a claim at a time: two messages about it may have come together.
struct Turn<'a> {
    going: &'a Mutex<BTreeSet<String>>,
    uid: String,
}

impl<'a> Turn<'a> {
    fn take(going: &'a Mutex<BTreeSet<String>>, uid: &str) -> Option<Self> {
        // Nothing under the lock panics.
        let first = going.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned());
        first.then(|| Self { going, uid: uid.to_owned() })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.going.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
    }
}

/// The time is up: the drain is cut short. An earlier time stays.
async fn end_now(aws: &Aws, claim: &NodeClaim) -> Result<(), ReconcileError> {
    if claim.annotations().contains_key(TERMINATION_TIMESTAMP) {
        return Ok(());
    }
    // In whole seconds, as RFC 3339 has it.
    let now = Timestamp::from_second(aws.now().as_second()).unwrap_or_else(|_| aws.now());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { TERMINATION_TIMESTAMP: now.to_string() } } }));
    let written = aws.ctx.claims_api().patch(&claim.name_any(), &PatchParams::default(), &patch).await;
    ignore_gone(written)?.map(|claim| aws.ctx.note_claim(claim));
    Ok(())
}

fn nodes_of(aws: &Aws, claim: &ClaimView) -> Vec<Arc<NodeView>> {
    claim.provider_id.as_deref().map(|id| aws.ctx.state().nodes_by_provider_id(id)).unwrap_or_default()
}

/// To whoever looks at the claim, and to whoever looks at its node.
fn tell(aws: &Aws, claim: &ClaimView, nodes: &[Arc<NodeView>], said: &Notice, of_node: &str) {
    let type_ = if said.warning { EventType::Warning } else { EventType::Normal };
    let events = &aws.ctx.report.events;
    events.publish(event(&Subject::claim(&claim.name, &claim.uid), type_, said.reason, said.message));
    for node in nodes {
        events.publish(event(&Subject::node(&node.name, &node.uid), type_, said.reason, of_node));
    }
}
