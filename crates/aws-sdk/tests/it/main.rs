//! Every call against the AWS emulator, over the wire.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test crate")]

mod faults;
mod iam;
mod logs;
mod lookups;
mod queue;
mod reads;
mod setup;
mod writes;
