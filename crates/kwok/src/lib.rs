//! Fake nodes on a real cluster: the CloudProvider to try things with, and to test on.
//!
//! Launching creates a Node object that the kwok controller plays kubelet for; terminating deletes it. Everything a real
//! cloud would decide (types, zones, prices) comes from [`catalogue`].

pub mod catalogue;
mod node;
mod provider;

pub use provider::KwokProvider;
