//! Why an instance is no longer what its class asks for (§1.7).

use std::collections::BTreeSet;

use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;

use crate::class::NodeClass;
use crate::launch::images::image_for;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    NodeClass,
    Image,
    SecurityGroups,
    Subnet,
    CapacityReservation,
    PlacementGroup,
}

impl Drift {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NodeClass => "NodeClassDrift",
            Self::Image => "AMIDrift",
            Self::SecurityGroups => "SecurityGroupDrift",
            Self::Subnet => "SubnetDrift",
            Self::CapacityReservation => "CapacityReservationDrift",
            Self::PlacementGroup => "PlacementGroupDrift",
        }
    }
}

/// It cannot be said whether an instance has drifted; to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DriftError {
    #[error("the instance type of the nodeclaim is not known")]
    UnknownType,
    #[error("no images are known")]
    NoImages,
    #[error("the nodeclaim names no image")]
    NoImageId,
    #[error("no security groups are known")]
    NoSecurityGroups,
    #[error("no subnets are known")]
    NoSubnets,
}

/// What EC2 says of the instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceFacts {
    pub subnet_id: String,
    pub security_groups: BTreeSet<String>,
    pub reservation_id: Option<String>,
}

/// What can be said without asking EC2: the class's own spec first, then the image.
pub fn drift_of_claim(
    class: &NodeClass,
    claim: &ClaimView,
    image_id: Option<&str>,
    known: Option<&InstanceType>,
    rules: &LabelRules,
) -> Result<Option<Drift>, DriftError> {
    if has_static_drift(class, claim) {
        return Ok(Some(Drift::NodeClass));
    }
    let known = known.ok_or(DriftError::UnknownType)?;
    let images = class.status.amis.as_deref().unwrap_or_default();
    if images.is_empty() {
        return Err(DriftError::NoImages);
    }
    let current = image_id.filter(|id| !id.is_empty()).ok_or(DriftError::NoImageId)?;
    let wanted = image_for(known, images, rules).map(|image| image.id.as_str());
    Ok((wanted != Some(current)).then_some(Drift::Image))
}

/// Only hashes of the same version say anything about each other.
fn has_static_drift(class: &NodeClass, claim: &ClaimView) -> bool {
    let both = |key: &str| Some((class.annotations.get(key)?, claim.annotations.get(key)?));
    match (both(aws::HASH_VERSION_ANNOTATION), both(aws::HASH_ANNOTATION)) {
        (Some((class_version, claim_version)), Some((class_hash, claim_hash))) => {
            class_version == claim_version && class_hash != claim_hash
        }
        _ => false,
    }
}

/// What the instance itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftOfInstance {
    None,
    Drifted(Drift),
    /// The instance as it is remembered is in a reservation that the class does not have: ask EC2 again, past the cache,
    /// and give the answer.
    AskAgain,
}

/// Groups, subnet and reservation are all looked at before one of them counts, so that an error in any of them wins.
/// `fresh` is the instance past the cache, once that was asked for.
pub fn drift_of_instance(
    class: &NodeClass,
    claim: &ClaimView,
    instance: &InstanceFacts,
    fresh: Option<&InstanceFacts>,
    placement_group: Option<&str>,
) -> Result<DriftOfInstance, DriftError> {
    let groups: BTreeSet<String> =
        class.status.security_groups.iter().flatten().map(|group| group.id.clone()).collect();
    if groups.is_empty() {
        return Err(DriftError::NoSecurityGroups);
    }
    if class.subnets().is_empty() {
        return Err(DriftError::NoSubnets);
    }
    let strange = |facts: &InstanceFacts| {
        let own = class.status.capacity_reservations.iter().flatten();
        let known: BTreeSet<&str> = own.map(|one| one.id.as_str()).collect();
        facts.reservation_id.as_deref().is_some_and(|id| !known.contains(id))
    };
    let suspect = strange(instance);
    if suspect && fresh.is_none() {
        return Ok(DriftOfInstance::AskAgain);
    }
    let group = claim.labels.get(aws::PLACEMENT_GROUP_ID).map(String::as_str).unwrap_or_default();
    let checks = [
        (instance.security_groups != groups, Drift::SecurityGroups),
        (!class.subnets().iter().any(|subnet| subnet.id == instance.subnet_id), Drift::Subnet),
        (suspect && fresh.is_some_and(strange), Drift::CapacityReservation),
        (group != placement_group.unwrap_or_default(), Drift::PlacementGroup),
    ];
    let found = checks.into_iter().find(|(drifted, _)| *drifted);
    Ok(found.map_or(DriftOfInstance::None, |(_, drift)| DriftOfInstance::Drifted(drift)))
}

#[cfg(test)]
mod tests;
