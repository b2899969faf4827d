//! Our scheduler beside the real one.

mod agreement;
mod generator;
mod real;
