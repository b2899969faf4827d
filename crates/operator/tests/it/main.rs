//! `karpenter-controller` as users run it: the built binary on a real control plane.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test crate")]

mod answering;
mod aws;
mod chart;
mod documents;
mod installation;
mod installing;
mod legacy;
mod live;
mod settings;
mod starting;
mod switch_over;
mod traces;
mod whole_way;
