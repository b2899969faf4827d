//! The seam between decisions and the outside world: clouds and clocks.
//!
//! [`CloudProvider`] is what `kwok` and every real cloud fill; its error types say how the controller reacts, so that the
//! reaction is written once. It speaks in `model` values only: no Kubernetes types, no SDK.

mod clock;
mod provider;

pub use clock::{Clock, SystemClock, TokioClock};
pub use provider::{
    BoxError, CallError, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError, NodeClassKind, Remedy,
};
