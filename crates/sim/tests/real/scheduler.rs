//! Our scheduler beside the real one.

mod actor;
mod agreement;
mod generator;
mod preemption;
mod real;
