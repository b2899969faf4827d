//! Tags of everything that is launched (§4.3).

use crate::class::NodeClass;
use crate::cloud::{TagSpecification, Tags};

pub const NODE_POOL: &str = "karpenter.sh/nodepool";
pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
pub const CLUSTER: &str = "eks:eks-cluster-name";
const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";

/// The class's own tags and those that rights, garbage collection and clean-up go by; the latter win (AWS-155). The pool is
/// empty for dry runs, which need the tag all the same (AWS-241).
pub fn effective_tags(class: &NodeClass, cluster: &str, pool: &str) -> Tags {
    let mut tags = class.spec.tags.clone().unwrap_or_default();
    tags.insert(format!("{CLUSTER_PREFIX}{cluster}"), "owned".to_owned());
    for (key, value) in [(NODE_POOL, pool), (CLUSTER, cluster), (NODE_CLASS, class.name.as_str())] {
        tags.insert(key.to_owned(), value.to_owned());
    }
    tags
}

/// The first key of `spec.tags` that is not the user's to set; the API server refuses them, too (AWS-102).
pub fn restricted_tag(class: &NodeClass) -> Option<&str> {
    let restricted = |key: &str| {
        [NODE_POOL, NODE_CLAIM, NODE_CLASS, CLUSTER].contains(&key) || key.starts_with("kubernetes.io/cluster")
    };
    class.spec.tags.iter().flatten().map(|(key, _)| key.as_str()).find(|key| restricted(key))
}

/// What CreateFleet tags (AWS-156).
pub fn fleet_tags(tags: &Tags) -> Vec<TagSpecification> {
    ["instance", "volume", "fleet"].map(|resource_type| TagSpecification { resource_type, tags: tags.clone() }).to_vec()
}

/// What a launch template tags: what a fleet cannot.
pub fn template_tags(tags: &Tags, spot: bool) -> Vec<TagSpecification> {
    let request = spot.then_some("spot-instances-request");
    let kinds = ["network-interface"].into_iter().chain(request);
    kinds.map(|resource_type| TagSpecification { resource_type, tags: tags.clone() }).collect()
}
