//! Everything the controllers say, in one place.

use karpenter_api::convert::Problem;
use karpenter_lifecycle::Timeout;
use karpenter_model::pod::PodId;
use karpenter_platform::{CreateError, Instance};
use karpenter_solver::{PlannedClaim, Unplaced};
use karpenter_state::Unsynced;
use tracing::{debug, error, info, warn};

/// An error with everything it was caused by.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(crate) fn reconcile_failed(controller: &str, name: &str, error: &(dyn std::error::Error + Send + Sync + 'static)) {
    warn!(controller, name, error = %chain(error), "reconcile failed, trying again");
}

pub(crate) fn problems(problems: &[Problem]) {
    for problem in problems {
        warn!(object = %problem.object, field = %problem.field, problem = %problem.message, "ignored a malformed field");
    }
}

pub(crate) fn malformed_object(kind: &str, name: &str, error: &str) {
    warn!(kind, name, error, "skipped an object that cannot be read");
}

pub(crate) fn watch_failed(kind: &str, error: &kube::runtime::watcher::Error) {
    warn!(kind, error = %chain(error), "watch was interrupted, starting again");
}

pub(crate) fn unsynced(why: &Unsynced) {
    debug!(?why, "cluster state is not complete, waiting");
}

pub(crate) fn instance_types_unavailable(pool: &str, error: &(dyn std::error::Error + 'static)) {
    error!(nodepool = pool, error = %chain(error), "skipped a nodepool whose instance types cannot be listed");
}

pub(crate) fn created_claim(name: &str, planned: &PlannedClaim) {
    let pods: Vec<String> = planned.pods.iter().take(5).map(ToString::to_string).collect();
    let shown = planned.instance_types.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    info!(
        nodepool = %planned.pool.name,
        nodeclaim = name,
        requests = %planned.requests,
        instance_types = %shown,
        more_instance_types = planned.instance_types.len().saturating_sub(5),
        price_usd_per_hour = planned.price.per_hour(),
        pods = %pods.join(", "),
        pod_count = planned.pods.len(),
        "created nodeclaim"
    );
}

pub(crate) fn create_failed(pool: &str, error: &(dyn std::error::Error + 'static)) {
    error!(nodepool = pool, error = %chain(error), "could not create a nodeclaim");
}

pub(crate) fn unplaced(unplaced: &Unplaced) {
    let reasons: Vec<String> =
        unplaced.reasons.iter().map(|refused| format!("nodepool {}: {}", refused.pool, refused.why)).collect();
    debug!(pod = %unplaced.pod, reasons = %reasons.join("; "), "could not plan a node for the pod");
}

pub(crate) fn unplannable(pod: &PodId, why: &str) {
    debug!(pod = %pod, why, "cannot plan the pod");
}

pub(crate) fn launched(claim: &str, instance: &Instance) {
    let label = |key: &str| instance.labels.get(key).cloned().unwrap_or_default();
    info!(
        nodeclaim = claim,
        provider_id = %instance.provider_id,
        instance_type = %label(karpenter_model::labels::INSTANCE_TYPE),
        zone = %label(karpenter_model::labels::ZONE),
        capacity_type = %label(karpenter_model::labels::CAPACITY_TYPE),
        allocatable = %instance.allocatable,
        "launched nodeclaim"
    );
}

pub(crate) fn launch_gave_up(claim: &str, error: &CreateError) {
    error!(nodeclaim = claim, error = %chain(error), "could not launch, deleting the nodeclaim");
}

pub(crate) fn guard_taint_missing(claim: &str, node: &str) {
    error!(
        nodeclaim = claim,
        node,
        taint = karpenter_model::taints::UNREGISTERED,
        "node joined without its guard taint"
    );
}

pub(crate) fn registered(claim: &str, node: &str) {
    info!(nodeclaim = claim, node, "registered nodeclaim");
}

pub(crate) fn initialized(claim: &str, node: &str) {
    info!(nodeclaim = claim, node, "initialized nodeclaim");
}

pub(crate) fn timed_out(claim: &str, timeout: Timeout) {
    info!(nodeclaim = claim, ?timeout, "nodeclaim waited too long, deleting it");
}

pub(crate) fn tainted(node: &str) {
    info!(node, taint = karpenter_model::taints::DISRUPTED, "tainted node");
}

pub(crate) fn evicted(node: &str, pod: &PodId) {
    debug!(node, pod = %pod, "evicted pod");
}

pub(crate) fn eviction_refused(node: &str, pod: &PodId, why: &str) {
    debug!(node, pod = %pod, why, "eviction was refused, trying again");
}

pub(crate) fn drained(node: &str) {
    info!(node, "drained node");
}

pub(crate) fn deleted_node(node: &str) {
    info!(node, "deleted node");
}

pub(crate) fn deleted_claim(claim: &str) {
    info!(nodeclaim = claim, "deleted nodeclaim");
}
