//! The plain values that decisions use, and nothing else: no I/O, no clock, no Kubernetes types.
//!
//! Start with [`snapshot::Snapshot`]: it is what every decision looks at. [`requirements`] holds the algebra that says
//! whether a pod, a pool, an instance type and an offering can meet. Conversions from Kubernetes objects are in the
//! `api` crate; what a value here cannot express (a malformed field) never gets this far.

pub mod annotations;
pub mod budget;
pub mod buffer;
pub mod claim;
pub mod cron;
pub mod devices;
pub mod duration;
#[cfg(any(test, feature = "example"))]
pub mod example;
pub mod instance_type;
pub mod labels;
pub mod moment;
pub mod node;
pub mod overlay;
pub mod pdb;
pub mod pod;
pub mod pool;
pub mod protection;
pub mod quantity;
pub mod repair;
pub mod requirements;
pub mod resources;
pub mod scheduling;
pub mod selector;
pub mod shared;
pub mod snapshot;
pub mod taints;
pub mod text;
pub mod uid;
pub mod volumes;
pub mod workloads;
