//! Every call against the AWS emulator, over the wire.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test crate")]
#![allow(clippy::print_stdout, reason = "figures are printed, not asserted")]

mod faults;
mod iam;
mod logs;
mod lookups;
mod provider;
mod queue;
mod reads;
mod setup;
mod writes;
