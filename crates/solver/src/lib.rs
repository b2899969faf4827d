//! Pending pods and a snapshot in, a placement plan with reasons out.
