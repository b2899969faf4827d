//! Claims whose reservation has ended, or is about to (AWS-82, AWS-83).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::names::aws;
use karpenter_aws::cloud::{ApiError, InstanceInfo, ReservationInfo, ReservationQuery};
use karpenter_aws::provider_id::instance_id;
use karpenter_aws::upkeep::{is_in_expiring_block, relabelled};
use karpenter_controllers::patch::{delete_if_present, ignore_gone};
use karpenter_controllers::queue::ReconcileError;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels::REGISTERED;
use karpenter_model::shared::Labels;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::Aws;

/// Deleted at a time.
const AT_ONCE: usize = 10;
/// The `reason` in the metric of disrupted claims.
const EXPIRING: &str = "capacity_reservation_expiring";

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribeCapacityReservations failed for {id}")]
struct ReservationError {
    id: String,
    #[source]
    source: ApiError,
}

fn living_claims(aws: &Aws) -> Vec<Arc<ClaimView>> {
    let state = aws.ctx.state();
    state.claims().filter(|claim| claim.deleting_since.is_none()).cloned().collect()
}

/// Instances that run on after their reservation are on-demand from then on, and so are their claims and nodes.
pub(crate) async fn relabel(aws: &Aws) -> Result<(), ReconcileError> {
    let reserved: Vec<Arc<ClaimView>> =
        living_claims(aws).into_iter().filter(|claim| was_reserved(aws, claim)).collect();
    if reserved.is_empty() {
        return Ok(());
    }
    let listed = aws.shared.listed_instances().await?;
    let by_id: BTreeMap<&str, &InstanceInfo> = listed.iter().map(|info| (info.id.as_str(), info)).collect();
    let mut outcome = Ok(());
    for claim in reserved {
        let id = claim.provider_id.as_deref().and_then(|id| instance_id(id).ok());
        let Some(info) = id.and_then(|id| by_id.get(id)) else { continue };
        if let Err(error) = relabel_one(aws, &claim, info).await {
            outcome = Err(error);
        }
    }
    outcome
}

/// The claim says so, or only its node still does.
fn was_reserved(aws: &Aws, claim: &ClaimView) -> bool {
    let is = |labels: &Labels| {
        labels.get(karpenter_model::labels::CAPACITY_TYPE).map(String::as_str)
            == Some(karpenter_model::labels::CAPACITY_TYPE_RESERVED)
    };
    let Some(id) = claim.provider_id.as_deref() else { return false };
    is(&claim.labels) || aws.ctx.state().nodes_by_provider_id(id).iter().any(|node| is(&node.labels))
}

async fn relabel_one(aws: &Aws, claim: &ClaimView, info: &InstanceInfo) -> Result<(), ReconcileError> {
    let params = PatchParams::default();
    let labels = claim.labels.to_map();
    if let Some(new) = relabelled(&labels, info) {
        let patch = Patch::Merge(change(&labels, &new));
        let written = aws.ctx.claims_api().patch(&claim.name, &params, &patch).await;
        ignore_gone(written)?.map(|claim| aws.ctx.note_claim(claim));
        tracing::info!(nodeclaim = claim.name, "its reservation has ended, the nodeclaim is on-demand now");
    }
    let nodes = claim.provider_id.as_deref().map(|id| aws.ctx.state().nodes_by_provider_id(id)).unwrap_or_default();
    for node in nodes {
        let registered = node.labels.get(REGISTERED).is_some_and(|value| value == "true");
        let labels = node.labels.to_map();
        let Some(new) = relabelled(&labels, info).filter(|_| registered && node.deleting_since.is_none()) else {
            continue;
        };
        let patch = Patch::Merge(change(&labels, &new));
        let written = aws.ctx.nodes_api().patch(&node.name, &params, &patch).await;
        ignore_gone(written)?.map(|node| aws.ctx.note_node(node));
    }
    Ok(())
}

/// What is not there any more is taken back.
fn change(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Value {
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let other = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    let labels: serde_json::Map<String, Value> =
        gone.chain(other.map(|(key, value)| (key.clone(), json!(value)))).collect();
    json!({ "metadata": { "labels": labels } })
}

/// Claims in capacity blocks go while there is time to drain their nodes.
pub(crate) async fn expire(aws: &Aws) -> Result<(), ReconcileError> {
    let claims = living_claims(aws);
    let ids: BTreeSet<&String> =
        claims.iter().filter_map(|claim| claim.labels.get(aws::CAPACITY_RESERVATION_ID)).collect();
    let mut known: Vec<ReservationInfo> = Vec::new();
    for id in ids {
        let query = ReservationQuery { id: Some(id.clone()), filters: Vec::new() };
        match aws.services.reads.capacity_reservations(&query).await {
            Ok(found) => known.extend(found),
            Err(error) if error.is_not_found() => {}
            Err(source) => return Err(ReservationError { id: id.clone(), source }.into()),
        }
    }
    let now = aws.now();
    let expiring: Vec<&Arc<ClaimView>> =
        claims.iter().filter(|claim| is_in_expiring_block(claim, &known, now)).collect();
    let mut outcome = Ok(());
    for some in expiring.chunks(AT_ONCE) {
        let deletions: Vec<_> = some.iter().map(|claim| delete(aws, claim)).collect();
        for deleted in futures::future::join_all(deletions).await {
            outcome = outcome.and(deleted);
        }
    }
    outcome
}

async fn delete(aws: &Aws, claim: &ClaimView) -> Result<(), ReconcileError> {
    let Some(object) = aws.ctx.claims.get(&claim.name) else { return Ok(()) };
    if let Some(left) = delete_if_present(&aws.ctx.claims_api(), object.as_ref()).await? {
        aws.ctx.note_claim(left);
    }
    tracing::info!(nodeclaim = claim.name, "its capacity block is about to end, deleting nodeclaim");
    aws.ctx.report.count_disrupted(claim, EXPIRING, "");
    Ok(())
}
