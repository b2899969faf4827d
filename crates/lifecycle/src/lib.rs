//! One NodeClaim, its node and the time in, the next step out.
