//! Annotations (API-141, V15-9). Those that decisions know by name are kept with the model.

pub use karpenter_model::annotations::{
    DO_NOT_DISRUPT, DO_NOT_REPAIR, MANAGED_DELETION_COST, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, REBOOT_ASKED_AT,
    REBOOT_HISTORY, REBOOT_ISSUED_AT, REBOOT_PRE_BOOT_ID, REBOOT_TERMINATION_GRACE_PERIOD, REQUESTED_DRA_DRIVERS,
    TERMINATION_TIMESTAMP,
};

/// Pod: decimal int32, what its eviction costs.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// A pod is virtual exactly when this is `true` (API-142).
pub const BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// Every annotation of the core.
pub const ALL: [&str; 20] = [
    DO_NOT_DISRUPT,
    DO_NOT_REPAIR,
    DISRUPTION_COST,
    POD_DELETION_COST,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    TERMINATION_TIMESTAMP,
    MIN_VALUES_RELAXED,
    REQUESTED_DRA_DRIVERS,
    PRICE_OVERLAY_APPLIED,
    CAPACITY_OVERLAY_APPLIED,
    BUFFER_FAKE_POD,
    BUFFER_NAME,
    BUFFER_NAMESPACE,
    REBOOT_PRE_BOOT_ID,
    REBOOT_TERMINATION_GRACE_PERIOD,
    REBOOT_HISTORY,
    REBOOT_ASKED_AT,
    REBOOT_ISSUED_AT,
    MANAGED_DELETION_COST,
];

/// Whether a pod's annotations mark it as a virtual pod of a capacity buffer (API-142).
pub fn is_virtual_pod<'a>(mut annotation: impl FnMut(&str) -> Option<&'a str>) -> bool {
    annotation(BUFFER_FAKE_POD) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-142: only the exact value `true` makes a pod virtual.
    #[test]
    fn virtual_pods_carry_the_exact_value() {
        for (value, want) in [(Some("true"), true), (Some("True"), false), (Some(""), false), (None, false)] {
            assert_eq!(is_virtual_pod(|_| value), want, "{value:?}");
        }
    }
}
