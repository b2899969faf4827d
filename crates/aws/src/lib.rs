//! The CloudProvider on AWS.
//!
//! Everything but [`provider`] is a pure function or a small state that is told the time, so that it can be tested by calling
//! it. [`provider`] drives it: it keeps what is known, asks EC2 and is asked by the controllers. Its calls go through the
//! narrow traits of [`cloud`], whose plain values are all that the rest knows of AWS. No type of an SDK appears anywhere but
//! in an adapter that fills those traits.
//!
//! Start with [`class`], what an EC2NodeClass says, [`instance_types`], what EC2 sells to it, and `provider/launching.rs`.

pub mod batching;
pub mod class;
pub mod cloud;
pub mod drift;
pub mod expressions;
pub mod family;
mod fnv;
pub mod instance_types;
pub mod instances;
pub mod interruption;
pub mod kubelet_checks;
pub mod launch;
pub mod pricing;
pub mod profiles;
pub mod provider;
pub mod provider_id;
pub mod reboot;
pub mod repair;
pub mod reservations;
pub mod selection;
pub mod unavailable;
pub mod upkeep;
pub mod user_data;
pub mod validation;
pub mod zonal_shift;

#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(any(test, feature = "fake"))]
pub mod fixtures;
