//! What the controllers read, as a real API server writes it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test crate")]

mod pods_in_protobuf;
