//! Limits and usage of pools (API-192, API-193, LIF-123).

use karpenter_model::resources::Resources;

use super::{Catalogue, Samples, amounts};

/// The series of one pool. `usage` is what its status says.
pub fn pool_series(metrics: &Catalogue, pool: &str, limits: &Resources, usage: &Resources, into: &mut Samples<'_>) {
    for (family, resources) in [(&metrics.nodepools_limit, limits), (&metrics.nodepools_usage, usage)] {
        for (name, amount) in resources.iter() {
            let labels = [amounts::resource_type(name), pool.to_owned()];
            into.add(family.family(), &[&labels[0], &labels[1]], amounts::value(name, amount));
        }
    }
}
