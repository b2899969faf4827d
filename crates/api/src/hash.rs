//! Static hashes: what of a NodePool or EC2NodeClass makes existing nodes outdated, as one number.
//!
//! The numbers stand in annotations of running clusters and must come out bit for bit, or every node would be replaced
//! when a cluster switches over (API-226, AWS-29). The field names below are part of that contract, so they are spelled as
//! the published algorithm has them and not as our types do.

mod ec2nodeclass;
mod fnv;
mod nodepool;

use karpenter_model::duration::DurationError;
use karpenter_model::quantity::QuantityError;

pub use ec2nodeclass::{EC2_NODE_CLASS_HASH_VERSION, ami_family, ec2_node_class_hash, profile_suffix};
pub use nodepool::{NODE_POOL_HASH_VERSION, NODE_POOL_HASH_VERSION_WITHOUT_TIMES, NodePoolHash, node_pool_hash};

/// A field that enters the hash by its meaning has none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    #[error("{field}: {source}")]
    Duration { field: String, source: DurationError },
    #[error("{field}: {source}")]
    Quantity { field: String, source: QuantityError },
}
