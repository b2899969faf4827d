//! Capacity type and tenancy of a launch (AWS-153, AWS-154, AWS-301).

use karpenter_api::names::aws;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::Requirements;

/// Fewer types than this leave little to choose from when on-demand capacity stands in for spot.
const FLEXIBLE: usize = 5;

/// Whether the requirements leave room for a value; keys that are not mentioned do.
pub(super) fn allows(asked: &Requirements, key: &str, value: &str) -> bool {
    asked.get(key).is_none_or(|requirement| requirement.has(value))
}

/// Reserved if there is any, else spot, else on-demand; only what the claim allows and somebody sells.
pub fn capacity_type(types: &[InstanceType], asked: &Requirements, rules: &LabelRules) -> &'static str {
    let sold = |capacity_type: &str| {
        types.iter().any(|known| {
            let offerings = known.launchable_offerings(asked, rules);
            offerings.iter().any(|offering| offering.capacity_type() == Some(capacity_type))
        })
    };
    [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT]
        .into_iter()
        .find(|one| allows(asked, labels::CAPACITY_TYPE, one) && sold(one))
        .unwrap_or(labels::CAPACITY_TYPE_ON_DEMAND)
}

pub fn tenancy(asked: &Requirements) -> &'static str {
    let [default, dedicated] = aws::TENANCIES;
    if allows(asked, aws::INSTANCE_TENANCY, default) { default } else { dedicated }
}

/// The launch stands in for spot with few types to choose from: worth a line in the log.
pub fn lacks_flexibility(types: usize, capacity_type: &str, asked: &Requirements) -> bool {
    capacity_type == labels::CAPACITY_TYPE_ON_DEMAND
        && allows(asked, labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_SPOT)
        && types < FLEXIBLE
}
