//! Annotation keys that decisions know by name; `api::names::annotations` has all of them (API-141).

/// Pod: `true` or a positive Go duration. Node and NodeClaim: only `true` (API-143, API-145).
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";

/// RFC 3339 time by which a NodeClaim's node must be gone.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Comma-separated, sorted driver names.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
