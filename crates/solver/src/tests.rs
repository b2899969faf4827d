//! Conformance of the reference with the specified cases.
//!
//! [`fixtures`] holds the instance types of the cases, [`build`] the objects, [`cluster`] runs passes one after another
//! and launches what they plan; every pass is checked by [`crate::check`].

mod build;
mod cluster;
mod fixtures;

mod affinity;
mod algebra;
mod basics;
mod best;
mod buffers;
mod creation;
mod daemons;
mod devices;
mod drafts;
mod following;
mod limits;
mod many;
mod min_values;
mod mutations;
mod order;
mod overlays;
mod ports;
mod preferences;
mod random;
mod reserved;
mod resources;
mod results;
mod spread;
mod taints;
mod volumes;
mod what_if;
mod zones;
