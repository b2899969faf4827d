//! Whether a claim still is what its pool would make today (condition `Drifted`; DIS-149 … DIS-157).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::{Requirement, Requirements, Undefined};

/// A type that is not listed for a moment is no reason to replace a node that just came up.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftReason {
    NodePoolDrifted,
    RequirementsDrifted,
    InstanceTypeNotFound,
}

impl DriftReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePoolDrifted => "NodePoolDrifted",
            Self::RequirementsDrifted => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Not ours to say: the condition stays as it is.
    Untouched,
    /// The condition is taken away.
    Clear,
    Drifted(DriftReason),
    /// Nothing that we can see; the provider may know more.
    AskProvider,
}

/// What is known about the claim's instance type.
#[derive(Debug, Clone, Copy)]
pub enum KnownTypes<'a> {
    /// It was found on the list a short time ago.
    FoundLately,
    Listed(&'a [InstanceType]),
}

/// DIS-149 … DIS-151: the first reason wins. `pool` is `None` for a claim without a pool, or whose pool is gone.
pub fn drift(
    claim: &ClaimView,
    pool: Option<&PoolView>,
    types: KnownTypes<'_>,
    rules: &LabelRules,
    now: Timestamp,
) -> Drift {
    let Some(pool) = pool else { return Drift::Untouched };
    if !claim.launched.is_true() {
        return Drift::Clear;
    }
    let age = now.duration_since(claim.created_at);
    if template_changed(claim, pool) {
        Drift::Drifted(DriftReason::NodePoolDrifted)
    } else if !meets(claim, pool, rules) {
        Drift::Drifted(DriftReason::RequirementsDrifted)
    } else if let KnownTypes::Listed(types) = types
        && age > YOUNG
        && !is_offered(claim, types, rules)
    {
        Drift::Drifted(DriftReason::InstanceTypeNotFound)
    } else {
        Drift::AskProvider
    }
}

/// Hashes of different versions say nothing about each other (DIS-152).
fn template_changed(claim: &ClaimView, pool: &PoolView) -> bool {
    let annotation = |key: &str| claim.annotations.get(key).map(String::as_str);
    match (annotation(NODEPOOL_HASH), annotation(NODEPOOL_HASH_VERSION), &pool.hash) {
        (Some(hash), Some(version), Some(of_pool)) => version == of_pool.version && hash != of_pool.value.to_string(),
        _ => false,
    }
}

/// DIS-154. Labels of the template are part of the hash; one that is missing on the claim is not for us to judge.
fn meets(claim: &ClaimView, pool: &PoolView, rules: &LabelRules) -> bool {
    let is_template_label = |key: &str| pool.labels.keys().any(|label| rules.normalized(label) == key);
    let has = Requirements::from_labels(rules, &claim.labels);
    let mut asked = pool.requirements.clone();
    let unsaid: Vec<String> = pool
        .requirements
        .iter()
        .map(Requirement::key)
        .filter(|key| !has.has_key(key) && is_template_label(key))
        .map(str::to_owned)
        .collect();
    for key in unsaid {
        asked.remove(&key);
    }
    has.is_compatible(&asked, Undefined::Denied)
}

/// DIS-155: some offering of the type fits the claim's labels, whether or not it can be had now.
fn is_offered(claim: &ClaimView, types: &[InstanceType], rules: &LabelRules) -> bool {
    let Some(name) = claim.labels.get(labels::INSTANCE_TYPE) else { return false };
    let mut has = Requirements::from_labels(rules, &claim.labels);
    let reserved = claim.labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == labels::CAPACITY_TYPE_RESERVED);
    if reserved {
        // A reservation ends, and its instances run on at the price of on-demand ones.
        let either = [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_ON_DEMAND];
        has.replace(Requirement::any_of(labels::CAPACITY_TYPE, either));
    }
    let fits = |offering: &Offering| {
        let mut offered = offering.requirements.clone();
        if let Some(key) = rules.reservation_key().filter(|_| reserved) {
            offered.remove(key);
        }
        has.is_compatible(&offered, Undefined::WellKnownAllowed(rules))
    };
    types.iter().filter(|known| known.name == *name).any(|known| known.offerings.iter().any(fits))
}

#[cfg(test)]
mod tests;
