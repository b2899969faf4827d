//! Reconcilers: read facts, ask the pure crates, act, report.
