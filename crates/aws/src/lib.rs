//! The CloudProvider on AWS.
//!
//! Everything here is a pure function or a small state that is told the time, so that it can be tested by calling it; the
//! calls themselves go through the narrow traits of [`cloud`], whose plain values are all that the rest knows of AWS. No
//! type of an SDK appears anywhere but in an adapter that fills those traits.
//!
//! Start with [`class`], what an EC2NodeClass says, and [`instance_types`], what EC2 sells to it.

pub mod batching;
pub mod class;
pub mod cloud;
pub mod drift;
pub mod family;
mod fnv;
pub mod instance_types;
pub mod instances;
pub mod interruption;
pub mod launch;
pub mod pricing;
pub mod profiles;
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

#[cfg(test)]
mod fixtures;
