//! One object, its neighbours and the time in, the next step out.
//!
//! The steps of a claim that is to live: [`launch`], [`registration`], [`initialization`], [`liveness`], in this order and
//! all of them on every look (LIF-11); [`expiration`] and [`Collector`] end it. A claim that is to go: [`finalization`]; its
//! node: [`termination`], with [`drain`], [`attempt`] per pod and [`detachment`]. Pools: [`rehashes`], [`Ring`],
//! [`lacking`] and [`victims`]. The functions only say what is to be done; the shell does it, and a repeated answer is
//! harmless.

mod collection;
mod consistency;
mod deadline;
mod drain;
mod eviction;
mod expiration;
mod finalization;
mod hash;
mod initialization;
mod launch;
mod liveness;
mod pod_events;
mod registration;
mod registration_health;
mod static_capacity;
mod termination;
mod volumes;

pub use collection::{ClaimAndNodes, Collector, ORPHAN_AGE};
pub use consistency::{CHECK_EVERY, Consistency, ShapeIssue, consistency};
pub use deadline::{deadline, deadline_to_write};
pub use drain::{Drain, MINIMUM_DRAIN, drain};
pub use eviction::{Attempt, Blocked, EvictionAnswer, EvictionKey, Insistence, attempt, eviction_answer};
pub use expiration::{Expiration, expiration};
pub use finalization::{Finalization, finalization};
pub use hash::{Rehash, is_current, is_stamped, rehashes};
pub use initialization::{Initialization, NotInitialized, SliceView, Slices, initialization};
pub use launch::{Launch, clipped, launch};
pub use liveness::{Liveness, Timeout, Timeouts, Use, liveness};
pub use pod_events::{STAMP_EVERY, Seen, pod_event, pod_event_stamp};
pub use registration::{Hooks, NotRegistered, Registration, SyncedNode, registration};
pub use registration_health::{Generations, Ring, health_after, is_outdated};
pub use static_capacity::{Member, excess, lacking, lifetime_remaining, victims};
pub use termination::{CONFIRM_MISSING, InstanceFinding, NodeFacts, Termination, termination};
pub use volumes::{Attachment, Detachment, detachment};

#[cfg(test)]
mod tests;
