//! A Kubernetes API in the process: an in-memory store behind a `tower::Service`, for `kube::Client::new` and, on a loopback
//! port, for `kubectl`. The same tests run on it and on a real kube-apiserver; where the two differ, this one is wrong.

pub mod discovery;
pub mod openapi;
pub mod rbac;
pub mod resource;
pub mod serve;
pub mod table;

pub use resource::{GroupKind, PrinterColumn, Registry, ResourceType, Subresource};
