//! The repository as it is, judged by the program itself: with the rest of the tests, so that nothing is built for it alone.

#![allow(clippy::unwrap_used, reason = "a test crate")]

use std::process::Command;

fn passes(arguments: &[&str]) {
    let out = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).env("RUST_BACKTRACE", "0").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "cargo xtask {}\n{}{}", arguments.join(" "), text(&out.stdout), text(&out.stderr));
}

#[test]
fn the_repository_is_tidy() {
    passes(&["tidy"]);
}

#[test]
fn every_required_rule_has_a_test() {
    passes(&["spec-coverage", "--check"]);
}
