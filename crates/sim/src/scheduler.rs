//! Places pods on nodes by the filters of kube-scheduler 1.35.
//!
//! [`Cluster`] holds what the scheduler knows, changed object by object; [`decide`] is a pure function of it and one pod
//! and says where the pod goes or, in kube-scheduler's words, why nowhere; [`Queue`] says which pod is next; [`Scheduler`]
//! is the actor that watches, asks and binds. `tests/it/scheduler` compares the filters with the real program.
//!
//! What differs from the real one, on purpose:
//! - Among feasible nodes the choice is by a simpler score (see [`score`]) and ties go to the first name instead of a random
//!   one, so that a run can be repeated. All nodes are looked at, not a sample of large clusters.
//! - No dynamic resource allocation, no extenders, no translation of in-tree volumes to CSI.
//! - Features are at the defaults of 1.35: pod-level resources on, `Gt` and `Lt` of tolerations off.

mod actor;
mod cluster;
mod decision;
mod filters;
mod objects;
mod pod_info;
mod preemption;
mod queue;
mod resources;
mod score;
mod selector;
#[cfg(test)]
mod tests;

pub use self::actor::Scheduler;
pub use self::cluster::{Cluster, Key};
pub use self::decision::{Decision, Placement, Unfit, decide, feasible};
pub use self::filters::{Filter, VolumePlan};
pub use self::objects::Object;
pub use self::preemption::{Nomination, Preemption};
pub use self::queue::{Change, Queue};
