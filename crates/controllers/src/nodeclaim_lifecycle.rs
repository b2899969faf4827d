//! Brings a NodeClaim to life, and to its end.

mod finalizing;
mod launching;
mod registering;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::convert;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::{self, conditions};
use karpenter_lifecycle::{Initialization, Launch, Liveness, Timeout, Use, initialization, launch, liveness};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_platform::{CreateError, Remedy};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

pub(crate) use self::finalizing::{TERMINATION_POLL, mark_terminating, write_conditions};
use crate::consistency::note_consistent;
use crate::context::Context;
use crate::patch::{delete_if_present, ignore_gone, merge_locked, merge_status_locked};
use crate::queue::{ReconcileError, Requeue};
use crate::registration_health::record_outcome;

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(claim) = ctx.claims.get(&name) else { return Ok(Requeue::OnChange) };
    if claim.metadata.deletion_timestamp.is_some() {
        return finalizing::finalize(&ctx, &claim).await;
    }
    let view = view(&ctx, &claim);
    match launch(&view) {
        Launch::AddFinalizerFirst => {
            let mut finalizers = claim.finalizers().to_vec();
            finalizers.push(names::FINALIZER.to_owned());
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            if ctx.claim_written(&claim, merge_locked(&ctx.claims_api(), &claim, patch).await)?.is_some() {
                ctx.queues.claims.add(name);
            }
            Ok(Requeue::OnChange)
        }
        Launch::AskProvider | Launch::Done => live(&ctx, &claim, view).await,
    }
}

pub(crate) fn view(ctx: &Context, claim: &NodeClaim) -> ClaimView {
    convert::claim(claim, ctx.provider.label_rules()).view
}

/// As the state has it. Most looks at a claim end with nothing to do; the object itself is read by who writes to it.
pub(crate) fn seen(ctx: &Context, name: &str) -> Option<Arc<ClaimView>> {
    ctx.state().claim(name).cloned()
}

fn nodes_of(ctx: &Context, claim: &ClaimView) -> Vec<Arc<NodeView>> {
    claim.provider_id.as_deref().map(|id| ctx.state().nodes_by_provider_id(id)).unwrap_or_default()
}

/// Nodes that a claim came a step further with. Told once it is stored: a write that met somebody else's is made again, and
/// what happened once would be counted twice.
#[derive(Debug)]
struct Steps {
    /// When the claim was looked at.
    now: Timestamp,
    registered: Option<String>,
    initialized: Option<String>,
}

impl Steps {
    fn tell(self, ctx: &Context, claim: &ClaimView) {
        if let Some(node) = self.registered {
            ctx.report.registered(claim, &node);
        }
        if let Some(node) = self.initialized {
            ctx.report.initialized(claim, &node);
        }
    }
}

/// Launch, registration, initialization and liveness, all of them, then one write of what changed (LIF-11, LIF-12).
async fn live(ctx: &Context, stored: &Arc<NodeClaim>, mut seen: ClaimView) -> Result<Requeue, ReconcileError> {
    let mut claim = stored.as_ref().clone();
    let now = ctx.clock.now();
    refresh_generations(&mut claim, now);
    let launch_error = match launch(&seen) {
        Launch::AskProvider => launching::launch_instance(ctx, &mut claim, &seen, now).await,
        Launch::AddFinalizerFirst | Launch::Done => None,
    };
    if let Some(error) = &launch_error
        && error.remedy() == Remedy::DeleteClaim
    {
        give_up_launch(ctx, &seen, error);
        delete_if_present(&ctx.claims_api(), stored.as_ref()).await?;
        return Ok(Requeue::OnChange);
    }
    // What was launched shows in the labels at once. Where nodes join quickly, this one has by then, and is registered by the
    // same write of the status.
    let Some(current) = write_metadata(ctx, stored.clone(), &claim).await? else { return Ok(Requeue::OnChange) };
    if current.status != stored.status {
        // Somebody else said something about the claim, which must not be lost. What was launched is remembered.
        ctx.queues.claims.add(seen.name.clone());
        return Ok(Requeue::OnChange);
    }
    // Most looks change nothing, and then the view is the one that was there.
    let looked_at = |claim: &NodeClaim, seen: ClaimView| if *claim == **stored { seen } else { view(ctx, claim) };
    seen = looked_at(&claim, seen);
    let mut steps = Steps { now, registered: None, initialized: None };
    let registered = registering::register(ctx, &mut claim, &seen, &mut steps).await;
    seen = looked_at(&claim, seen);
    let initialized = initialize(ctx, &mut claim, &seen, &mut steps).await;
    seen = looked_at(&claim, seen);
    let verdict = liveness(&seen, usage(ctx, &seen), &ctx.features.timeouts, now);
    if let Liveness::Expired(timeout) = verdict {
        give_up(ctx, stored, &claim, timeout).await?;
        return Ok(Requeue::OnChange);
    }
    let compared = steps.initialized.is_some() && note_consistent(ctx, &mut claim, &seen, now);
    write_changes(ctx, current, &claim).await?;
    if compared {
        ctx.memory.checks().insert(seen.uid.clone(), now);
    }
    steps.tell(ctx, &seen);
    if let Some(error) = launch_error {
        return Err(error.into());
    }
    let hooks = registered?;
    initialized?;
    let waiting = match verdict {
        Liveness::Waiting { until } => Some(until.duration_since(now).try_into().unwrap_or(Duration::from_secs(1))),
        Liveness::Alive | Liveness::Expired(_) => None,
    };
    Ok([hooks, waiting].into_iter().flatten().min().map_or(Requeue::OnChange, Requeue::After))
}

/// Tells those pods too that were to run there and still wait (V15-109).
fn give_up_launch(ctx: &Context, claim: &ClaimView, error: &CreateError) {
    let pods: Vec<_> = {
        let state = ctx.state();
        state.expectations.pods_of(&claim.name).filter_map(|id| state.pod(id)).collect()
    };
    let waiting: Vec<_> =
        pods.iter().map(Arc::as_ref).filter(|pod| pod.node_name.is_none() && pod.is_active()).collect();
    ctx.report.launch_gave_up(claim, error, &waiting);
}

/// Verdicts that stand are true of the current generation too (LIF-14, LC-8).
fn refresh_generations(claim: &mut NodeClaim, now: Timestamp) {
    let decided: Vec<_> = condition_sets::NODE_CLAIM
        .dependents
        .iter()
        .filter_map(|type_| claim.condition(type_).filter(|condition| condition.is_true()).cloned())
        .collect();
    let mut all = condition_sets::NODE_CLAIM.of(claim, now);
    for condition in decided {
        all.set(&condition.type_, condition.status, &condition.reason, &condition.message);
    }
}

/// Pods that would have to move if the node went.
fn usage(ctx: &Context, claim: &ClaimView) -> Use {
    let nodes = nodes_of(ctx, claim);
    let state = ctx.state();
    let used = nodes.iter().any(|node| state.pods_on(&node.name).iter().any(|pod| pod.is_reschedulable()));
    if used { Use::InUse } else { Use::Idle }
}

/// The failure is counted before the deletion: a crash in between counts it again rather than never.
async fn give_up(ctx: &Context, stored: &NodeClaim, claim: &NodeClaim, timeout: Timeout) -> Result<(), ReconcileError> {
    record_outcome(ctx, claim, false).await?;
    ctx.report.timed_out(&view(ctx, claim), timeout);
    delete_if_present(&ctx.claims_api(), stored).await?;
    Ok(())
}

async fn initialize(
    ctx: &Context,
    claim: &mut NodeClaim,
    seen: &ClaimView,
    steps: &mut Steps,
) -> Result<(), ReconcileError> {
    let nodes = nodes_of(ctx, seen);
    let nodes: Vec<&NodeView> = nodes.iter().map(Arc::as_ref).collect();
    let slices = ctx.features.dynamic_resources.then(|| ctx.slices_of(&nodes));
    match initialization(seen, &nodes, slices.as_deref()) {
        Initialization::Done | Initialization::NotConcerned => {}
        Initialization::NotYet(why) => {
            let mut all = condition_sets::NODE_CLAIM.of(claim, steps.now);
            all.set_unknown(conditions::INITIALIZED, why.reason(), &why.message());
        }
        Initialization::Initialize { node } => {
            let patch = json!({ "metadata": { "labels": { names::labels::INITIALIZED: names::labels::TRUE } } });
            let written = ctx.nodes_api().patch(&node, &PatchParams::default(), &Patch::Merge(patch)).await;
            if let Some(written) = ignore_gone(written)? {
                ctx.note_node(written);
                condition_sets::NODE_CLAIM.of(claim, steps.now).set_true(conditions::INITIALIZED);
                steps.initialized = Some(node);
            }
        }
    }
    Ok(())
}

/// The claim as it is stored, once what changed in its metadata is; `None` when it is gone.
///
/// Metadata first, then status, each only if it changed (LIF-12). A crash in between leaves labels without a provider ID; the
/// launch is then asked for again and finds the same instance. The other way round a claim could be seen with capacity but
/// without its zone, and pods planned for it wrongly.
async fn write_metadata(
    ctx: &Context,
    stored: Arc<NodeClaim>,
    claim: &NodeClaim,
) -> Result<Option<Arc<NodeClaim>>, ReconcileError> {
    if claim.labels() == stored.labels() && claim.annotations() == stored.annotations() {
        return Ok(Some(stored));
    }
    let patch = json!({ "metadata": { "labels": claim.labels(), "annotations": claim.annotations() } });
    let written = ctx.claims_api().patch(&stored.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    Ok(ctx.claim_written(&stored, written)?)
}

async fn write_changes(ctx: &Context, stored: Arc<NodeClaim>, claim: &NodeClaim) -> Result<(), ReconcileError> {
    let Some(current) = write_metadata(ctx, stored, claim).await? else { return Ok(()) };
    if claim.status != current.status {
        // With a lock: others write conditions too, and what they wrote meanwhile must not be lost. What was launched is
        // remembered until it is stored.
        let status = serde_json::to_value(&claim.status)?;
        let answer = merge_status_locked(&ctx.claims_api(), current.as_ref(), status).await;
        if let Some(written) = ctx.claim_written(&current, answer)? {
            if written.condition(conditions::LAUNCHED).is_some_and(karpenter_api::kinds::Condition::is_true) {
                ctx.memory.forget_launch(&written.uid().unwrap_or_default());
            }
            ctx.provision.nudge();
        }
    }
    Ok(())
}
