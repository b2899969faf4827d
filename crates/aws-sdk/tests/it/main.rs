//! Every call against the AWS emulator, over the wire.

mod faults;
mod iam;
mod logs;
mod lookups;
mod queue;
mod reads;
mod setup;
mod writes;
