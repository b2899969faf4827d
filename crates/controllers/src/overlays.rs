//! NodeOverlays, judged all together and laid over the instance types of all pools (SCH-163 … SCH-173).
//!
//! An evaluation looks at everything: the overlays, the managed pools, and what the provider itself says about the types of
//! each. Verdicts are written first; only then does the result take the place of the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::convert;
use karpenter_api::kinds::NodeOverlay;
use karpenter_api::names::conditions::{self, messages, reasons};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::overlay::{self, Evaluation, OverlayView, PoolTypes, Verdict};
use karpenter_model::pool::PoolView;
use karpenter_platform::{CloudProvider, InstanceTypesError, Overlaid, Overlays};
use karpenter_state::Source;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::claim_creation::ClaimOrder;
use crate::context::Context;
use crate::patch::merge_status_locked;
use crate::queue::{ReconcileError, Requeue};
use crate::watches::{Follower, ObjectId, follow};

/// What clouds say about their types changes without telling (SC-273).
const EVALUATE_EVERY: Duration = Duration::from_hours(6);
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);
/// All overlays are one piece of work.
const ALL: &str = "overlays";

/// The provider without overlays, which evaluations ask, and with them, which everybody else asks.
#[derive(Debug)]
pub struct Laying {
    bare: Arc<dyn CloudProvider>,
    overlaid: Arc<dyn CloudProvider>,
    in_force: Arc<Overlays>,
    /// Generations of overlays, pools and classes, by kind and name: only what their owners change matters.
    generations: Mutex<BTreeMap<(String, String), Option<i64>>>,
}

impl Laying {
    pub(crate) fn over(bare: Arc<dyn CloudProvider>) -> Self {
        let in_force = Arc::new(Overlays::default());
        let overlaid = Arc::new(Overlaid::new(bare.clone(), in_force.clone()));
        Self { bare, overlaid, in_force, generations: Mutex::default() }
    }

    pub(crate) fn provider(&self) -> Arc<dyn CloudProvider> {
        self.overlaid.clone()
    }

    fn generations(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Option<i64>>> {
        // No code that could panic runs under the lock.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An overlay, a pool or a class was seen; a new generation of it calls for an evaluation (API-94).
pub(crate) fn saw(ctx: &Context, kind: &str, name: &str, generation: Option<i64>) {
    let Some(laying) = &ctx.overlays else { return };
    let before = laying.generations().insert((kind.to_owned(), name.to_owned()), generation);
    if before != Some(generation) {
        ctx.queues.overlays.add(ALL);
    }
}

pub(crate) fn lost(ctx: &Context, kind: &str, name: &str) {
    let Some(laying) = &ctx.overlays else { return };
    laying.generations().remove(&(kind.to_owned(), name.to_owned()));
    ctx.queues.overlays.add(ALL);
}

/// What a claim is marked with when overlays are about a type that it names (SCH-223, SC-277).
pub(crate) fn annotations(ctx: &Context, order: &ClaimOrder) -> BTreeMap<String, String> {
    use karpenter_api::names::annotations as names;
    let (Some(laying), Some(named)) = (&ctx.overlays, order.requirements.get(labels::INSTANCE_TYPE)) else {
        return BTreeMap::new();
    };
    let marks = laying.in_force.in_force().marks(&order.pool.name, named.values());
    let marked = [(marks.price, names::PRICE_OVERLAY_APPLIED), (marks.capacity, names::CAPACITY_OVERLAY_APPLIED)];
    marked.into_iter().filter(|(set, _)| *set).map(|(_, name)| (name.to_owned(), "true".to_owned())).collect()
}

/// Some pools could not be evaluated; the others were.
#[derive(Debug, thiserror::Error)]
#[error("no instance types for nodepool {}", .0.iter().map(|(pool, why)| format!("{pool} ({why})")).collect::<Vec<_>>().join(", "))]
struct PoolsLeftOut(Vec<(String, String)>);

/// Evaluates everything.
pub async fn reconcile(ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let Some(laying) = &ctx.overlays else { return Ok(Requeue::OnChange) };
    if !ctx.state().is_listed(Source::Pools) {
        return Ok(Requeue::After(UNSYNCED_RETRY));
    }
    let overlays = list(&ctx).await?;
    // Only pools of our own classes are known here (Q37).
    let pools: Vec<Arc<PoolView>> = ctx.state().pools();
    let mut offered: Vec<(Arc<PoolView>, Arc<Vec<InstanceType>>)> = Vec::new();
    let mut left_out = Vec::new();
    for pool in pools {
        match laying.bare.instance_types(&pool).await {
            Ok(types) => offered.push((pool, types)),
            Err(error) => left_out.push((pool.name.clone(), why(&error))),
        }
    }
    let evaluation = evaluation(&ctx, &overlays, &offered);
    if write_verdicts(&ctx, &overlays, &evaluation).await? == Written::Overtaken {
        return Ok(Requeue::After(Duration::ZERO));
    }
    laying.in_force.publish(evaluation.store);
    ctx.state().note_offers_changed();
    ctx.provision.nudge();
    if left_out.is_empty() { Ok(Requeue::After(EVALUATE_EVERY)) } else { Err(Box::new(PoolsLeftOut(left_out))) }
}

fn why(error: &InstanceTypesError) -> String {
    crate::report::chain(error)
}

/// As they are now: verdicts are about exactly these versions. One that cannot be read is told and left out.
async fn list(ctx: &Context) -> Result<Vec<NodeOverlay>, ReconcileError> {
    let api: Api<DeserializeGuard<NodeOverlay>> = Api::all(ctx.client.clone());
    let mut readable = Vec::new();
    for guard in api.list(&ListParams::default()).await? {
        match guard.0 {
            Ok(overlay) => readable.push(overlay),
            Err(invalid) => {
                let name = invalid.metadata.name.as_deref().unwrap_or_default();
                ctx.report.malformed_object("NodeOverlay", name, &invalid.error);
            }
        }
    }
    Ok(readable)
}

fn evaluation(
    ctx: &Context,
    overlays: &[NodeOverlay],
    offered: &[(Arc<PoolView>, Arc<Vec<InstanceType>>)],
) -> Evaluation {
    let staying = overlays.iter().filter(|overlay| overlay.metadata.deletion_timestamp.is_none());
    let views: Vec<OverlayView> = staying
        .map(|overlay| {
            let converted = convert::overlay(overlay, &ctx.policy);
            ctx.report.problems(&converted.problems);
            converted.view
        })
        .collect();
    let pools: Vec<PoolTypes<'_>> =
        offered.iter().map(|(pool, types)| PoolTypes { pool, instance_types: types }).collect();
    overlay::evaluate(&views, &pools, ctx.provider.label_rules())
}

#[derive(Debug, PartialEq, Eq)]
enum Written {
    All,
    /// An overlay was changed or deleted meanwhile: what was found is about something that is no longer (SCH-173).
    Overtaken,
}

async fn write_verdicts(
    ctx: &Context,
    overlays: &[NodeOverlay],
    evaluation: &Evaluation,
) -> Result<Written, kube::Error> {
    let api: Api<NodeOverlay> = Api::all(ctx.client.clone());
    for stored in overlays {
        let Some(verdict) = evaluation.verdicts.get(&stored.name_any()) else { continue };
        let judged = judged(ctx, stored, verdict);
        if judged.conditions() == stored.conditions() {
            continue;
        }
        match merge_status_locked(&api, stored, json!({ "conditions": judged.conditions() })).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                return Ok(Written::Overtaken);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Written::All)
}

/// API-93.
fn judged(ctx: &Context, stored: &NodeOverlay, verdict: &Verdict) -> NodeOverlay {
    let mut overlay = stored.clone();
    let mut all = condition_sets::NODE_OVERLAY.of(&mut overlay, ctx.clock.now());
    match verdict {
        Verdict::Accepted => all.set_true(conditions::VALIDATION_SUCCEEDED),
        Verdict::Invalid(why) => all.set_false(conditions::VALIDATION_SUCCEEDED, reasons::RUNTIME_VALIDATION, why),
        Verdict::Conflict { with, pool, instance_type } => {
            let message = format!(
                "{}: {with} has the same weight and is about {instance_type} of nodepool {pool}, too",
                messages::OVERLAY_CONFLICT
            );
            all.set_false(conditions::VALIDATION_SUCCEEDED, reasons::CONFLICT, &message)
        }
    };
    overlay
}

/// Follows overlays while the gate is on.
pub(crate) async fn watch(ctx: &Context) {
    if ctx.overlays.is_some() {
        follow(ctx, Api::all(ctx.client.clone()), Watched(ctx)).await;
    }
}

struct Watched<'a>(&'a Context);

impl Follower for Watched<'_> {
    type Object = NodeOverlay;

    fn applied(&self, overlay: NodeOverlay) {
        saw(self.0, "NodeOverlay", &overlay.name_any(), overlay.metadata.generation);
    }

    fn gone(&self, id: &ObjectId) {
        lost(self.0, "NodeOverlay", &id.name);
    }

    /// Also when there is none: then every pool is as its provider says.
    fn listed(&self, _: std::collections::BTreeSet<ObjectId>) {
        self.0.queues.overlays.add(ALL);
    }
}
