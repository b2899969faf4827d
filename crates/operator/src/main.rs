//! The controller that a cluster runs.

fn main() {}
