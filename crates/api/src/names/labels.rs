//! Labels (API-125 … API-127) and the Kubernetes ones that decisions read.

pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// On a Node with value `true`: taints of the NodeClaim are not copied to it.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Value of [`REGISTERED`], [`INITIALIZED`] and [`DO_NOT_SYNC_TAINTS`]; any other value has no effect.
pub const TRUE: &str = "true";

/// Values of [`CAPACITY_TYPE`]; the set is closed (API-67).
pub const CAPACITY_TYPES: [&str; 3] = [CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, CAPACITY_TYPE_RESERVED];
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
pub const CAPACITY_TYPE_SPOT: &str = "spot";
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Written with value [`EXCLUDED_BY`] on a Node whose termination begins (API-127).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
pub const EXCLUDED_BY: &str = "karpenter";

/// Keys that exist only inside the scheduling simulation and never reach a NodeClaim (API-74).
pub const SIMULATION_ONLY: [&str; 2] = [REGISTERED, INITIALIZED];

/// Well-known labels of the core (API-128); providers add their own.
pub const WELL_KNOWN: [&str; 8] = [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Domains in which only well-known labels may be used (API-133).
pub const RESTRICTED_DOMAINS: [&str; 1] = [super::GROUP];

/// Labels that may not be used although their domain is free (API-133).
pub const RESTRICTED: [&str; 1] = [HOSTNAME];

/// Older spellings and what they mean today (API-137).
pub const ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];
