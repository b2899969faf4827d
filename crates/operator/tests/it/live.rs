//! The controller at work on a real control plane, with the environment, the account and the rights that the chart gives it.
//!
//! [`installed`] is the cluster with what the chart installs, [`scene`] the part of it that one test has for itself. Most tests
//! share one cluster and one controller; those that end the controller have their own.

pub(crate) mod installed;
pub(crate) mod scene;

mod by_hand;
mod capacity;
mod constraints;
mod crash;
mod disruption;
mod drain;
mod lease;
mod odd;
mod pools;
mod scale;
mod volumes;
