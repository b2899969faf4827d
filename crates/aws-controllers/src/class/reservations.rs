//! Capacity reservations, behind their gate (§2.7).

use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::conditions::CAPACITY_RESERVATIONS_READY;
use karpenter_aws::cloud::{ApiError, ReservationInfo, ReservationQuery};
use karpenter_aws::selection::reservations::{reservation_queries, selected_reservations};
use kube::ResourceExt as _;

use super::{Again, Part, conditions, listed, status};
use crate::Aws;

const KEPT: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribeCapacityReservations failed")]
struct ReservationError(#[source] ApiError);

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let mut found = Vec::new();
    for query in reservation_queries(class.spec.capacity_reservation_selector_terms.as_deref().unwrap_or_default()) {
        found.extend(answer(aws, &query).await?);
    }
    let selected = selected_reservations(found, aws.now());
    for (id, reason) in &selected.skipped {
        tracing::warn!(nodeclass = class.name_any(), reservation = id, reason, "left out a capacity reservation");
    }
    status(class).capacity_reservations = listed(selected.status);
    conditions(aws, class).set_true(CAPACITY_RESERVATIONS_READY);
    Ok(selected.again_after.try_into().map_or(Again::OnChange, Again::After))
}

/// The gate is off: nothing is said about reservations (AWS-17, AC-82).
pub(super) fn forget(aws: &Aws, class: &mut EC2NodeClass) {
    status(class).capacity_reservations = None;
    conditions(aws, class).remove(CAPACITY_RESERVATIONS_READY);
}

async fn answer(aws: &Aws, query: &ReservationQuery) -> Result<Vec<ReservationInfo>, ReservationError> {
    let (key, kept) = (format!("{query:?}"), &aws.classes.reservations);
    if let Some(known) = kept.get(&key, aws.now()) {
        return Ok(known);
    }
    let found = match aws.services.reads.capacity_reservations(query).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(ReservationError(error)),
    };
    aws.shared.reservations_described(&found);
    kept.put(key, found.clone(), aws.now(), KEPT);
    Ok(found)
}
