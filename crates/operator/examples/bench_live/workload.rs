//! The pool and the ten deployments.

use serde_json::{Value, json};

pub(crate) const PODS: usize = 960;

/// Types below 33 processors, of which the planner may choose freely.
pub(crate) fn pool() -> [Value; 2] {
    [
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["33"]},
                ],
            }}, "disruption": {"consolidateAfter": "Never"}},
        }),
    ]
}

#[derive(Clone, Copy)]
enum Wish {
    Plain,
    ZoneSpread,
    HostSpread,
    /// No two on one node.
    Apart,
}

/// 96 pods each: processors in thousandths, memory in MiB.
const DEPLOYMENTS: [(Wish, u32, u32); 10] = [
    (Wish::Plain, 240, 512),
    (Wish::ZoneSpread, 360, 768),
    (Wish::HostSpread, 480, 1024),
    (Wish::Apart, 640, 1024),
    (Wish::Plain, 800, 2048),
    (Wish::ZoneSpread, 1000, 2048),
    (Wish::HostSpread, 1300, 3072),
    (Wish::Plain, 1700, 4096),
    (Wish::ZoneSpread, 2200, 6144),
    (Wish::Plain, 2800, 8192),
];

pub(crate) fn deployments() -> Vec<Value> {
    all(PODS / DEPLOYMENTS.len())
}

/// 40 % of them, rounded down: 380 pods.
pub(crate) fn scaled_in() -> Vec<Value> {
    all(PODS / DEPLOYMENTS.len() * 2 / 5)
}

/// What the pool says from then on.
pub(crate) fn consolidating() -> Value {
    json!({"spec": {"disruption": {"consolidateAfter": "5s", "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "100%"}]}}})
}

fn all(replicas: usize) -> Vec<Value> {
    DEPLOYMENTS.iter().enumerate().map(|(number, deployment)| one(number, *deployment, replicas)).collect()
}

fn one(number: usize, (wish, cpu, memory): (Wish, u32, u32), replicas: usize) -> Value {
    let name = format!("app-{number}");
    let selector = json!({"matchLabels": {"app": name}});
    let spread = |key: &str| {
        json!({"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]})
    };
    let mut spec = match wish {
        Wish::Plain => json!({}),
        Wish::ZoneSpread => spread("topology.kubernetes.io/zone"),
        Wish::HostSpread => spread("kubernetes.io/hostname"),
        Wish::Apart => json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}}}),
    };
    spec["terminationGracePeriodSeconds"] = json!(0);
    spec["containers"] = json!([{"name": "app", "image": "example.com/app", "resources": {"requests": {
        "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector,
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    })
}
