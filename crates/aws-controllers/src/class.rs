//! EC2NodeClasses: what their selectors find, whether anything could be launched from it, and how they end (§2).

mod finalizing;
mod images;
mod placement_group;
mod profile;
mod reservations;
mod security_groups;
mod subnets;
mod validation;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::conditions::{Conditioned as _, Conditions};
use karpenter_api::kinds::{EC2NodeClass, EC2NodeClassStatus};
use karpenter_api::names::aws;
use karpenter_aws::cloud::{ImageInfo, ImageQuery, ReservationInfo, SecurityGroupInfo, SubnetInfo};
use karpenter_aws::instance_types::PlacementGroup;
use karpenter_aws::validation::Verdict;
use karpenter_controllers::patch::{ignore_gone, merge_locked, merge_status_locked};
use karpenter_controllers::queue::{ReconcileError, Requeue};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::Aws;
use crate::kept::Kept;
use crate::report::readiness_changed;

pub(crate) use images::invalidate_parameters;

/// A class as it was when EC2 answered: its UID and generation.
type Shape = (String, i64);

/// What was found for classes, each for as long as it is good (§3.8).
#[derive(Debug, Default)]
pub(crate) struct Memory {
    images: Kept<Shape, (Vec<ImageQuery>, Vec<ImageInfo>)>,
    subnets: Kept<Shape, Vec<SubnetInfo>>,
    security_groups: Kept<Shape, Vec<SecurityGroupInfo>>,
    /// By query.
    reservations: Kept<String, Vec<ReservationInfo>>,
    /// By selector; `None` when there is no such group.
    placement_groups: Kept<String, Option<PlacementGroup>>,
    /// What parameters hold, by name.
    parameters: Kept<String, String>,
    /// By class and what the verdict depends on.
    verdicts: Kept<(String, u64), Verdict>,
}

fn shape(class: &EC2NodeClass) -> Shape {
    (class.uid().unwrap_or_default(), class.metadata.generation.unwrap_or_default())
}

/// When a part of a pass wants to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// When the class changes.
    OnChange,
    After(Duration),
    /// Nothing could be said, which is nobody's fault.
    Soon,
}

const MINUTE: Duration = Duration::from_mins(1);

type Part = Result<Again, ReconcileError>;

/// Several parts of a pass went wrong; each is named.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
struct Failures(Vec<String>);

pub(crate) async fn reconcile(aws: Arc<Aws>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(stored) = aws.class(&name) else { return Ok(Requeue::OnChange) };
    if stored.metadata.deletion_timestamp.is_some() {
        return finalizing::finalize(&aws, &stored).await;
    }
    let Some(stored) = ensure_finalizer(&aws, stored).await? else { return Ok(Requeue::OnChange) };
    let mut class = stored.clone();
    let parts = pass(&aws, &mut class).await;
    write_status(&aws, &stored, &class).await?;
    next(parts)
}

/// All parts run, whatever becomes of the others; validation sees what was found in the same pass (AWS-37).
async fn pass(aws: &Aws, class: &mut EC2NodeClass) -> Vec<(&'static str, Part)> {
    let mut parts = vec![("images", images::reconcile(aws, class).await)];
    if aws.options.reserved_capacity {
        parts.push(("capacity reservations", reservations::reconcile(aws, class).await));
    } else {
        reservations::forget(aws, class);
    }
    parts.push(("placement group", placement_group::reconcile(aws, class).await));
    parts.push(("subnets", subnets::reconcile(aws, class).await));
    parts.push(("security groups", security_groups::reconcile(aws, class).await));
    parts.push(("instance profile", profile::reconcile(aws, class).await));
    parts.push(("validation", validation::reconcile(aws, class).await));
    parts
}

/// The first of all times that were asked for; failures before everything (AWS-38).
fn next(parts: Vec<(&'static str, Part)>) -> Result<Requeue, ReconcileError> {
    let (mut failures, mut wait, mut soon) = (Vec::new(), None::<Duration>, false);
    for (name, part) in parts {
        match part {
            Err(error) => failures.push(format!("{name}: {}", chain(error.as_ref()))),
            Ok(Again::OnChange) => {}
            Ok(Again::After(pause)) => wait = Some(wait.map_or(pause, |wait| wait.min(pause))),
            Ok(Again::Soon) => soon = true,
        }
    }
    match wait {
        _ if !failures.is_empty() => Err(Box::new(Failures(failures))),
        _ if soon => Ok(Requeue::Backoff),
        Some(wait) => Ok(Requeue::After(wait)),
        None => Ok(Requeue::OnChange),
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn conditions<'a>(aws: &Aws, class: &'a mut EC2NodeClass) -> Conditions<'a> {
    aws.condition_set().of(class, aws.now())
}

fn status(class: &mut EC2NodeClass) -> &mut EC2NodeClassStatus {
    class.status.get_or_insert_default()
}

/// An empty list is not written at all.
fn listed<T>(found: Vec<T>) -> Option<Vec<T>> {
    Some(found).filter(|found| !found.is_empty())
}

/// Before anything is made for the class, so that it is cleaned up after it. `None` when the class is gone.
async fn ensure_finalizer(aws: &Aws, class: EC2NodeClass) -> Result<Option<EC2NodeClass>, ReconcileError> {
    if class.finalizers().iter().any(|name| name == aws::FINALIZER) {
        return Ok(Some(class));
    }
    let all: Vec<&str> = class.finalizers().iter().map(String::as_str).chain([aws::FINALIZER]).collect();
    let patch = json!({ "metadata": { "finalizers": all } });
    let written = ignore_gone(merge_locked(&aws.classes_api(), &class, patch).await)?;
    if let Some(written) = &written {
        aws.note_class(written);
    }
    Ok(written)
}

/// Once, and only if anything changed (AWS-38).
async fn write_status(aws: &Aws, stored: &EC2NodeClass, class: &EC2NodeClass) -> Result<(), ReconcileError> {
    if status_value(stored) == status_value(class) {
        return Ok(());
    }
    let written = merge_status_locked(&aws.classes_api(), stored, status_value(class)).await;
    if let Some(written) = ignore_gone(written)? {
        aws.note_class(&written);
        readiness_changed(stored, &written);
    }
    Ok(())
}

/// Every member by name: one that is not there any more has to be taken back (AWS-19).
fn status_value(class: &EC2NodeClass) -> Value {
    let none = EC2NodeClassStatus::default();
    let status = class.status.as_ref().unwrap_or(&none);
    json!({
        "amis": status.amis,
        "capacityReservations": status.capacity_reservations,
        "conditions": class.conditions(),
        "instanceProfile": status.instance_profile,
        "securityGroups": status.security_groups,
        "subnets": status.subnets,
    })
}
