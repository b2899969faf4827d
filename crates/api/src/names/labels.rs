//! Labels (API-125 … API-127) and the Kubernetes ones that decisions read. Those that decisions know come from the model.

pub use karpenter_model::labels::{
    ALIASES, ARCH, CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT,
    DO_NOT_SYNC_TAINTS, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODEPOOL, OS, REGION, REGISTERED, WELL_KNOWN,
    WINDOWS_BUILD, ZONE,
};

/// Value of [`REGISTERED`], [`INITIALIZED`] and [`DO_NOT_SYNC_TAINTS`]; any other value has no effect.
pub const TRUE: &str = "true";

/// Values of [`CAPACITY_TYPE`]; the set is closed (API-67).
pub const CAPACITY_TYPES: [&str; 3] = [CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, CAPACITY_TYPE_RESERVED];

/// Written with value [`EXCLUDED_BY`] on a Node whose termination begins (API-127).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
pub const EXCLUDED_BY: &str = "karpenter";

/// Keys that exist only inside the scheduling simulation and never reach a NodeClaim (API-74).
pub const SIMULATION_ONLY: [&str; 2] = [REGISTERED, INITIALIZED];
