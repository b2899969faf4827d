//! Taints (API-146, V15-11) and the ephemeral ones of a starting node (API-150).

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";

/// Effects a taint may have (API-14).
pub const EFFECTS: [&str; 3] = [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];

/// Effect `NoSchedule`, no value.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Effect `NoExecute`, no value.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Effect `NoSchedule`, no value.
pub const REBOOTING: &str = "karpenter.sh/rebooting";

/// Key and effect of each taint that a starting node loses by itself; values are not compared.
pub const KNOWN_EPHEMERAL: [(&str, &str); 5] = [
    ("node.kubernetes.io/not-ready", NO_SCHEDULE),
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_SCHEDULE),
    ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
    (UNREGISTERED, NO_EXECUTE),
];

/// Taints under this prefix are ephemeral with any effect.
pub const EPHEMERAL_PREFIX: &str = "readiness.k8s.io/";

/// Whether a taint is expected to go away while its node initialises (API-150).
pub fn is_known_ephemeral(key: &str, effect: &str) -> bool {
    key.starts_with(EPHEMERAL_PREFIX) || KNOWN_EPHEMERAL.contains(&(key, effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-150: matched by key and effect; `readiness.k8s.io/` with any effect.
    #[test]
    fn ephemeral_taints_match_key_and_effect() {
        for (key, effect, want) in [
            ("node.kubernetes.io/not-ready", NO_SCHEDULE, true),
            ("node.kubernetes.io/not-ready", NO_EXECUTE, true),
            ("node.kubernetes.io/not-ready", PREFER_NO_SCHEDULE, false),
            ("node.kubernetes.io/unreachable", NO_SCHEDULE, true),
            ("node.kubernetes.io/unreachable", NO_EXECUTE, false),
            ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE, true),
            (UNREGISTERED, NO_EXECUTE, true),
            (UNREGISTERED, NO_SCHEDULE, false),
            ("readiness.k8s.io/gpu", PREFER_NO_SCHEDULE, true),
            ("readiness.k8s.iox/gpu", NO_SCHEDULE, false),
            ("example.com/team", NO_SCHEDULE, false),
        ] {
            assert_eq!(is_known_ephemeral(key, effect), want, "{key}:{effect}");
        }
    }
}
