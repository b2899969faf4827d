//! The node of a claim.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::conditions as condition_sets;
use karpenter_api::convert;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names;
use karpenter_api::names::conditions::{self, reasons};
use karpenter_lifecycle::{Hooks, NotRegistered, Registration, SyncedNode, registration};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_platform::{HookOutcome, check_hooks};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Steps, nodes_of, view};
use crate::context::Context;
use crate::patch::merge_locked;
use crate::queue::ReconcileError;
use crate::registration_health::record_outcome;

/// LIF-20 to LIF-26. The answer is when hooks want to be asked again.
pub(super) async fn register(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    steps: &mut Steps,
) -> Result<Option<Duration>, ReconcileError> {
    let nodes = nodes_of(ctx, seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    match registration(seen, &nodes, Hooks::Pending) {
        Registration::Done => Ok(None),
        Registration::NotYet(NotRegistered::NodeNotFound) => {
            let message = conditions::messages::NODE_NOT_REGISTERED;
            let mut all = condition_sets::NODE_CLAIM.of(claim, steps.now);
            all.set_unknown(conditions::REGISTERED, reasons::NODE_NOT_FOUND, message);
            Ok(None)
        }
        Registration::NotYet(NotRegistered::MultipleNodes) => {
            let message = conditions::messages::MULTIPLE_NODES_FOUND;
            let mut all = condition_sets::NODE_CLAIM.of(claim, steps.now);
            all.set_false(conditions::REGISTERED, reasons::MULTIPLE_NODES_FOUND, message);
            Ok(None)
        }
        Registration::Write(guarded) => {
            if guarded.guard_was_missing {
                ctx.report.guard_taint_missing(seen, &guarded.name);
            }
            admit(ctx, claim, seen, &nodes, guarded, steps).await
        }
    }
}

/// Asks the hooks, then writes the node with the permission to run pods, or without.
async fn admit(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    nodes: &[&NodeView],
    guarded: SyncedNode,
    steps: &mut Steps,
) -> Result<Option<Duration>, ReconcileError> {
    let hooks = ctx.provider.registration_hooks();
    let outcome = check_hooks(hooks, seen).await;
    if !outcome.is_satisfied() {
        write_node(ctx, claim, &guarded).await?;
        let mut all = condition_sets::NODE_CLAIM.of(claim, steps.now);
        all.set_unknown(conditions::REGISTERED, reasons::REGISTRATION_HOOK_PENDING, &pending_message(&outcome));
        return wait_for(&outcome);
    }
    if !hooks.is_empty() {
        take_over(ctx, claim).await?;
    }
    let Registration::Write(admitted) = registration(&view(ctx, claim), nodes, Hooks::Satisfied) else {
        return Ok(None);
    };
    if !write_node(ctx, claim, &admitted).await? {
        return Ok(None);
    }
    // Before the condition: a claim that says registered is not looked at again, and its success would be lost (Y26).
    record_outcome(ctx, claim, true).await?;
    claim.status.get_or_insert_default().node_name = Some(admitted.name.clone());
    condition_sets::NODE_CLAIM.of(claim, steps.now).set_true(conditions::REGISTERED);
    steps.registered = Some(admitted.name);
    Ok(None)
}

/// What hooks changed on the claim goes to the node too (LIF-25, LC-19).
async fn take_over(ctx: &Context, claim: &mut NodeClaim) -> Result<(), ReconcileError> {
    if let Some(fresh) = ctx.claims_api().get_opt(&claim.name_any()).await? {
        for (key, value) in fresh.labels() {
            claim.metadata.labels.get_or_insert_default().insert(key.clone(), value.clone());
        }
        for (key, value) in fresh.annotations() {
            claim.metadata.annotations.get_or_insert_default().insert(key.clone(), value.clone());
        }
    }
    Ok(())
}

fn pending_message(outcome: &HookOutcome) -> String {
    let names: Vec<&str> = outcome.waiting.iter().map(|(name, _)| name.as_str()).collect();
    format!("Waiting for registration hooks: {}", names.join(", "))
}

/// An error of a hook is the reconcile's error; it names them all.
fn wait_for(outcome: &HookOutcome) -> Result<Option<Duration>, ReconcileError> {
    let failed: Vec<String> = outcome
        .waiting
        .iter()
        .filter_map(|(name, error)| Some(format!("registration hook {name} failed: {}", error.as_ref()?)))
        .collect();
    if failed.is_empty() { Ok(outcome.again_after) } else { Err(failed.join("; ").into()) }
}

/// Finalizer, owner, labels, annotations and taints in one write (LIF-23, LIF-25). `false` when the node is gone.
async fn write_node(ctx: &Context, claim: &NodeClaim, synced: &SyncedNode) -> Result<bool, ReconcileError> {
    let Some(node) = ctx.nodes.get(&synced.name) else { return Ok(false) };
    let mut finalizers = node.finalizers().to_vec();
    if !finalizers.iter().any(|name| name == names::FINALIZER) {
        finalizers.push(names::FINALIZER.to_owned());
    }
    let owners = owners_with(&node, claim);
    let taints: Vec<_> = synced.taints.iter().map(convert::node_taint).collect();
    let unchanged = node.finalizers() == finalizers
        && node.owner_references() == owners
        && node.labels() == &synced.labels
        && synced.annotations.iter().all(|(key, value)| node.annotations().get(key) == Some(value))
        && convert::node(&node).view.taints == synced.taints;
    if unchanged {
        return Ok(true);
    }
    let patch = json!({
        "metadata": {
            "labels": synced.labels,
            "annotations": synced.annotations,
            "finalizers": finalizers,
            "ownerReferences": owners,
        },
        "spec": { "taints": taints },
    });
    let answer = merge_locked(&ctx.nodes_api(), node.as_ref(), patch).await;
    Ok(ctx.node_written(&node, answer)?.is_some())
}

/// One reference to the claim, whatever was there (LC-10).
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
