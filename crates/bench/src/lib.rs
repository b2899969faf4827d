//! Scenarios with fixed seeds, and what the planners make of them.
//!
//! [`scenarios`] describes the problems, as snapshots of the model, so that tests of any crate can use them. [`run`]
//! solves one and judges the answer, [`instructions`] counts what that takes, [`table`] and [`goals`] print.

pub mod churn;
pub mod consolidation;
pub mod dice;
pub mod goals;
pub mod instructions;
pub mod run;
pub mod scenarios;
pub mod table;

pub use scenarios::{SCENARIOS, Scenario, named};
