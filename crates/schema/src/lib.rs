//! Structural schemas of custom resources as the API server applies them: defaults, pruning, validation and CEL rules.
