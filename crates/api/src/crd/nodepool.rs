//! `karpenter.sh/v1` NodePool.

use serde_json::json;

use super::fragments::{self, Holder};
use super::manifest::{AGE, Crd, READY, Resource, column, root, wide};
use super::patterns;
use super::schema::{Schema, int32, int64, list, map, object, string, undescribed};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.sh",
        version: "v1",
        kind: "NodePool",
        plural: "nodepools",
        short_names: &[],
        category: "karpenter",
        namespaced: false,
        legacy: false,
        scale: Some((".spec.replicas", ".status.nodes")),
        columns: vec![
            column("NodeClass", "string", ".spec.template.spec.nodeClassRef.name"),
            column("Nodes", "string", ".status.nodes"),
            column("Ready", "string", READY),
            AGE,
            wide("Weight", "integer", ".spec.weight"),
            wide("CPU", "string", ".status.resources.cpu"),
            wide("Memory", "string", ".status.resources.memory"),
        ],
    }
    .with_schema(
        root("NodePool describes a kind of nodes that may be launched, and how they are replaced and removed again.")
            .required("spec", spec())
            .field("status", status()),
    )
}

fn spec() -> Schema {
    object("The nodes to launch and the rules for disrupting them.")
        .required("template", template())
        .field("disruption", disruption())
        .field(
            "limits",
            fragments::resources(
                "Upper bound on the summed capacity of the pool's nodes, by resource name; `nodes` bounds their number. \
                 Nothing is launched that could exceed it. Unset means no limit.",
            ),
        )
        .field(
            "replicas",
            int64(
                "Fixed number of nodes, independent of pods. A pool with `replicas` is static and cannot become \
                 dynamic, nor the other way round. Alpha; needs the StaticCapacity feature gate.",
            )
            .min(0),
        )
        .field(
            "weight",
            int32("Priority among pools that could all serve a pod: the heaviest is tried first. Unset counts as 0.")
                .min(1)
                .max(100),
        )
        .rule(
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
            "has(self.replicas) == has(oldSelf.replicas)",
        )
        .rule(
            "only 'limits.nodes' is supported on static NodePools",
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
        )
        .rule("'weight' is not supported on static NodePools", "!has(self.replicas) || !has(self.weight)")
}

fn template() -> Schema {
    object("What each node of the pool is made from. A change drifts the nodes that exist.")
        .field(
            "metadata",
            object("Labels and annotations for the nodes of this pool.")
                .field("annotations", map("Annotations for the nodes of this pool.", undescribed(string(""))))
                .field("labels", fragments::template_labels()),
        )
        .required("spec", template_spec())
}

fn template_spec() -> Schema {
    object("The properties of each node.")
        .field("expireAfter", fragments::expire_after())
        .required(
            "nodeClassRef",
            fragments::node_class_ref(
                "The node class with the provider's settings. Group and kind cannot change; another name drifts the nodes.",
            )
            .rule("nodeClassRef.group is immutable", "self.group == oldSelf.group")
            .rule("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
        )
        .required(
            "requirements",
            fragments::requirements(
                Holder::Pool,
                "Constraints on the labels of the nodes, and so on instance types, zones, architectures and the like. They \
                 apply together with those of the pods; an empty list allows everything.",
            ),
        )
        .field(
            "startupTaints",
            fragments::taints(
                "Taints that a new node has until some other component removes them. Pods need not tolerate them to cause \
                 a launch.",
            ),
        )
        .field("taints", fragments::taints("Taints of the nodes. Only pods that tolerate them cause a launch."))
        .field("terminationGracePeriod", fragments::termination_grace_period())
}

fn disruption() -> Schema {
    object("When and how fast nodes of this pool are removed or replaced on our own initiative.")
        .default(json!({"consolidateAfter": "0s"}))
        .field(
            "budgets",
            list(
                "Limits on how many nodes may be disrupted at the same time. The strictest active one counts. An empty list \
                 means no limit; leaving the field out means 10%.",
                budget(),
            )
            .default(json!([{"nodes": "10%"}]))
            .max_items(50)
            .atomic_list()
            .rule("'schedule' must be set with 'duration'", "self.all(x, has(x.schedule) == has(x.duration))"),
        )
        .field(
            "consolidateAfter",
            string(
                "How long a node must be free of pod changes before it is considered for consolidation, as in `30s`. `Never` \
                 turns consolidation off for the pool.",
            )
            .pattern(patterns::NILLABLE_DURATION)
            .default("0s"),
        )
        .field(
            "consolidationPolicy",
            string(
                "Which nodes consolidation may touch: only those without pods worth keeping (`WhenEmpty`), any whose pods fit \
                 elsewhere or on something cheaper (`WhenEmptyOrUnderutilized`), or only where the savings outweigh the \
                 disruption (`Balanced`).",
            )
            .one_of(&["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"])
            .default("WhenEmptyOrUnderutilized"),
        )
}

fn budget() -> Schema {
    object("A limit on concurrent disruptions, always in force or in the time windows of a schedule.")
        .field(
            "duration",
            string("How long the budget is in force after each time of `schedule`, in hours and minutes, as in `8h30m`.")
                .pattern(patterns::BUDGET_DURATION),
        )
        .required(
            "nodes",
            string("How many nodes may be disrupted at once: a number such as `\"5\"`, or a share of the pool's nodes, rounded up, such as `10%`.")
                .pattern(patterns::BUDGET_NODES)
                .default("10%"),
        )
        .field(
            "reasons",
            list(
                "The reasons for disruption that the budget limits. Leaving the field out means all of them.",
                undescribed(string("")).one_of(&["Underutilized", "Empty", "Drifted", "Unhealthy"]),
            )
            .max_items(50)
            .set_list(),
        )
        .field(
            "schedule",
            string(
                "When the budget comes into force: a cron line of five fields in UTC, or one of @annually, @yearly, \
                 @monthly, @weekly, @daily, @midnight and @hourly.",
            )
            .pattern(patterns::CRON),
        )
}

fn status() -> Schema {
    object("What was last observed of the pool.")
        .field("conditions", fragments::conditions())
        .field(
            "nodeClassObservedGeneration",
            int64("The generation of the node class that registration health was last judged on."),
        )
        .field("nodes", int64("Number of the pool's nodes.").default(0))
        .field("resources", fragments::resources("Summed capacity of the pool's nodes; `nodes` is their number."))
}
