//! Schemas of built-in and custom kinds.
