//! Schema fragments that several kinds share.

use serde_json::json;

use super::patterns;
use super::schema::{Schema, date_time, int_or_string, int64, integer, list, map, object, string, undescribed};

/// Label keys of our own domain that users may constrain.
const CORE_KEYS: &[&str] = &["karpenter.sh/capacity-type", "karpenter.sh/nodepool"];

/// What the kwok provider puts on its nodes.
const KWOK_KEYS: &[&str] = &[
    "karpenter.kwok.sh/kwoknodeclass",
    "karpenter.kwok.sh/instance-cpu",
    "karpenter.kwok.sh/instance-memory",
    "karpenter.kwok.sh/instance-family",
    "karpenter.kwok.sh/instance-size",
];

/// What the AWS provider puts on its nodes and an overlay may select by.
const AWS_KEYS: &[&str] = &[
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-capability-flex",
];

/// The rest of the AWS keys: properties of a launch rather than of an instance type, so overlays may not use them.
const AWS_LAUNCH_KEYS: &[&str] = &[
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
];

pub(super) const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];

/// Which kind carries a requirement list; the rules differ a little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Pool,
    Claim,
    Overlay,
}

/// CEL: label key `key` is either allowed by name or outside of `domain`. The suffix test has no dot boundary.
fn outside_domain(key: &str, domain: &str, allowed: &[&str]) -> String {
    let allowed = allowed.iter().map(|k| format!("'{k}'")).collect::<Vec<_>>().join(", ");
    format!("{key} in [{allowed}] || !{key}.split('/')[0].endsWith('{domain}')")
}

fn domain_message(domain: &str) -> String {
    format!("label domain \"{domain}\" is restricted")
}

fn aws_keys(holder: Holder) -> Vec<&'static str> {
    let launch: &[&str] = if holder == Holder::Overlay { &[] } else { AWS_LAUNCH_KEYS };
    AWS_KEYS.iter().chain(launch).copied().collect()
}

fn requirement_key(holder: Holder) -> Schema {
    let mut key = string("The node label that this requirement is about.")
        .max_length(316)
        .pattern(patterns::QUALIFIED_NAME)
        .rule(&domain_message("karpenter.sh"), outside_domain("self", "karpenter.sh", CORE_KEYS));
    if holder == Holder::Pool {
        key = key.rule("label \"karpenter.sh/nodepool\" is restricted", "self != 'karpenter.sh/nodepool'");
    }
    key = key
        .rule("label \"kubernetes.io/hostname\" is restricted", "self != 'kubernetes.io/hostname'")
        .rule(&domain_message("karpenter.k8s.aws"), outside_domain("self", "karpenter.k8s.aws", &aws_keys(holder)));
    if holder != Holder::Overlay {
        key = key.rule(&domain_message("karpenter.kwok.sh"), outside_domain("self", "karpenter.kwok.sh", KWOK_KEYS));
    }
    key
}

fn requirement_item(holder: Holder) -> Schema {
    let item = object(
        "A constraint on one node label: which values, or which range of integers, a node may have for it.",
    )
    .required("key", requirement_key(holder))
    .required(
        "operator",
        string(
            "How the label relates to `values`: one of the values (`In`), none of them (`NotIn`), any value (`Exists`), \
             no such label (`DoesNotExist`), or an integer greater or less than the single value (`Gt`, `Lt`, `Gte`, `Lte`).",
        )
        .one_of(OPERATORS),
    )
    .field(
        "values",
        // The two limits sit on the list and therefore have no effect on its elements. Moving them would refuse objects
        // that clusters hold today; elements are checked by the controller.
        list(
            "The values that `operator` compares with. At least one for `In`, exactly one integer for `Gt`, `Lt`, `Gte` \
             and `Lte`, none for `Exists` and `DoesNotExist`.",
            undescribed(string("")),
        )
        .max_length(63)
        .pattern(patterns::LABEL_VALUE)
        .atomic_list(),
    );
    if holder == Holder::Overlay {
        return item;
    }
    item.field(
        "minValues",
        integer(
            "How many different values of this label the instance types of one launch must span at least. More choice \
             makes interruptions and shortages less likely. Alpha.",
        )
        .min(1)
        .max(50),
    )
}

/// The `requirements` list of pools, claims and overlays.
pub(super) fn requirements(holder: Holder, description: &str) -> Schema {
    let requirements = list(description, requirement_item(holder)).max_items(100).atomic_list().rule(
        "requirements with operator 'In' must have a value defined",
        "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
    );
    // An overlay's message lacks the comma before "or".
    let bounds = "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";
    match holder {
        Holder::Pool | Holder::Claim => requirements
            .rule("requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value", bounds)
            .rule(
                "requirements with 'minValues' must have at least that many values specified in the 'values' field",
                "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            ),
        Holder::Overlay => requirements
            .rule("requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value", bounds)
            .rule(
                "requirements with operator 'NotIn' must have a value defined",
                "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
            ),
    }
}

/// The labels of a pool's nodes. Only the AWS domain is added to our own: kwok's labels are free here.
pub(super) fn template_labels() -> Schema {
    let every = |rule: String| format!("self.all(x, {rule})");
    map(
        "Labels for the nodes of this pool. Well-known labels also constrain what is launched.",
        undescribed(string("")).max_length(63).pattern(patterns::LABEL_VALUE),
    )
    .max_properties(100)
    .atomic_map()
    .rule(&domain_message("karpenter.sh"), every(outside_domain("x", "karpenter.sh", CORE_KEYS)))
    .rule("label \"karpenter.sh/nodepool\" is restricted", every("x != 'karpenter.sh/nodepool'".into()))
    .rule("label \"kubernetes.io/hostname\" is restricted", every("x != 'kubernetes.io/hostname'".into()))
    .rule(
        &domain_message("karpenter.k8s.aws"),
        every(outside_domain("x", "karpenter.k8s.aws", &aws_keys(Holder::Pool))),
    )
}

fn taint_item() -> Schema {
    object("A taint: pods that do not tolerate it stay away from the node.")
        .required(
            "effect",
            string("What happens to pods that do not tolerate the taint.").one_of(&[
                "NoSchedule",
                "PreferNoSchedule",
                "NoExecute",
            ]),
        )
        .required("key", string("The taint's key.").min_length(1).pattern(patterns::QUALIFIED_NAME))
        .field("timeAdded", date_time("When the taint was added. Only meaningful on nodes."))
        .field("value", string("The taint's value.").pattern(patterns::QUALIFIED_NAME))
}

pub(super) fn taints(description: &str) -> Schema {
    list(description, taint_item()).atomic_list()
}

/// Reference to the provider's node class. `description` says for what.
pub(super) fn node_class_ref(description: &str) -> Schema {
    object(description)
        .required(
            "group",
            string("API group of the node class, without a version.")
                .pattern(patterns::GROUP)
                .rule("group may not be empty", "self != ''"),
        )
        .required("kind", string("Kind of the node class.").rule("kind may not be empty", "self != ''"))
        .required("name", string("Name of the node class.").rule("name may not be empty", "self != ''"))
}

pub(super) fn quantity() -> Schema {
    int_or_string().pattern(patterns::QUANTITY)
}

/// Amounts by resource name.
pub(super) fn resources(description: &str) -> Schema {
    map(description, quantity())
}

pub(super) fn termination_grace_period() -> Schema {
    string(
        "How long a node may take to drain before its remaining pods are deleted in spite of disruption budgets and \
         do-not-disrupt annotations, as in `48h` or `1h30m`. Unset waits for ever.",
    )
    .pattern(patterns::DURATION)
}

pub(super) fn expire_after() -> Schema {
    string(
        "The age at which a node is replaced, as in `720h`. `Never` keeps nodes whatever their age; leaving the field \
         out means 30 days.",
    )
    .pattern(patterns::NILLABLE_DURATION)
    .default("720h")
}

fn condition_item(reason: Schema) -> Schema {
    object("One observed aspect of the object's state.")
        .required("lastTransitionTime", date_time("When the status last changed."))
        .required("status", string("Whether the condition holds.").one_of(&["True", "False", "Unknown"]))
        .required("type", string("What the condition is about.").max_length(316).pattern(patterns::CONDITION_TYPE))
        .field("message", string("Details for people; may be empty.").max_length(32768))
        .field("observedGeneration", int64("The generation of the object that the condition was judged on.").min(0))
        .field("reason", reason.max_length(1024))
}

const REASON: &str = "Why the condition has its status, as one CamelCase word.";

/// A condition as Kubernetes defines it.
fn strict_condition() -> Schema {
    let reason = string(REASON).min_length(1).pattern(patterns::CONDITION_REASON);
    let item = condition_item(reason.clone());
    item.required("message", string("Details for people; may be empty.").max_length(32768))
        .required("reason", reason.max_length(1024))
}

pub(super) fn conditions() -> Schema {
    list("What is known about the state of the object.", strict_condition()).map_list("type")
}

/// Conditions of a NodeClaim: reason and message may be missing, so that objects written by old versions stay patchable.
pub(super) fn lenient_conditions() -> Schema {
    let item = condition_item(string(REASON).pattern(patterns::CONDITION_REASON_OR_EMPTY));
    list("What is known about the state of the object.", item).map_list("type")
}

/// Conditions without map-list keys, as `KWOKNodeClass` has had them from the start.
pub(super) fn plain_conditions() -> Schema {
    list("What is known about the state of the object.", strict_condition())
}

/// The condition that a new `KWOKNodeClass` is born with.
pub(super) fn born_ready() -> serde_json::Value {
    json!({"conditions": [{
        "lastTransitionTime": "2024-01-01T01:01:01Z",
        "message": "",
        "reason": "Ready",
        "status": "True",
        "type": "Ready",
    }]})
}
