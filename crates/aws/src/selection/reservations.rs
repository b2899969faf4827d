//! Capacity reservations (§2.7).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::kinds::ec2nodeclass::{CapacityReservation, CapacityReservationSelectorTerm};

use super::tag_filters;
use crate::cloud::{Filter, ReservationInfo, ReservationQuery};

/// EC2 takes instances of a capacity block away half an hour before its end; nodes are drained ten minutes earlier.
const DRAINED_BEFORE: SignedDuration = SignedDuration::from_mins(40);
const LOOKED_AT_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// A term with an id asks for it; what else it has is a query of its own (AWS-8, AWS-76).
pub fn reservation_queries(terms: &[CapacityReservationSelectorTerm]) -> Vec<ReservationQuery> {
    let active = || Filter::new("state", ["active"]);
    let mut queries = Vec::new();
    for term in terms {
        if let Some(id) = &term.id {
            queries.push(ReservationQuery { id: Some(id.clone()), filters: vec![active()] });
        }
        let tags = term.tags.as_ref().map(tag_filters).unwrap_or_default();
        if tags.is_empty() && term.instance_match_criteria.is_none() {
            continue;
        }
        let mut filters = vec![active()];
        filters.extend(term.owner_id.as_ref().map(|owner| Filter::new("owner-id", [owner.as_str()])));
        filters.extend(tags);
        let criteria = term.instance_match_criteria.as_deref();
        filters.extend(criteria.map(|criteria| Filter::new("instance-match-criteria", [criteria])));
        queries.push(ReservationQuery { id: None, filters });
    }
    queries
}

/// What of the answers is kept, what is not and why, and when to look again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SelectedReservations {
    pub status: Vec<CapacityReservation>,
    /// Id and reason of those that are not understood (AWS-79).
    pub skipped: Vec<(String, String)>,
    pub again_after: SignedDuration,
}

pub fn selected_reservations(found: impl IntoIterator<Item = ReservationInfo>, now: Timestamp) -> SelectedReservations {
    let by_id: BTreeMap<String, ReservationInfo> = found.into_iter().map(|one| (one.id.clone(), one)).collect();
    let mut selected = SelectedReservations { again_after: LOOKED_AT_EVERY, ..SelectedReservations::default() };
    for one in by_id.into_values().filter(|one| one.ends.is_none_or(|ends| now < ends)) {
        if !["open", "targeted"].contains(&one.match_criteria.as_str()) {
            selected.skipped.push((one.id, format!("instance match criteria {:?}", one.match_criteria)));
            continue;
        }
        if !["default", "capacity-block"].contains(&one.kind.as_str()) {
            selected.skipped.push((one.id, format!("reservation type {:?}", one.kind)));
            continue;
        }
        if let Some(ends) = one.ends {
            selected.again_after = selected.again_after.min(ends.duration_since(now)).max(SignedDuration::ZERO);
        }
        selected.status.push(status(one, now));
    }
    selected
}

fn status(one: ReservationInfo, now: Timestamp) -> CapacityReservation {
    let expiring = is_expiring(&one.kind, one.ends, now);
    CapacityReservation {
        availability_zone: one.zone,
        end_time: one.ends.map(Time),
        id: one.id,
        instance_match_criteria: one.match_criteria,
        instance_type: one.instance_type,
        interruptible: Some(one.interruptible.unwrap_or_default()),
        owner_id: one.owner_id,
        reservation_type: one.kind,
        state: if expiring { "expiring" } else { "active" }.to_owned(),
    }
}

/// Only capacity blocks end with their instances (AWS-80).
pub fn is_expiring(kind: &str, ends: Option<Timestamp>, now: Timestamp) -> bool {
    kind == "capacity-block" && ends.is_some_and(|ends| ends.duration_since(now) <= DRAINED_BEFORE)
}
