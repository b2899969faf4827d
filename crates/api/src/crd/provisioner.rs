//! Legacy `karpenter.sh/v1alpha5` Provisioner: converted by `karpenter convert`, and served where it is installed.

use super::fragments;
use super::manifest::{Crd, Resource, column, root, wide};
use super::patterns;
use super::schema::{Schema, boolean, date_time, int32, int64, list, map, object, string, undescribed};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.sh",
        version: "v1alpha5",
        kind: "Provisioner",
        plural: "provisioners",
        short_names: &[],
        category: "karpenter",
        namespaced: false,
        legacy: true,
        scale: None,
        columns: vec![
            column("Template", "string", ".spec.providerRef.name"),
            wide("Weight", "integer", ".spec.weight"),
        ],
    }
    .with_schema(
        root("Provisioner is the predecessor of NodePool. It is served through a NodePool and an EC2NodeClass of its name; `karpenter convert` writes them out.")
            .field("spec", spec())
            .field("status", status()),
    )
}

fn spec() -> Schema {
    object("The nodes to launch and when to remove them.")
        .field("annotations", map("Annotations for the nodes.", undescribed(string(""))))
        .field(
            "consolidation",
            object("Removal and replacement of underused nodes.")
                .field("enabled", boolean("Whether to consolidate. Excludes `ttlSecondsAfterEmpty`.")),
        )
        .field("kubeletConfiguration", kubelet())
        .field("labels", map("Labels for the nodes.", undescribed(string(""))))
        .field(
            "limits",
            object("Upper bounds.")
                .field("resources", fragments::resources("Upper bound on the summed capacity of the nodes.")),
        )
        .field("provider", object("Settings of the provider, inline. Excludes `providerRef`.").free_form())
        .field(
            "providerRef",
            object("The AWSNodeTemplate with the provider's settings. Excludes `provider`.")
                .field("apiVersion", string("API version of the template."))
                .field("kind", string("Kind of the template."))
                .field("name", string("Name of the template.")),
        )
        .field(
            "requirements",
            list(
                "Constraints on the labels of the nodes.",
                object("A constraint on one node label.")
                    .required("key", string("The node label that this requirement is about."))
                    .required(
                        "operator",
                        string("How the label relates to `values`.").one_of(&[
                            "In",
                            "NotIn",
                            "Exists",
                            "DoesNotExist",
                            "Gt",
                            "Lt",
                        ]),
                    )
                    .field("values", list("The values that `operator` compares with.", undescribed(string("")))),
            ),
        )
        .field("startupTaints", taints("Taints that a new node has until some other component removes them."))
        .field("taints", taints("Taints of the nodes."))
        .field("ttlSecondsAfterEmpty", int64("Seconds after which an empty node is removed. Unset keeps empty nodes."))
        .field("ttlSecondsUntilExpired", int64("Age in seconds at which a node is replaced. Unset means never."))
        .field(
            "weight",
            int32("Priority among provisioners; the heaviest is tried first. Unset counts as 0.").min(1).max(100),
        )
}

fn taints(description: &str) -> Schema {
    list(
        description,
        object("A taint.")
            .required("effect", string("What happens to pods that do not tolerate the taint."))
            .required("key", string("The taint's key."))
            .field("timeAdded", date_time("When the taint was added."))
            .field("value", string("The taint's value.")),
    )
}

fn kubelet() -> Schema {
    let thresholds = |description| map(description, undescribed(string("")));
    object("Settings of the kubelet. They moved to the node class.")
        .field("clusterDNS", list("Addresses of the cluster's DNS service.", undescribed(string(""))))
        .field("containerRuntime", string("Container runtime of the nodes. Dropped by conversion."))
        .field("cpuCFSQuota", boolean("Whether CPU limits of containers are enforced."))
        .field("evictionHard", thresholds("Thresholds below which pods are evicted at once."))
        .field(
            "evictionMaxPodGracePeriod",
            int32("Longest grace period, in seconds, of pods evicted for a soft threshold."),
        )
        .field("evictionSoft", thresholds("Thresholds below which pods are evicted after a grace period."))
        .field("evictionSoftGracePeriod", thresholds("Grace periods of the thresholds in `evictionSoft`."))
        .field(
            "imageGCHighThresholdPercent",
            int32("Disk usage, in percent, above which unused images are always removed.").min(0).max(100),
        )
        .field(
            "imageGCLowThresholdPercent",
            int32("Disk usage, in percent, below which unused images are never removed.").min(0).max(100),
        )
        .field("kubeReserved", fragments::resources("What is kept for the kubelet and the container runtime."))
        .field("maxPods", int32("Most pods that the node runs.").min(0))
        .field("podsPerCore", int32("Most pods for each CPU core.").min(0))
        .field("systemReserved", fragments::resources("What is kept for the operating system."))
}

fn status() -> Schema {
    object("What was last observed of the provisioner.")
        .field("conditions", conditions())
        .field("lastScaleTime", date_time("When nodes were last added or removed."))
        .field("resources", fragments::resources("Summed capacity of the nodes."))
}

/// Also of AWSNodeTemplates.
pub(super) fn conditions() -> Schema {
    list(
        "What is known about the state of the object.",
        object("One observed aspect of the object's state.")
            .field("lastTransitionTime", date_time("When the status last changed."))
            .field("message", string("Details for people."))
            .field("reason", string("Why the condition has its status."))
            .field("severity", string("How much an untrue condition matters."))
            .required("status", string("Whether the condition holds."))
            .required("type", string("What the condition is about.").pattern(patterns::CONDITION_TYPE)),
    )
}
