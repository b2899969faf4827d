//! `karpenter.sh/v1` NodeClaim.

use super::fragments::{self, Holder};
use super::manifest::{AGE, Crd, READY, Resource, column, root, wide};
use super::schema::{Schema, date_time, object, string};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.sh",
        version: "v1",
        kind: "NodeClaim",
        plural: "nodeclaims",
        short_names: &[],
        category: "karpenter",
        namespaced: false,
        legacy: false,
        scale: None,
        columns: vec![
            column("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            column("Capacity", "string", r".metadata.labels.karpenter\.sh/capacity-type"),
            column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone"),
            column("Node", "string", ".status.nodeName"),
            column("Ready", "string", READY),
            AGE,
            wide("ImageID", "string", ".status.imageID"),
            wide("ID", "string", ".status.providerID"),
            wide("NodePool", "string", r".metadata.labels.karpenter\.sh/nodepool"),
            wide("NodeClass", "string", ".spec.nodeClassRef.name"),
            wide("Drifted", "string", r#".status.conditions[?(@.type=="Drifted")].status"#),
        ],
    }
    .with_schema(
        root("NodeClaim asks the provider for one node and follows it from launch to termination.")
            .required("spec", spec())
            .field("status", status()),
    )
}

fn spec() -> Schema {
    object("The node to launch. It cannot be changed afterwards.")
        .field("expireAfter", fragments::expire_after())
        .required("nodeClassRef", fragments::node_class_ref("The node class with the provider's settings."))
        .required(
            "requirements",
            fragments::requirements(
                Holder::Claim,
                "Constraints on the labels of the node, and so on instance types, zones, architectures and the like. An \
                 empty list allows everything.",
            ),
        )
        .field(
            "resources",
            object("What the node has to offer at least.").field(
                "requests",
                fragments::resources("Smallest amount of each resource that the instance must have for pods."),
            ),
        )
        .field(
            "startupTaints",
            fragments::taints("Taints that the new node has until some other component removes them."),
        )
        .field("taints", fragments::taints("Taints of the node."))
        .field("terminationGracePeriod", fragments::termination_grace_period())
        .rule("spec is immutable", "self == oldSelf")
}

fn status() -> Schema {
    object("What was last observed of the node and its instance.")
        .field(
            "allocatable",
            fragments::resources("What the provider expects to be left for pods, estimated at launch."),
        )
        .field(
            "capacity",
            fragments::resources("What the provider expects the node to have in all, estimated at launch."),
        )
        .field("conditions", fragments::lenient_conditions())
        .field("imageID", string("The machine image of the instance."))
        .field(
            "lastPodEventTime",
            date_time("When a pod last came to the node, ended or began to leave; DaemonSet pods do not count."),
        )
        .field("nodeName", string("Name of the Node object, once it has registered."))
        .field("providerID", string("The provider's name for the instance; empty until it is launched."))
}
