//! The parts of the simulated cluster against the programs they stand for.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail the test")]

mod actors;
mod buffers;
mod checkers;
mod cloud;
mod crash;
mod death;
mod disruption;
mod lives;
mod overlays;
mod scheduler;
mod seeds;
mod world;
