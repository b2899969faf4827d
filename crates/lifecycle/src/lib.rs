//! One NodeClaim, its nodes and the time in, the next step out.
//!
//! The steps of a claim that is to live: [`launch`], [`registration`], [`initialization`], [`liveness`], in this order and
//! all of them on every look (LIF-11). A claim that is to go: [`finalization`]; its node: [`termination`]. The functions
//! only say what is to be done; the shell does it, and a repeated answer is harmless.

mod finalization;
mod initialization;
mod launch;
mod liveness;
mod registration;
mod termination;

pub use finalization::{Finalization, finalization};
pub use initialization::{Initialization, NotInitialized, initialization};
pub use launch::{Launch, launch};
pub use liveness::{LAUNCH_TIMEOUT, Liveness, REGISTRATION_TIMEOUT, Timeout, liveness};
pub use registration::{NotRegistered, RegisteredNode, Registration, registration};
pub use termination::{Drain, MINIMUM_DRAIN, Termination, drain, termination};

#[cfg(test)]
mod tests;
