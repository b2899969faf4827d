//! A cluster without machines: everything around the controllers that a real cluster would have, on virtual time.
//!
//! Each part is an actor over an ordinary `kube::Client`, so it works on the embedded API server and on a real one, and
//! takes its time from an injected clock. What an actor decides is a pure function beside it. Nothing here knows a cloud SDK.
//!
//! [`scheduler`] places pods on nodes as kube-scheduler does, [`kubelet`] runs them there, [`workloads`] makes and replaces
//! them, [`fleet`] holds the machines that all of it runs on, [`cloud`] sells them. [`world`] puts all of it together with
//! the autoscaler's own controllers: start there; [`sandbox`] shows it to `kubectl`.

pub mod chance;
pub mod cloud;
pub mod cluster;
pub mod fleet;
pub mod journal;
pub mod kubelet;
pub mod sandbox;
pub mod scheduler;
pub mod workloads;
pub mod world;
