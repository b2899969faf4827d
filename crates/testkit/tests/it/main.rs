//! The launcher against real programs.
#![expect(clippy::unwrap_used, reason = "the setting for tests does not reach helper functions of test binaries")]

mod control_plane;
