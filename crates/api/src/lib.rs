//! The Kubernetes form of everything we read and write: kinds, CRDs, names, hash, settings, conversions to the model.
//!
//! This crate owns the YAML. Nothing here talks to a cluster, reads a clock or the environment: what such code
//! needs is handed in. Start with [`kinds`] for the custom resources and [`names`] for every key they use.

pub mod conditions;
pub mod convert;
pub mod crd;
pub mod hash;
pub mod instance_types;
pub mod kinds;
pub mod legacy;
pub mod names;
pub mod settings;
pub mod validation;
pub mod values;
