//! The provider on a real API server.

#![allow(clippy::unwrap_used, reason = "a test crate")]

mod contract;
