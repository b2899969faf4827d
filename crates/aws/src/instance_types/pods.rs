//! How many pods a node takes (AWS-122, AWS-123).

use super::TypeFacts;
use super::evaluated::evaluated_max_pods;
use crate::class::{ClassError, NodeClass};
use crate::cloud::InstanceTypeInfo;

/// What Windows nodes take, where nobody says otherwise.
const WITHOUT_INTERFACES: i64 = 110;

/// By the addresses of the default network card, less the interfaces that are not for pods: each address but the first of
/// each interface, and two for pods on the host's own network.
pub fn interface_limited_pods(info: &InstanceTypeInfo, class: &NodeClass, reserved_enis: i64) -> i64 {
    let taken = class.efa_only_interfaces().filter(|interface| interface.network_card_index == 0).count();
    let taken = reserved_enis.saturating_add(i64::try_from(taken).unwrap_or(i64::MAX));
    match info.default_card_interfaces().saturating_sub(taken).max(0) {
        0 => 0,
        interfaces => interfaces * (info.network.ipv4_per_interface - 1).max(0) + 2,
    }
}

/// What a node takes where the class says nothing of it.
pub(super) fn default_pods(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> i64 {
    if facts.class.family.pods_by_interfaces() {
        interface_limited_pods(info, facts.class, facts.sizing.reserved_enis)
    } else {
        WITHOUT_INTERFACES
    }
}

pub(super) fn pods(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Result<i64, ClassError> {
    let (kubelet, family) = (&facts.class.kubelet, facts.class.family);
    let pods = match kubelet.max_pods {
        Some(pods) => pods,
        None => evaluated_max_pods(info, facts)?.unwrap_or_else(|| default_pods(info, facts)),
    };
    Ok(match kubelet.pods_per_core.filter(|_| family.honours_pods_per_core()) {
        Some(per_core) => pods.min(per_core.saturating_mul(info.vcpus)),
        None => pods,
    })
}
