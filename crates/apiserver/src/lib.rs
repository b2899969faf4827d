//! A Kubernetes API in the process: an in-memory store behind a `tower::Service`, for `kube::Client::new` and, on a loopback
//! port, for `kubectl`. The same tests run on it and on a real kube-apiserver; where the two differ, this one is wrong.

mod api;
mod clock;
pub mod discovery;
mod faults;
mod fields;
mod guard;
mod json;
mod kinds;
mod names;
pub mod openapi;
mod patch;
mod quantity;
pub mod rbac;
mod request;
pub mod resource;
mod respond;
mod selector;
pub mod serve;
mod shape;
mod state;
mod status;
mod store;
pub mod table;
mod typed;
mod watch;

pub use api::{Acting, Api, BoxError, Options, Written};
pub use clock::Clock;
pub use faults::{Fault, Rule};
pub use request::Verb;
pub use resource::{GroupKind, PrinterColumn, Registry, ResourceType, Subresource};
pub use status::Failure;
pub use watch::Body;
