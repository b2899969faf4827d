//! One suite for the embedded API and for a real kube-apiserver: where the two differ, the embedded one is wrong.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the settings for tests do not reach helper functions of test binaries"
)]

mod backend;
mod objects;
mod watching;
mod wire;

mod admission;
mod apply;
mod clients;
mod create;
mod custom;
mod definitions;
mod delete;
mod discovery;
mod faults;
mod fuzz;
mod list;
mod owners;
mod patch;
mod requests;
mod roles;
mod selectors;
mod smoke;
mod strategic;
mod subresources;
mod tables;
mod transcripts;
mod update;
mod watch;
