//! Generators and repository checks.

fn main() {}
