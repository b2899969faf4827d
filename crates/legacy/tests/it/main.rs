//! The legacy controllers beside those of the core, on an API in the process. Time is paused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "a test crate")]

mod desk;
mod provisioners;
mod templates;
