//! The controllers of AWS, running, on an API in the process and with an account in memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "a test crate")]
#![allow(clippy::print_stdout, reason = "figures are printed, not asserted")]

mod account;
mod classes;
mod desk;
mod interruptions;
mod mortal;
mod packing;
mod provider;
mod throughput;
mod upkeep;
