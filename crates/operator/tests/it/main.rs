//! `karpenter-controller` as users run it: the built binary on a real control plane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test crate")]

mod settings;
mod whole_way;
