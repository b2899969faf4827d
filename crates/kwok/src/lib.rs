//! Fake nodes on a real cluster: the CloudProvider to try things with, and to test on.
//!
//! Launching creates a Node object that the kwok controller plays kubelet for; terminating deletes it. Everything a real
//! cloud would decide (types, zones, prices) comes from `karpenter_api::instance_types`.

mod node;
mod provider;

pub use provider::KwokProvider;
