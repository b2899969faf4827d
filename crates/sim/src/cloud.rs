//! A cloud without machines.

/// How the ids of its machines begin.
pub const PROVIDER_PREFIX: &str = "sim://";
