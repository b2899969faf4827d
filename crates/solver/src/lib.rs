//! Pending pods and a snapshot in, a plan with reasons out.
//!
//! Start with [`plan()`]. This is the reference: it follows the specified order exactly. Pods by size, each onto the first
//! existing node that takes it, else onto the claim with the fewest pods that does, else onto a new one from the first
//! pool that can; preferences are wishes that are given up one at a time ([`relax`]). What rules a pod out is part of
//! the answer ([`Refusal`]), never a log line.
//!
//! [`template`] prepares the pools, [`node`] and [`claim`] are the candidates, [`topology`] knows how many pods are where,
//! [`reservations`] who holds what. [`check`] judges a plan without knowing how it was made.

mod best;
mod bound;
pub mod check;
mod claim;
mod min_values;
mod misfit;
mod node;
mod options;
mod packing;
mod pass;
mod plan;
mod relax;
mod reservations;
mod template;
mod topology;

pub use bound::{Bound, BoundKind, DualPrices, Worth};
pub use options::{MinValuesPolicy, Options, Planner, Preferences, Reserved};
pub use plan::{
    Criterion, NoType, Part, Placement, Plan, PlannedClaim, Refusal, RefusedBy, Unplaced, appraise, plan, plan_until,
};

#[cfg(test)]
mod tests;
