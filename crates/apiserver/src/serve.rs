//! The service on a loopback port.
