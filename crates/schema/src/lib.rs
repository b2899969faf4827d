//! Structural schemas of custom resources as the API server applies them: defaults, pruning, validation and CEL rules.
//!
//! [`Schema::compile`] takes the `openAPIV3Schema` of a CRD version once; the result then serves any number of objects. The
//! order of the API server is: [`Schema::prune`], [`Schema::default`], [`Schema::validate`]. Texts and verdicts follow a real
//! kube-apiserver 1.35, with these deliberate differences:
//!
//! - violations come in a fixed order (the server's differs from run to run);
//! - a value that is neither integer nor string where one of both is demanded gives one violation, not three;
//! - `format` is checked for date-time, date, duration, byte, ipv4, ipv6, cidr and uuid; others are accepted;
//! - the cost budget of CEL rules is not enforced: it protects a shared server.
//!
//! Like the server, it does not enforce the ranges of `format: int32` and `int64` and applies string limits only to strings,
//! wherever else a schema puts them.
//!
//! This crate knows nothing about particular kinds and uses none of ours.

mod compile;
mod defaults;
mod format;
mod old;
mod path;
mod pattern;
mod prune;
mod rules;
mod validate;
mod violation;

pub use compile::{Schema, SchemaError};
pub use path::{FieldPath, Segment};
pub use validate::Ratcheting;
pub use violation::{Violation, ViolationKind};

#[cfg(test)]
mod tests;
