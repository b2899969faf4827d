//! The CRDs against a real kube-apiserver, and the offline validation against the same table of objects.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the settings for tests do not reach helper functions of test binaries"
)]

mod columns;
mod command;
mod conditions;
mod coverage;
mod offline;
mod server;
mod table;
