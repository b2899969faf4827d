//! A cluster without machines: everything around the controllers that a real cluster would have, on virtual time.
//!
//! Each part is an actor over an ordinary `kube::Client`, so it works on the embedded API server and on a real one, and
//! takes its time from an injected clock. What an actor decides is a pure function beside it. Nothing here knows a cloud SDK.
//!
//! Start with [`scheduler`], which places pods on nodes as kube-scheduler does.

pub mod scheduler;
