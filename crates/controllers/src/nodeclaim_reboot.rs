//! Carries a reboot through, step by step, as `disruption::reboot` says (V15-56 … V15-70).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::conditions::{self as condition_sets, Conditioned as _};
use karpenter_api::convert;
use karpenter_api::kinds::{ConditionStatus, NodeClaim};
use karpenter_api::names::conditions::{self, reasons};
use karpenter_api::names::{annotations, labels};
use karpenter_disruption::reboot::{Aftermath, Facts, Outcome, RebootOptions, Step, next, refused};
use karpenter_lifecycle::{Insistence, drain};
use karpenter_model::annotations::{REBOOT_ASKED_AT, REBOOT_HISTORY, REBOOT_ISSUED_AT};
use karpenter_model::claim::ClaimView;
use karpenter_model::pod::PodView;
use karpenter_model::taints::Taint;
use karpenter_platform::Remedy;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::context::Context;
use crate::nodeclaim_lifecycle::view;
use crate::patch::{ignore_gone, merge_locked, merge_status_locked};
use crate::queue::{ReconcileError, Requeue};

const AT_ONCE: Requeue = Requeue::After(Duration::ZERO);

/// One claim that may be rebooting.
struct Patient {
    claim: Arc<NodeClaim>,
    seen: ClaimView,
    node: Option<Arc<Node>>,
    now: Timestamp,
}

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    if !crate::nodeclaim_lifecycle::seen(&ctx, &name).is_some_and(|claim| claim.rebooting) {
        return Ok(Requeue::OnChange);
    }
    let Some(claim) = ctx.claims.get(&name) else { return Ok(Requeue::OnChange) };
    let seen = view(&ctx, &claim);
    let node = {
        let state = ctx.state();
        let nodes = seen.provider_id.as_deref().map(|id| state.nodes_by_provider_id(id)).unwrap_or_default();
        nodes.first().map(|node| node.name.clone())
    };
    let pods = node.as_deref().map(|node| ctx.state().pods_on(node)).unwrap_or_default();
    let node = node.and_then(|node| ctx.nodes.get(&node));
    let patient = Patient { claim, seen, node, now: ctx.clock.now() };
    let node_view = patient.node.as_ref().map(|node| convert::node(node).view);
    let facts = Facts {
        claim: &patient.seen,
        node: node_view.as_ref(),
        waiting_pods: pods.iter().filter(|pod| pod.is_waiting_eviction(patient.now)).count(),
        now: patient.now,
    };
    let options = RebootOptions::default();
    match next(&facts, &options) {
        Step::Nothing => Ok(Requeue::OnChange),
        Step::Wait { again } => Ok(after(again)),
        Step::Fence => patient.fence(&ctx, true).await,
        Step::Drain { until, again } => {
            let pods: Vec<&PodView> = pods.iter().map(Arc::as_ref).collect();
            ask_pods(&ctx, &pods, until, patient.now);
            Ok(after(again))
        }
        Step::Ask { operation_id, pre_boot_id, asked_at } => {
            let claim = patient.note_asked(&ctx, &pre_boot_id, asked_at).await?;
            let Some(claim) = claim else { return Ok(Requeue::OnChange) };
            match ctx.provider.reboot(&view(&ctx, &claim), &operation_id).await {
                Ok(()) => patient.issue(&ctx, &claim).await,
                Err(error) if error.remedy() == Remedy::GiveUp => {
                    let patient = Patient { seen: view(&ctx, &claim), claim, ..patient };
                    let facts = Facts { claim: &patient.seen, ..facts };
                    let Step::Fail { outcome, then } = refused(&facts, &options) else { return Ok(Requeue::OnChange) };
                    patient.fail(&ctx, outcome, then).await
                }
                Err(error) => Err(error.into()),
            }
        }
        Step::Issue { .. } => patient.issue(&ctx, &patient.claim).await,
        Step::Unlabel => patient.unlabel(&ctx).await,
        Step::Observe => {
            ctx.report.reboot_observed(&patient.seen);
            patient.fence(&ctx, false).await
        }
        Step::Succeed => patient.succeed(&ctx).await,
        Step::Fail { outcome, then } => patient.fail(&ctx, outcome, then).await,
    }
}

fn after(again: SignedDuration) -> Requeue {
    Requeue::After(again.try_into().unwrap_or_default())
}

/// Tier by tier, never by force; whoever is left at the end rides along (V15-61).
fn ask_pods(ctx: &Context, pods: &[&PodView], until: Option<Timestamp>, now: Timestamp) {
    let insistence = Insistence::GiveUp { deadline: until.unwrap_or(Timestamp::MAX) };
    for key in drain(pods, None, None, now).map(|drain| drain.evict).unwrap_or_default() {
        if ctx.memory.ask_to_leave(&key, insistence) {
            ctx.queues.evictions.add(crate::eviction::name_of(&key));
        }
    }
}

impl Patient {
    /// The taint that keeps pods off while the machine is away (V15-11).
    async fn fence(&self, ctx: &Context, fenced: bool) -> Result<Requeue, ReconcileError> {
        let Some(node) = &self.node else { return Ok(AT_ONCE) };
        let taint = convert::node_taint(&Taint::rebooting());
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let before = taints.len();
        taints.retain(|known| (&known.key, &known.effect) != (&taint.key, &taint.effect));
        if fenced {
            taints.push(taint);
        } else if taints.len() == before {
            return Ok(AT_ONCE);
        }
        let patch = json!({ "spec": { "taints": taints } });
        let stored = ctx.node_written(node, merge_locked(&ctx.nodes_api(), node.as_ref(), patch).await)?;
        Ok(Requeue::after_write(stored.is_some()))
    }

    async fn unlabel(&self, ctx: &Context) -> Result<Requeue, ReconcileError> {
        let Some(node) = &self.node else { return Ok(AT_ONCE) };
        let patch = json!({ "metadata": { "labels": { labels::INITIALIZED: Value::Null } } });
        let stored = ctx.node_written(node, merge_locked(&ctx.nodes_api(), node.as_ref(), patch).await)?;
        Ok(Requeue::after_write(stored.is_some()))
    }

    /// The claim with these annotations; `None` when it is gone.
    async fn annotate(&self, ctx: &Context, wanted: Value) -> Result<Option<Arc<NodeClaim>>, ReconcileError> {
        let same = wanted.as_object().is_some_and(|wanted| {
            wanted.iter().all(|(key, value)| self.claim.annotations().get(key).map(String::as_str) == value.as_str())
        });
        if same {
            return Ok(Some(self.claim.clone()));
        }
        let patch = json!({ "metadata": { "annotations": wanted } });
        let answer = merge_locked(&ctx.claims_api(), self.claim.as_ref(), patch).await;
        Ok(ctx.claim_written(&self.claim, answer)?)
    }

    /// Before the call, so that whoever comes next knows that it may have been made (V15-60, Z2).
    async fn note_asked(
        &self,
        ctx: &Context,
        pre_boot_id: &str,
        asked_at: Timestamp,
    ) -> Result<Option<Arc<NodeClaim>>, ReconcileError> {
        let asked = json!({
            annotations::REBOOT_PRE_BOOT_ID: pre_boot_id, REBOOT_ASKED_AT: asked_at.to_string(),
        });
        self.annotate(ctx, asked).await
    }

    /// The provider has accepted, or the machine is new already (V15-64).
    async fn issue(&self, ctx: &Context, claim: &NodeClaim) -> Result<Requeue, ReconcileError> {
        // Without a lock: nobody else writes it, and a conflict would have the provider asked a second time.
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { REBOOT_ISSUED_AT: self.now.to_string() } } }));
        let answer = ctx.claims_api().patch(&claim.name_any(), &PatchParams::default(), &patch).await;
        let Some(stored) = ctx.claim_written(claim, answer)? else {
            return Ok(Requeue::OnChange);
        };
        let message = self.seen.reboot.as_ref().map(|reboot| reboot.message.clone()).unwrap_or_default();
        let stored = self
            .write_conditions(ctx, &stored, |all| {
                all.set(conditions::REBOOTING, ConditionStatus::True, reasons::REBOOT_ISSUED, &message);
                all.set_unknown(conditions::INITIALIZED, reasons::REBOOTING, &message);
            })
            .await?;
        Ok(Requeue::after_write(stored))
    }

    async fn write_conditions(
        &self,
        ctx: &Context,
        stored: &NodeClaim,
        change: impl FnOnce(&mut condition_sets::Conditions<'_>),
    ) -> Result<bool, ReconcileError> {
        let mut changed = stored.clone();
        change(&mut condition_sets::NODE_CLAIM.of(&mut changed, self.now));
        let status = json!({ "conditions": changed.conditions() });
        Ok(ctx.claim_written(stored, merge_status_locked(&ctx.claims_api(), stored, status).await)?.is_some())
    }

    /// What was written for the reboot goes with its end; counted when that is stored, so once (V15-66).
    async fn end(&self, ctx: &Context, status: &str, history: Option<String>) -> Result<bool, ReconcileError> {
        self.fence(ctx, false).await?;
        let mut gone = json!({
            annotations::REBOOT_PRE_BOOT_ID: Value::Null, REBOOT_ASKED_AT: Value::Null, REBOOT_ISSUED_AT: Value::Null,
        });
        if let Some(history) = history {
            gone[REBOOT_HISTORY] = history.into();
        }
        let Some(stored) = self.annotate(ctx, gone).await? else { return Ok(false) };
        let message = self.seen.reboot.as_ref().map(|reboot| reboot.message.clone()).unwrap_or_default();
        self.write_conditions(ctx, &stored, |all| {
            all.set_false(conditions::REBOOTING, status, &message);
        })
        .await
    }

    async fn succeed(&self, ctx: &Context) -> Result<Requeue, ReconcileError> {
        if self.end(ctx, reasons::REBOOT_SUCCEEDED, None).await? {
            ctx.report.reboot_ended(&self.seen, Outcome::Succeeded, self.now);
        }
        Ok(Requeue::OnChange)
    }

    async fn fail(&self, ctx: &Context, outcome: Outcome, then: Aftermath) -> Result<Requeue, ReconcileError> {
        let ended = match then {
            Aftermath::Release => self.end(ctx, reasons::REBOOT_FAILED, None).await?,
            Aftermath::HandBack { history } => self.end(ctx, reasons::REBOOT_FAILED, Some(history)).await?,
            Aftermath::Delete { deadline } => self.delete(ctx, deadline).await?,
        };
        if ended {
            ctx.report.reboot_ended(&self.seen, outcome, self.now);
        }
        Ok(Requeue::OnChange)
    }

    /// With the version that was judged: a reboot that has ended meanwhile is not punished (V15-68).
    async fn delete(&self, ctx: &Context, deadline: Option<Timestamp>) -> Result<bool, ReconcileError> {
        self.fence(ctx, false).await?;
        let stored = match deadline {
            Some(deadline) => {
                self.annotate(ctx, json!({ annotations::TERMINATION_TIMESTAMP: deadline.to_string() })).await?
            }
            None => Some(self.claim.clone()),
        };
        let Some(stored) = stored else { return Ok(false) };
        let preconditions = Preconditions { uid: stored.uid(), resource_version: stored.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        Ok(ignore_gone(ctx.claims_api().delete(&stored.name_any(), &params).await)?.is_some())
    }
}
