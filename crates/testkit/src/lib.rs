//! Builders, fixtures and a real control plane for tests.
//!
//! Only ever a dev-dependency. Start with [`ControlPlane`] for a test that needs real Kubernetes and with [`build`] for
//! objects that state only what a test is about.

pub mod aws;
pub mod build;
pub mod control_plane;
pub mod protobuf;

pub use control_plane::ControlPlane;
