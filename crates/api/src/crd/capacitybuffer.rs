//! `autoscaling.x-k8s.io/v1beta1` CapacityBuffer, a kind that we share with other autoscalers.

use super::fragments;
use super::manifest::{AGE, Crd, Resource, column, root};
use super::schema::{Schema, int32, int64, object, string};

const STRATEGY: &str = "buffer.x-k8s.io/active-capacity";

pub(super) fn crd() -> Crd {
    Resource {
        group: "autoscaling.x-k8s.io",
        version: "v1beta1",
        kind: "CapacityBuffer",
        plural: "capacitybuffers",
        short_names: &["cb"],
        category: "autoscaling",
        namespaced: true,
        legacy: false,
        scale: None,
        columns: vec![
            column("Strategy", "string", ".spec.provisioningStrategy"),
            column("PodTemplate", "string", ".status.podTemplateRef.name"),
            column("Replicas", "integer", ".status.replicas"),
            column("ConditionsType", "string", ".status.conditions[*].type"),
            column("ConditionsStatus", "string", ".status.conditions[*].status"),
            column("ConditionsReason", "string", ".status.conditions[*].reason"),
            AGE,
        ],
    }
    .with_schema(
        root("CapacityBuffer keeps room for a number of pods that do not exist yet, so that they start at once when they do.")
            .field("spec", spec())
            .field("status", status()),
    )
}

fn pod_template_ref(description: &str) -> Schema {
    object(description).required("name", string("Name of the PodTemplate in the buffer's namespace.").min_length(1))
}

fn spec() -> Schema {
    object("The pods to keep room for, and how many of them.")
        .field(
            "limits",
            fragments::resources("Upper bound on what the buffer's pods request together, by resource name."),
        )
        .field(
            "percentage",
            int32("Number of pods as a percentage of the replicas of `scalableRef`, rounded up.").min(0),
        )
        .field("podTemplateRef", pod_template_ref("The PodTemplate that gives the pods' shape."))
        .field(
            "provisioningStrategy",
            string(
                "How the room is provided. The default, running nodes with free capacity, is the only one supported.",
            )
            .default(STRATEGY),
        )
        .field(
            "replicas",
            int32("Number of pods to keep room for. With `percentage`, the larger of the two counts.").min(0),
        )
        .field(
            "scalableRef",
            object("The workload that gives the pods' shape: a Deployment, StatefulSet or ReplicaSet.")
                .field("apiGroup", string("API group of the workload; empty means `apps`."))
                .required("kind", string("Kind of the workload.").min_length(1))
                .required("name", string("Name of the workload in the buffer's namespace.").min_length(1)),
        )
        .rule(
            "If podTemplateRef is set, replicas or limits must also be set",
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        )
        .rule(
            "You must define either PodTemplateRef or ScalableRef, but not both",
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
        )
}

fn status() -> Schema {
    object("What was last observed of the buffer.")
        .field("conditions", fragments::conditions())
        .field("podTemplateGeneration", int64("Generation of the PodTemplate that was read."))
        .field("podTemplateRef", pod_template_ref("The PodTemplate that was read."))
        .field("provisioningStrategy", string("The strategy in force."))
        .field("replicas", int32("Number of pods that room is kept for."))
}
