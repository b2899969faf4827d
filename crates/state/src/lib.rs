//! Changes in, snapshot out: a synchronous index of what the cluster looks like.
