//! Whole worlds on virtual time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail the test")]

mod buffers;
mod checkers;
mod cloud;
mod crash;
mod death;
mod devices;
mod disruption;
mod lives;
mod overlays;
mod repair;
mod reserved;
mod seeds;
mod world;

/// A quarter of the time of a simulated week went into the system's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
