//! Every label, annotation, taint, finalizer and condition name that is visible from outside.
//!
//! These strings are the contract with running clusters: a change here changes what existing nodes mean.
//! [`rules`] holds what may be said about a label: which are well-known, restricted or spelled in an older way.

pub mod annotations;
pub mod aws;
pub mod conditions;
pub mod kwok;
pub mod labels;
pub mod legacy;
pub mod rules;
pub mod taints;

pub use rules::{LabelPolicy, Restriction};

/// API group of NodePool, NodeClaim and NodeOverlay, and the label domain of the project.
pub const GROUP: &str = "karpenter.sh";

/// The one finalizer on NodeClaims and Nodes (API-151).
pub const FINALIZER: &str = "karpenter.sh/termination";

/// Resources that every instance type has (API-130).
pub const WELL_KNOWN_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Pseudo-resource that counts nodes in pool limits and pool status (API-130).
pub const RESOURCE_NODES: &str = "nodes";

/// Architectures the project knows (API-131).
pub const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Key of the label that names a node's NodeClass: `<group>/<lower-cased kind>` (API-126).
pub fn node_class_label(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// The part of a key before its first `/`, empty when there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-126, AWS-1: the NodeClass label follows group and kind.
    #[test]
    fn node_class_label_is_group_and_lower_cased_kind() {
        assert_eq!(node_class_label(kwok::GROUP, "KWOKNodeClass"), kwok::NODE_CLASS_LABEL);
        assert_eq!(node_class_label(aws::GROUP, "EC2NodeClass"), aws::NODE_CLASS_LABEL);
    }

    /// API-125, API-127, API-130, API-131, API-141, API-146, API-151, V15-9, V15-11, AWS-3, AWS-4: the names themselves are the contract.
    #[test]
    fn names_are_spelled_as_published() {
        for (ours, published) in [
            (labels::NODEPOOL, "karpenter.sh/nodepool"),
            (labels::CAPACITY_TYPE, "karpenter.sh/capacity-type"),
            (labels::REGISTERED, "karpenter.sh/registered"),
            (labels::INITIALIZED, "karpenter.sh/initialized"),
            (labels::DO_NOT_SYNC_TAINTS, "karpenter.sh/do-not-sync-taints"),
            (labels::EXCLUDE_FROM_LOAD_BALANCERS, "node.kubernetes.io/exclude-from-external-load-balancers"),
            (annotations::DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt"),
            (annotations::NODEPOOL_HASH, "karpenter.sh/nodepool-hash"),
            (annotations::NODEPOOL_HASH_VERSION, "karpenter.sh/nodepool-hash-version"),
            (annotations::TERMINATION_TIMESTAMP, "karpenter.sh/nodeclaim-termination-timestamp"),
            (annotations::MIN_VALUES_RELAXED, "karpenter.sh/nodeclaim-min-values-relaxed"),
            (annotations::REQUESTED_DRA_DRIVERS, "karpenter.sh/requested-dra-drivers"),
            (annotations::PRICE_OVERLAY_APPLIED, "karpenter.sh/price-overlay-applied"),
            (annotations::CAPACITY_OVERLAY_APPLIED, "karpenter.sh/capacity-overlay-applied"),
            (annotations::BUFFER_FAKE_POD, "karpenter.sh/capacity-buffer-fake-pod"),
            (annotations::BUFFER_NAME, "karpenter.sh/capacity-buffer-name"),
            (annotations::BUFFER_NAMESPACE, "karpenter.sh/capacity-buffer-namespace"),
            (annotations::POD_DELETION_COST, "controller.kubernetes.io/pod-deletion-cost"),
            (annotations::DO_NOT_REPAIR, "karpenter.sh/do-not-repair"),
            (annotations::DISRUPTION_COST, "karpenter.sh/disruption-cost"),
            (annotations::REBOOT_PRE_BOOT_ID, "karpenter.sh/reboot-pre-boot-id"),
            (annotations::REBOOT_TERMINATION_GRACE_PERIOD, "karpenter.sh/reboot-termination-grace-period"),
            (taints::DISRUPTED, "karpenter.sh/disrupted"),
            (taints::UNREGISTERED, "karpenter.sh/unregistered"),
            (taints::REBOOTING, "karpenter.sh/rebooting"),
            (FINALIZER, "karpenter.sh/termination"),
            (aws::FINALIZER, "karpenter.k8s.aws/termination"),
            (aws::HASH_ANNOTATION, "karpenter.k8s.aws/ec2nodeclass-hash"),
            (aws::HASH_VERSION_ANNOTATION, "karpenter.k8s.aws/ec2nodeclass-hash-version"),
            (aws::INSTANCE_PROFILE_ANNOTATION, "karpenter.k8s.aws/instance-profile-name"),
            (aws::TAGGED_ANNOTATION, "karpenter.k8s.aws/tagged"),
            (aws::CLUSTER_NAME_TAGGED_ANNOTATION, "compatibility.karpenter.k8s.aws/cluster-name-tagged"),
        ] {
            assert_eq!(ours, published);
        }
        assert_eq!(labels::EXCLUDED_BY, "karpenter");
        // API-127: what a node that is about to go says to load balancers.
        assert_eq!(labels::EXCLUDED_BY, "karpenter");
        // AWS-25: the first five count as well-known.
        let well_known = &aws::RESOURCES[..aws::WELL_KNOWN_RESOURCES];
        assert_eq!(well_known.last(), Some(&"vpc.amazonaws.com/efa"));
        assert!(aws::RESOURCES.contains(&"nvidia.com/gpu") && !well_known.contains(&"nvidia.com/gpu"));
        assert_eq!(WELL_KNOWN_RESOURCES, ["cpu", "memory", "ephemeral-storage", "pods"]);
        assert_eq!(RESOURCE_NODES, "nodes");
        assert_eq!(ARCHITECTURES, ["amd64", "arm64"]);
    }

    /// V15-10, API-141: the annotations we know, each once; the reserved provider key is not among them any more.
    #[test]
    fn annotations_are_known_once() {
        let mut known = annotations::ALL.to_vec();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), annotations::ALL.len());
        assert!(!known.contains(&"compatibility.karpenter.sh/provider"));
        assert!(known.contains(&annotations::REBOOT_PRE_BOOT_ID));
    }

    /// AWS-25: resources that the scheduler knows on AWS, five of them well-known.
    #[test]
    fn aws_resources() {
        let (well_known, others) = aws::RESOURCES.split_at(aws::WELL_KNOWN_RESOURCES);
        let want = [
            "vpc.amazonaws.com/pod-eni",
            "aws.amazon.com/neuron",
            "aws.amazon.com/neuroncore",
            "habana.ai/gaudi",
            "vpc.amazonaws.com/efa",
        ];
        assert_eq!(well_known, want);
        let want =
            ["nvidia.com/gpu", "amd.com/gpu", "vpc.amazonaws.com/PrivateIPv4Address", "eks.amazonaws.com/nip-slots"];
        assert_eq!(others, want);
    }
}
