//! The parts of the simulated cluster beside the programs that they stand for, on a real control plane. On its own, because
//! worlds that keep every core busy would make real programs slow.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail the test")]

mod actors;
mod scheduler;
