//! The plain values that decisions use: quantities, durations, requirements, taints, instance types and views of pods, nodes, claims and pools.
