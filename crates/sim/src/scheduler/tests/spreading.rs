//! Topology spread constraints.

use serde_json::{Value, json};

use super::{fits, node, on, pod, reason};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Zones 1, 2 and 3 with 2, 1 and no pods of `web`.
fn zones() -> Vec<Value> {
    vec![
        node("a", "1"),
        node("b", "2"),
        node("c", "3"),
        on("a", pod("w1", "web", json!({}))),
        on("a", pod("w2", "web", json!({}))),
        on("b", pod("w3", "web", json!({}))),
    ]
}

fn constraint(more: &Value) -> Value {
    let mut all = json!({
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn asks(app: &str, constraints: &[Value]) -> Value {
    pod("p", app, json!({"topologySpreadConstraints": constraints}))
}

#[test]
fn skew_is_kept() {
    let mut other_namespace = on("c", pod("w4", "web", json!({})));
    other_namespace["metadata"]["namespace"] = json!("other");
    let mut going = on("c", pod("w5", "web", json!({})));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut objects = zones();
    objects.extend([other_namespace, going]);
    for (name, app, more, want) in [
        ("one more than the least", "web", json!({}), "c"),
        ("two more", "web", json!({"maxSkew": 2}), "b c"),
        ("a pod that does not count itself", "db", json!({}), "b c"),
        ("only a wish", "web", json!({"whenUnsatisfiable": "ScheduleAnyway"}), "a b c"),
        ("other pods", "web", json!({"labelSelector": {"matchLabels": {"app": "db"}}}), "a b c"),
        ("no selector counts nobody", "web", json!({"labelSelector": null}), "a b c"),
        ("an empty selector counts only itself", "web", json!({"labelSelector": {}}), "a b c"),
        ("by host", "web", json!({"topologyKey": "kubernetes.io/hostname", "maxSkew": 3}), "a b c"),
        ("enough domains", "web", json!({"minDomains": 3}), "c"),
    ] {
        assert_eq!(fits(&objects, &asks(app, &[constraint(&more)])), want, "{name}");
    }
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let mut objects = zones();
    objects.push(on("c", pod("w6", "web", json!({}))));
    // 2, 1, 1: with a fourth zone to come, each may have one.
    assert_eq!(fits(&objects, &asks("web", &[constraint(&json!({}))])), "b c");
    assert_eq!(
        reason(&objects, &asks("web", &[constraint(&json!({"minDomains": 4}))])),
        "3 node(s) didn't match pod topology spread constraints"
    );
    assert_eq!(fits(&objects, &asks("web", &[constraint(&json!({"minDomains": 4, "maxSkew": 2}))])), "b c");
}

#[test]
fn nodes_outside_of_the_topology_are_refused() {
    let mut objects = zones();
    let mut nowhere = node("d", "");
    nowhere["metadata"]["labels"].as_object_mut().unwrap().remove(ZONE);
    objects.push(nowhere.clone());
    assert_eq!(fits(&objects, &asks("web", &[constraint(&json!({}))])), "c");
}

#[test]
fn policies_say_which_nodes_take_part() {
    let mut objects = zones();
    objects[2]["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let select = |more: Value| {
        let mut pod = asks("web", &[constraint(&more)]);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1", "2"]}]}]});
        pod
    };
    for (name, pod, want) in [
        ("a tainted zone counts, empty as it is", asks("web", &[constraint(&json!({}))]), ""),
        ("unless taints are honoured", asks("web", &[constraint(&json!({"nodeTaintsPolicy": "Honor"}))]), "b"),
        ("a zone that is not selected does not count", select(json!({})), "b"),
        ("unless affinity is ignored", select(json!({"nodeAffinityPolicy": "Ignore"})), ""),
        (
            "both ignored",
            select(json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore", "maxSkew": 2})),
            "b",
        ),
    ] {
        assert_eq!(fits(&objects, &pod), want, "{name}");
    }
}

#[test]
fn label_keys_spread_each_version_alone() {
    let mut objects = zones();
    for pod in &mut objects[3..] {
        pod["metadata"]["labels"]["version"] = json!("1");
    }
    let mut next = asks("web", &[constraint(&json!({"matchLabelKeys": ["version"]}))]);
    next["metadata"]["labels"]["version"] = json!("2");
    assert_eq!(fits(&objects, &next), "a b c");
    next["metadata"]["labels"]["version"] = json!("1");
    assert_eq!(fits(&objects, &next), "c");
}

#[test]
fn all_constraints_hold_and_a_node_needs_all_keys_to_count() {
    let mut objects = zones();
    let rack = constraint(&json!({"topologyKey": "rack"}));
    assert_eq!(fits(&objects, &asks("web", &[constraint(&json!({})), rack.clone()])), "");
    for (index, name) in ["r1", "r1"].iter().enumerate() {
        objects[index]["metadata"]["labels"]["rack"] = json!(name);
    }
    // Only a and b are in both; zone 3 no longer is the emptiest.
    assert_eq!(fits(&objects, &asks("web", &[constraint(&json!({})), rack])), "b");
}
