//! Builders, fixtures and a real control plane for tests.
