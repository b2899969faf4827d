//! The official SDK behind the calls that the AWS provider makes (`karpenter_aws::cloud`).
//!
//! A crate of its own because `aws-sdk-ec2` takes minutes and gigabytes to build: everything that is worth testing compiles
//! without it. No type of the SDK leaves it. [`connect`] is the way in.

mod clients;
mod ec2_reads;
mod ec2_writes;
mod failures;
mod iam;
mod lookups;
mod observing;
mod queue;
mod times;

pub use clients::{Clients, ConnectError, Fixed, connect, connect_to};

/// Log targets of the SDK start with this. They show requests and answers in full, with tokens and user data in them, and are
/// therefore off, whatever level is asked for.
pub const LOG_TARGETS: &str = "aws_";
