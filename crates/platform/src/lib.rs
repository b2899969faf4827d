//! The seam between decisions and the outside world: clouds and clocks.
//!
//! [`CloudProvider`] is what `kwok` and every real cloud fill; its error types say how the controller reacts, so that the
//! reaction is written once. The module `contract` is the suite that every provider passes.
//! It speaks in `model` values only: no Kubernetes types, no SDK.

mod clock;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod hooks;
mod legacy_repair;
mod measured;
mod overlaid;
mod provider;
mod repair;

pub use clock::{Clock, SystemClock, TokioClock};
pub use hooks::{HookOutcome, HookState, RegistrationHook, check_hooks};
pub use legacy_repair::{LegacyPolicies, legacy_differences, too_many};
pub use measured::{Call, CallObserver, Measured, Method, calling_as};
pub use overlaid::{Overlaid, Overlays};
pub use provider::{
    BoxError, CallError, CloudProvider, CreateError, DriftReason, DriftReasonError, Instance, InstanceError,
    InstanceTypesError, NodeClassKind, RebootError, Remedy, ReservationLabels,
};
pub use repair::{RepairAction, RepairMatch, RepairPolicies, RepairPolicy, RepairViolation, RepairViolations};
