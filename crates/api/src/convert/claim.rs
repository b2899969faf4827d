//! NodeClaims.

use karpenter_model::claim::{ClaimView, ConditionView, RebootView, Status};
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::NodeClassRef;

use super::{
    Converted, Problems, claim_entries, created_at, deleting_since, has_finalizer, non_empty, quantities, requirements,
    taints,
};
use crate::kinds::{self, Condition, ConditionStatus, NodeClaim, NodeClaimStatus};
use crate::names::conditions;

pub fn claim(claim: &NodeClaim, rules: &LabelRules) -> Converted<ClaimView> {
    let mut problems = Problems::new("NodeClaim", &claim.metadata);
    let no_status = NodeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&no_status);
    let spec = &claim.spec;
    let created_at = created_at(&claim.metadata);
    let find = |name: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == name).map(condition);
    // A dependent that is not there yet counts as unknown since the object was made (API-116, API-117).
    let dependent = |name: &str| find(name).unwrap_or(ConditionView { status: Status::Unknown, since: created_at });
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let expire_after = spec.expire_after.as_ref().map(kinds_parse(&mut problems, "spec.expireAfter"));
    let grace = spec.termination_grace_period.as_ref();
    let view = ClaimView {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        created_at,
        deleting_since: deleting_since(&claim.metadata),
        has_finalizer: has_finalizer(&claim.metadata),
        pool: labels.get(labels::NODEPOOL).cloned(),
        labels: labels.into(),
        annotations: claim.metadata.annotations.clone().unwrap_or_default().into(),
        node_class: node_class(&spec.node_class_ref),
        requirements: requirements(&mut problems, "spec.requirements", rules, claim_entries(&spec.requirements)).into(),
        requests: quantities(&mut problems, "spec.resources.requests", requests),
        taints: taints(&mut problems, "spec.taints", spec.taints.as_ref()),
        startup_taints: taints(&mut problems, "spec.startupTaints", spec.startup_taints.as_ref()),
        // The API server fills the default; a claim without one, or with one we cannot read, is not expired on a guess.
        expire_after: expire_after.flatten().unwrap_or(NillableDuration::Never),
        termination_grace_period: grace.and_then(|text| problems.check("spec.terminationGracePeriod", text.parse())),
        provider_id: non_empty(status.provider_id.as_ref()),
        node_name: non_empty(status.node_name.as_ref()),
        capacity: quantities(&mut problems, "status.capacity", status.capacity.as_ref()).into(),
        allocatable: quantities(&mut problems, "status.allocatable", status.allocatable.as_ref()).into(),
        launched: dependent(conditions::LAUNCHED),
        registered: dependent(conditions::REGISTERED),
        initialized: dependent(conditions::INITIALIZED),
        drained: find(conditions::DRAINED),
        volumes_detached: find(conditions::VOLUMES_DETACHED),
        instance_terminating: find(conditions::INSTANCE_TERMINATING),
        consistent: find(conditions::CONSISTENT_STATE_FOUND),
        drifted: find(conditions::DRIFTED),
        consolidatable: find(conditions::CONSOLIDATABLE).is_some_and(ConditionView::is_true),
        rebooting: find(conditions::REBOOTING).is_some_and(ConditionView::is_true),
        reboot: status.conditions.iter().flatten().find(|condition| condition.type_ == conditions::REBOOTING).map(
            |found| {
                let ConditionView { status, since } = condition(found);
                RebootView { status, reason: found.reason.clone(), message: found.message.clone(), since }
            },
        ),
        disruption_reason: status
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == conditions::DISRUPTION_REASON && condition.is_true())
            .map(|condition| condition.reason.clone()),
        last_pod_event: status.last_pod_event_time.as_ref().map(|time| time.0),
        pool_uid: owning_pool(claim),
    };
    Converted { view, problems: problems.found }
}

/// LIF-98: the UID that the owner reference names.
fn owning_pool(claim: &NodeClaim) -> Option<String> {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners
        .find(|owner| owner.kind == "NodePool" && owner.api_version.starts_with(crate::names::GROUP))
        .map(|owner| owner.uid.clone())
}

pub(super) fn node_class(class: &kinds::NodeClassRef) -> NodeClassRef {
    NodeClassRef { group: class.group.clone(), kind: class.kind.clone(), name: class.name.clone() }
}

/// Reads a nillable duration of a field.
pub(super) fn kinds_parse<'a>(
    problems: &'a mut Problems,
    field: &'a str,
) -> impl FnOnce(&crate::values::NillableDurationText) -> Option<NillableDuration> + 'a {
    move |text| problems.check(field, text.parse())
}

fn condition(condition: &Condition) -> ConditionView {
    let status = match condition.status {
        ConditionStatus::True => Status::True,
        ConditionStatus::False => Status::False,
        ConditionStatus::Unknown => Status::Unknown,
    };
    ConditionView { status, since: condition.last_transition_time.0 }
}
