//! Names of older API versions that conversion reads (API-325, API-326, API-328, API-333, API-342).

pub use karpenter_model::labels::PROVISIONER_NAME;
pub const INSTANCE_PODS: &str = "karpenter.k8s.aws/instance-pods";

pub const DO_NOT_EVICT: &str = "karpenter.sh/do-not-evict";
pub const DO_NOT_CONSOLIDATE: &str = "karpenter.sh/do-not-consolidate";

/// Annotations without a successor.
pub const DROPPED_ANNOTATIONS: [&str; 4] = [
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/emptiness-timestamp",
    "karpenter.sh/linked",
    "karpenter.sh/managed-by",
];

/// Tag whose successor is [`CLUSTER_NAME_TAG`].
pub const MANAGED_BY: &str = "karpenter.sh/managed-by";
pub const CLUSTER_NAME_TAG: &str = "eks:eks-cluster-name";

/// Kubelet configuration of a v1beta1 NodePool, as JSON.
pub const KUBELET_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// Class reference of a v1beta1 NodePool, as JSON.
pub const NODE_CLASS_REFERENCE_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";

/// Taints that said "disrupted" before [`super::taints::DISRUPTED`] did.
pub const DISRUPTION_TAINT: &str = "karpenter.sh/disruption";
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
