//! Whether a pool may be used: its node class is ready and its template makes sense (API-57).

use std::sync::Arc;

use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::kinds::NodePool;
use karpenter_api::names::conditions::{self, messages, reasons};
use karpenter_api::{convert, validation};
use kube::core::DynamicObject;
use serde_json::json;

use crate::context::Context;
use crate::patch::{ignore_gone, merge_status_locked};
use crate::queue::{ReconcileError, Requeue};

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(stored) = ctx.pools.get(&name) else { return Ok(Requeue::OnChange) };
    // At the start a class that has not come yet is not missing; who lists the classes wakes all pools.
    if !ctx.node_classes.is_listed() {
        return Ok(Requeue::OnChange);
    }
    let mut pool = (*stored).clone();
    let class = ctx.node_classes.get(&pool.spec.template.spec.node_class_ref.name);
    let unreadable = convert::pool(&pool, ctx.provider.label_rules()).problems;
    let validation = validation::node_pool(&pool.spec, &ctx.policy);
    let mut messages: Vec<String> = unreadable.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
    messages.extend(validation.errors.iter().map(ToString::to_string));
    let mut all = condition_sets::NODE_POOL.of(&mut pool, ctx.clock.now());
    match class_readiness(class.as_deref()) {
        Ok(()) => all.set_true(conditions::NODE_CLASS_READY),
        Err((reason, message)) => all.set_false(conditions::NODE_CLASS_READY, &reason, &message),
    };
    if messages.is_empty() {
        all.set_true(conditions::VALIDATION_SUCCEEDED);
    } else {
        all.set_false(conditions::VALIDATION_SUCCEEDED, reasons::NODE_POOL_VALIDATION_FAILED, &messages.join("; "));
    }
    write(&ctx, &stored, &pool).await?;
    Ok(Requeue::OnChange)
}

/// Reason and message of a class that cannot be used.
fn class_readiness(class: Option<&DynamicObject>) -> Result<(), (String, String)> {
    let because = |reason: &str, message: &str| Err((reason.to_owned(), message.to_owned()));
    let Some(class) = class else { return because(reasons::NODE_CLASS_NOT_FOUND, messages::NODE_CLASS_NOT_FOUND) };
    if class.metadata.deletion_timestamp.is_some() {
        return because(reasons::NODE_CLASS_TERMINATING, messages::NODE_CLASS_TERMINATING);
    }
    let listed = class.data["status"]["conditions"].as_array();
    let ready = listed.into_iter().flatten().find(|condition| condition["type"] == conditions::READY);
    let text = |member: &str| ready.and_then(|ready| ready[member].as_str()).unwrap_or_default();
    match text("status") {
        "True" => Ok(()),
        "False" => because(text("reason"), text("message")),
        _ => because(reasons::NODE_CLASS_READINESS_UNKNOWN, messages::NODE_CLASS_READINESS_UNKNOWN),
    }
}

async fn write(ctx: &Context, stored: &NodePool, pool: &NodePool) -> Result<(), ReconcileError> {
    if pool.conditions() == stored.conditions() {
        return Ok(());
    }
    let status = json!({ "conditions": pool.conditions() });
    if let Some(written) = ignore_gone(merge_status_locked(&ctx.pools_api(), stored, status).await)? {
        ctx.note_pool(written);
        ctx.provision.nudge();
    }
    Ok(())
}
