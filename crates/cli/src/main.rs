//! The karpenter command line.

fn main() {}
