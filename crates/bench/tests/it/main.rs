//! Counts that are the same on every machine.
//!
//! A binary of its own, since the counting allocator holds for a whole program.

mod allocations;
