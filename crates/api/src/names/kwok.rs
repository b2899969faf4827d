//! Names of the KWOK provider (API-22, API-129, API-133).

pub const GROUP: &str = "karpenter.kwok.sh";
pub const NODE_CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";

pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

/// Well-known additions; keys of the loaded offerings' requirements come on top (API-129).
pub const WELL_KNOWN: [&str; 4] = [INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY];
