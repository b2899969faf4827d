//! What EC2's refusals mean: for the claim, for the next attempts and for people (§4.12).

mod reasons;

use std::collections::BTreeSet;

use karpenter_model::labels;
use karpenter_platform::CreateError;

use super::templates::Template;
use crate::class::NodeClass;
use crate::cloud::{ApiError, FleetError};
use crate::instance_types::PlacementGroup;
use crate::unavailable::{GroupScope, OfferingKey};

pub use reasons::{Reason, reason};

/// Codes that mean that there is none of it right now (AWS-187).
const NO_CAPACITY: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    NO_ADDRESSES,
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
];
const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
const NO_SPOT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

fn is_no_capacity(error: &FleetError) -> bool {
    NO_CAPACITY.contains(&error.code.as_str())
}

/// The message that a spread placement group has all the instances that it takes in a zone.
fn is_spread_limit(error: &FleetError) -> bool {
    let message = error.message.to_lowercase();
    message.contains("spread placement group")
        && ["limit", "maximum", "exceed"].iter().any(|word| message.contains(word))
}

/// What a refusal changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Offering(OfferingKey),
    CapacityType(&'static str),
    /// No addresses are left in it.
    Subnet(String),
    Reservation(String),
    /// The account lacks the role that spot needs; the claim's events say so.
    SpotRoleMissing,
}

/// A row of the metric of launch failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFailure {
    pub zone: String,
    pub zone_id: String,
    pub capacity_type: String,
    pub reason: &'static str,
}

/// What was asked for when EC2 refused.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub class: &'a NodeClass,
    pub capacity_type: &'a str,
    pub templates: &'a [Template],
    pub placement_group: Option<&'a PlacementGroup>,
    pub partition: Option<u32>,
}

/// Of every error, also of those beside a successful launch (AWS-188 … AWS-191).
pub fn effects(errors: &[FleetError], attempt: &Attempt<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for error in errors {
        for effect in effects_of(error, attempt) {
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
    }
    effects
}

fn effects_of(error: &FleetError, attempt: &Attempt<'_>) -> Vec<Effect> {
    if error.code == NO_SPOT_ROLE {
        return vec![Effect::CapacityType(labels::CAPACITY_TYPE_SPOT), Effect::SpotRoleMissing];
    }
    if is_spread_limit(error) {
        return spread_limit(error, attempt);
    }
    if !is_no_capacity(error) {
        return Vec::new();
    }
    let mut effects = Vec::new();
    if error.code == NO_ADDRESSES && !error.subnet_id.is_empty() {
        effects.push(Effect::Subnet(error.subnet_id.clone()));
    }
    if attempt.capacity_type == labels::CAPACITY_TYPE_RESERVED {
        let own = attempt.templates.iter().find(|template| template.request.name == error.template_name);
        effects.extend(own.and_then(|own| own.reservation.as_ref()).map(|one| Effect::Reservation(one.id.clone())));
    } else if !error.instance_type.is_empty() && !error.zone.is_empty() {
        effects.push(Effect::Offering(key(&error.instance_type, &error.zone, attempt)));
    }
    effects
}

/// Full for every type, but only in that zone and for that group.
fn spread_limit(error: &FleetError, attempt: &Attempt<'_>) -> Vec<Effect> {
    if attempt.placement_group.is_none() || error.zone.is_empty() {
        return Vec::new();
    }
    let types = attempt.templates.iter().flat_map(|template| &template.types);
    let names: BTreeSet<&str> = types.map(|known| known.name.as_str()).collect();
    names.into_iter().map(|name| Effect::Offering(key(name, &error.zone, attempt))).collect()
}

fn key(instance_type: &str, zone: &str, attempt: &Attempt<'_>) -> OfferingKey {
    OfferingKey {
        capacity_type: attempt.capacity_type.to_owned(),
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        group: attempt.placement_group.map(|group| GroupScope {
            group_id: group.id.clone(),
            partition: attempt.partition.map(|partition| partition.to_string()),
        }),
    }
}

/// One row per error; zones are empty where EC2 or the class does not know them (AWS-292).
pub fn launch_failures(errors: &[FleetError], attempt: &Attempt<'_>) -> Vec<LaunchFailure> {
    let row = |error: &FleetError| LaunchFailure {
        zone: error.zone.clone(),
        zone_id: attempt.class.zone_id(&error.zone).unwrap_or_default().to_owned(),
        capacity_type: attempt.capacity_type.to_owned(),
        reason: reason(&text(error)).name,
    };
    errors.iter().map(row).collect()
}

fn text(error: &FleetError) -> String {
    format!("{}: {}", error.code, error.message)
}

/// What becomes of a claim for which no instance came back (AWS-186, AWS-192).
pub fn no_instance(errors: &[FleetError]) -> CreateError {
    let texts: BTreeSet<String> = errors.iter().map(text).collect();
    let texts = texts.into_iter().collect::<Vec<_>>().join("; ");
    let temporary = |error: &FleetError| is_no_capacity(error) || error.code == NO_SPOT_ROLE;
    if !errors.is_empty() && errors.iter().all(temporary) {
        return CreateError::InsufficientCapacity(format!("with fleet error(s), {texts}"));
    }
    let reason = reason(&texts);
    CreateError::Explained { reason: reason.name.to_owned(), message: reason.message.to_owned() }
}

/// Which call failed as a whole, as the claim's condition begins to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedCall {
    Fleet,
    /// The template was gone at the second try, too.
    TemplatesGone,
    Templates,
}

pub fn failed_call(call: FailedCall, error: &ApiError) -> CreateError {
    let prefix = match call {
        FailedCall::Fleet => "Error creating fleet request: ",
        FailedCall::TemplatesGone => "Launch templates not found when creating fleet request: ",
        FailedCall::Templates => "Error getting launch template configs: ",
    };
    let reason = reason(&error.to_string());
    CreateError::Explained { reason: reason.name.to_owned(), message: format!("{prefix}{}", reason.message) }
}

#[cfg(test)]
mod tests;
