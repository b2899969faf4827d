//! Annotation keys that decisions know by name; `api::names::annotations` has all of them (API-141).

/// Pod: `true` or a positive Go duration. Node and NodeClaim: only `true` (API-143, API-145).
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";

/// Node and NodeClaim: only `true` keeps repair away.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

/// Presence, not value, says that issuing a reboot began; the value may be empty.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Go duration; `0s` = no drain, absent = unbounded drain.
pub const REBOOT_TERMINATION_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// RFC 3339 times of the reboots that were committed, oldest first, comma-separated. Ours alone: a restart must not grant
/// further reboots (Z1).
pub const REBOOT_HISTORY: &str = "karpenter.sh/reboot-history";
/// RFC 3339 time at which the provider was first asked for the present reboot (Z2).
pub const REBOOT_ASKED_AT: &str = "karpenter.sh/reboot-asked-at";
/// RFC 3339 time at which the provider accepted the present reboot (Z27).
pub const REBOOT_ISSUED_AT: &str = "karpenter.sh/reboot-issued-at";

/// Pod: the `pod-deletion-cost` that we wrote. Equal to it, the cost is ours and nobody's wish (Z11).
pub const MANAGED_DELETION_COST: &str = "karpenter.sh/managed-pod-deletion-cost";

/// RFC 3339 time by which a NodeClaim's node must be gone.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Comma-separated, sorted driver names.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
