//! Pending pods and a snapshot in, a plan with reasons out.
//!
//! Start with [`plan()`]. This is the reference order in its simplest form: pods by size, each onto the first existing
//! node with room, else onto a node already planned, else onto a new one from the first pool that can hold it. What
//! rules a pod out is part of the answer ([`Refusal`]), never a log line.

mod claim;
mod plan;

pub use plan::{Placement, Plan, PlannedClaim, Refusal, RefusedBy, Unplaced, plan};

#[cfg(test)]
mod tests;
