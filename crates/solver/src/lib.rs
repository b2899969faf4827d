//! Pending pods and a snapshot in, a plan with reasons out.
//!
//! Start with [`plan()`]. This is the reference: it follows the specified order exactly. Pods by size, each onto the first
//! existing node that takes it, else onto the claim with the fewest pods that does, else onto a new one from the first
//! pool that can; preferences are wishes that are given up one at a time. What rules a pod out is part of
//! the answer ([`Refusal`]), never a log line.
//!
//! All of it works on the [`compiled`] form of a snapshot, which a [`Solver`] keeps from one pass to the next. [`draft`] is
//! for planners that decide themselves who goes where. [`check`] judges a plan without knowing how it was made.

mod attachments;
mod best;
mod bound;
pub mod buffers;
pub mod check;
mod compiled;
mod daemons;
pub mod devices;
pub mod draft;
mod late;
mod min_values;
mod misfit;
mod options;
mod packing;
mod places;
mod plan;
mod reservations;
mod shapes;
mod what_if;

#[cfg(test)]
mod plain;

pub use bound::{Bound, BoundKind, DualPrices, Worth};
pub use late::Late;
pub use min_values::unmet_min_values;
pub use options::{MinValuesPolicy, Options, Planner, Preferences, Reserved};
pub use places::{Ids, Placed, Places, PodList};
pub use plan::{
    Criterion, EffectiveZone, NoType, Part, Placement, Plan, PlannedClaim, Refusal, RefusedBy, Solver, Unplaced, Work,
    appraise, effective_zones, plan, plan_until,
};
pub use shapes::{Cheaper, Fill, Lack, NodeRefusal, NodesLeft, NodesRefuse, Shape, refusing_nodes, shape};
pub use what_if::{Answer, Asking, NodeId, Trace, WhatIf};

#[cfg(test)]
mod tests;
