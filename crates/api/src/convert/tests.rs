use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_model::budget::{Budgets, DisruptionReason};
use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::pod::{PodOwner, PodPhase};
use karpenter_model::taints::TolerationOperator;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::{NodeClaim, NodePool};

mod intake;

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn problems<T>(converted: &Converted<T>) -> Vec<String> {
    converted.problems.iter().map(ToString::to_string).collect()
}

fn pod_object(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

fn requests(spec: &Value) -> String {
    pod(&read(pod_object(spec)), &LabelRules::core()).view.requests.to_string()
}

/// SCH-60, SCH-62: containers and sidecars together, init containers one after another, overhead on top.
#[test]
fn pod_requests_add_up_as_the_scheduler_does() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    for (name, spec, want) in [
        ("none", json!({"containers": [{"name": "c"}]}), "pods: 1"),
        ("sum", json!({"containers": [container("1"), container("500m")]}), "cpu: 1500m, pods: 1"),
        (
            "init is larger",
            json!({"containers": [container("1")], "initContainers": [container("3")]}),
            "cpu: 3, pods: 1",
        ),
        (
            "sidecar runs beside both",
            json!({"containers": [container("1")], "initContainers": [sidecar("500m"), container("2")]}),
            "cpu: 2500m, pods: 1",
        ),
        (
            "sidecar after init",
            json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("500m")]}),
            "cpu: 2, pods: 1",
        ),
        (
            "pod level replaces cpu",
            json!({"containers": [container("1")], "resources": {"requests": {"cpu": "4", "other": "9"}}}),
            "cpu: 4, pods: 1",
        ),
        (
            "overhead",
            json!({"containers": [container("1")], "overhead": {"memory": "1Mi"}}),
            "cpu: 1, memory: 1Mi, pods: 1",
        ),
    ] {
        assert_eq!(requests(&spec), want, "{name}");
    }
}

/// SCH-12, SCH-52: what makes a pod wait for us, and what it asks for.
#[test]
fn pods_are_understood() {
    let mut object = pod_object(&json!({
        "containers": [],
        "nodeSelector": {"beta.kubernetes.io/arch": "arm64"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]},
            {"matchExpressions": [{"key": "ignored", "operator": "Exists"}]},
        ]}}},
        "tolerations": [{"operator": "Exists", "effect": "SomeFutureEffect"}, {"key": "a", "value": "b"}],
        "priorityClassName": "system-node-critical",
    }));
    object["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}]);
    let converted = pod(&read(object.clone()), &LabelRules::core());
    assert_eq!(problems(&converted), [""; 0]);
    let view = converted.view;
    assert!(view.is_provisionable() && view.critical);
    assert_eq!((view.phase, view.owner), (PodPhase::Pending, PodOwner::StatefulSet));
    assert_eq!(view.scheduling.strict_requirements().to_string(), "kubernetes.io/arch In [arm64], size Exists >=4");
    assert_eq!(
        view.scheduling.tolerations[0].operator,
        TolerationOperator::Unknown,
        "an unknown effect tolerates nothing"
    );

    for (owner, waits) in [
        (json!(["apps/v1", "DaemonSet"]), false),
        (json!(["v1", "Node"]), false),
        (json!(["apps/v1", "ReplicaSet"]), true),
    ] {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": owner[0], "kind": owner[1], "name": "o", "uid": "u"}]);
        assert_eq!(pod(&read(object.clone()), &LabelRules::core()).view.is_provisionable(), waits, "{owner}");
    }
}

/// DIS-72, V15-90, V15-91, VC-118, VC-119, VC-166, Z11: what moving a pod costs by its annotations, and what only ReplicaSets were
/// told. With the gate for managing it on, whoever keeps the pods drops the latter.
#[test]
fn vc_118_vc_119_vc_166_costs_of_pods() {
    let (ours, theirs) = ("karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost");
    let marker = "karpenter.sh/managed-pod-deletion-cost";
    for (case, annotations, want) in [
        ("none", json!({}), (0, 0)),
        ("VC-118", json!({ours: "7", theirs: "100"}), (7, 0)),
        ("VC-119", json!({theirs: "100"}), (0, 100)),
        ("VC-166", json!({ours: "abc", theirs: "100"}), (0, 0)),
        ("V15-90, no floats", json!({ours: "1.5"}), (0, 0)),
        ("V15-90, no floats", json!({theirs: "1.5"}), (0, 0)),
        ("V15-90, out of range", json!({theirs: "2147483648"}), (0, 0)),
        ("Z11, our own value", json!({theirs: "-2147483648", marker: "-2147483648"}), (0, 0)),
        ("Z11, changed by a user since", json!({theirs: "5", marker: "-3"}), (0, 5)),
    ] {
        let mut object = pod_object(&json!({"containers": []}));
        object["metadata"]["annotations"] = annotations;
        let view = pod(&read(object), &LabelRules::core()).view;
        assert_eq!((view.disruption_cost, view.deletion_cost), want, "{case}");
    }
}

/// A malformed field is a problem that names object and field; the rest is still there.
#[test]
fn malformed_pod_fields_cost_only_themselves() {
    let object = pod_object(&json!({
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "lots", "memory": "1Gi"}}}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["big"]}, {"key": "zone", "operator": "Near"}]},
        ]}}},
    }));
    let converted = pod(&read(object), &LabelRules::core());
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    assert_eq!(
        problems(&converted),
        [
            "Pod/shop/web spec.containers[0].resources.requests[cpu]: \"lots\" is not a quantity: expected a number \
             with an optional suffix such as m, k, M, G, Ki, Mi, Gi or e3"
                .to_owned(),
            format!(
                "Pod/shop/web {field}.matchExpressions[0]: operator Gt needs exactly one integer value, got [\"big\"]"
            ),
            format!(
                "Pod/shop/web {field}.matchExpressions[1]: operator \"Near\" is not supported; use In, NotIn, Exists, \
                 DoesNotExist, Gt, Lt, Gte or Lte"
            ),
        ]
    );
    assert_eq!(converted.view.requests.to_string(), "memory: 1Gi, pods: 1");
    assert!(converted.view.unplannable.is_some());
}

fn pool_object() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "fake"},
                    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"], "minValues": 1}],
                    "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
                    "expireAfter": "720h", "terminationGracePeriod": "1h",
                },
            },
            "limits": {"cpu": 1000, "memory": "1Ti"},
            "weight": 7,
            "disruption": {"budgets": [{"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted", "Later"]}]},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// API-126, API-35, API-47: labels of the template, the pool and its class are requirements too.
#[test]
fn pools_are_understood() {
    let converted = pool(&read::<NodePool>(pool_object()), &LabelRules::core());
    assert_eq!(problems(&converted), [""; 0]);
    let view = converted.view;
    assert!(view.is_schedulable());
    assert_eq!(view.labels["karpenter.kwok.sh/kwoknodeclass"], "fake");
    assert_eq!(
        view.requirements.to_string(),
        "karpenter.kwok.sh/kwoknodeclass In [fake], karpenter.sh/nodepool In [default], \
         kubernetes.io/arch In [amd64] minValues 1, team In [a]"
    );
    assert_eq!(view.limits.to_string(), "cpu: 1k, memory: 1Ti");
    assert_eq!(view.expire_after, NillableDuration::After(GoDuration::from_secs(2_592_000)));
    assert_eq!(view.budgets.allowed(DisruptionReason::Drifted, 10, Timestamp::UNIX_EPOCH), 0);
    assert_eq!(view.budgets.allowed(DisruptionReason::Empty, 10, Timestamp::UNIX_EPOCH), 1);
    assert!(view.hash.is_some());
}

/// V15-10: the annotation that once was reserved is one like any other.
#[test]
fn a_formerly_reserved_annotation_is_kept() {
    let mut object = pool_object();
    object["spec"]["template"]["metadata"]["annotations"] = json!({"compatibility.karpenter.sh/provider": "x"});
    let converted = pool(&read::<NodePool>(object), &LabelRules::core());
    assert_eq!(problems(&converted), [""; 0]);
    assert_eq!(converted.view.annotations["compatibility.karpenter.sh/provider"], "x");
}

/// A pool that cannot be understood is not used, and a broken budget blocks (API-50); the rest is read.
#[test]
fn malformed_pool_fields_fail_safe() {
    let mut object = pool_object();
    object["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Near");
    object["spec"]["template"]["spec"]["expireAfter"] = json!("soon");
    object["spec"]["disruption"]["budgets"][0] = json!({"nodes": "10%", "schedule": "@dailyx", "duration": "1h"});
    object["spec"]["template"]["spec"]["taints"][0]["effect"] = json!("Sometimes");
    let converted = pool(&read::<NodePool>(object), &LabelRules::core());
    let fields: Vec<&str> = converted.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.template.spec.requirements[0]",
            "spec.template.spec.taints[0].effect",
            "spec.template",
            "spec.template.spec.expireAfter",
            "spec.disruption.budgets[0]"
        ]
    );
    let view = converted.view;
    assert!(!view.is_schedulable());
    assert_eq!(view.expire_after, NillableDuration::Never);
    assert_eq!(view.budgets, Budgets::Broken);
    assert_eq!((view.weight, view.limits.to_string().as_str()), (7, "cpu: 1k, memory: 1Ti"));
}

/// API-116, API-117: conditions that are not there yet are unknown since the claim was made.
#[test]
fn claims_are_understood() {
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["karpenter.sh/termination"], "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": [],
            "resources": {"requests": {"cpu": "1", "pods": "2"}}, "terminationGracePeriod": "30s"},
        "status": {"providerID": "", "conditions": [
            {"type": "Launched", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}]},
    });
    let converted = claim(&read::<NodeClaim>(object), &LabelRules::core());
    assert_eq!(problems(&converted), [""; 0]);
    let view = converted.view;
    assert_eq!((view.pool.as_deref(), view.provider_id.as_deref()), (Some("default"), None));
    assert!(view.has_finalizer && view.launched.is_true() && !view.registered.is_true());
    assert_eq!(view.registered.since.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(view.launched.since.to_string(), "2026-01-01T00:00:07Z");
    assert_eq!(view.termination_grace_period, Some(GoDuration::from_secs(30)));
}

/// SCH-71, SC-124: what a DaemonSet will ask for, limits standing in for requests.
#[test]
fn daemon_sets_are_understood() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"selector": {}, "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"nodeSelector": {"team": "a"}, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
                {"name": "odd", "resources": {"requests": {"cpu": "many"}}}]},
        }},
    });
    let converted = daemon_set(&read(object), &LabelRules::core());
    assert_eq!(converted.problems.len(), 1);
    assert_eq!(converted.problems[0].object, "DaemonSet/kube-system/agent");
    assert_eq!(converted.problems[0].field, "spec.template.spec.containers[1].resources.requests[cpu]");
    let view = converted.view;
    assert_eq!(view.template.requests.to_string(), "cpu: 1, memory: 1Gi, pods: 1");
    assert_eq!((view.template.owner, view.id.to_string().as_str()), (PodOwner::DaemonSet, "kube-system/agent"));
    assert_eq!(view.template.scheduling.strict_requirements().to_string(), "team In [a]");
}

/// VC-15, V15-34: of a node's conditions only what repair goes by is kept, so that heartbeats and messages change nothing.
#[test]
fn vc_15_heartbeats_change_nothing() {
    let with = |condition: Value| {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"conditions": [condition], "nodeInfo": {"architecture": "", "bootID": "b-1", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": ""}}});
        node(&read::<Node>(object)).view
    };
    let base = json!({"type": "Bad", "status": "True", "reason": "Why", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "message": "x"});
    let view = with(base.clone());
    assert_eq!(view.boot_id, "b-1");
    for (field, value, same) in [
        ("lastHeartbeatTime", json!("2026-01-01T00:09:00Z"), true),
        ("message", json!("y"), true),
        ("type", json!("Worse"), false),
        ("status", json!("Unknown"), false),
        ("reason", json!("Other"), false),
        ("lastTransitionTime", json!("2026-01-01T00:00:01Z"), false),
    ] {
        let mut changed = base.clone();
        changed[field] = value;
        assert_eq!(with(changed) == view, same, "{field}");
    }
    assert_eq!(with(json!({"type": "Bad", "status": "True"})).conditions[0].since, None);
}

#[test]
fn nodes_are_understood() {
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "spec": {"providerID": "kwok://n", "taints": [
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}, {"key": "odd", "effect": "Sometimes"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "x"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let converted = node(&read::<Node>(object));
    let fields: Vec<&str> = converted.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["status.allocatable[memory]", "spec.taints[1].effect"]);
    let view = converted.view;
    assert!(view.ready);
    assert_eq!(view.allocatable.to_string(), "cpu: 4");
    assert_eq!(view.taints, [Taint::unregistered()]);
    assert_eq!(node_taint(&view.taints[0]).key, "karpenter.sh/unregistered");
}

proptest! {
    #[test]
    fn odd_texts_never_panic(text in "\\PC{0,16}", other in "\\PC{0,16}") {
        let mut object = pool_object();
        let template = &mut object["spec"]["template"]["spec"];
        template["requirements"][0] = json!({"key": text, "operator": other, "values": [text, other]});
        template["expireAfter"] = json!(text);
        template["taints"][0] = json!({"key": text, "effect": other});
        object["spec"]["limits"] = json!({ text.clone(): other });
        object["spec"]["disruption"]["budgets"][0] = json!({"nodes": text, "schedule": other, "duration": text});
        let converted = pool(&read::<NodePool>(object), &LabelRules::core());
        prop_assert!(!converted.problems.is_empty());
        let object = pod_object(&json!({
            "containers": [{"name": text, "resources": {"requests": {other.clone(): text}}}],
            "nodeSelector": {text.clone(): other}, "overhead": {"cpu": other},
            "tolerations": [{"key": text, "operator": other, "effect": text}],
        }));
        let _ = pod(&read::<Pod>(object), &LabelRules::core());
    }
}
